"""Names, types and profiles are settled before any kernel starts, and every refusal says what would be accepted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lae_core import cli
from lae_core.book.notebooks import NotebookError, Parameter, _parameters_cell, all_notebooks, find_notebook

REPO = Path(__file__).resolve().parents[2]

CELL = """
    depth: int = 3  # blocks a stage
    rate: float = 0.1
    name: str = "wrn"  # network
    fast: bool = False
    sizes: list[int] = [16, 32]  # px
    pools: list[str] = ["avg", "lae(t0=1)"]
"""


def exit_code(arguments: list[str]) -> int:
    """Of the command, whoever refused: argparse leaves by an exception."""
    try:
        return cli.main(arguments)
    except SystemExit as left:
        return left.code


def test_values_may_begin_with_a_minus(project, monkeypatch):
    project.notebook("part/one", "values: list[float] = [-1.0, 2.0]\nname: str = 'a'")
    args = cli.parser().parse_args(["run", "one", "-p", "values", "-1,0,1.4", "-p", "name", "--x=1", "--output", "o"])
    assert args.parameter == {"values": "-1,0,1.4", "name": "--x=1"} and args.output == "o"
    values = find_notebook("one", project.root).values("cpu", args.parameter)
    assert values == {"values": [-1.0, 0.0, 1.4], "name": "--x=1"}


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
    values = notebook.values("smoke", {"sizes": "40,50", "fast": "yes", "rate": "1e-3"})
    assert (values["depth"], values["rate"], values["sizes"], values["fast"]) == (1, 1e-3, [40, 50], True)
    assert type(notebook.values("smoke")["rate"]) is float
    assert notebook.values("cpu")["depth"] == 3


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("depth", "2.5", "-p: depth = '2.5' is invalid; it is int: expected a whole number"),
        ("rate", "fast", "-p: rate = 'fast' is invalid; it is float: expected a number"),
        ("fast", "perhaps", "expected true or false"),
        ("sizes", "1,x", "-p: sizes = '1,x' is invalid; it is list[int]: expected a list such as 1,2"),
        ("sizes", "1,,2", "-p: sizes = '1,,2' is invalid"),
        ("rate", "nan", "-p: rate = nan is invalid; it is float"),
        (
            "dept",
            "2",
            "has no parameter 'dept'; it takes depth, rate, name, fast, sizes, pools; did you mean 'depth'?",
        ),
    ],
)
def test_bad_value_on_the_command_line(notebook, name, text, said):
    with pytest.raises(NotebookError) as error:
        notebook.values("cpu", {name: text})
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rate: 1e-3", "ci/profiles/smoke/part/one.yml: rate = '1e-3' is invalid; it is float"),
        ("depth: true", "depth = True is invalid; it is int"),
        ("sizes: 3", "sizes = 3 is invalid; it is list[int]"),
        ("depths: 3", "has no parameter 'depths'"),
        ("depth: 3\ndepth: 4", "part/one.yml: not valid YAML: 'depth' is given twice, in lines 1 and 2"),
        ("depth: [", "part/one.yml, line 2: not valid YAML"),
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
        ("x: int = 1.5", "default: x = 1.5 is invalid; it is int"),
        ("x: list[int] = [\n    1]", "on one line"),
        ("x: int = 1\nx: int = 2", "'x' is given twice"),
        ("x: int = ", "line 1: invalid syntax"),
        ("x: int = 1  # help [positive]", "parameter 'x': the rule [positive] is invalid; expected one such as"),
        ("x: int = 0  # help [at least 1]", "default: x = 0 is invalid; expected a number at least 1"),
    ],
)
def test_malformed_parameters_cell(project, cell, said):
    project.notebook("part/one", cell)
    with pytest.raises(NotebookError) as error:
        _ = find_notebook("one", project.root).parameters
    assert said in str(error.value)


RULES = """
    seeds: int = 3  # runs per arm [at least 1]
    share: float = 0.35  # of the peak [above 0, at most 1]
    train: str = "one"  # what is learned [one of no, one, channel]
    rates: list[float] = [0.1]  # learning rates [above 0]
    pools: list[str] = ["avg"]  # to compare [a pool]
"""


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("seeds", "0", "-p: seeds = 0 is invalid; expected a number at least 1"),
        ("share", "1.5", "-p: share = 1.5 is invalid; expected a number above 0, at most 1"),
        ("share", "0", "expected a number above 0, at most 1"),
        ("train", "all", "-p: train = 'all' is invalid; expected one of no, one, channel"),
        ("rates", "0.1,-1", "-p: rates = -1.0 is invalid; expected a number above 0"),
        ("pools", "avg,lea(t0=1)", "-p: pools = 'lea(t0=1)' is invalid; expected a pool such as"),
    ],
)
def test_value_outside_of_the_range_that_the_help_gives(project, name, text, said):
    project.notebook("part/one", RULES)
    with pytest.raises(NotebookError) as error:
        find_notebook("one", project.root).values("cpu", {name: text})
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rates", "1e-3, 0.5", [0.001, 0.5]),
        ("share", "1", 1.0),
        ("train", "channel", "channel"),
        ("pools", "avg,lae(t0=4, train=one)", ["avg", "lae(t0=4, train=one)"]),
        ("pools", "['max', \"mixed(a0=0.5, train=one)\"]", ["max", "mixed(a0=0.5, train=one)"]),
        ("pools", "", []),
    ],
)
def test_lists_may_hold_pools_and_values_may_be_at_the_end_of_a_range(project, name, text, value):
    project.notebook("part/one", RULES)
    assert find_notebook("one", project.root).values("cpu", {name: text})[name] == value


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
        (["one", "--profile", "huge"], "profile = 'huge' is invalid; expected one of smoke, cpu, gpu, paper"),
        (["one", "-p", "depht", "3"], "has no parameter 'depht'"),
        (["one", "-p", "depth", "three"], "depth = 'three' is invalid; it is int"),
        (["one", "-p", "depth", "1", "-p", "depth", "2"], "-p/--parameter: depth is given twice, at last as '2'"),
        (["one", "-p", "depth"], "argument -p/--parameter: 'depth' is invalid; expected NAME VALUE"),
        (["ones"], "unknown notebook 'ones'; did you mean 'one'?"),
        ([""], "unknown notebook ''"),
        (["/"], "unknown notebook '/'"),
        (["x" * 5000], "unknown notebook 'xxx"),
        (["one", "--output", "out.html"], "--output = 'out.html' is invalid; expected a file name that ends in .ipynb"),
        (["one", "--output", "notebooks"], "--output = 'notebooks' is invalid"),
        (["one", "--output", "taken.ipynb"], "--output = 'taken.ipynb' is invalid (it is a directory)"),
        (["one", "--output", "_toc.yml/x.ipynb"], "is invalid (Not a directory)"),
        (["one", "--output", "/proc/x.ipynb"], "--output = '/proc/x.ipynb' is invalid"),
        (["one", "--output", "mine.ipynb"], "--output = 'mine.ipynb' is invalid (it exists and was not written by"),
        (["one", "--output", "other.ipynb"], "--output = 'other.ipynb' is invalid (other.verdicts/ holds note.txt"),
    ],
)
def test_run_refuses_before_any_kernel(project, notebook, monkeypatch, capsys, arguments, said):
    def started(*_args, **_more):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr("lae_core.book.execute.execute", started)
    monkeypatch.chdir(project.root)
    (project.root / "taken.ipynb").mkdir()
    project.write("mine.ipynb", "{}")
    project.write("other.verdicts/note.txt", "mine")
    assert exit_code(["run", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert (project.root / "mine.ipynb").read_text() == "{}" and (project.root / "other.verdicts/note.txt").exists()
    assert not (project.root / "_build").exists()


def test_params_lists_each_profile(project, notebook, monkeypatch, capsys):
    project.write("ci/profiles/paper/part/one.yml", "depth: 18\n")
    monkeypatch.chdir(project.root)
    assert cli.main(["params", "one"]) == 0
    lines = capsys.readouterr().out.splitlines()
    header, depth = lines[2].split(), lines[3].split()
    assert header == ["parameter", "type", "default", "smoke", "cpu", "gpu", "paper", "help"]
    assert depth == ["depth", "int", "3", ".", ".", ".", "18", "blocks", "a", "stage"]
    assert cli.main(["params", "nothing"]) == 2


@pytest.mark.parametrize("arguments", [["--help"], ["params", "pyramidnet"]], ids=" ".join)
def test_help_and_params_load_nothing_slow(arguments):
    """Torch takes seconds, jupytext most of one: neither is needed to list what a command or a notebook takes."""
    code = (
        "import sys\nfrom lae_core.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout
    assert not {"torch", "numpy", "pandas", "jupytext", "nbformat", "papermill"} & set(done.stderr.split())


@pytest.mark.parametrize("notebook", all_notebooks(REPO), ids=lambda notebook: notebook.name)
def test_the_quick_reading_of_the_parameters_cell_is_jupytexts(notebook):
    assert _parameters_cell(notebook.text) == notebook._read_parameters_cell()
