"""Real clusters on this machine, real disks that are full or read-only, and a matrix of kills. All take a while."""

import contextlib
import json
import os
import random
import subprocess
import sys
import time

import psutil
import pytest
import slurm
from processes import HERE, environment, finish, kill, start, wait_until
from toy_runs import Toy, describe, run, seeds, started, toys

from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep

pytestmark = pytest.mark.long


def results(store):
    return {record.config["seed"]: record.result for record in RunStore(store.root)}


def undisturbed(number, steps):
    return {seed: run(Toy(seed=seed, steps=steps)) for seed in range(number)}


def records(store):
    return len(list(store.root.glob("*/record.json")))


@contextlib.contextmanager
def dask(*arguments):
    command = [sys.executable, "-m", "distributed.cli." + arguments[0], *map(str, arguments[1:])]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
            child.kill()
        process.kill()
        process.wait()


def test_a_scheduler_that_is_killed_and_one_that_takes_its_place(store, tmp_path):
    log, file = tmp_path / "log", tmp_path / "scheduler.json"
    scheduler = ("dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
    worker = ("dask_worker", "--scheduler-file", file, "--nthreads", 1, "--memory-limit", 0, "--no-dashboard")
    with dask(*scheduler) as first, dask(*worker):
        wait_until(file.exists)
        driver = start(store.root, file, 8, 4, 0.3, log)
        wait_until(lambda: records(store) >= 2)
        kill(first.pid)
        assert driver.wait(120) != 0
        assert "the Dask scheduler is gone" in driver.stderr.read()
    wait_until(lambda: not any(psutil.pid_exists(begun.pid) for begun in started(log)))
    recorded, before = set(results(store)), seeds(log)
    assert 2 <= len(recorded) < 8
    file.unlink()
    with dask(*scheduler), dask(*worker):
        wait_until(file.exists)
        address = json.loads(file.read_text())["address"]
        report = sweep(toys(8, 4, 0.0, log), store=store, where=address, run=run)
    assert len(report.found) == len(recorded) and len(report.ran) + len(report.meanwhile) == 8 - len(recorded)
    assert set(seeds(log)[len(before) :]).isdisjoint(recorded)
    assert results(store) == undisturbed(8, 4)


needs_slurm = pytest.mark.skipif(not slurm.available(), reason="needs root and Debian's SLURM")


@needs_slurm
def test_slurm_for_real(store, tmp_path):
    """Two jobs; one is cancelled in the middle of a run, and SLURM is asked for another."""
    log = tmp_path / "log"
    place = tmp_path / "slurm"
    place.mkdir()
    setting = f"slurm(jobs=2, memory=1GB, walltime=00:10:00, queue=main, interface=lo, logs={tmp_path / 'logs'})"
    with slurm.running(place):
        driver = start(store.root, setting, 10, 8, 0.5, log)
        wait_until(lambda: len({begun.pid for begun in started(log)}) == 2, timeout=120)
        first = slurm.jobs()
        assert len(first) == 2
        slurm.cancel(first[0])
        wait_until(lambda: set(slurm.jobs()) - set(first), timeout=60)
        ran, found, meanwhile, failed = map(int, finish(driver, 300).split())
    assert (ran + meanwhile, found, failed) == (10, 0, 0)
    assert results(store) == undisturbed(10, 8)
    assert len({begun.pid for begun in started(log)}) == 3


@needs_slurm
def test_slurm_refuses(store, tmp_path):
    place = tmp_path / "slurm"
    place.mkdir()
    with slurm.running(place), pytest.raises(ConnectionError, match="SLURM refuses such a job"):
        sweep(toys(1), store=store, where="slurm(queue=nowhere, interface=lo)", run=run)


@pytest.mark.parametrize("victim", ["worker", "driver", "both"])
@pytest.mark.parametrize("moment", range(3))
def test_kills_at_any_moment(store, tmp_path, victim, moment):
    """Killed twice at moments drawn by chance, then left alone: complete, equal, and no finished run done again."""
    draw = random.Random(f"{victim} {moment}")
    log, configs = tmp_path / "log", toys(8, 5)
    finished: set[int] = set()
    for _ in range(2):
        before = len(seeds(log))
        driver = start(store.root, "local(workers=2)", 8, 5, 0.1, log)
        wait_until(lambda before=before, driver=driver: len(seeds(log)) > before or driver.poll() is not None)
        time.sleep(draw.uniform(0, 1.5))
        if victim != "driver":
            alive = [begun.pid for begun in started(log) if psutil.pid_exists(begun.pid)]
            if alive:
                with contextlib.suppress(ProcessLookupError):
                    kill(draw.choice(alive))
        if victim != "worker":
            kill(driver.pid)
        driver.communicate(timeout=120)
        wait_until(lambda: not any(psutil.pid_exists(begun.pid) for begun in started(log)))
        assert set(seeds(log)[before:]).isdisjoint(finished)
        finished = set(results(store))
    sweep(configs, store=store, where="inline", run=run)
    assert results(store) == undisturbed(8, 5) and store.problems == {}
    assert not list(store.root.glob("*/lock.*"))


def test_a_run_that_keeps_killing_its_worker_fails_alone(store):
    configs = [Toy(seed=seed, fail="kill" if seed == 2 else "") for seed in range(6)]
    report = sweep(configs, store=store, where="local(workers=2)", run=run)
    assert [failure.config["seed"] for failure in report.failures] == [2]
    assert "died again and again" in report.failures[0].error
    assert set(results(store)) == {0, 1, 3, 4, 5}


def test_a_run_whose_workers_are_taken_away_goes_on_as_long_as_it_gets_further(store):
    """As by a time limit shorter than the run: eight lives, where a run without progress is given up after four."""
    config = Toy(seed=1, steps=8, fail="kill after each step")
    report = sweep([config], store=store, where="local(workers=1)", run=run)
    assert len(report.ran) == 1 and report.failures == []
    assert results(store) == {1: run(Toy(seed=1, steps=8))}


MOUNT = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        ("mount -t tmpfs -o size=64k none {place}", "the disk is full"),
        ("{python} {here}/toy_sweep.py {place}/s inline 1 1 0 {log} "
         "&& mount --bind {place} {place} && mount -o remount,ro,bind {place}", "the disk is read-only"),
    ],
)  # fmt: skip
def test_a_real_full_disk_and_a_real_read_only_one(tmp_path, mount, words):
    """In a mount namespace of its own, with the file system that the kernel gives."""
    place = tmp_path / "place"
    place.mkdir()
    names = {"place": place, "python": sys.executable, "here": HERE, "log": tmp_path / "log"}
    sweeping = "exec {python} {here}/toy_sweep.py {place}/s inline 400 1 0 {log}"
    command = f"{mount} && {sweeping}".format(**names)
    done = subprocess.run([*MOUNT, "sh", "-c", command], env=environment(), capture_output=True, text=True, timeout=200)
    assert done.returncode != 0
    assert words in done.stderr and "What is recorded is kept" in done.stderr, done.stderr


def test_workers_are_set_up_for_training_and_leave_no_trace(store, monkeypatch):
    """One thread, memory kept as glibc would, free to start processes; and this process keeps its own settings."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = dict(os.environ)
    sweep(toys(1), store=store, where="local(workers=1)", run=describe)
    assert dict(os.environ) == before
    found = store.get(Toy()).result
    assert found["threads"] == 1 and found["daemon"] is False
    assert found["variables"] == {"MALLOC_TRIM_THRESHOLD_": None, "OMP_NUM_THREADS": "1"}


def test_a_data_parallel_run_inside_a_worker(store):
    """A worker is a process started by another; it may start two of its own."""
    from lae_core.training.config import RunConfig

    config = RunConfig(depth=8, width=0.25, data="digits", epochs=1, batch=64, subset=128, augment="none", processes=2)
    report = sweep([config], store=store, where="local(workers=1)")
    assert len(report.ran) == 1, report
    assert store.get(config).result["status"] == "finished"


def test_real_training_equal_after_a_kill(tmp_path):
    """Four small trainings on two workers, one worker killed: the records equal those of an undisturbed sweep, bit for
    bit."""
    plan = tmp_path / "plan.yml"
    plan.write_text(
        "base: {depth: 8, width: 0.25, data: digits, epochs: 6, batch: 64, subset: 256, augment: none}\n"
        'grid: {pool: [avg, "lae(t0=1, train=one)"], seed: 0..1}\n'
    )
    command = [sys.executable, "-m", "lae_core.cli", "sweep", str(plan), "--where", "local(workers=2)", "--store"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment()}
    disturbed, calm = RunStore(tmp_path / "disturbed"), RunStore(tmp_path / "calm")
    driver = subprocess.Popen([*command, str(disturbed.root)], **quiet)
    wait_until(lambda: list(disturbed.root.glob("*/checkpoint/*")), timeout=180)
    lock = next(disturbed.root.glob("*/checkpoint/*")).parents[1] / "lock.0"
    kill(json.loads(lock.read_text())["pid"])
    assert driver.wait(400) == 0
    assert subprocess.run([*command, str(calm.root)], **quiet).returncode == 0
    assert {r.key: r.result for r in disturbed} == {r.key: r.result for r in calm} and len(calm) == 4
