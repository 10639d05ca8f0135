"""Names, types and profiles are settled before any kernel starts, and every refusal says what would be accepted."""

from __future__ import annotations

import pytest

from lae_core import cli
from lae_core.book.notebooks import NotebookError, Parameter, all_notebooks, find_notebook

CELL = """
    depth: int = 3  # blocks a stage
    rate: float = 0.1
    name: str = "wrn"  # network
    fast: bool = False
    sizes: list[int] = [16, 32]  # px
    pools: list[str] = ["avg", "lae(t0=1)"]
"""


@pytest.fixture
def notebook(project):
    project.notebook("part/one", CELL)
    return find_notebook("one", project.root)


def test_cell_is_read_with_types_defaults_and_help(notebook):
    assert notebook.parameters["depth"] == Parameter("depth", "int", 3, "blocks a stage")
    assert notebook.parameters["rate"] == Parameter("rate", "float", 0.1, "")
    assert notebook.values("cpu") == {
        "depth": 3,
        "rate": 0.1,
        "name": "wrn",
        "fast": False,
        "sizes": [16, 32],
        "pools": ["avg", "lae(t0=1)"],
    }


def test_profile_then_command_line_override_the_defaults(project, notebook):
    project.write("ci/profiles/smoke/part/one.yml", "depth: 1\nrate: 1\nsizes: [8]\n")
    values = notebook.values("smoke", {"sizes": "4,5", "fast": "yes", "rate": "1e-3"})
    assert (values["depth"], values["rate"], values["sizes"], values["fast"]) == (1, 1e-3, [4, 5], True)
    assert type(notebook.values("smoke")["rate"]) is float
    assert notebook.values("cpu")["depth"] == 3


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("depth", "2.5", "parameter 'depth' is int, '2.5' is not: give a whole number"),
        ("rate", "fast", "parameter 'rate' is float, 'fast' is not: give a number"),
        ("fast", "perhaps", "give true or false"),
        ("sizes", "1,x", "parameter 'sizes' is list[int], '1,x' is not: give a list such as 1,2"),
        ("dept", "2", "has no parameter 'dept'; it takes depth, rate, name, fast, sizes, pools"),
    ],
)
def test_bad_value_on_the_command_line(notebook, name, text, said):
    with pytest.raises(NotebookError) as error:
        notebook.values("cpu", {name: text})
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rate: 1e-3", "ci/profiles/smoke/part/one.yml: parameter 'rate' is float, '1e-3' is not"),
        ("depth: true", "parameter 'depth' is int, True is not"),
        ("sizes: 3", "parameter 'sizes' is list[int], 3 is not"),
        ("depths: 3", "has no parameter 'depths'"),
        ("- 3", "must be a flat list of `name: value` lines"),
    ],
)
def test_bad_profile_file(project, notebook, line, said):
    project.write("ci/profiles/smoke/part/one.yml", line + "\n")
    with pytest.raises(NotebookError) as error:
        notebook.values("smoke")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("depth = 3", "line 1: write `name: type = value  # help`"),
        ("x: int = 1\ny: complex = 2j", "line 2: write"),
        ("x: int = 1 + y", "the value is a literal"),
        ("x: int = 1.5", "default: parameter 'x' is int, 1.5 is not"),
        ("x: list[int] = [\n    1]", "on one line"),
    ],
)
def test_malformed_parameters_cell(project, cell, said):
    project.notebook("part/one", cell)
    with pytest.raises(NotebookError) as error:
        _ = find_notebook("one", project.root).parameters
    assert said in str(error.value)


def test_notebook_needs_exactly_one_parameters_cell(project):
    path = project.notebook("part/one", "x: int = 1")
    path.write_text(path.read_text().replace("[parameters]", "[other]"))
    with pytest.raises(NotebookError, match="0 cells tagged `parameters`"):
        _ = find_notebook("one", project.root).parameters


def test_notebook_is_found_by_path_and_by_name(project, notebook, monkeypatch):
    project.notebook("other/two", "x: int = 1")
    monkeypatch.chdir(project.root / "notebooks" / "part")
    for text in ("one", "part/one", "one.md", "notebooks/part/one.md", str(notebook.path)):
        assert find_notebook(text, project.root).name == "part/one"
    project.notebook("other/one", "x: int = 1")
    assert find_notebook("one.md", project.root).name == "part/one"  # the file that is here
    monkeypatch.chdir(project.root)
    with pytest.raises(NotebookError, match="ambiguous notebook 'one'"):
        find_notebook("one", project.root)
    assert [found.name for found in all_notebooks(project.root)] == ["other/one", "other/two", "part/one"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "unknown notebook 'nothing'; there are:\n  part/one"),
        (["one", "--profile", "huge"], "unknown profile 'huge': choose from smoke, cpu, paper"),
        (["one", "-p", "depht", "3"], "has no parameter 'depht'"),
        (["one", "-p", "depth", "three"], "parameter 'depth' is int, 'three' is not"),
        (["one", "--output", "out.html"], "give a file name that ends in .ipynb"),
    ],
)
def test_run_refuses_before_any_kernel(project, notebook, monkeypatch, capsys, arguments, said):
    def started(*_args, **_more):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr("lae_core.book.execute.execute", started)
    monkeypatch.chdir(project.root)
    assert cli.main(["run", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (project.root / "_build").exists()


def test_params_lists_each_profile(project, notebook, monkeypatch, capsys):
    project.write("ci/profiles/paper/part/one.yml", "depth: 18\n")
    monkeypatch.chdir(project.root)
    assert cli.main(["params", "one"]) == 0
    lines = capsys.readouterr().out.splitlines()
    header, depth = lines[2].split(), lines[3].split()
    assert header == ["parameter", "type", "default", "smoke", "cpu", "paper", "help"]
    assert depth == ["depth", "int", "3", ".", ".", "18", "blocks", "a", "stage"]
    assert cli.main(["params", "nothing"]) == 2
