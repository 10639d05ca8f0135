"""A time limit: no run starts after it, those under way keep a checkpoint, and started again all resume."""

from __future__ import annotations

import os
import time

import pytest
from toy_runs import toys, until_the_limit

from lae_core.runs.gather import gather
from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep
from lae_core.training import deadline, loop
from lae_core.training.config import RunConfig

SMALL = RunConfig(depth=8, width=0.25, data="digits", subset=64, eval_subset=20, epochs=2, batch=16, augment="none")


@pytest.fixture(autouse=True)
def no_limit(monkeypatch):
    monkeypatch.setenv(deadline.VARIABLE, "0")
    monkeypatch.delenv(deadline.VARIABLE)


def test_minutes_leave_a_tenth_for_the_end():
    now = time.time()
    deadline.set_minutes(100)
    assert now + 5400 - 2 < float(os.environ[deadline.VARIABLE]) < now + 5400 + 2
    assert not deadline.passed()
    deadline.set_minutes(None)
    assert not deadline.passed()


def stop_after(monkeypatch, steps: int) -> None:
    """The limit passes when so many looks at the clock were taken."""
    looks = iter(range(10**6))
    monkeypatch.setattr(deadline, "passed", lambda: next(looks) >= steps)


@pytest.mark.parametrize("steps", [1, 4])  # inside an epoch, in the last step of one
def test_a_run_that_is_stopped_resumes_to_the_same_record(tmp_path, monkeypatch, steps):
    whole = loop.run(SMALL, checkpoint_dir=tmp_path / "a")
    with monkeypatch.context() as patch:
        stop_after(patch, steps)
        with pytest.raises(deadline.TimeUp):
            loop.run(SMALL, checkpoint_dir=tmp_path / "b")
    again = loop.run(SMALL, checkpoint_dir=tmp_path / "b")
    apart = ("times", "provenance")
    assert {k: v for k, v in whole.items() if k not in apart} == {k: v for k, v in again.items() if k not in apart}


def test_a_sweep_starts_nothing_after_the_limit_and_resumes(tmp_path, monkeypatch):
    configs = [SMALL.replace(epochs=1, seed=seed) for seed in range(3)]
    monkeypatch.setenv(deadline.VARIABLE, "1")
    report = sweep(configs, store=tmp_path / "runs", where="inline")
    assert report.stopped == [config.key() for config in configs] and not report.ran
    assert "3 left by the time limit" in str(report)
    monkeypatch.delenv(deadline.VARIABLE)
    assert len(sweep(configs, store=tmp_path / "runs", where="inline").ran) == 3


def test_a_run_that_is_stopped_is_no_failure_and_gives_back_its_lock(tmp_path, monkeypatch):
    store = RunStore(tmp_path / "runs")
    stop_after(monkeypatch, 2)
    report = sweep([SMALL], store=store, where="inline")
    assert report.stopped == [SMALL.key()] and not report.failures
    assert store.failure(SMALL.key()) is None and store.progress(SMALL.key())
    monkeypatch.setattr(deadline, "passed", lambda: False)
    assert sweep([SMALL], store=store, where="inline").ran == [SMALL.key()]


def test_workers_obey_the_limit_too(tmp_path, monkeypatch):
    """Real processes: each sees the moment in its environment, stops within the run, and nothing more is started."""
    monkeypatch.setenv(deadline.VARIABLE, f"{time.time() + 8:.0f}")
    report = sweep(toys(3), store=tmp_path / "runs", where="local(workers=1)", run=until_the_limit)
    assert len(report.stopped) == 3 and not report.failures and not report.ran


def test_a_notebook_says_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv(deadline.VARIABLE, "1")
    with pytest.raises(deadline.TimeUp, match="2 of 2 runs are left; start again to resume"):
        gather({"a": SMALL}, seeds=2, record="", where="inline")
