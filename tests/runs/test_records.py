"""The store: what goes in comes out, and what is damaged or foreign is named and passed over."""

import json
import math
import multiprocessing
import warnings

import pytest
from toy_runs import Toy

from lae_core.runs.files import StoreError
from lae_core.runs.records import Record, RunStore, StoreWarning

RESULT = {"error": 0.25, "curve": [1.0, 0.5], "diverged": False, "sizes": {"32": 0.1}, "loss": 1e-30}


def test_a_record_comes_back_as_it_went_in(store):
    config = Toy(seed=3)
    assert config not in store and store.get(config) is None
    store.put(config, RESULT, {"seconds": 1.5})
    again = RunStore(store.root)
    assert again.get(config) == Record(config.key(), config.to_dict(), RESULT, {"seconds": 1.5})
    assert config in again and config.key() in again and len(again) == 1
    assert [record.key for record in again] == [config.key()]
    assert Toy.from_dict(again.get(config).config) == config


def test_a_record_whose_config_gives_another_key_is_passed_over(store):
    store.put_record(Record(Toy(seed=1).key(), Toy(seed=2).to_dict(), RESULT))
    with pytest.warns(StoreWarning, match=f"is invalid; its config gives {Toy(seed=2).key()!r}"):
        assert store.get(Toy(seed=1)) is None


def test_non_finite_numbers_survive(store):
    store.put(Toy(), {"loss": math.nan, "top": math.inf})
    result = store.get(Toy()).result
    assert math.isnan(result["loss"]) and result["top"] == math.inf


def test_putting_again_replaces_and_clears_the_failure_and_the_checkpoint(store):
    config = Toy()
    store.put_failure(config, "ValueError: no", "trace")
    assert store.failure(config.key())["error"] == "ValueError: no"
    store.checkpoint_dir(config.key()).mkdir()
    store.put(config, {"error": 1})
    store.put(config, {"error": 2})
    assert store.get(config).result == {"error": 2}
    assert store.failure(config.key()) is None
    assert sorted(path.name for path in store.directory(config.key()).iterdir()) == ["record.json"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text[: len(text) // 2], "passed over"),
        (lambda text: "", "passed over"),
        (lambda text: text.replace("0.25", "0.15"), "checksum"),
        (lambda text: json.dumps({"format": 99}), "format = 99 is invalid"),
        (lambda text: "[1, 2]", "not a record"),
        (lambda text: "\udcff", "passed over"),
    ],
)
def test_a_damaged_record_is_reported_not_read_and_kept_when_replaced(store, damage, words):
    store.put(Toy(), RESULT)
    path = store.directory(Toy().key()) / "record.json"
    path.write_bytes(damage(path.read_text()).encode("utf-8", "surrogateescape"))
    damaged = path.read_bytes()
    fresh = RunStore(store.root)
    with pytest.warns(StoreWarning, match=words):
        assert fresh.get(Toy()) is None
    assert path in fresh.problems
    fresh.put(Toy(), RESULT)
    assert fresh.get(Toy()).result == RESULT and fresh.problems == {}
    assert (path.parent / "record.damaged").read_bytes() == damaged


def test_a_record_in_the_wrong_place_and_foreign_files_are_reported(store):
    store.put(Toy(seed=1), RESULT)
    wrong = store.directory(Toy(seed=2).key())
    wrong.mkdir()
    (wrong / "record.json").write_text((store.directory(Toy(seed=1).key()) / "record.json").read_text())
    (store.root / "notes.txt").write_text("mine")
    with pytest.warns(StoreWarning) as seen:
        assert len(store) == 1
    text = " ".join(str(warning.message) for warning in seen)
    assert "notes.txt" in text and f"the record of {Toy(seed=1).key()!r}" in text
    with warnings.catch_warnings():  # named once, not at every look
        warnings.simplefilter("error")
        assert len(store) == 1
    assert (store.root / "notes.txt").exists()


def test_only_an_empty_or_own_directory_becomes_a_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match="neither empty nor a run store"):
        RunStore(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "store.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="format 99"):
        RunStore(tmp_path / "other")


def test_a_result_that_json_cannot_hold_is_refused_by_name(store):
    with pytest.raises(TypeError, match="plain numbers"):
        store.put(Toy(), {"weights": object()})
    assert Toy() not in store


def test_select_counts_what_is_missing(store):
    store.put(Toy(seed=1), RESULT)
    assert [record.config["seed"] for record in store.select([Toy(seed=1)])] == [1]
    with pytest.raises(KeyError, match="1 of 2 runs are not in"):
        store.select([Toy(seed=1), Toy(seed=2)])


def test_keys_cannot_leave_the_store(store):
    with pytest.raises(ValueError, match="hexadecimal"):
        store.get("../../etc")


def test_a_record_of_another_schema_is_readable(store):
    store.put_record(Record("0123456789abcdef", {"number": 3}, {"error": 0.5}))
    assert [record.config for record in store] == [{"number": 3}]


def test_run_config_gains_a_field_without_renaming_runs():
    """What the store relies on: a key leaves out fields at their default."""
    from lae_core.training.config import RunConfig

    assert RunConfig.from_dict({"seed": 3}).key() == RunConfig(seed=3).key()
    assert RunConfig(seed=3).key() != RunConfig(seed=4).key()


def _write_many(root, seeds):
    store = RunStore(root)
    for seed in seeds:
        store.put(Toy(seed=seed), {"error": seed, "curve": list(range(200))})


def test_many_writers_at_once_corrupt_nothing(store):
    spawn = multiprocessing.get_context("fork")
    seeds = [range(0, 30), range(10, 40), range(5, 35)]
    writers = [spawn.Process(target=_write_many, args=(store.root, part)) for part in seeds]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert all(record.result["error"] == record.config["seed"] for record in store)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(store) == 40 and store.problems == {}
    assert not [path for path in store.root.rglob(".*") if path.name != ".probe"]  # no leftovers
