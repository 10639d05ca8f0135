"""What a sweep costs: two workers against one on real trainings, and the overhead of a run that does nothing."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from lae_core.bench.report import write_report
from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep
from lae_core.training.config import RunConfig
from lae_core.training.provenance import provenance

SPEEDUP_WANTED = 1.7
OVERHEAD_WANTED = 0.050  # seconds a run

# A few seconds on one core, on data that installs with the package.
TRAINING = RunConfig(depth=8, width=0.5, data="digits", epochs=4, batch=64, subset=768, augment="none", lr=0.1)


def trivial(config: RunConfig, *, checkpoint_dir: Path | None = None) -> dict[str, Any]:
    """A run that costs nothing, so that its time is the sweep's own."""
    return {"final": {"valid_error": config.seed / 2**32}}


def _timed(configs: list[RunConfig], workers: int, run: Any, root: Path) -> float:
    store = RunStore(root)
    begin = time.perf_counter()
    report = sweep(configs, store=store, where=f"local(workers={workers})", run=run, progress=True)
    seconds = time.perf_counter() - begin
    if len(report.ran) != len(configs):
        raise RuntimeError(f"expected {len(configs)} runs, got: {report}")
    return seconds


def priority() -> int:
    """The niceness under which this was measured, of the session where Linux shares the cores out by session."""
    try:
        return int(Path("/proc/self/autogroup").read_text().split()[-1])
    except (OSError, ValueError):
        return os.nice(0)


def measure(runs: int, trivial_runs: int, rounds: int) -> dict[str, Any]:
    """All numbers, each from the first submission to the last record, starting and ending the workers included.

    One worker and two take turns, and the best round of each counts, so that a slow moment of the machine hits neither.
    """
    configs = [TRAINING.replace(seed=seed) for seed in range(runs)]
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(rounds):
            for workers, times in seconds.items():
                times.append(_timed(configs, workers, None, Path(place) / f"{workers}-{turn}"))
        records = {workers: list(RunStore(f"{place}/{workers}-0")) for workers in seconds}
        cpu = {workers: sum(r.provenance["cpu_seconds"] for r in kept) / runs for workers, kept in records.items()}
        one, two = min(seconds[1]), min(seconds[2])
        many = [RunConfig(seed=seed) for seed in range(trivial_runs)]
        all_trivial = _timed(many, 2, trivial, Path(place) / "trivial")
        begin = time.perf_counter()
        sweep(many, store=Path(place) / "trivial", run=trivial)
        again = time.perf_counter() - begin
    return {
        "runs": runs,
        "seconds_one_worker": one,
        "seconds_two_workers": two,
        "speedup": one / two,
        "rounds": rounds,
        "records_equal": [r.result for r in records[1]] == [r.result for r in records[2]],
        # What two workers cost each other in caches and memory, whatever else the machine does.
        "cpu_seconds_per_run": {"one_worker": cpu[1], "two_workers": cpu[2]},
        "trivial_runs": trivial_runs,
        "overhead_seconds_per_run": all_trivial / trivial_runs,
        "resume_seconds_per_run": again / trivial_runs,
        "load": os.getloadavg()[0],
        "priority": priority(),
        "provenance": provenance(),
    }


def main(args: argparse.Namespace) -> int:
    found = measure(args.runs, args.trivial, args.rounds)
    print(f"{found['runs']} trainings on one worker  {found['seconds_one_worker']:7.1f} s")
    print(f"{found['runs']} trainings on two workers {found['seconds_two_workers']:7.1f} s")
    print(f"speed-up {found['speedup']:.2f} (to reach: {SPEEDUP_WANTED}); records equal: {found['records_equal']}")
    cpu = found["cpu_seconds_per_run"]
    print(f"CPU time a training: {cpu['one_worker']:.2f} s on one worker, {cpu['two_workers']:.2f} s on two")
    print(f"load of the machine at the end: {found['load']:.1f} on {found['provenance']['cores']} cores")
    overhead, resume = 1000 * found["overhead_seconds_per_run"], 1000 * found["resume_seconds_per_run"]
    wanted = f"to reach: under {1000 * OVERHEAD_WANTED:.0f} ms"
    print(f"{found['trivial_runs']} trivial runs: {overhead:.1f} ms each ({wanted})")
    print(f"finding them recorded: {resume:.2f} ms each")
    write_report(found, args.json)
    return 0
