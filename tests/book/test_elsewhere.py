"""Notebooks for Colab and Binder: what the branch holds, when pages link to it, and how it is published."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from lae_core.book.elsewhere import BRANCH, NotPublished, install_cell, launch_options, write
from lae_core.training import provenance

REPO = Path(__file__).resolve().parents[2]
ADDRESS = "https://github.com/someone/pooling"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@localhost"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def checkout(project) -> Path:
    """A small project, committed, with one executed notebook staged as a build leaves it."""
    root = project.root
    project.write("constraints.txt", "torch==2.15.0\n")
    project.write(".gitignore", "_build/\n")
    (root / "ci").mkdir()
    shutil.copy(REPO / "ci" / "publish_notebooks.sh", root / "ci")
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# One"), nbformat.v4.new_code_cell("1 + 1")])
    staged = root / "_build" / "src" / "notebooks" / "part"
    staged.mkdir(parents=True)
    nbformat.write(page, staged / "one.ipynb")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "all")
    return root


def test_the_branch_holds_each_notebook_with_its_first_cell_and_what_binder_reads(checkout):
    folder, commit = checkout / "_build" / "elsewhere", git(checkout, "rev-parse", "HEAD")
    (folder / "notebooks").mkdir(parents=True)
    (folder / "notebooks" / "old.ipynb").touch()
    write(checkout, checkout / "_build" / "src", folder, ADDRESS)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"README.md", "constraints.txt", "notebooks/part/one.ipynb", "requirements.txt", "runtime.txt"}
    page = nbformat.read(folder / "notebooks" / "part" / "one.ipynb", as_version=4)
    nbformat.validate(page)
    first, *rest = page.cells
    assert first.cell_type == "code" and first.source == install_cell(ADDRESS, commit)
    assert ADDRESS in first.source and commit in first.source
    assert [cell.source for cell in rest] == ["# One", "1 + 1"]
    needs = (folder / "requirements.txt").read_text()
    assert needs == f"--constraint constraints.txt\nlogavgexp[notebooks] @ git+{ADDRESS}@{commit}\n"
    assert (folder / "constraints.txt").read_text() == "torch==2.15.0\n"
    assert re.fullmatch(r"python-3\.\d+\n", (folder / "runtime.txt").read_text())


def test_a_commit_that_nobody_else_has_is_refused(checkout):
    (checkout / "constraints.txt").write_text("torch==2.14.0\n")
    assert provenance.short_commit(checkout).endswith("+")
    with pytest.raises(NotPublished, match=r"commit = [0-9a-f]{40}\+ is invalid; expected a checkout without changes"):
        write(checkout, checkout / "_build" / "src", checkout / "_build" / "elsewhere", ADDRESS)
    assert not (checkout / "_build" / "elsewhere").exists()


def test_the_folder_becomes_the_branch_and_the_checkout_stays_as_it_is(checkout, tmp_path_factory):
    remote = tmp_path_factory.mktemp("remote")
    git(remote, "init", "--quiet", "--bare")
    publish = ["bash", str(checkout / "ci" / "publish_notebooks.sh"), "_build/elsewhere", str(remote)]
    refused = subprocess.run(publish, capture_output=True, text=True)
    assert refused.returncode == 2 and "_build/elsewhere is invalid; expected" in refused.stderr
    before = git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "HEAD")
    write(checkout, checkout / "_build" / "src", checkout / "_build" / "elsewhere", ADDRESS)
    for _ in range(2):  # the second replaces the first
        done = subprocess.run(publish, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert git(remote, "ls-tree", "-r", "--name-only", BRANCH).split() == [
        "README.md",
        "constraints.txt",
        "notebooks/part/one.ipynb",
        "requirements.txt",
        "runtime.txt",
    ]
    assert git(remote, "rev-list", "--count", BRANCH) == "1"
    assert before == (git(checkout, "status", "--porcelain"), git(checkout, "rev-parse", "HEAD"))


def test_the_script_and_the_links_name_one_branch():
    assert f"branch={BRANCH} #" in (REPO / "ci" / "publish_notebooks.sh").read_text()
    assert launch_options(ADDRESS)["repository_branch"] == BRANCH


@pytest.mark.parametrize("address", ["", "https://code.example/someone/pooling"])
def test_no_links_without_an_address_on_github(address):
    assert launch_options(address) == {}
