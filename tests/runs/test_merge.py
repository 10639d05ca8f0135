"""Records from elsewhere are taken in whole or not at all, and what is wrong is told with file and line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lae_core import cli
from lae_core.runs.export import export, read_export
from lae_core.runs.merge import RecordProblem, add
from lae_core.runs.records import Record, RunStore
from lae_core.training.config import RunConfig


def made(n: int = 2, accuracy: float = 0.9, device: str = "NVIDIA A100", **changes) -> list[Record]:
    configs = [RunConfig(**changes, seed=seed) for seed in range(n)]
    origin = {"device": device, "cpu": "a CPU", "commit": "abc"}
    return [Record(c.key(), c.to_dict(), {"final": {"accuracy": accuracy + 1e-3 * c.seed}}, origin) for c in configs]


def stored(place: Path, records: list[Record]) -> Path:
    store = RunStore(place)
    for record in records:
        store.put_record(record)
    return place


@pytest.fixture
def target(tmp_path) -> Path:
    return tmp_path / "results" / "gpu.jsonl"


def test_a_store_an_export_and_single_records_are_merged(tmp_path, target):
    store = stored(tmp_path / "runs", made())
    assert add([store], target) == (2, 2)
    export(made(pool="lae"), tmp_path / "more.jsonl", experiment="more")
    assert add([tmp_path / "more.jsonl"], target) == (2, 4)
    (one,) = made(1, pool="max")
    single = stored(tmp_path / "single", [one]) / one.key / "record.json"
    assert add([single, store], target) == (1, 5)
    assert {record.key for record in read_export(target)} == {r.key for r in (*made(), *made(pool="lae"), one)}
    before = target.read_bytes()
    assert add([store], target) == (0, 5) and target.read_bytes() == before


def refused(files: list[Path], target: Path) -> str:
    before = target.read_bytes() if target.exists() else None
    with pytest.raises(RecordProblem) as error:
        add(files, target)
    assert (target.read_bytes() if target.exists() else None) == before
    return str(error.value)


def test_an_edited_record_is_named_with_its_file(tmp_path, target):
    store = stored(tmp_path / "runs", made())
    path = store / made()[0].key / "record.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"result": {"final": {"accuracy": 0.99}}}))
    assert refused([store], target) == f"{path}: checksum does not match its content"
    renamed = Record("0" * 16, body["config"], body["result"], body["provenance"])
    path.write_text(json.dumps(renamed.to_json()))
    assert "key = '0000000000000000' is invalid; its config gives" in refused([store], target)
    path.write_text('{\n "key": 1,\n oops')
    assert f"{path}, line 3: not JSON" in refused([store], target)


def test_every_bad_record_of_a_store_is_named(tmp_path, target):
    store = stored(tmp_path / "runs", made(3))
    bad = [store / record.key / "record.json" for record in made(3)[:2]]
    for path in bad:
        path.write_text("{}")
    said = refused([tmp_path / "nothing.json", store], target)
    assert all(str(path) in said for path in (*bad, tmp_path / "nothing.json")) and len(said.splitlines()) == 3


def test_an_edited_line_of_an_export_is_named(tmp_path, target):
    path = tmp_path / "more.jsonl"
    export(made(), path, experiment="more")
    path.write_text(path.read_text().replace('"accuracy":0.901', '"accuracy":0.951'))
    assert refused([path], target) == f"{path}, line 3: checksum does not match, the line was edited by hand"


def test_one_run_with_two_results_is_refused_wherever_the_other_is(tmp_path, target):
    first, second = (stored(tmp_path / name, made(accuracy=a)) for name, a in (("a", 0.9), ("b", 0.8)))
    said = refused([first, second], target)
    assert said.count("has another result than in") == 2 and str(second) in said
    add([first], target)
    assert f"another result than in {target}, line 2" in refused([second], target)
    beside = target.with_name("temperatures.jsonl")
    shutil.move(target, beside)
    assert f"another result than in {beside}, line 2" in refused([second], target)
    # the same run on another kind of machine, in another file, is a repetition
    assert add([stored(tmp_path / "c", made(accuracy=0.8, device="NVIDIA H100"))], target) == (2, 2)


def test_runs_that_are_compared_come_from_one_kind_of_hardware_seed_by_seed(tmp_path, target):
    add([stored(tmp_path / "a", made())], target)
    other = stored(tmp_path / "b", made(pool="lae", lr=0.1, device="NVIDIA H100"))
    assert "made on NVIDIA H100, but" in refused([other], target) and "on NVIDIA A100" in refused([other], target)
    assert add([stored(tmp_path / "c", made(pool="lae", lr=0.1))], target) == (2, 4)
    # another seed may come from another machine, for runs are compared seed by seed
    later = [r for pool in ("avg", "lae") for r in made(3, pool=pool, device="NVIDIA H100") if r.config["seed"] == 2]
    assert add([stored(tmp_path / "e", later)], target) == (2, 6)
    # another data set is another comparison
    assert add([stored(tmp_path / "d", made(data="cifar100", device="NVIDIA H100"))], target) == (2, 8)


def test_the_command_tells_and_returns_a_code(tmp_path, target, capsys):
    store = stored(tmp_path / "runs", made())
    assert cli.main(["records", "add", str(store), "--into", str(target)]) == 0
    assert "2 new records" in capsys.readouterr().out
    assert cli.main(["records", "add", str(tmp_path / "none.json"), "--into", str(target)]) == 1
    said = capsys.readouterr().err
    assert "none.json: cannot be read (No such file or directory)" in said and "nothing was written" in said
    assert cli.main(["records", "add", str(store), "--into", str(tmp_path / "x.csv")]) == 2
    assert "expected a file name that ends in .jsonl" in capsys.readouterr().err
