"""A kept execution is used as long as nothing that it depends on has changed, and not a moment longer."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from lae_core.book.cache import KEPT, Cache
from lae_core.book.notebooks import Notebook, find_notebook
from lae_core.book.progress import Progress
from lae_core.training import provenance
from lae_core.training.scratch import scratch

READS_RESULT = """
import pathlib
lines = pathlib.Path("book/results/e1.json").read_text()
pathlib.Path("ran.txt").open("a").write("x")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch) -> Path:
    """A package `small`: its `pools` imports `numerics` inside a function; `models` is imported by nobody."""
    base = tmp_path / "importable" / "small"
    files = {
        "__init__.py": "",
        "pooling/__init__.py": "from small.pooling.pools import make",
        "pooling/pools.py": "def make():\n    from . import numerics\n    return numerics",
        "pooling/numerics.py": "EPS = 1",
        "models.py": "import small.pooling",
        "records.py": "PLACE = 'book/results'",
    }
    for name, text in files.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)
    monkeypatch.setattr(provenance, "PACKAGE", base)
    return base


def changed_parts(project, *cells: str):
    """The parts of a notebook's key, and a function that tells which of them differ by now."""
    project.notebook("part/one", "depth: int = 3", *cells)

    def parts(depth: int = 3) -> dict[str, str]:
        return Cache(project.root).static_parts(find_notebook("one", project.root), {"depth": depth})

    before = parts()

    def differing(depth: int = 3) -> set[str]:
        now = parts(depth)
        return {name for name in {*before, *now} if before.get(name) != now.get(name)}

    return before, differing


def test_key_follows_imports_to_what_is_reached_and_no_further(project, package):
    before, differing = changed_parts(project, "%matplotlib inline\nfrom small.pooling import make")
    modules = {name for name in before if name.startswith("small/")}
    assert modules == {
        "small/__init__.py",
        "small/pooling/__init__.py",
        "small/pooling/pools.py",
        "small/pooling/numerics.py",
    }
    (package / "models.py").write_text("import torch")
    assert differing() == set()
    (package / "pooling" / "numerics.py").write_text("EPS = 2")
    assert differing() == {"small/pooling/numerics.py"}


def test_key_holds_text_parameters_and_pins(project, package):
    _, differing = changed_parts(project, "x = 1")
    assert differing() == set()
    assert differing(depth=4) == {"parameters"}
    project.write("constraints.txt", "torch==2.15.0\n")
    assert differing() == {"versions"}
    project.notebook("part/one", "depth: int = 3", "x = 2")
    assert differing() == {"versions", "notebook"}


def test_new_result_file_counts_only_for_notebooks_that_name_it(project, package):
    _, plain = changed_parts(project, "from small import models, records")
    project.write("book/results/e9.json", "{}")
    assert plain() == set()
    _, speaks = changed_parts(project, "place = 'book/results/e10.json'")
    project.write("book/results/notes.txt", "unrelated")
    assert speaks() == set()
    project.write("book/results/e10.json", "{}")
    assert speaks() == {"names in book/results"}
    (package / "records.py").write_text("PLACE = 'book/results/e11.json'")
    _, reaches = changed_parts(project, "from small import records")
    project.write("book/results/e11.json", "{}")
    assert reaches() == {"names in book/results"}


def test_a_directory_that_was_listed_counts_with_its_names(project):
    project.notebook("part/one", "depth: int = 3", "import os\nprint(os.listdir('book/results'))")
    project.write("book/results/e1.json", "[1]")
    notebook, values, cache = find_notebook("one", project.root), {"depth": 3}, Cache(project.root)
    assert cache.run(notebook, values, Progress("test")).reads == ("book/results/",)
    project.write("book/results/e1.json", "[2]")
    assert cache.find(notebook, values) is not None
    project.write("book/results/e2.json", "[1]")
    assert cache.find(notebook, values) is None
    assert cache.why_stale(notebook, values) == "changed: book/results/"


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("entry.json", "cut short"),
        ("entry.json", "another value"),
        ("notebook.ipynb", "cut short"),
        ("notebook.verdicts/T1.json", "gone"),
    ],
)
def test_a_damaged_entry_is_executed_again(project, file, damage):
    body = """
        import os, pathlib
        pathlib.Path(os.environ["LAE_VERDICTS"], "T1.json").write_text("{}")
        pathlib.Path("ran.txt").open("a").write("x")
    """
    project.notebook("part/one", "depth: int = 3", body)
    notebook, values = find_notebook("one", project.root), {"depth": 3}
    kept = Cache(project.root).run(notebook, values, Progress("test")).notebook.parent / file
    if damage == "gone":
        kept.unlink()
    else:
        kept.write_text(kept.read_text()[:-5] if damage == "cut short" else "[1]")
    assert Cache(project.root).find(notebook, values) is None
    assert Cache(project.root).why_stale(notebook, values) == "not executed with these parameters yet"
    assert json.loads(Cache(project.root).run(notebook, values, Progress("test")).notebook.read_text())["cells"]
    assert (project.root / "ran.txt").read_text() == "xx"
    assert Cache(project.root).find(notebook, values) is not None


def test_execution_is_kept_until_a_file_that_it_read_changes(project):
    project.notebook("part/one", "depth: int = 3", READS_RESULT)
    result = project.write("book/results/e1.json", "[1]")
    project.write("book/results/e2.json", "[1]")
    notebook, values = find_notebook("one", project.root), {"depth": 3}

    def run(force: bool = False) -> int:
        """How often the notebook has been executed after a run."""
        done = Cache(project.root).run(notebook, values, Progress("test"), force)
        assert done.notebook.is_file() and done.verdicts.is_dir()
        assert done.reads == ("book/results/e1.json",)
        return len((project.root / "ran.txt").read_text())

    assert Cache(project.root).why_stale(notebook, values) == "not executed with these parameters yet"
    assert run() == 1
    assert run() == 1
    project.write("book/results/e2.json", "[2]")
    assert run() == 1
    result.write_text("[2]")
    assert Cache(project.root).find(notebook, values) is None
    assert Cache(project.root).why_stale(notebook, values) == "changed: book/results/e1.json"
    assert run() == 2
    result.write_text("[1]")
    assert run() == 2  # back to what was executed first
    assert run(force=True) == 3


def _run(root: str) -> str:
    project = Path(root)
    done = Cache(project).run(Notebook(project, "part/one"), {"depth": 3}, Progress("test"))
    return str(done.notebook)


def test_two_processes_share_one_execution(project):
    project.notebook("part/one", "depth: int = 3", "import pathlib\npathlib.Path('ran.txt').open('a').write('x')")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        first, second = pool.map(_run, [str(project.root)] * 2)
    assert first == second
    assert (project.root / "ran.txt").read_text() == "x"


def test_what_a_killed_execution_left_is_removed(project):
    project.notebook("part/one", "depth: int = 3")
    home = project.root / "_build" / "executed" / "part" / "one"
    home.mkdir(parents=True)
    with scratch(home, ".new-") as mine:
        dead = home / mine.name.replace(f"-{os.getpid()}-", "-4194305-")  # beyond the largest number of a process
        (dead / "deep").mkdir(parents=True)
        Cache(project.root).run(find_notebook("one", project.root), {"depth": 3}, Progress("test"))
        assert mine.is_dir() and not dead.exists()


def test_old_executions_are_forgotten(project):
    home = project.root / "_build" / "executed" / "part" / "one"
    for index in range(KEPT + 3):
        project.write(f"_build/executed/part/one/{index}/entry.json", "{}")
    Cache._prune(home)
    assert len(list(home.glob("*/entry.json"))) == KEPT
