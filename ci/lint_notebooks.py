"""Style of the code in notebooks: ruff at 100 columns, cell by cell. `python ci/lint_notebooks.py [--fix] [NAME …]`.

Only the source of code cells is changed; the rest of a text notebook keeps every byte. The parameters cell is left as
it is, one parameter per line, because papermill reads it line by line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

from lae_core.book.notebooks import Notebook, all_notebooks, find_notebook

REPO = Path(__file__).resolve().parents[1]
RUFF = [str(Path(sys.executable).with_name("ruff"))]
OPTIONS = ["--config", str(REPO / "pyproject.toml"), "--config", "lint.pycodestyle.max-line-length=100"]
OPTIONS += ["--line-length", "100", "--no-cache"]
# Imports stand where they are first needed; a cell shows its last expression; `zip(a, a[1:])` and `sum(lists, [])` say
# in the fewest words what a reader should see.
IGNORED = ["--ignore", "E402,B018,B905,RUF007,RUF017"]


def is_parameters(cell: nbformat.NotebookNode) -> bool:
    return "parameters" in cell.metadata.get("tags", [])


def tidied(notebook: Notebook, folder: Path) -> str:
    """The text of the notebook with each code cell as ruff writes it."""
    text, position = notebook.text, 0
    page = notebook.read()
    file = folder / "tidy.ipynb"
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    before = [cell.source for cell in code]
    nbformat.write(page, file)
    subprocess.run([*RUFF, "check", "--fix-only", "--quiet", *OPTIONS, *IGNORED, str(file)])
    subprocess.run([*RUFF, "format", "--quiet", *OPTIONS, str(file)], check=True)
    after = [cell.source for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]
    for cell, old, new in zip(code, before, after, strict=True):
        start = text.index(old, position)
        new = old if is_parameters(cell) else new
        text = text[:start] + new + text[start + len(old) :]
        position = start + len(new)
    return text


def problems(notebook: Notebook, folder: Path) -> list[str]:
    """What ruff finds in the notebook, each with its cell."""
    page = notebook.read()
    file = folder / "check.ipynb"
    page.cells = [cell for cell in page.cells if cell.cell_type == "code"]
    nbformat.write(page, file)
    command = [*RUFF, "check", "--output-format", "json", *OPTIONS, *IGNORED, str(file)]
    found = []
    for problem in json.loads(subprocess.run(command, capture_output=True, text=True).stdout):
        cell, row = page.cells[problem["cell"] - 1], problem["location"]["row"]
        if is_parameters(cell) and problem["code"] == "E501":
            continue
        line = cell.source.splitlines()[row - 1]
        found.append(f"notebooks/{notebook.name}.md: {problem['code']} {problem['message']}\n    {line}")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="write what ruff can mend by itself")
    parser.add_argument("names", nargs="*", help="notebooks, by default all")
    args = parser.parse_args(arguments)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for notebook in [find_notebook(name, REPO) for name in args.names] or all_notebooks(REPO):
            text = tidied(notebook, Path(folder))
            if text != notebook.text and args.fix:
                notebook.path.write_text(text, encoding="utf-8")
                notebook = Notebook(REPO, notebook.name)
            elif text != notebook.text:
                wrong.append(f"notebooks/{notebook.name}.md would be reformatted by ci/lint_notebooks.py --fix")
            wrong += problems(notebook, Path(folder))
    print("\n".join(wrong) or "the code of all notebooks is in order")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
