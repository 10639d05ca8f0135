"""Many notebooks brought up to date: those on a CPU side by side, those on a GPU one after another.

Each runs in a worker process with a process group of its own: Ctrl-C reaches only the parent, which passes it on once,
so that each worker can shut down its kernel.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from lae_core.book.cache import Cache
from lae_core.book.execute import CellError, Executed, uses_gpu
from lae_core.book.notebooks import Notebook
from lae_core.book.progress import Progress
from lae_core.training import deadline


def execute_all(
    root: Path, notebooks: list[Notebook], profile: str, force: bool = False, say: Callable[[str], None] = print
) -> dict[str, Executed]:
    """Bring every notebook's execution up to date. All of them run even if one fails; failures are reported together."""
    cache = Cache(root)
    values = {notebook.name: notebook.values(profile) for notebook in notebooks}
    found = {} if force else {nb.name: cache.find(nb, values[nb.name]) for nb in notebooks}
    stale = [notebook for notebook in notebooks if found.get(notebook.name) is None]
    fresh = len(notebooks) - len(stale)
    say(f"{len(notebooks)} notebooks at profile {profile}: {fresh} up to date, {len(stale)} to execute")
    for notebook in stale:
        say(f"  {notebook.name}: {'forced' if force else cache.why_stale(notebook, values[notebook.name])}")
    failures: list[str] = []

    def finished(name: str, future: Future[tuple[Executed, float]]) -> None:
        try:
            found[name], seconds = future.result()
            say(f"  executed {name} in {seconds:.1f} s")
        except CellError as error:
            failures.append(str(error))
            say(f"  FAILED   {name}")

    jobs = [(nb.name, (root, nb.name, values[nb.name], force)) for nb in stale]
    on_gpu = {nb.name for nb in stale if uses_gpu(values[nb.name])}
    _run([job for job in jobs if job[0] not in on_gpu], [job for job in jobs if job[0] in on_gpu], finished)
    late = [nb.name for nb in stale if found.get(nb.name) is None]
    if late and deadline.passed():
        left = f"{len(late)} of {len(stale)} notebooks are left: {', '.join(late)}"
        raise CellError("\n\n".join([*failures, f"the time limit has passed. {left}. Start again to resume"]))
    if failures:
        raise CellError("\n\n".join([*failures, f"{len(failures)} of {len(stale)} executed notebooks failed"]))
    return {notebook.name: done for notebook in notebooks if (done := found[notebook.name])}


Job = tuple[str, tuple[Path, str, dict[str, Any], bool]]


def _run(cpu: list[Job], gpu: list[Job], finished: Callable[[str, Future], None]) -> None:
    """Start a job when a worker is free, not earlier: a job that is queued in the pool cannot be cancelled."""
    if not cpu and not gpu:
        return
    context = multiprocessing.get_context("spawn")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    sizes = (max(1, min(len(cpu), cores)), 1)
    pools = [ProcessPoolExecutor(size, mp_context=context, initializer=_start_worker) for size in sizes]
    lanes = list(zip(pools, sizes, (list(cpu), list(gpu)), strict=True))
    running: dict[Future[tuple[Executed, float]], tuple[str, int]] = {}
    try:
        while running or any(jobs for _, _, jobs in lanes):
            for lane, (pool, size, jobs) in enumerate(lanes):
                if deadline.passed():
                    jobs.clear()
                while jobs and sum(used == lane for _, used in running.values()) < size:
                    name, arguments = jobs.pop(0)
                    running[pool.submit(_execute_one, *arguments)] = name, lane
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                name, _ = running.pop(future)
                finished(name, future)
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():
            if child.pid:
                os.kill(child.pid, signal.SIGINT)
        raise
    finally:
        for pool in pools:
            pool.shutdown()


def _start_worker() -> None:
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _execute_one(root: Path, name: str, values: dict[str, Any], force: bool) -> tuple[Executed, float]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from now on there is a kernel to stop
    try:
        start = time.perf_counter()
        executed = Cache(root).run(Notebook(root, name), values, Progress(name, every=60, brief=True), force)
        return executed, time.perf_counter() - start
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
