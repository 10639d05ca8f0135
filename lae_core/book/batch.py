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
from typing import Any, NamedTuple

from lae_core.book.cache import Cache
from lae_core.book.execute import CellError, Executed, uses_gpu
from lae_core.book.notebooks import Notebook
from lae_core.book.progress import Progress
from lae_core.training import deadline


def execute_all(root: Path, notebooks: list[Notebook], profile: str, force: bool = False) -> dict[str, Executed]:
    """Bring every notebook's execution up to date. All of them run even if one fails; failures are reported together."""
    cache = Cache(root)
    values = {notebook.name: notebook.values(profile) for notebook in notebooks}
    found = {} if force else {nb.name: cache.find(nb, values[nb.name]) for nb in notebooks}
    stale = [notebook for notebook in notebooks if found.get(notebook.name) is None]
    fresh = len(notebooks) - len(stale)
    print(f"{len(notebooks)} notebooks at profile {profile}: {fresh} up to date, {len(stale)} to execute")
    for notebook in stale:
        print(f"  {notebook.name}: {'forced' if force else cache.why_stale(notebook, values[notebook.name])}")
    failures: list[str] = []

    def finished(name: str, future: Future[tuple[Executed, float]]) -> None:
        try:
            found[name], seconds = future.result()
            print(f"  executed {name} in {seconds:.1f} s")
        except CellError as error:
            failures.append(str(error))
            print(f"  FAILED   {name}")

    jobs = [Job(nb.name, uses_gpu(values[nb.name]), (root, nb.name, values[nb.name], force)) for nb in stale]
    _run(jobs, finished)
    late = [nb.name for nb in stale if found.get(nb.name) is None]
    if late and deadline.passed():
        left = f"{len(late)} of {len(stale)} notebooks are left: {', '.join(late)}"
        raise CellError("\n\n".join([*failures, f"the time limit has passed. {left}. Start again to resume"]))
    if failures:
        raise CellError("\n\n".join([*failures, f"{len(failures)} of {len(stale)} executed notebooks failed"]))
    return {notebook.name: done for notebook in notebooks if (done := found[notebook.name])}


class Job(NamedTuple):
    notebook: str
    gpu: bool
    arguments: tuple[Path, str, dict[str, Any], bool]  # of `_execute_one`


def _run(waiting: list[Job], finished: Callable[[str, Future], None]) -> None:
    """Start a job when a worker is free, not earlier: a job that is queued in the pool cannot be cancelled."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker)
    running: dict[Future[tuple[Executed, float]], Job] = {}
    try:
        while waiting or running:
            if deadline.passed():
                waiting = []
            for job in list(waiting):
                gpu_is_taken = job.gpu and any(other.gpu for other in running.values())
                if len(running) < cores and not gpu_is_taken:
                    waiting.remove(job)
                    running[pool.submit(_execute_one, *job.arguments)] = job
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finished(running.pop(future).notebook, future)
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():
            if child.pid:
                os.kill(child.pid, signal.SIGINT)
        raise
    finally:
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
