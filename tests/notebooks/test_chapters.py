"""Every chapter keeps the form that the pipeline and its readers rely on, and every profile fits its notebooks."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import pytest
from papermill import inspect_notebook

from lae_core.book.build import book_notebooks, toc_files
from lae_core.book.notebooks import Notebook, all_notebooks, profiles

REPO = Path(__file__).resolve().parents[2]
NOTEBOOKS = all_notebooks(REPO)
each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)


def test_every_notebook_is_in_the_book():
    assert {notebook.name for notebook in NOTEBOOKS} == {notebook.name for notebook in book_notebooks(REPO)}


def test_no_page_is_listed_twice():
    files = toc_files(REPO)
    assert len(files) == len(set(files))


@each_notebook
def test_papermill_finds_the_same_parameters(notebook: Notebook):
    """So that stock papermill knows every `-p` that `lae run` takes.

    It cannot read a line with a second `=`, such as a pool's name has; it still sets that parameter, with a warning.
    """
    theirs = {p["name"]: (p["inferred_type_name"], p["help"]) for p in inspect_notebook(notebook.read()).values()}
    ours = {p.name: (p.type, p.help) for p in notebook.parameters.values() if "=" not in f"{p.default}{p.help}"}
    assert theirs == ours


@each_notebook
def test_every_parameter_has_help_and_every_profile_fits(notebook: Notebook):
    for parameter in notebook.parameters.values():
        assert parameter.help, f"{parameter.name} needs a `# help`"
    for profile in profiles(REPO):
        assert set(notebook.values(profile)) == set(notebook.parameters)


@each_notebook
def test_text_survives_the_round_trip(notebook: Notebook):
    """Text to notebook to text and back: jupytext has lost tags before."""
    first = notebook.read()
    again = jupytext.reads(jupytext.writes(first, fmt="md:myst"), fmt="md:myst")
    assert [(cell.cell_type, cell.source, cell.metadata) for cell in first.cells] == [
        (cell.cell_type, cell.source, cell.metadata) for cell in again.cells
    ]


@each_notebook
def test_form_of_the_text(notebook: Notebook):
    outside_code = re.sub(r"^```.*?^```", "", notebook.text, flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", outside_code, re.MULTILINE)) == 1, "one title"
    assert "\n## Summary\n" in notebook.text
    assert "jupytext_version" not in notebook.text and "format_version" not in notebook.text, "quiet diffs"
    assert not re.search(r"/(root|home|tmp|Users)/", notebook.text), "no path of a machine"
    cells = [cell.source for cell in notebook.read().cells if cell.cell_type == "code"]
    assert not any("pip install" in cell for cell in cells)


def test_every_profile_file_belongs_to_a_notebook():
    names = {notebook.name for notebook in NOTEBOOKS}
    base = REPO / "ci" / "profiles"
    for file in base.rglob("*.yml"):
        profile, name = file.relative_to(base).with_suffix("").as_posix().split("/", 1)
        assert name in names, f"{file} sets parameters of a notebook that does not exist"
        assert profile in profiles(REPO)
