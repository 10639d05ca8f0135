"""What a user may type wrong: one line of the table per input, with what must be said and the exit code.

Each command runs in a small project, where `FILES` lie. It must say so in one line (a list of names may follow), without a
traceback, and leave everything as it was.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from lae_core import cli

RUNS = "base: {data: digits, epochs: 1}\n"
FILES = {
    "_toc.yml": "format: jb-book\nroot: book/intro\nchapters:\n- file: notebooks/part/one\n",
    "book/intro.md": "# A small book\n",
    "notebooks/part/one.md": """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# One

```{code-cell} ipython3
:tags: [parameters]

depth: int = 3  # blocks [at least 1]
rate: float = 0.1
pools: list[str] = ["avg"]  # to compare [a pool]
```
""",
    "mine.txt": "mine",
    "mine.ipynb": "{}",
    "mine.json": '{"mine": true}',
    "folder/mine.txt": "mine",
    "site/html/index.html": "mine",
    "good.yml": RUNS + "grid: {seed: 0..1}\n",
    "no_grid.yml": RUNS + "grid: {}\n",
    "no_grids.yml": RUNS + "grid: []\n",
    "no_values.yml": RUNS + "grid: {seed: []}\n",
    "backwards.yml": RUNS + "grid: {seed: 4..0}\n",
    "no_list.yml": RUNS + "grid: {seed: 3}\n",
    "grid_of_numbers.yml": RUNS + "grid: [5]\n",
    "grid_is_text.yml": RUNS + "grid: seed\n",
    "base_is_a_number.yml": "base: 5\n",
    "base_is_a_list.yml": "base: [1]\n",
    "twice.yml": "base: {lr: 0.1, data: digits, lr: 0.2}\n",
    "twice_at_the_top.yml": RUNS + "grid: {seed: [1]}\ngrid: {seed: [2]}\n",
    "unknown_field.yml": "base: {learning_rate: 1}\n",
    "not_text.yml": "\0\1\2",
    "open.yml": "base: {lr: 0.1\n",
    "empty.yml": "",
    "list.yml": "- 1\n",
}

TABLE = [
    # the command itself
    ("", "the following arguments are required: COMMAND", 2),
    ("rnu one", "argument COMMAND: invalid choice: 'rnu'", 2),
    ("run", "the following arguments are required: NOTEBOOK", 2),
    ("run one --colour red", "unrecognized arguments: --colour red", 2),
    # notebooks and their parameters
    ("run ''", "unknown notebook ''", 2),
    ("run .", "unknown notebook '.'", 2),
    ("run /", "unknown notebook '/'", 2),
    ("run ones", "unknown notebook 'ones'; did you mean 'one'?", 2),
    ("params part/oen", "unknown notebook 'part/oen'; did you mean 'part/one'?", 2),
    ("run one --profile huge", "profile = 'huge' is invalid; expected one of smoke, cpu, gpu, paper", 2),
    ("run one --profile ''", "argument --profile: '' is invalid; expected a value", 2),
    ("run one --profile smoke --profile cpu", "argument --profile: is given twice, at last as 'cpu'", 2),
    ("run one -p", "argument -p/--parameter: '' is invalid; expected NAME VALUE", 2),
    ("run one -p depth", "argument -p/--parameter: 'depth' is invalid; expected NAME VALUE", 2),
    ("run one -p depht 3", "has no parameter 'depht'; it takes depth, rate, pools; did you mean 'depth'?", 2),
    ("run one -p depth 0", "-p: depth = 0 is invalid; expected a number at least 1", 2),
    ("run one -p depth -3", "-p: depth = -3 is invalid; expected a number at least 1", 2),
    ("run one -p depth 2.5", "-p: depth = '2.5' is invalid; it is int: expected a whole number", 2),
    (
        "run one -p depth 1 -p depth 2",
        "argument -p/--parameter: depth is given twice, at last as '2'; expected once",
        2,
    ),
    ("run one -p rate nan", "-p: rate = nan is invalid; it is float", 2),
    ("run one -p rate inf", "-p: rate = inf is invalid; it is float", 2),
    ("run one -p pools avg,,max", "-p: pools = 'avg,,max' is invalid", 2),
    ("run one -p pools 'avg,lea(t0=1)'", "-p: pools = 'lea(t0=1)' is invalid; expected a pool", 2),
    # where results go
    ("run one --output ''", "argument --output: '' is invalid; expected a value", 2),
    ("book --output ''", "argument --output: '' is invalid; expected a value", 2),
    ("run one --output folder", "--output = 'folder' is invalid; expected a file name that ends in .ipynb", 2),
    ("run one --output mine.ipynb", "--output = 'mine.ipynb' is invalid (it exists and was not written by", 2),
    ("run one --output mine.txt/x.ipynb", "--output = 'mine.txt/x.ipynb' is invalid (Not a directory)", 2),
    ("run one --output /proc/x.ipynb", "--output = '/proc/x.ipynb' is invalid", 2),
    ("book --output mine.txt", "--output = 'mine.txt' is invalid (it is a file); expected a directory", 2),
    ("book --output site", "--output = 'site' is invalid (it holds html, which no build of ours made)", 2),
    ("book --output book", "--output = 'book' is invalid (it lies in the book's sources, book/)", 2),
    ("book --output /proc/x", "--output = '/proc/x' is invalid", 2),
    ("book --profile huge", "profile = 'huge' is invalid", 2),
    # plans
    ("sweep missing.yml", "PLAN = 'missing.yml' is invalid (No such file or directory); expected a YAML file", 2),
    ("sweep folder", "PLAN = 'folder' is invalid (Is a directory); expected a YAML file", 2),
    ("sweep ''", "PLAN = '' is invalid", 2),
    ("sweep empty.yml", "empty.yml: expected a mapping with `base` and `grid`", 2),
    ("sweep list.yml", "list.yml: expected a mapping with `base` and `grid`", 2),
    ("sweep open.yml", "open.yml, line 2: not valid YAML", 2),
    ("sweep not_text.yml", "not_text.yml", 2),
    ("sweep no_grid.yml", "grid = {} is invalid; expected at least one field with its values", 2),
    ("sweep no_grids.yml", "grid = [] is invalid; expected at least one field with its values", 2),
    ("sweep no_values.yml", "grid: seed = [] is invalid; expected a list of values", 2),
    ("sweep backwards.yml", "grid: seed = '4..0' is invalid; expected a list of values", 2),
    ("sweep no_list.yml", "grid: seed = 3 is invalid; expected a list of values", 2),
    ("sweep grid_of_numbers.yml", "grid: 5 is invalid; expected fields with their values", 2),
    ("sweep grid_is_text.yml", "grid: 'seed' is invalid; expected fields with their values", 2),
    ("sweep base_is_a_number.yml", "base = 5 is invalid; expected fields of a run", 2),
    ("sweep base_is_a_list.yml", "base = [1] is invalid; expected fields of a run", 2),
    ("sweep twice.yml", "twice.yml: not valid YAML: 'lr' is given twice, in lines 1 and 1", 2),
    ("sweep twice_at_the_top.yml", "'grid' is given twice, in lines 2 and 3", 2),
    ("sweep unknown_field.yml", "RunConfig: no field 'learning_rate'", 2),
    # sweeps
    ("sweep good.yml --set 'lr=[1'", "--set lr=[1, line 1: not valid YAML", 2),
    ("sweep good.yml --set lr", "argument --set: 'lr' is invalid; expected FIELD=VALUE", 2),
    ("sweep good.yml --set =1", "argument --set: '=1' is invalid; expected FIELD=VALUE", 2),
    ("sweep good.yml --set lr=fast", "RunConfig: lr = 'fast'", 2),
    ("sweep good.yml --set lr=1 --set lr=2", "argument --set: lr is given twice, at last as '2'; expected once", 2),
    ("sweep good.yml --set seed=1", "seed = 1 is invalid: the plan's grid varies it", 2),
    ("sweep good.yml --store a --store b", "argument --store: is given twice, at last as 'b'; expected once", 2),
    ("sweep good.yml --store ''", "argument --store: '' is invalid; expected a value", 2),
    ("sweep good.yml --where ''", "argument --where: '' is invalid; expected a value", 2),
    ("sweep good.yml --export ''", "argument --export: '' is invalid; expected a value", 2),
    ("sweep good.yml --store folder", "is neither empty nor a run store", 2),
    ("sweep good.yml --store mine.txt", "cannot create a run store in", 2),
    ("sweep good.yml --store /proc/x", "cannot create a run store in /proc/x", 2),
    ("sweep good.yml --where moon", "where = 'moon' is invalid; expected inline, local, slurm", 2),
    (
        "sweep good.yml --where 'local(workers=0)'",
        "where: workers = '0' is invalid; expected a whole number above 0",
        2,
    ),
    ("sweep good.yml --where 'local(workers=1, workers=2)'", "workers is given twice; expected each option once", 2),
    ("sweep good.yml --where 'local(cores=1)'", "'cores=1'; expected options name=value", 2),
    ("sweep good.yml --where missing.json", "where = 'missing.json' is invalid: there is no such scheduler file", 2),
    ("sweep good.yml --export folder", "--export = 'folder' is invalid (it is a directory)", 2),
    (
        "sweep good.yml --export mine.txt",
        "--export = 'mine.txt' is invalid (it exists and holds no exported records)",
        2,
    ),
    ("sweep good.yml --export /dev/null", "--export = '/dev/null' is invalid (it is not a regular file)", 2),
    # benchmarks
    ("bench", "the following arguments are required: KIND", 2),
    ("bench operator --rounds -1", "argument --rounds: '-1' is invalid; expected a whole number of at least 1", 2),
    ("bench operator --rounds 0", "argument --rounds: '0' is invalid; expected a whole number of at least 1", 2),
    ("bench operator --rounds many", "argument --rounds: 'many' is invalid; expected a whole number", 2),
    ("bench operator --threads 0", "argument --threads: '0' is invalid; expected a whole number of at least 1", 2),
    ("bench operator --t nan", "argument --t: 'nan' is invalid; expected a number above 0", 2),
    ("bench operator --t 0", "argument --t: '0' is invalid; expected a number above 0", 2),
    ("bench operator --t -1", "argument --t: '-1' is invalid; expected a number above 0", 2),
    ("bench operator --dtypes int8", "argument --dtypes: invalid choice: 'int8'", 2),
    ("bench operator --json folder", "--json = 'folder' is invalid (it is a directory)", 2),
    (
        "bench operator --json mine.json",
        "--json = 'mine.json' is invalid (it exists and is no report of `lae bench`)",
        2,
    ),
    ("bench operator --json mine.txt", "--json = 'mine.txt' is invalid (it exists and is no report of `lae bench`)", 2),
    ("bench operator --json /dev/null", "--json = '/dev/null' is invalid (it is not a regular file)", 2),
    ("bench training --data mnist", "argument --data: invalid choice: 'mnist' (choose from", 2),
    ("bench training --pictures 0", "argument --pictures: '0' is invalid", 2),
    ("bench training --seeds 0", "argument --seeds: '0' is invalid", 2),
    ("bench training --epochs 0", "argument --epochs: '0' is invalid", 2),
    ("bench training --subset -1", "argument --subset: '-1' is invalid", 2),
    ("bench training --full-epochs -1", "argument --full-epochs: '-1' is invalid", 2),
    ("bench training --json mine.txt/x", "--json = 'mine.txt/x' is invalid (Not a directory)", 2),
    ("bench sweep --rounds -1", "argument --rounds: '-1' is invalid", 2),
    ("bench sweep --runs 0", "argument --runs: '0' is invalid", 2),
    ("bench sweep --json mine.json", "--json = 'mine.json' is invalid", 2),
    ("bench load --kills -1", "argument --kills: '-1' is invalid; expected a whole number of at least 0", 2),
    ("bench load --runs 100 --killed-runs 200", "--killed-runs = 200 is invalid; expected more than --kills = 10", 2),
    ("bench load --runs 5", "--killed-runs = 5 is invalid; expected more than --kills = 10, at most --runs = 5", 2),
    ("bench load --json ''", "argument --json: '' is invalid; expected a value", 2),
    # the machine, and data
    ("doctor now", "unrecognized arguments: now", 2),
    ("data mnist", "NAME = 'mnist' is invalid", 2),
    ("data cifar10 --from nowhere", "--from = 'nowhere' is invalid; expected a folder that exists", 2),
    ("data cifar10 --from mine.txt", "--from = 'mine.txt' is invalid; expected a folder that exists", 2),
    ("data cifar10 --from ''", "argument --from: '' is invalid; expected a value", 2),
    ("data cifar10 --from folder --from book", "argument --from: is given twice, at last as 'book'", 2),
    ("data --from folder", "--from needs a NAME", 2),
    ("data --again", "--again needs a NAME", 2),
    ("data imagewoof2-128 --from folder", "none of folder, folder/imagewoof2-128 holds train.zip and val.zip", 1),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAE_DATA", str(tmp_path / "data"))
    for name in ("LAE_RUNS", "LAE_WHERE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def exit_code(command: str) -> int:
    """argparse leaves by an exception."""
    try:
        return cli.main(shlex.split(command))
    except SystemExit as left:
        return int(left.code)


def files(place: Path) -> dict[str, str]:
    """What was there before must be there still; the stores that a sweep opens are its own."""
    return {name: (place / name).read_text() for name in FILES}


@pytest.mark.parametrize(("command", "said", "code"), TABLE, ids=[row[0] or "(nothing)" for row in TABLE])
def test_is_refused_in_one_line(place, capsys, command, said, code):
    assert exit_code(command) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error and error.startswith("lae")
    lines = [line for line in error.splitlines() if not line.startswith("  ")]
    assert len(lines) == 1, "more than one line"
    assert files(place) == FILES


def test_every_command_is_in_the_table():
    typed = {tuple(shlex.split(command)[:2]) for command, _, _ in TABLE}
    kinds = {words[1] for words in typed if words[:1] == ("bench",) and len(words) > 1}
    assert {"run", "params", "book", "sweep", "data", "bench"} <= {words[0] for words in typed if words}
    assert {"operator", "training", "sweep", "load"} <= kinds
