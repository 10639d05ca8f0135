"""Starting, watching and killing real processes in tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def environment() -> dict[str, str]:
    paths = [str(HERE), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}


def start(*arguments: object, script: str = "toy_sweep.py") -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], timeout: float = 120) -> str:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return out


def wait_until(condition: Callable[[], bool], timeout: float = 60, every: float = 0.02) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(every)


def kill(pid: int) -> None:
    """Kill one process. Zero and negative numbers mean groups, or everything: never that."""
    assert pid > 1, f"not a process of ours: {pid}"
    os.kill(pid, signal.SIGKILL)
