"""The first cell that notebooks have on Colab and Binder, in an environment with a Jupyter kernel, torch and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from environments import environment_with_torch, run
from nbclient import NotebookClient

from lae_core.book.elsewhere import install_cell, requirements
from lae_core.book.notebooks import Notebook
from lae_core.training import provenance

REPO = Path(__file__).resolve().parents[2]
WHERE = """\
import lae_core, torchvision
from importlib.metadata import version
print(lae_core.__file__)
print("torch", version("torch"), "torchvision", version("torchvision"), "pandas", version("pandas"))
"""


@pytest.mark.long
def test_a_notebook_installs_what_it_needs_and_runs(tmp_path, monkeypatch):
    """The project comes from this checkout, as last committed, in place of the repository's address."""
    programs = environment_with_torch(tmp_path)
    commit = provenance.short_commit(REPO, digits=40).removesuffix("+")
    done = run(programs / "pip", "install", "--quiet", "ipykernel")  # as a service brings it, of whatever version
    assert done.returncode == 0, done.stderr
    kernel = tmp_path / "jupyter" / "kernels" / "elsewhere"
    kernel.mkdir(parents=True)
    start = [str(programs / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": start, "display_name": "elsewhere", "language": "python"}))
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")))  # pip's
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.delenv("PYTHONPATH", raising=False)

    page = Notebook(REPO, "start/five_minutes").read()
    page.cells.insert(0, nbformat.v4.new_code_cell(install_cell(str(REPO), commit)))
    page.cells.append(nbformat.v4.new_code_cell(WHERE))
    NotebookClient(
        page, kernel_name="elsewhere", timeout=1800, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    where, versions = page.cells[-1].outputs[0].text.splitlines()
    assert where == str(tmp_path / f"logavgexp-{commit[:12]}" / "lae_core" / "__init__.py")
    names = versions.split()
    pins = (REPO / "constraints.txt").read_text().split()
    assert all(f"{name}=={version}" in pins for name, version in zip(names[::2], names[1::2], strict=True))

    # what Binder installs is the same: nothing is left to fetch
    (tmp_path / "constraints.txt").write_text((REPO / "constraints.txt").read_text())
    (tmp_path / "requirements.txt").write_text(requirements(f"file://localhost{REPO}", commit))
    done = run(programs / "pip", "install", "--dry-run", "--requirement", tmp_path / "requirements.txt")
    assert done.returncode == 0, done.stdout + done.stderr
