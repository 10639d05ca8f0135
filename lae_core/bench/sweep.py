"""`lae bench sweep`: the speed-up of two workers over one, on trainings of a few seconds."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from lae_core.bench.report import circumstances, write_report
from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep
from lae_core.training.config import RunConfig

SPEEDUP_WANTED = 1.7

# A few seconds on one core, on data that installs with the package.
TRAINING = RunConfig(depth=8, width=0.5, data="digits", epochs=4, batch=64, subset=768, augment="none", lr=0.1)


def _timed(configs: list[RunConfig], workers: int, store: Path) -> float:
    begin = time.perf_counter()
    report = sweep(configs, store=store, where=f"local(workers={workers})", progress=True)
    seconds = time.perf_counter() - begin
    if len(report.ran) != len(configs):
        raise RuntimeError(f"expected {len(configs)} runs, got: {report}")
    return seconds


def measure(runs: int, rounds: int) -> dict[str, Any]:
    """All numbers, each from the first submission to the last record, starting and ending the workers included.

    One worker and two take turns, and the best round of each counts, so that a slow moment of the machine hits neither.
    """
    configs = [TRAINING.replace(seed=seed) for seed in range(runs)]
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(rounds):
            for workers, times in seconds.items():
                times.append(_timed(configs, workers, Path(place) / f"{workers}-{turn}"))
        records = {workers: list(RunStore(f"{place}/{workers}-0")) for workers in seconds}
        cpu = {workers: sum(r.provenance["cpu_seconds"] for r in kept) / runs for workers, kept in records.items()}
    one, two = min(seconds[1]), min(seconds[2])
    return {
        "runs": runs,
        "seconds_one_worker": one,
        "seconds_two_workers": two,
        "speedup": one / two,
        "rounds": rounds,
        "records_equal": [r.result for r in records[1]] == [r.result for r in records[2]],
        # What two workers cost each other in caches and memory, whatever else the machine does.
        "cpu_seconds_per_run": {"one_worker": cpu[1], "two_workers": cpu[2]},
        **circumstances(),
    }


def main(args: argparse.Namespace) -> int:
    found = measure(args.runs, args.rounds)
    print(f"{found['runs']} trainings on one worker  {found['seconds_one_worker']:7.1f} s")
    print(f"{found['runs']} trainings on two workers {found['seconds_two_workers']:7.1f} s")
    print(f"speed-up {found['speedup']:.2f} (to reach: {SPEEDUP_WANTED}); records equal: {found['records_equal']}")
    cpu = found["cpu_seconds_per_run"]
    print(f"CPU time per training: {cpu['one_worker']:.2f} s on one worker, {cpu['two_workers']:.2f} s on two")
    print(f"load of the machine at the end: {found['load']:.1f} on {found['provenance']['cores']} cores")
    write_report(found, args.json)
    return 0
