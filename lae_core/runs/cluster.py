"""Runs on Dask workers, as an executor of the sweep."""

from __future__ import annotations

import queue
import time
import uuid
from collections import Counter
from concurrent.futures import CancelledError
from dataclasses import asdict
from typing import Any

from distributed import Client, Future, get_worker

from lae_core.runs import locks
from lae_core.runs.records import Config
from lae_core.runs.worker import Outcome, Run, execute

HEARTBEAT = 1.0  # seconds between two questions to the scheduler
PATIENCE = 5.0  # seconds that the news of a finished run may take


def _execute_and_tell(topic: str, name: str, *arguments: Any) -> Outcome:
    outcome = execute(*arguments)
    get_worker().log_event(topic, {"name": name, "outcome": asdict(outcome)})
    return outcome


class Cluster:
    """As many runs are submitted as can start at once, so that a dying worker takes down, and is blamed on, only one.

    A worker sends its outcome as an event through the scheduler. Fetched as a result it would have to come from the
    worker, and one that has died in between holds everything up until the connection times out.
    """

    def __init__(self, client: Client, store_root: str, run: Run) -> None:
        self._client, self._store_root, self._run = client, store_root, run
        self._news: queue.Queue[Future | dict[str, Any]] = queue.Queue()
        self._open: dict[str, tuple[str, Future, str | None]] = {}  # name: key, future, worker
        self._unheard: dict[str, float] = {}
        self._slots, self._asked = 0, 0.0
        self._topic = f"lae-sweep-{uuid.uuid4().hex}"
        client.subscribe_topic(self._topic, lambda event: self._news.put(event[1]))

    def slots(self) -> int:
        if time.monotonic() - self._asked > HEARTBEAT:
            self._asked = time.monotonic()
            try:
                self._slots = sum(self._client.nthreads().values())
            except (OSError, RuntimeError, AttributeError):
                self._check_connection()
        return max(1, self._slots)

    def submit(self, config: Config, over: locks.Lock | None) -> None:
        name = f"{config.key()}-{uuid.uuid4().hex}"
        arguments = (self._topic, name, config, self._store_root, self._run, over)
        worker = self._freest_worker()
        where = {"workers": [worker], "allow_other_workers": True} if worker else {}
        future = self._client.submit(_execute_and_tell, *arguments, key=name, pure=False, **where)
        self._open[name] = (config.key(), future, worker)
        future.add_done_callback(self._news.put)

    def _freest_worker(self) -> str | None:
        """The worker with the fewest of our runs per thread.

        Dask would choose by how long it expects tasks to take, which it cannot know: at times it gives one worker two
        runs, and leaves another idle until the first run is over.
        """
        try:
            threads = self._client.nthreads()
            now_on = {name: worker for worker, names in self._client.processing().items() for name in names}
        except (OSError, RuntimeError, AttributeError):
            return None
        runs = Counter(now_on.get(name, worker) for name, (_, _, worker) in self._open.items())
        return min(threads, key=lambda worker: runs[worker] / threads[worker], default=None)

    def collect(self, timeout: float) -> list[tuple[str, Outcome | Exception]]:
        outcomes: list[tuple[str, Outcome | Exception]] = []
        try:
            while True:
                news = self._news.get(timeout=0 if outcomes else timeout)
                name = news.key if isinstance(news, Future) else news["name"]
                if name not in self._open:
                    continue
                if isinstance(news, dict):
                    outcomes.append(self._close(name, Outcome(**news["outcome"])))
                elif news.status in ("lost", "cancelled"):
                    raise self._lost()
                elif news.status == "error":
                    outcomes.append(self._close(name, _exception(news)))
                else:
                    self._unheard.setdefault(name, time.monotonic())
        except queue.Empty:
            if not outcomes:
                self._check_connection()
        return outcomes + self._fetch_unheard()

    def _fetch_unheard(self) -> list[tuple[str, Outcome | Exception]]:
        """An event can be lost with a worker that dies right after its run; its run is then found recorded."""
        late = [name for name, since in self._unheard.items() if time.monotonic() - since > PATIENCE]
        outcomes = []
        for name in late:
            try:
                outcomes.append(self._close(name, self._open[name][1].result()))
            except CancelledError:
                raise self._lost() from None
            except Exception as error:
                outcomes.append(self._close(name, error))
        return outcomes

    def _close(self, name: str, outcome: Outcome | Exception) -> tuple[str, Outcome | Exception]:
        self._unheard.pop(name, None)
        key, future, _ = self._open.pop(name)
        future.release()  # else Dask would run it again when the worker that holds its result dies
        return key, outcome

    def _check_connection(self) -> None:
        if self._client.status != "running":
            raise self._lost()

    def _lost(self) -> ConnectionError:
        return ConnectionError("the Dask scheduler is gone; what is recorded is kept, start the sweep again to resume")


def _exception(future: Future) -> Exception:
    error = future.exception()
    return error if isinstance(error, Exception) else RuntimeError(repr(error))
