"""Interrupts, and disks that are full or read-only, as a user meets them: one line, and an exit code that says which."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lae_core import cli

REPO = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1"}
LAE = f"{sys.executable} -m lae_core.cli"
PLAN = """
base: {depth: 8, width: 0.25, data: digits, epochs: 500, batch: 64, subset: 256, augment: none}
grid: {seed: 0..3}
"""


@pytest.mark.parametrize(
    ("command", "sign", "said"),
    [
        ("sweep plan.yml --store runs --where 'local(workers=1)'", "runs/*/checkpoint/*", "lae sweep: interrupted"),
        ("sweep plan.yml --store runs --where inline", "runs/*/checkpoint/*", "lae sweep: interrupted"),
        ("bench operator --eager --json bench.json", "bench.json", "lae bench operator: interrupted"),
    ],
)
def test_interrupt_is_one_line(tmp_path, command, sign, said):
    (tmp_path / "plan.yml").write_text(PLAN)
    process = subprocess.Popen(
        shlex.split(f"{LAE} {command}"),
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob(sign)):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, error = process.communicate(timeout=100)
    assert process.returncode == 130, error
    assert "Traceback" not in error and error.strip().splitlines()[-1].startswith(said)


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    command = f"{LAE} data | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stderr == "" and done.stdout.strip() in ("0", "141")


def test_a_disk_that_fails_on_the_way_is_one_line(monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "somewhere/file")

    monkeypatch.setattr("lae_core.training.fetch.main", full)
    assert cli.main(["data"]) == 1
    assert capsys.readouterr().err == "lae data: somewhere/file: No space left on device\n"


def test_an_error_of_ours_is_not_hidden(monkeypatch):
    def wrong(*_):
        raise ValueError("a bug")

    monkeypatch.setattr("lae_core.training.fetch.main", wrong)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["data"])


MOUNT = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


@pytest.mark.long
@pytest.mark.skipif(subprocess.run([*MOUNT, "true"], capture_output=True).returncode != 0, reason="may not mount")
@pytest.mark.parametrize(
    ("mount", "reason"),
    [
        (
            "mount -t tmpfs -o size=4k none place; head -c 9999 /dev/zero > place/fill",
            ("No space left", "disk is full"),
        ),
        ("mount -t tmpfs -o ro none place", ("Read-only", "disk is read-only")),
    ],
)
def test_real_disks_that_are_full_or_read_only(tmp_path, mount, reason):
    """In a mount namespace of its own: each command names the place and the reason, before any work is done."""
    (tmp_path / "plan.yml").write_text(PLAN)
    (tmp_path / "place").mkdir()
    commands = (
        "run five_minutes --output place/x.ipynb",
        "book --output place/book",
        "sweep plan.yml --where inline --store place/runs",
        "bench sweep --json place/x.json",
    )
    script = "; ".join([mount, *(f"{LAE} {command}; echo $?" for command in commands)])
    done = subprocess.run(
        [*MOUNT, "sh", "-c", f"({script}) 2>&1"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("head: ")]
    assert lines[1::2] == ["2"] * len(commands), done.stdout
    for said in lines[::2]:
        assert "place/" in said and any(word in said for word in reason), said
