"""The arms of an experiment: gathered from a file, or trained and added to one."""

import json

import pytest

from lae_core.runs.export import export, read_export
from lae_core.runs.gather import gather, missing_runs
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig
from lae_core.training.frozen import FrozenConfig

TINY = RunConfig(data="digits", depth=8, width=0.5, subset=32, eval_subset=20, epochs=1, batch=16, augment="none")
ARMS = {("digits", pool): TINY.replace(pool=pool) for pool in ("avg", "lae")}


def record(config):
    result = {"status": "finished", "final": {"accuracy": config.seed / 10}, "pool": config.pool}
    return Record(config.key(), config.to_dict(), result, {"cpu": "x"})


def written(path, seeds, arms=ARMS):
    export([record(c.replace(seed=s)) for c in arms.values() for s in range(seeds)], path, experiment="e")
    return str(path)


def test_without_a_gpu_no_run_for_one_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("lae_core.runs.gather.gpu_count", lambda: 0)
    arms = {name: config.replace(device="cuda") for name, config in ARMS.items()}
    with pytest.raises(
        ValueError, match=r"device = 'cuda' is invalid: .* and 4 runs are left; expected 'cpu' or 'auto'"
    ):
        gather(arms, seeds=2, record="", where="local(workers=1)")


def test_each_arm_has_its_records_in_the_order_of_the_seeds(tmp_path):
    runs = gather(ARMS, seeds=3, record=written(tmp_path / "e.jsonl", 5))
    assert list(runs) == list(ARMS)
    for (_, pool), records in runs.items():
        assert [r.config["seed"] for r in records] == [0, 1, 2]
        assert {r.result["pool"] for r in records} == {pool}


def test_arms_that_agree_share_their_records(tmp_path):
    runs = gather({"own": TINY, "common": TINY}, seeds=2, record=written(tmp_path / "e.jsonl", 2))
    assert runs["own"] == runs["common"]


def test_what_is_missing_is_an_error_with_the_command_that_trains_it(tmp_path):
    path = written(tmp_path / "e.jsonl", 2)
    with pytest.raises(LookupError, match="2 of 6 runs are not recorded") as raised:
        gather(ARMS, seeds=3, record=path)
    assert "lae run" in str(raised.value) and f'-p record "" -p save {path}' in str(raised.value)
    with pytest.raises(LookupError, match="4 of 4 runs"):
        gather(ARMS, seeds=2, record=str(tmp_path / "none.jsonl"))


def test_an_experiment_may_be_recorded_in_part(tmp_path):
    arms = ARMS | {"again": ARMS["digits", "avg"]}
    path = written(tmp_path / "e.jsonl", 2, {"avg": ARMS["digits", "avg"]})
    runs = gather(arms, seeds=3, record=path, partial=True)
    assert [len(runs[name]) for name in arms] == [2, 0, 2]
    assert missing_runs(arms, runs, 3)[0] == 1 + 3  # arms that share a config lack the same run
    nothing = gather(ARMS, seeds=3, record=str(tmp_path / "none.jsonl"), partial=True)
    assert missing_runs(ARMS, nothing, 3) == (6, 0.0)


@pytest.mark.parametrize("seeds", [1, 0, -1])
def test_one_seed_has_no_spread(seeds):
    with pytest.raises(ValueError, match=f"seeds = {seeds} is invalid; expected at least 2"):
        gather(ARMS, seeds=seeds, record="x")
    with pytest.raises(ValueError, match=f"seeds = {seeds} is invalid"):
        gather(ARMS, seeds=dict.fromkeys(ARMS, 3) | {next(iter(ARMS)): seeds}, record="x")


def test_trained_runs_are_added_to_a_file_once_and_read_from_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "store"))
    save = tmp_path / "results" / "e.jsonl"
    first = gather({"avg": TINY}, seeds=2, record="", save=str(save), where="inline")
    assert len(read_export(save)) == 2
    both = gather(ARMS, seeds=2, record="", save=str(save), where="inline")
    assert [r.key for r in both["digits", "avg"]] == [r.key for r in first["avg"]]
    text = save.read_text()
    assert len(read_export(save)) == 4 and json.loads(text.splitlines()[0])["experiment"] == "e"
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "another"))
    assert gather(ARMS, seeds=2, record="", save=str(save), where="inline") == both  # from the file, not again
    assert not (tmp_path / "another").exists()
    assert save.read_text() == text
    read = gather(ARMS, seeds=2, record=str(save))
    for name, records in both.items():
        assert [r.key for r in read[name]] == [r.key for r in records]
        accuracy = [r.result["final"]["accuracy"] for r in records]
        assert [r.result["final"]["accuracy"] for r in read[name]] == pytest.approx(accuracy, rel=1e-5)


def test_what_others_add_to_the_file_during_training_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "store"))
    save, others = tmp_path / "e.jsonl", ARMS["digits", "lae"]

    def run(config, checkpoint_dir):
        written(save, 2, {"lae": others})
        return {"status": "finished", "final": {"accuracy": config.seed / 10}}

    gather({"avg": ARMS["digits", "avg"]}, seeds=2, record="", save=str(save), where="inline", run=run)
    assert {len(records) for records in gather(ARMS, seeds=2, record=str(save)).values()} == {2}


def test_a_run_that_fails_is_an_error_that_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "store"))
    with pytest.raises(RuntimeError, match=r"2 of 2 runs failed.*batch = 64"):
        gather({"avg": TINY.replace(batch=64)}, seeds=2, record="", where="inline")


def test_other_configs_bring_a_run_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "store"))
    save, arms = str(tmp_path / "e.jsonl"), {place: FrozenConfig(place=place) for place in ("features", "scores")}

    def run(config, checkpoint_dir):
        return {"status": "done", "final": {"accuracy": config.seed / 10}}

    made = gather(arms, seeds=3, record="", save=save, where="inline", run=run)
    assert gather(arms, seeds=3, record="", save=save, where="inline", run=run) == made
    found = gather(arms, seeds=3, record=save)
    assert [r.result["final"]["accuracy"] for r in found["scores"]] == [0.0, 0.1, 0.2]
