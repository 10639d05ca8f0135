"""One run on a worker: lock it, run it, record it. The same function everywhere, from this process to a cluster."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lae_core.runs import locks
from lae_core.runs.files import DISK_ERRORS, StoreError, store_error
from lae_core.runs.records import Config, RunStore
from lae_core.training.deadline import TimeUp
from lae_core.training.provenance import provenance

Run = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """What a worker tells the sweep: `status` is done, found (recorded already), busy (locked by another), failed, or
    stopped by the time limit.

    Small on purpose: the record itself goes to the store, since Dask would compute it again if the worker that holds it
    dies.
    """

    key: str
    status: str
    error: str = ""
    traceback: str = ""


@functools.cache
def _prepare_process() -> None:
    """One thread per run, and glibc's own way to keep freed memory: Dask changes it, which can double torch's time."""
    import torch

    torch.set_num_threads(1)
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        with contextlib.suppress(OSError, AttributeError):  # another libc has no mallopt
            ctypes.CDLL(None).mallopt(-3, 32 << 20)


def execute(
    config: Config, store_root: str, run: Run, over: locks.Lock | None = None, own_process: bool = True
) -> Outcome:
    """Run `config` unless it is recorded or locked. What the run raises is an outcome; what the store raises, raised.

    `own_process`: this process exists for runs, and may be set up for them.
    """
    if own_process:
        _prepare_process()
    store = RunStore(store_root)
    key = config.key()
    if key in store:
        return Outcome(key, "found")
    directory = store.directory(key)
    try:
        held = locks.acquire(directory, over)
    except OSError as error:
        raise store_error("write", directory, error) from error
    if held is None:
        return Outcome(key, "busy")
    if key in store:  # finished by another between our first look and our lock
        held.done()
        return Outcome(key, "found")
    try:
        outcome = _run_and_record(config, store, run)
    except TimeUp:
        _give_back(held, failed=False)
        return Outcome(key, "stopped")
    except BaseException as error:  # the store's, or the user stopping us: the run is as good as never started
        _give_back(held, failed=False)
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise store_error("write in", directory, error) from error
        raise
    if outcome.status == "failed":
        _give_back(held, failed=True)
    else:
        held.done()
    return outcome


def _run_and_record(config: Config, store: RunStore, run: Run) -> Outcome:
    key, clock, cpu = config.key(), time.perf_counter(), time.process_time()
    try:
        result = run(config, checkpoint_dir=store.checkpoint_dir(key))
    except TimeUp:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise
        text, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
        store.put_failure(config, text, trace)
        return Outcome(key, "failed", text, trace)
    # What no two equal runs share goes to the record's origin, so that equal runs have equal results.
    origin = result.get("provenance") or provenance()
    spent = {"seconds": round(time.perf_counter() - clock, 3), "cpu_seconds": round(time.process_time() - cpu, 3)}
    origin = origin | spent | {"times": result.get("times", {})}
    apart = ("config", "key", "provenance", "times")
    store.put(config, {name: value for name, value in result.items() if name not in apart}, origin)
    return Outcome(key, "done")


def _give_back(held: locks.Held, failed: bool) -> None:
    with contextlib.suppress(StoreError):  # on a full disk the lock goes stale by itself
        held.free(failed)
