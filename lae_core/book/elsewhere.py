"""Notebooks that open elsewhere, on Colab and Binder: the executed ones, each with a first cell that installs what it needs.

`lae book --elsewhere` writes them to a folder, `ci/publish_notebooks.sh` makes that folder the branch `BRANCH` of the
repository, and each notebook page links to the two services. Without the address of a repository there is none of this.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import nbformat

from lae_core.book.notebooks import BookError
from lae_core.book.template import fill
from lae_core.training import provenance

BRANCH = "notebooks"
PYTHON = "3.11"  # the oldest that the project supports, on which the published book is built
GITHUB = "https://github.com/"  # Colab opens notebooks from nowhere else


class NotPublished(BookError):
    """The notebooks cannot be opened elsewhere: what made them is not in the repository."""


def repository_url() -> str:
    """Where the project is published: $LAE_REPOSITORY, or what GitHub's runners say; empty where neither is set.

    This is the one place that knows. Without it pages link neither to sources nor to Colab and Binder.
    """
    given = os.environ.get("LAE_REPOSITORY")
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return given.rstrip("/") if given else f"{server}/{name}" if server and name else ""


def launch_options(repository: str) -> dict[str, Any]:
    """The theme's options that give each notebook page its links to Colab and Binder; none but for a repository on GitHub."""
    if not repository.startswith(GITHUB):
        return {}
    services = {"colab_url": "https://colab.research.google.com", "binderhub_url": "https://mybinder.org"}
    return {
        "repository_url": repository,
        "repository_branch": BRANCH,
        "launch_buttons": {"notebook_interface": "jupyterlab", **services},
    }


def install_cell(repository: str, commit: str) -> str:
    """The code that a notebook starts with elsewhere."""
    return fill("install.py", repository=repository, commit=commit)


def requirements(repository: str, commit: str) -> str:
    """The same for Binder, which installs before it opens a notebook."""
    return f"--constraint constraints.txt\nlogavgexp[notebooks] @ git+{repository}@{commit}\n"


def write(root: Path, source: Path, folder: Path, repository: str) -> None:
    """Write all that the branch holds to `folder`, afresh: the notebooks staged under `source`, and what Binder reads."""
    commit = provenance.short_commit(root, digits=40)
    if not commit.isalnum() or commit == "unknown":
        raise NotPublished(f"commit = {commit} is invalid; expected a checkout without changes that are not committed")
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted((source / "notebooks").rglob("*.ipynb")):
        page = nbformat.read(path, as_version=4)
        page.cells.insert(0, nbformat.v4.new_code_cell(install_cell(repository, commit), id="install"))
        target = folder / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(page, target)
    shutil.copy(root / "constraints.txt", folder / "constraints.txt")
    files = {
        "README.md": fill("elsewhere_readme.md", repository=repository, commit=commit),
        "requirements.txt": requirements(repository, commit),
        "runtime.txt": f"python-{PYTHON}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
