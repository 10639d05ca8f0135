"""Locks: one owner at a time, a dead one is replaced, and clocks of two machines are never compared."""

import json
import multiprocessing
import os
import time
from types import SimpleNamespace

import psutil
import pytest

from lae_core.runs import locks


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "run"


def body(directory, number=0):
    return json.loads((directory / f"lock.{number}").read_text())


def write_lock(directory, number=0, **changes):
    directory.mkdir(exist_ok=True)
    process = psutil.Process()
    content = {"machine": locks._machine(), "pid": process.pid, "started": process.create_time()} | changes
    (directory / f"lock.{number}").write_text(json.dumps(content))


def test_one_owner_until_it_gives_back(directory):
    held = locks.acquire(directory)
    assert held is not None and body(directory)["pid"] == os.getpid()
    assert locks.acquire(directory) is None
    held.free(failed=True)
    assert locks.look(directory).free and locks.look(directory).failed
    again = locks.acquire(directory)
    assert again is not None
    again.done()
    assert locks.look(directory) is None and list(directory.iterdir()) == []


def _try(directory, start, wins):
    start.wait()
    if locks.acquire(directory) is not None:
        with wins.get_lock():
            wins.value += 1
    start.wait()  # nobody leaves, and so looks dead, before all have tried


@pytest.mark.parametrize("dead_lock", [False, True])
def test_of_many_processes_exactly_one_wins(tmp_path, dead_lock):
    fork = multiprocessing.get_context("fork")
    for attempt in range(5):
        directory = tmp_path / str(attempt)
        directory.mkdir()
        if dead_lock:
            write_lock(directory, pid=2**22 + 1)
        start, wins = fork.Barrier(6), fork.Value("i", 0)
        contenders = [fork.Process(target=_try, args=(directory, start, wins)) for _ in range(6)]
        for contender in contenders:
            contender.start()
        for contender in contenders:
            contender.join(30)
        assert wins.value == 1


def test_a_dead_process_of_this_machine_is_replaced_at_once(directory):
    write_lock(directory, pid=2**22 + 1)
    assert locks.look(directory).owner_is_dead
    assert locks.acquire(directory) is not None


def test_a_process_number_used_again_is_not_the_owner(directory):
    write_lock(directory, started=psutil.Process().create_time() - 1000)
    assert locks.look(directory).owner_is_dead


def test_another_machine_is_believed_until_it_shows_no_life(directory, monkeypatch):
    now = 0.0
    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: now))
    write_lock(directory, machine="another", pid=2**22 + 1)
    found, watch = locks.look(directory), locks.Watch(stale=60)
    assert locks.acquire(directory) is None
    assert not watch.is_dead(directory, found)
    now = 50.0
    # A sign of life, by a clock that is a day behind ours, starts the wait anew.
    os.utime(directory / "lock.0", (time.time() - 86400,) * 2)
    assert not watch.is_dead(directory, locks.look(directory))
    now = 110.0
    assert not watch.is_dead(directory, locks.look(directory))
    now = 111.0
    dead = locks.look(directory)
    assert watch.is_dead(directory, dead)
    os.utime(directory / "lock.0")  # it wakes up just before we take over
    assert locks.acquire(directory, over=dead) is None
    assert locks.acquire(directory, over=locks.look(directory)) is not None
    assert body(directory, 1)["pid"] == os.getpid()


def test_an_owner_shows_life(directory, monkeypatch):
    monkeypatch.setattr(locks, "BEAT", 0.02)
    held = locks.acquire(directory)
    before = locks.look(directory).stamp
    deadline = time.monotonic() + 5
    while locks.look(directory).stamp == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    held.done()
