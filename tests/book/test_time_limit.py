"""Past the time limit no notebook starts, and the command says so by its exit code."""

from __future__ import annotations

import pytest

from lae_core import cli
from lae_core.book.batch import execute_all
from lae_core.book.execute import CellError
from lae_core.book.notebooks import find_notebook
from lae_core.training import deadline


def test_after_the_limit_no_notebook_starts(project, monkeypatch):
    project.notebook("part/one", "x: int = 1")
    monkeypatch.setenv(deadline.VARIABLE, "1")
    with pytest.raises(CellError, match=r"1 of 1 notebooks are left: part/one\. Start again to resume"):
        execute_all(project.root, [find_notebook("one", project.root)], "cpu")


def test_the_exit_code_tells_a_time_limit_from_a_failure(project, monkeypatch, capsys):
    project.notebook("part/one", "x: int = 1")

    def fails(_notebook, _values, _output, progress):
        progress.close()
        raise CellError("TimeUp: 3 of 5 runs are left; start again to resume")

    monkeypatch.setattr("lae_core.book.execute.execute", fails)
    monkeypatch.chdir(project.root)
    assert cli.main(["run", "one"]) == 1
    monkeypatch.setenv(deadline.VARIABLE, "1")
    assert cli.main(["run", "one"]) == deadline.EXIT_CODE
    assert "3 of 5 runs are left" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["run", "one", "--minutes", "0"])
    assert "'0' is invalid; expected a number of minutes above 0" in capsys.readouterr().err
