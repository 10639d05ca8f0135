"""Many runs: whatever is not yet recorded is run, wherever `where` says, and every restart is a resume."""

from __future__ import annotations

import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lae_core.runs import locks
from lae_core.runs.files import StoreError
from lae_core.runs.records import Config, RunStore
from lae_core.runs.where import Where, connect
from lae_core.runs.worker import Outcome, Run, execute
from lae_core.training import deadline
from lae_core.training.progress_bar import progress_bar

if TYPE_CHECKING:
    from lae_core.runs.cluster import Cluster

POLL = 1.0  # seconds between looks at what others are doing


@dataclass(frozen=True)
class Failure:
    key: str
    config: dict[str, Any]
    error: str
    traceback: str


@dataclass
class SweepReport:
    """What a sweep did: keys that it ran, found recorded, or saw recorded meanwhile (by another sweep, or by a worker
    that died just after); what the time limit stopped or kept from starting; and what failed."""

    ran: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    meanwhile: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = [f"{len(self.ran)} run", f"{len(self.found)} already recorded"]
        parts += [f"{len(self.meanwhile)} recorded meanwhile"] if self.meanwhile else []
        parts += [f"{len(self.stopped)} left by the time limit"] if self.stopped else []
        parts += [f"{len(self.failures)} failed"]
        lines = [f"sweep: {', '.join(parts)}, in {self.seconds:.1f} s"]
        for failure in self.failures:
            lines += [f"  failed: {failure.error}", f"    config {failure.key}: {failure.config}"]
        return "\n".join(lines)


def sweep(
    configs: Iterable[Config],
    *,
    store: RunStore | str | Path,
    where: str | None = None,
    run: Run | None = None,
    progress: bool | None = None,
    stale: float = locks.STALE,
) -> SweepReport:
    """Run every config that the store has no record of, and return what happened.

    `where` is described in `lae_core.runs.where`. `run(config, checkpoint_dir=…)` returns a result of plain values; it
    is the training loop by default, and must be importable where it runs. `progress` draws a bar on standard error; by
    default only on a terminal. A run that another sweep has locked is waited for, and taken over when it shows no sign of
    life for `stale` seconds. A run that raises stops nothing and is listed at the end; an unusable store (`StoreError`)
    or a lost scheduler (`ConnectionError`) ends the sweep, and starting it again resumes it. Past the time limit
    (`training/deadline.py`) no run starts, and those under way keep a checkpoint and stop.
    """
    place = Where.parse(where)
    records = store if isinstance(store, RunStore) else RunStore(store)
    unique = {config.key(): config for config in configs}
    begin = time.perf_counter()
    report = SweepReport(found=[key for key in unique if key in records])
    todo = [unique[key] for key in unique if key not in set(report.found)]
    if todo:
        records.check_writable()
        work = run if run is not None else _training_run()
        bar = progress_bar("sweep", "run", len(unique), len(report.found), progress)
        with bar, _executor(place, records, work) as executor:
            _drive(todo, records, executor, report, bar, locks.Watch(stale))
    report.seconds = time.perf_counter() - begin
    if report.failures:
        print(report, file=sys.stderr)
    return report


def _training_run() -> Run:
    from lae_core.training.loop import run

    return run


def _drive(
    todo: list[Config],
    store: RunStore,
    executor: _Inline | Cluster,
    report: SweepReport,
    bar: Any,
    watch: locks.Watch,
) -> None:
    ready: deque[tuple[Config, locks.Lock | None]] = deque((config, None) for config in todo)
    configs = {config.key(): config for config in todo}
    running: set[str] = set()
    others: dict[str, Config] = {}  # locked by other sweeps
    progress: dict[str, object] = {}  # how far a run was when it was submitted
    polled = 0.0
    while ready or running or others:
        if deadline.passed():
            report.stopped += [config.key() for config, _ in ready] + list(others)
            ready.clear()
            others.clear()
        while ready and len(running) < executor.slots():
            config, over = ready.popleft()
            running.add(config.key())
            progress[config.key()] = store.progress(config.key())
            executor.submit(config, over)
        for key, outcome in executor.collect(POLL):
            running.discard(key)
            if isinstance(outcome, Outcome) and outcome.status == "busy":
                others[key] = configs[key]
            elif isinstance(outcome, Outcome) and outcome.status == "stopped":
                report.stopped.append(key)
            elif _was_killed(outcome) and store.progress(key) != progress[key]:
                # Its workers were taken away, as by a time limit; a run that gets further is not what killed them.
                ready.append((configs[key], None))
            else:
                _settle(configs[key], outcome, store, report)
        if others and time.monotonic() - polled >= POLL:
            polled = time.monotonic()
            for config, over in _look_at_others(others, store, report, watch):
                ready.append((config, over))
        done = len(report.found) + len(report.ran) + len(report.meanwhile) + len(report.failures)
        bar.update(done - bar.n)
        left = len(ready) + len(running) + len(others)
        bar.set_postfix(failed=len(report.failures), left=left, refresh=False)


def _was_killed(outcome: Outcome | Exception) -> bool:
    """Whether Dask gave a run up because several workers died while running it."""
    return type(outcome).__name__ == "KilledWorker"


def _settle(config: Config, outcome: Outcome | Exception, store: RunStore, report: SweepReport) -> None:
    if isinstance(outcome, StoreError | ConnectionError):
        raise outcome
    if isinstance(outcome, Exception):
        error = f"{type(outcome).__name__}: {outcome}"
        if _was_killed(outcome):  # nobody but us is left to write down why
            error = "its worker process died again and again while running it: killed, crashed, or out of memory"
        trace = "".join(traceback.format_exception(outcome))
        store.put_failure(config, error, trace)
        outcome = Outcome(config.key(), "failed", error, trace)
    if outcome.status == "failed":
        report.failures.append(Failure(outcome.key, config.to_dict(), outcome.error, outcome.traceback))
    else:
        (report.ran if outcome.status == "done" else report.meanwhile).append(outcome.key)


def _look_at_others(
    others: dict[str, Config], store: RunStore, report: SweepReport, watch: locks.Watch
) -> Iterator[tuple[Config, locks.Lock | None]]:
    """Settle what other sweeps finished; yield what they gave up, with the dead lock to take over if there is one."""
    for key, config in list(others.items()):
        found = locks.look(store.directory(key))
        if key in store:
            report.meanwhile.append(key)
        elif found is not None and found.failed and (why := store.failure(key)):
            report.failures.append(Failure(key, config.to_dict(), why["error"], why["traceback"]))
        elif found is None or found.free:
            yield config, None
        elif watch.is_dead(store.directory(key), found):
            yield config, found
        else:
            continue
        del others[key]


class _Inline:
    """Runs in this process. As a `Cluster`, it takes as many runs at a time as `slots()` says and `collect` gives each
    back once, waiting a moment for one."""

    def __init__(self, store: RunStore, run: Run) -> None:
        self._store, self._run = store, run
        self._outcomes: list[tuple[str, Outcome | Exception]] = []

    def slots(self) -> int:
        return 1

    def submit(self, config: Config, over: locks.Lock | None) -> None:
        outcome = execute(config, str(self._store.root), self._run, over, own_process=False)
        self._outcomes.append((config.key(), outcome))

    def collect(self, timeout: float) -> list[tuple[str, Outcome | Exception]]:
        if not self._outcomes:
            time.sleep(timeout)
        outcomes, self._outcomes = self._outcomes, []
        return outcomes


@contextmanager
def _executor(place: Where, store: RunStore, run: Run) -> Iterator[_Inline | Cluster]:
    if place.kind == "inline":
        yield _Inline(store, run)
        return
    from lae_core.runs.cluster import Cluster

    with connect(place) as client:
        yield Cluster(client, str(store.root), run)
