"""`lae bench load`: what a sweep of very many runs costs, and whether it ends complete and equal when it is killed on the way.

The driver, which hands out the runs and starts the workers, is a process of its own: its memory is watched, and it can be
killed. A kill is SIGKILL to the driver, as by the system when memory runs out; the workers see it go and leave.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from lae_core.bench.report import circumstances, write_report
from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep
from lae_core.training.config import RunConfig

WORKERS = 2
OVERHEAD_WANTED = 0.050  # seconds per run
LOOK_SECONDS = 0.1  # between two looks at the driver


def trivial(config: RunConfig, *, checkpoint_dir: Path | None = None) -> dict[str, Any]:
    """A run that costs nothing, so that its time is the sweep's own."""
    return {"final": {"valid_error": config.seed / 2**32}}


def drive(store: str, runs: int) -> None:
    """The driver: `runs` runs that do nothing."""
    report = sweep(_configs(runs), store=store, where=f"local(workers={WORKERS})", run=trivial, progress=False)
    if report.failures:
        raise RuntimeError(str(report))


def _configs(runs: int) -> list[RunConfig]:
    return [RunConfig(seed=seed) for seed in range(runs)]


def _start(store: Path, runs: int) -> subprocess.Popen[bytes]:
    code = f"from lae_core.bench.load import drive; drive({str(store)!r}, {runs})"
    return subprocess.Popen([sys.executable, "-c", f"if __name__ == '__main__':\n    {code}"])


def _recorded(store: Path) -> int:
    """Finished runs so far; cheap enough to be asked while the sweep goes on."""
    return sum(1 for _ in store.glob("*/record.json"))


def _run_watched(store: Path, runs: int) -> dict[str, Any]:
    """Start a driver and watch it until it ends: its seconds, its memory when the first run is recorded, and the most."""
    begin = time.perf_counter()
    process = _start(store, runs)
    driver, memory = psutil.Process(process.pid), []
    while process.poll() is None:
        try:
            memory.append((any(store.glob("*/record.json")), driver.memory_info().rss))
        except psutil.NoSuchProcess:
            break
        time.sleep(LOOK_SECONDS)
    seconds = time.perf_counter() - begin
    if process.wait() != 0:
        raise RuntimeError(f"the driver ended with exit code {process.returncode}")
    at_work = [rss for working, rss in memory if working] or [0]
    return {"seconds": seconds, "driver_bytes_at_first": at_work[0], "driver_bytes_at_most": max(at_work)}


def _run_with_kills(store: Path, runs: int, kills: int, seed: int) -> list[int]:
    """Kill the driver of a sweep at `kills` random moments, and start it again each time; runs recorded at each kill."""
    draw = random.Random(seed)
    moments = sorted(draw.sample(range(1, runs), kills))
    found = []
    for moment in moments:
        process = _start(store, runs)
        while _recorded(store) < moment and process.poll() is None:
            time.sleep(LOOK_SECONDS)
        time.sleep(draw.random() * LOOK_SECONDS)
        process.kill()
        process.wait()
        found.append(_recorded(store))
    if _start(store, runs).wait() != 0:
        raise RuntimeError("the last driver failed")
    return found


def _results(store: Path, runs: int) -> list[dict[str, Any]]:
    """All results in the order of their configs; a missing one is an error."""
    return [record.result for record in RunStore(store).select(_configs(runs))]


def measure(runs: int, killed_runs: int, kills: int, seed: int = 0) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        calm, disturbed = Path(name) / "calm", Path(name) / "disturbed"
        first = _run_watched(calm, runs)
        again = _run_watched(calm, runs)
        found = _run_with_kills(disturbed, killed_runs, kills, seed)
        left = sum(1 for path in disturbed.glob("*/*") if path.name != "record.json")
        equal = _results(disturbed, killed_runs) == _results(calm, killed_runs)
        return {
            "runs": runs,
            "workers": WORKERS,
            "seconds": first["seconds"],
            "overhead_seconds_per_run": first["seconds"] / runs,
            "driver_megabytes_at_first": first["driver_bytes_at_first"] / 1e6,
            "driver_megabytes_at_most": first["driver_bytes_at_most"] / 1e6,
            "resume_seconds": again["seconds"],
            "killed": {
                "runs": killed_runs,
                "recorded_at_each_kill": found,
                "recorded_at_the_end": _recorded(disturbed),
                "claims_left": left,
                "equal": equal,
            },
            **circumstances(),
        }


def main(args: argparse.Namespace) -> int:
    found = measure(args.runs, args.killed_runs or args.runs, args.kills)
    overhead, wanted = 1000 * found["overhead_seconds_per_run"], f"to reach: under {1000 * OVERHEAD_WANTED:.0f} ms"
    print(
        f"{found['runs']} trivial runs on {WORKERS} workers: {found['seconds']:.0f} s, {overhead:.1f} ms each ({wanted})"
    )
    print(f"started again: {found['resume_seconds']:.1f} s")
    print(f"the driver's memory: {found['driver_megabytes_at_first']:.0f} MB at first, ", end="")
    print(f"{found['driver_megabytes_at_most']:.0f} MB at most")
    killed = found["killed"]
    print(f"killed when {killed['recorded_at_each_kill']} of {killed['runs']} runs were recorded: ", end="")
    print(f"{killed['recorded_at_the_end']} at the end, equal: {killed['equal']}")
    write_report(found, args.json)
    complete = killed["recorded_at_the_end"] == killed["runs"] and killed["equal"]
    return 0 if complete else 1
