"""The whole book at `smoke`, built once: whichever test worker comes first builds, the others wait and take it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from filelock import FileLock

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def repo() -> Path:
    return REPO


@pytest.fixture(scope="session")
def smoke_book() -> Path:
    """`_build/smoke`, with `html/` and `src/` in it: every notebook executed at `smoke`, every warning fatal."""
    output = REPO / "_build" / "smoke"
    output.mkdir(parents=True, exist_ok=True)
    run, built_for = os.environ.get("PYTEST_XDIST_TESTRUNUID", ""), output / ".built-for"
    command = [sys.executable, "-m", "lae_core.cli", "book", "--profile", "smoke", "--output", str(output)]
    # Notebooks share their runs, but only those of this build: a record from an older one would hide a loop that broke.
    with FileLock(output / ".lock"), tempfile.TemporaryDirectory() as scratch:
        if run and built_for.is_file() and built_for.read_text() == run:
            return output
        settings = {"OMP_NUM_THREADS": "1", "LAE_WHERE": "inline"}
        settings |= {"LAE_RUNS": f"{scratch}/runs", "LAE_CACHE": f"{scratch}/maps"}
        done = subprocess.run(command, cwd=REPO, env={**os.environ, **settings}, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        built_for.write_text(run)
    return output
