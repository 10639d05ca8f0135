"""What a sweep costs: two workers against one on real trainings, and the overhead of a run that does nothing."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def measure(runs: int, trivial_runs: int) -> dict[str, Any]:
    """All numbers, each from the first submission to the last record, starting and ending the workers included."""
    configs = [TRAINING.replace(seed=seed) for seed in range(runs)]
    with tempfile.TemporaryDirectory() as place:
        one = _timed(configs, 1, None, Path(place) / "one")
        two = _timed(configs, 2, None, Path(place) / "two")
        equal = all(
            a.result == b.result for a, b in zip(RunStore(f"{place}/one"), RunStore(f"{place}/two"), strict=True)
        )
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
        "records_equal": equal,
        "trivial_runs": trivial_runs,
        "overhead_seconds_per_run": all_trivial / trivial_runs,
        "resume_seconds_per_run": again / trivial_runs,
        "load": os.getloadavg()[0],
        "provenance": provenance(),
    }


def main(args: argparse.Namespace) -> int:
    found = measure(args.runs, args.trivial)
    print(f"{found['runs']} trainings on one worker  {found['seconds_one_worker']:7.1f} s")
    print(f"{found['runs']} trainings on two workers {found['seconds_two_workers']:7.1f} s")
    print(f"speed-up {found['speedup']:.2f} (to reach: {SPEEDUP_WANTED}); records equal: {found['records_equal']}")
    overhead, resume = 1000 * found["overhead_seconds_per_run"], 1000 * found["resume_seconds_per_run"]
    wanted = f"to reach: under {1000 * OVERHEAD_WANTED:.0f} ms"
    print(f"{found['trivial_runs']} trivial runs: {overhead:.1f} ms each ({wanted})")
    print(f"finding them recorded: {resume:.2f} ms each")
    if args.json:
        text = json.dumps(found, indent=1, sort_keys=True) + "\n"
        if args.json == "-":
            sys.stdout.write(text)
        else:
            Path(args.json).write_text(text)
    return 0
