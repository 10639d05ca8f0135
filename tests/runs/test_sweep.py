"""Sweeps with real processes: whatever dies, nothing recorded is lost and nothing is run twice."""

import errno
import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import Client
from processes import finish, kill, start, wait_until
from toy_runs import Toy, run, seeds, started, toys

from lae_core.runs import locks
from lae_core.runs.cluster import Cluster
from lae_core.runs.files import StoreError
from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep


def results(store):
    return {record.config["seed"]: record.result for record in RunStore(store.root)}


def undisturbed(configs):
    return {config.seed: run(Toy(seed=config.seed, steps=config.steps)) for config in configs}


def test_runs_what_is_missing_and_nothing_else(store, tmp_path):
    log = tmp_path / "log"
    first = sweep(toys(3, log=log), store=store, where="inline", run=run)
    second = sweep(toys(5, log=log) + toys(5, log=log), store=store.root, where="inline", run=run)
    assert (len(first.ran), len(second.ran), len(second.found)) == (3, 2, 3)
    assert seeds(log) == [0, 1, 2, 3, 4]
    assert results(store) == undisturbed(toys(5))
    origin = store.get(Toy(seed=4)).provenance
    assert (
        origin["seconds"] >= 0
        and origin["cpu_seconds"] >= 0
        and origin["versions"]["torch"]
        and origin["threads"] >= 1
        and "commit" in origin
    )


def test_a_failing_run_stops_nothing_and_is_listed_with_its_config(store, capsys):
    configs = [Toy(seed=seed, fail="raise" if seed == 1 else "") for seed in range(3)]
    report = sweep(configs, store=store, where="inline", run=run)
    assert [failure.config["seed"] for failure in report.failures] == [1] and len(report.ran) == 2
    assert "seed 1 will not train" in report.failures[0].error and "toy_runs.py" in report.failures[0].traceback
    listed = capsys.readouterr().err
    assert "1 failed" in listed and "'seed': 1" in listed
    assert store.failure(configs[1].key())["error"] == report.failures[0].error
    assert len(sweep([Toy(seed=1)], store=store, where="inline", run=run).ran) == 1  # tried again, and mended
    assert store.failure(configs[1].key()) is None


def test_stopping_a_sweep_by_hand_leaves_nothing_locked(store):
    def stopped(config, **_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(toys(1), store=store, where="inline", run=stopped)
    assert locks.look(store.directory(Toy().key())).free
    assert len(sweep(toys(1), store=store, where="inline", run=run).ran) == 1


def test_a_run_goes_to_the_worker_with_the_fewest(store):
    """Dask alone would at times put two on one worker and leave another idle until the first is over."""

    class Client:
        status, chosen, on = "running", [], {"a": [], "b": []}

        def subscribe_topic(self, topic, handler):
            pass

        def nthreads(self):
            return {"a": 1, "b": 1}

        def processing(self):
            return self.on

        def submit(self, *arguments, key, workers, **options):
            assert options["allow_other_workers"]
            self.chosen.append((key, workers[0]))
            return SimpleNamespace(add_done_callback=lambda callback: None)

    client = Client()
    cluster = Cluster(client, str(store.root), run)
    for config in toys(2):
        cluster.submit(config, None)
    (_, one), (_, other) = client.chosen
    assert {one, other} == {"a", "b"}  # also before the scheduler says where they are
    client.on = {one: [], other: [name for name, _ in client.chosen]}  # the first worker died, and Dask moved its run
    cluster.submit(toys(3)[2], None)
    assert client.chosen[-1][1] == one


def test_the_progress_bar_counts_done_failed_and_remaining(store, capsys):
    sweep([Toy(seed=0), Toy(seed=1, fail="raise")], store=store, where="inline", run=run, progress=True)
    bar = capsys.readouterr().err
    assert "2/2" in bar and "failed=1" in bar and "left=0" in bar
    sweep(toys(4), store=store, where="inline", run=run, progress=False)
    assert capsys.readouterr().err == ""


def test_a_worker_killed_mid_run_loses_nothing(store, tmp_path):
    """Two workers; one is killed in the middle of a run. The run resumes from its checkpoint in another process."""
    log, configs = tmp_path / "log", toys(6, steps=10)
    driver = start(store.root, "local(workers=2)", 6, 10, 0.1, log)
    place = store.checkpoint_dir(configs[0].key()) / "place.json"
    wait_until(lambda: place.exists() and json.loads(place.read_text())["step"] >= 3)
    victim = next(start.pid for start in started(log) if start.seed == 0)
    kill(victim)
    ran, found, meanwhile, failed = map(int, finish(driver).split())
    assert (ran + meanwhile, found, failed) == (6, 0, 0)
    assert results(store) == undisturbed(configs)
    first, second = [start for start in started(log) if start.seed == 0]
    assert (first.pid, first.step) == (victim, 0) and second.pid != victim and second.step >= 3
    assert Counter(seeds(log)) == {seed: 2 if seed == 0 else 1 for seed in range(6)}
    assert not list(store.root.glob("*/lock.*")) and not list(store.root.glob("*/checkpoint"))


def test_the_scheduler_killed_and_started_again_runs_only_what_is_missing(store, tmp_path):
    """On one machine the scheduler lives in the sweep's own process: killing it ends workers and all."""
    log = tmp_path / "log"
    driver = start(store.root, "local(workers=2)", 8, 4, 0.05, log)
    wait_until(lambda: len(list(store.root.glob("*/record.json"))) >= 3)
    kill(driver.pid)
    driver.wait()
    pids = {start.pid for start in started(log)}
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), timeout=30)
    recorded, before = set(results(store)), seeds(log)
    report = sweep(toys(8, 4, 0.0, log), store=store, where="inline", run=run)
    assert len(report.found) == len(recorded) and len(report.ran) == 8 - len(recorded) > 0
    assert set(seeds(log)[len(before) :]).isdisjoint(recorded)
    assert results(store) == undisturbed(toys(8, 4))


def test_two_sweeps_at_once_do_no_run_twice(store, tmp_path):
    log = tmp_path / "log"
    both = [start(store.root, "inline", 40, 2, 0.02, log) for _ in range(2)]
    counts = [list(map(int, finish(process).split())) for process in both]
    assert sorted(seeds(log)) == list(range(40))
    assert sum(ran for ran, *_ in counts) == 40 and all(ran > 0 for ran, *_ in counts)
    assert all(sum(count) == 40 and count[3] == 0 for count in counts)
    assert results(store) == undisturbed(toys(40, 2)) and store.problems == {}


@pytest.mark.parametrize(
    "lock", [json.dumps({"machine": "another", "pid": 1, "started": 0}), ""], ids=["whole", "emptied by a power cut"]
)
def test_a_run_that_another_machine_lost_is_taken_over(store, lock):
    """Its owner cannot be asked, only watched: it shows no sign of life."""
    directory = store.directory(Toy().key())
    directory.mkdir()
    (directory / "lock.0").write_text(lock)
    report = sweep(toys(2), store=store, where="inline", run=run, stale=0.5)
    assert len(report.ran) == 2 and report.seconds > 0.5
    assert results(store) == undisturbed(toys(2))


def test_a_failure_in_another_sweep_is_reported_not_repeated(store):
    """What another sweep was seen to be running, and then failed, counts as failed here too."""
    config = Toy()
    held = locks.acquire(store.directory(config.key()))

    def run_the_other(toy, **_):
        assert toy.seed == 1
        store.put_failure(config, "ValueError: elsewhere", "trace")
        held.free(failed=True)
        return {}

    report = sweep(toys(2), store=store, where="inline", run=run_the_other)
    assert [failure.error for failure in report.failures] == ["ValueError: elsewhere"] and len(report.ran) == 1


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "the disk is read-only")]
)
@pytest.mark.parametrize("moment", ["start", "record", "checkpoint"])
def test_a_disk_that_takes_no_more_gives_a_clear_error(store, monkeypatch, code, words, moment):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    def breaking(config, **_):
        if moment == "checkpoint":
            refuse()
        monkeypatch.setattr(os, "fsync", refuse)
        return {}

    sweep([Toy(seed=7)], store=store, where="inline", run=run)
    if moment == "start":
        monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError, match=f"{words}.*What is recorded is kept"):
        sweep(toys(3), store=store, where="inline", run=breaking)
    monkeypatch.undo()
    assert list(results(store)) == [7]
    assert len(sweep(toys(3), store=store, where="inline", run=run).ran) == 3


def test_a_store_that_cannot_be_made_gives_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot create a run store in .*file/store"):
        sweep(toys(1), store=tmp_path / "file" / "store", where="inline", run=run)


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:9", "left.json"])
def test_an_address_where_nobody_answers(store, where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("left.json").write_text('{"address": "tcp://127.0.0.1:9"}', encoding="utf-8")  # of a scheduler that is gone
    monkeypatch.setattr("distributed.Client", lambda **options: Client(**options | {"timeout": 0.5}))
    with pytest.raises(ConnectionError, match=rf"where = '{where}': no Dask scheduler answers there"):
        sweep(toys(1), store=store, where=where, run=run)


def test_real_training_resumes_to_the_same_record(store, tmp_path):
    """The training loop itself, inline: cut after its first epoch, then swept again."""
    from lae_core.training import loop
    from lae_core.training.config import RunConfig

    config = RunConfig(
        depth=8, width=0.25, data="digits", epochs=2, batch=64, subset=128, eval_subset=64, augment="none"
    )

    def cut(config, checkpoint_dir):
        def stop(done, *_):
            raise KeyboardInterrupt

        return loop.run(config, checkpoint_dir=checkpoint_dir, progress=stop)

    with pytest.raises(KeyboardInterrupt):
        sweep([config], store=store, where="inline", run=cut)
    assert any(store.checkpoint_dir(config.key()).iterdir())
    sweep([config], store=store, where="inline")
    whole = RunStore(tmp_path / "whole")
    sweep([config], store=whole, where="inline")
    assert store.get(config).result == whole.get(config).result
