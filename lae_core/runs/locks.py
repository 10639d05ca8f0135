"""Who is running what: locks on runs, for sweeps on many machines that share nothing but the store.

A run's locks are numbered files. Whoever creates the next number owns the run; creating is atomic, so exactly one
does. An owner shows that it lives by touching its lock. It gives a run back by creating one more lock that says
`free`. Nothing is ever removed while a run is open, so no moment exists in which two can believe to own it.

A lock is dead when its process is gone (seen only on the same machine, at once), or when its file did not change for
`STALE` seconds of the *observer's* clock (from anywhere): clocks of two machines are never compared.

filelock's `SoftFileLease` does much of this, but only the process that waited for a silent owner may take over from it. Here
the sweep watches, with one clock for all runs, and a worker takes over at once. A lease also cannot say that a run failed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lae_core.runs.files import write_json

BEAT = 5.0  # seconds between two signs of life
STALE = 60.0  # seconds without one after which a lock may be taken over
_NUMBERED = re.compile(r"lock\.(\d+)")


def _machine() -> str:
    """Differs between machines, between boots of one, and between containers that cannot see each other's processes."""
    parts = [socket.gethostname()]
    for path, read in (("/proc/sys/kernel/random/boot_id", Path.read_text), ("/proc/self/ns/pid", Path.readlink)):
        try:
            parts.append(str(read(Path(path))).strip())
        except OSError:
            continue
    return " ".join(parts)


def _process_lives(pid: int, started: float) -> bool:
    try:
        process = psutil.Process(pid)
        # A dead process stays listed until its parent has asked for it; a number can be used again by another one.
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - started) < 2
    except psutil.NoSuchProcess:
        return False


@dataclass(frozen=True)
class Lock:
    """The highest lock of a run as one look at it found it; `stamp` changes with every sign of life."""

    number: int
    body: dict[str, Any]
    stamp: int

    @property
    def free(self) -> bool:
        return bool(self.body.get("free"))

    @property
    def failed(self) -> bool:
        return bool(self.body.get("failed"))

    @property
    def owner_is_dead(self) -> bool:
        """Known at once on the same machine; False where one cannot know."""
        if self.body.get("machine") != _machine():
            return False
        return not _process_lives(int(self.body["pid"]), float(self.body["started"]))


def look(directory: Path) -> Lock | None:
    """The lock that counts, or None if nobody ever locked the run (or it is finished and swept up)."""
    try:
        numbers = [int(m.group(1)) for name in os.listdir(directory) if (m := _NUMBERED.fullmatch(name))]
    except FileNotFoundError:
        return None
    if not numbers:
        return None
    path = directory / f"lock.{max(numbers)}"
    try:
        with open(path, encoding="utf-8") as file:  # opening asks the NFS server anew; a bare stat may not
            stamp = os.fstat(file.fileno()).st_mtime_ns
            try:
                body = json.load(file)
            except ValueError:  # emptied by a power cut; it names no owner, so it can only go stale
                body = {}
            return Lock(max(numbers), body, stamp)
    except FileNotFoundError:
        return None


class Held:
    """A lock that we hold: keeps showing that we live until `free` or `done`."""

    def __init__(self, directory: Path, number: int) -> None:
        self._path = directory / f"lock.{number}"
        self._next = directory / f"lock.{number + 1}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lock", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                os.utime(self._path)
            except OSError:
                continue  # the file system is away for a while: others may take the run over, which is right then

    def free(self, failed: bool = False) -> None:
        """Give the run back, unfinished; `failed` says that it was tried and why not is in the store."""
        self._stop.set()
        write_json(self._next, {"free": True, "failed": failed}, exclusive=True, durable=False)

    def done(self) -> None:
        """The record is written, so locks mean nothing any more."""
        self._stop.set()
        sweep_up(self._path.parent)


def sweep_up(directory: Path) -> None:
    for path in directory.glob("lock.*"):
        path.unlink(missing_ok=True)


def acquire(directory: Path, over: Lock | None = None) -> Held | None:
    """Lock a run that is free, or whose lock `over` was found dead. None if another is faster or running it.

    The caller must look for the record once more afterwards: the other may just have finished. That look is fresh even
    on NFS, because creating the lock in the same directory made this machine forget what it knew of it.
    """
    directory.mkdir(exist_ok=True)
    last = look(directory)
    if last is not None and not (last.free or last == over or last.owner_is_dead):
        return None
    number = 0 if last is None else last.number + 1
    process = psutil.Process()
    body = {"machine": _machine(), "pid": process.pid, "started": process.create_time(), "host": socket.gethostname()}
    if not write_json(directory / f"lock.{number}", body, exclusive=True, durable=False):
        return None
    return Held(directory, number)


class Watch:
    """Tells when a run that somebody else has locked has not moved for too long."""

    def __init__(self, stale: float = STALE) -> None:
        self._stale = stale
        self._seen: dict[Path, tuple[tuple[int, int], float]] = {}

    def is_dead(self, directory: Path, found: Lock) -> bool:
        if found.owner_is_dead:
            return True
        mark, now = (found.number, found.stamp), time.monotonic()
        before = self._seen.get(directory)
        if before is None or before[0] != mark:
            self._seen[directory] = (mark, now)
            return False
        return now - before[1] > self._stale
