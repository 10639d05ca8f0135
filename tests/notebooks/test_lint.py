"""The code of notebooks is linted cell by cell, and formatting it changes nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
SOURCE = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# One   title

```{code-cell} ipython3
:tags: [parameters]

names: list[str] = ["a", "b"]  # LONG
```

Prose  with two spaces, and code in it: `x=1`.

```{code-cell} ipython3
:tags: [hide-input]

%matplotlib inline
import sys, os
x=1
print(x, os, names);
```
""".replace("LONG", "a help text that goes on and on, well past the last column that code may have " * 2)


@pytest.fixture
def lint(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("lint_notebooks", REPO / "ci" / "lint_notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "notebooks" / "part").mkdir(parents=True)
    (tmp_path / "notebooks" / "part" / "one.md").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_bytes((REPO / "pyproject.toml").read_bytes())
    monkeypatch.setattr(module, "REPO", tmp_path)
    return module


def test_what_is_wrong_is_named_and_what_can_be_mended_is_mended(lint, capsys):
    notebook = lint.REPO / "notebooks" / "part" / "one.md"
    assert lint.main([]) == 1
    said = capsys.readouterr().out
    assert "notebooks/part/one.md would be reformatted" in said and "F401" in said and "E501" not in said
    assert notebook.read_text(encoding="utf-8") == SOURCE
    assert lint.main(["--fix"]) == 0, capsys.readouterr().out
    tidy = notebook.read_text(encoding="utf-8")
    assert tidy == SOURCE.replace("import sys, os\nx=1", "import os\n\nx = 1")
    notebook.write_text(tidy.replace("x = 1", f"x = 1  # {'too long ' * 12}"), encoding="utf-8")
    assert lint.main(["--fix"]) == 1
    assert "E501" in capsys.readouterr().out
