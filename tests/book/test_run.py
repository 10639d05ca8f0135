"""`lae run` as a real process: what it shows, what it leaves behind, and what it does when things go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
import psutil

REPO = Path(__file__).resolve().parents[2]

BAR = """
import sys, time
from tqdm import tqdm
for epoch in tqdm(range(3), desc="epochs", file=sys.stderr):
    time.sleep(0.1)
print(f"depth {depth}")
"""


def leftovers(root: Path) -> list[str]:
    """Hidden scratch directories that an execution should have removed."""
    return [str(path) for path in (root / "_build").rglob(".*") if path.suffix != ".lock"]


def on_a_terminal(project, *arguments: str) -> tuple[int, str]:
    """Run `lae` as a reader does, on a terminal; its exit code and all that was drawn."""
    ours, theirs = os.openpty()
    process = project.start(*arguments, output=theirs)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end was closed
            break
        if not piece:
            break
        drawn += piece
    os.close(ours)
    return process.wait(), drawn.decode()


def test_parameters_that_ran_are_shown_and_bars_are_not(project):
    project.notebook(
        "part/one",
        "depth: int = 3  # blocks a stage\nname: str = 'wrn'  # network",
        BAR,
        "import os, pathlib\npathlib.Path(os.environ['LAE_VERDICTS'], 'T1.json').write_text('{}')",
    )
    returned, shown = on_a_terminal(project, "run", "one", "-p", "depth", "7", "--output", "out/x.ipynb")
    assert returned == 0, shown
    assert "cell 3/3" in shown
    assert "cell 2/3" in shown.split("epochs")[0]  # the bar inside the cell reaches the terminal
    assert "3/3 [" in shown
    assert "out/x.ipynb" in shown
    notebook = nbformat.read(project.root / "out" / "x.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) == 3
    assert code[0].source == "depth: int = 7  # blocks a stage\nname: str = 'wrn'  # network"
    assert [(output.name, output.text) for output in code[1].outputs] == [("stdout", "depth 7\n")]
    record = notebook.metadata["lae"]
    assert record["parameters"] == {"depth": 7, "name": "wrn"}
    assert record["notebook"] == "notebooks/part/one.md"
    assert record["seconds"] > 0.3
    assert {"commit", "versions", "device", "started"} <= set(record)
    assert str(project.root) not in json.dumps(notebook)
    assert sorted(path.name for path in (project.root / "out").iterdir()) == ["x.ipynb", "x.verdicts"]
    assert (project.root / "out" / "x.verdicts" / "T1.json").is_file()


def test_result_is_replaced_only_if_it_is_ours(project):
    project.notebook(
        "part/one",
        "claim: str = 'T1'",
        "import os, pathlib\npathlib.Path(os.environ['LAE_VERDICTS'], f'{claim}.json').write_text('{}')",
    )
    out = project.root / "out"
    assert project.lae("run", "one", "--output", "out/x.ipynb").returncode == 0
    done = project.lae("run", "one", "-p", "claim", "T2", "--output", "out/x.ipynb")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (out / "x.verdicts").iterdir()] == ["T2.json"]
    project.write("out/x.verdicts/thoughts.md", "mine")
    done = project.lae("run", "one", "--output", "out/x.ipynb")
    assert done.returncode == 2 and "x.verdicts/ holds thoughts.md" in done.stderr
    assert (out / "x.verdicts" / "thoughts.md").read_text() == "mine"


def test_temporary_directory_may_have_a_long_name(project):
    """Sockets cannot: their whole path must fit into 108 bytes."""
    project.notebook("part/one", "depth: int = 3", "print(depth)")
    long = project.root / ("x" * 100)
    long.mkdir()
    done = project.lae("run", "one", TMPDIR=str(long))
    assert done.returncode == 0, done.stderr
    assert list(long.iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_the_next(project):
    project.notebook(
        "part/one", "seconds: float = 0.0", "import pathlib, time\npathlib.Path('on').touch()\ntime.sleep(seconds)"
    )
    # short, because scratch files of a kernel go elsewhere where a socket's path would be too long
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    process = project.start("run", "one", "-p", "seconds", "100", TMPDIR=str(place))
    deadline = time.monotonic() + 100
    while not (project.root / "on").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.wait()
    assert leftovers(project.root) and list(place.iterdir())
    done = project.lae("run", "one", TMPDIR=str(place))
    assert done.returncode == 0, done.stderr
    assert leftovers(project.root) == [] and list(place.iterdir()) == []
    place.rmdir()


def test_interrupt_while_it_is_still_loading_is_one_line(project):
    project.notebook("part/one", "depth: int = 3", "import time\ntime.sleep(100)")
    process = project.start("run", "one")
    maps, deadline = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 100
    while "zmq" not in maps.read_text():  # the libraries that start kernels
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err.strip() == "lae run: interrupted; what had finished is kept"


def test_failing_cell_shows_itself_and_spoils_nothing(project):
    project.notebook("part/one", "depth: int = 3", "good = 1", "ratio = 1 / (depth - 3)")
    output = project.write("_build/runs/part/one.ipynb", "the result of an earlier run")
    done = project.lae("run", "one")
    assert done.returncode == 1
    assert "ratio = 1 / (depth - 3)" in done.stderr
    assert done.stderr.count("ZeroDivisionError: division by zero") == 1
    assert done.stderr.count("ratio = 1 / (depth - 3)") == 1
    assert "_build/failed/part/one.ipynb" in done.stderr
    assert output.read_text() == "the result of an earlier run"
    assert not output.with_suffix(".verdicts").exists()
    assert leftovers(project.root) == []
    kept = nbformat.read(project.root / "_build" / "failed" / "part" / "one.ipynb", as_version=4)
    assert any("division by zero" in json.dumps(cell) for cell in kept.cells)


def test_kernel_that_dies_is_reported(project):
    project.notebook("part/one", "depth: int = 3", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    done = project.lae("run", "one")
    assert done.returncode == 1
    assert "its kernel died" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (project.root / "_build" / "runs" / "part" / "one.ipynb").exists()
    assert leftovers(project.root) == []


def test_interrupt_keeps_finished_records_and_stops_the_kernel(project):
    project.notebook(
        "part/one",
        "count: int = 1000",
        """
        import os, pathlib, time
        records = pathlib.Path("records")
        records.mkdir()
        records.joinpath("pid").write_text(str(os.getpid()))
        try:
            for index in range(count):
                scratch = records / f"{index}.new"
                scratch.write_text('{"done": true}')
                scratch.rename(records / f"{index}.json")
                time.sleep(0.05)
        finally:
            records.joinpath("closed").touch()
        """,
    )
    records = project.root / "records"
    process = project.start("run", "one")
    deadline = time.monotonic() + 60
    while len(list(records.glob("*.json"))) < 3:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    kernel = psutil.Process(int((records / "pid").read_text()))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert (records / "closed").exists()  # the cell had the chance to clean up after itself
    finished = list(records.glob("*.json"))
    assert 3 <= len(finished) < 1000
    assert all(json.loads(path.read_text()) == {"done": True} for path in finished)
    assert not (project.root / "_build" / "runs" / "part" / "one.ipynb").exists()
    assert leftovers(project.root) == []
    psutil.wait_procs([kernel], timeout=30)
    assert not kernel.is_running()


def test_stock_jupytext_and_papermill_run_a_chapter(tmp_path):
    """From any folder, without a command of ours. From the root of a checkout, tests/book/test_recipes.py follows the page."""
    source = REPO / "notebooks" / "start" / "five_minutes.md"
    output = tmp_path / "out.ipynb"
    tools = Path(sys.executable).parent
    text = subprocess.run(
        [tools / "jupytext", "--to", "ipynb", "--output", "-", os.path.relpath(source, tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    ).stdout
    subprocess.run(
        [tools / "papermill", "-", output, "-p", "t0", "2", "-p", "train", "one", "--no-progress-bar"],
        cwd=tmp_path,
        input=text,
        capture_output=True,
        check=True,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
    )
    printed = json.dumps(nbformat.read(output, as_version=4))
    assert "LAEPool(t=2, r=0.5, trained)" in printed
