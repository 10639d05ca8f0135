"""Records to data frames and to one text file, and back."""

import math
from pathlib import Path

import numpy as np
import pytest
from toy_runs import Toy

from lae_core.runs.export import export, read_export, recorded, rounded, to_frame
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig
from lae_core.training.frozen import FrozenConfig


def records():
    made = []
    for seed in range(3):
        result = {"error": 0.1234567890123 + seed, "curve": [1 / 3, 2.0], "diverged": seed == 2, "note": None}
        result |= {"final": {"valid": 0.5, "by": {"zoom": 1}}, "pools": {"block.0": [1.0]}, "sizes": {}}
        origin = {"commit": "abc", "seconds": 1.25 + seed, "versions": {"torch": "2"}}
        made.append(Record(Toy(seed=seed).key(), Toy(seed=seed).to_dict(), result, origin))
    del made[0].config["steps"]  # a record of an older schema
    made[1].result["late"] = 7
    return made


def test_a_frame_has_a_column_per_field_and_a_gap_where_a_record_has_none():
    frame = to_frame(records())
    assert frame["key"].tolist() == [record.key for record in records()]
    assert frame["config.seed"].dtype == np.int64 and frame["result.error"].dtype == np.float64
    assert frame["result.diverged"].dtype == bool and frame["provenance.versions.torch"].tolist() == ["2"] * 3
    assert frame["config.steps"].isna().tolist() == [True, False, False]
    assert frame["result.final.valid"].tolist() == [0.5] * 3 and frame["result.curve"][0] == [1 / 3, 2.0]
    assert to_frame([]).empty


def test_export_is_small_sorted_and_comes_back(tmp_path):
    path = tmp_path / "results" / "toy.jsonl"
    assert export(records(), path, experiment="toy") == 3
    lines = path.read_text().splitlines()
    assert len(lines) == 4 and '"experiment":"toy"' in lines[0]
    assert '"commit":"abc"' in lines[0] and not any('"commit"' in line for line in lines[1:])
    assert "0.123457" in path.read_text() and "0.1234567890123" not in path.read_text()
    back = {record.key: record for record in read_export(path, schema=Toy)}
    for record in records():
        assert back[record.key].config == record.config
        assert back[record.key].provenance == record.provenance
        assert back[record.key].result == rounded(record.result)


def test_export_again_gives_the_same_bytes_whatever_the_order(tmp_path):
    first, second, third = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "c.jsonl"
    export(records(), first, experiment="toy")
    export(records()[::-1] + records(), second, experiment="toy")
    export(read_export(first, schema=Toy), third, experiment="toy")
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()


def test_adding_a_run_adds_a_line(tmp_path):
    export(records()[1:], tmp_path / "a.jsonl", experiment="toy")
    more = Record(Toy(seed=9).key(), Toy(seed=9).to_dict(), {"error": 1.0}, records()[1].provenance | {"seconds": 9.0})
    export([*records()[1:], more], tmp_path / "b.jsonl", experiment="toy")
    before, after = ((tmp_path / name).read_text().splitlines()[1:] for name in ("a.jsonl", "b.jsonl"))
    assert [line for line in after if line not in before] == after[-1:] and len(after) == len(before) + 1


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda lines: [lines[0], lines[1].replace("0.123457", "0.0"), *lines[2:]], "line 2: checksum"),
        (lambda lines: lines[:-1], "2 records where the first line says 3"),
        (lambda lines: [*lines[:-1], lines[-1][:40]], "line 4: not a record"),
        (lambda lines: lines[1:], "first line"),
        (lambda lines: [], "first line"),
        (lambda lines: [lines[0].replace('"format":2', '"format":7'), *lines[1:]], "format 7"),
    ],
)
def test_a_file_that_was_edited_or_cut_is_refused(tmp_path, edit, words):
    path = tmp_path / "toy.jsonl"
    export(records(), path, experiment="toy")
    path.write_text("\n".join(edit(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=words):
        read_export(path, schema=Toy)


def test_no_byte_of_a_file_can_be_changed_removed_or_added(tmp_path):
    path = tmp_path / "toy.jsonl"
    export(records(), path, experiment="toy")
    content = path.read_bytes()
    # every byte would take long: each eleventh, and those that end and begin a line
    ends = [k for k, byte in enumerate(content) if byte == ord("\n")]
    for k in sorted({*range(0, len(content), 11), *ends, *(k + 1 for k in ends[:-1])}):
        for changed in (
            content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :],
            content[:k] + content[k + 1 :],
            content[:k] + b" " + content[k:],
        ):
            path.write_bytes(changed)
            with pytest.raises(ValueError, match=r"toy.jsonl"):
                read_export(path, schema=Toy)
    path.write_bytes(content + b"\n")
    with pytest.raises(ValueError, match=r"toy.jsonl"):
        read_export(path, schema=Toy)


def test_what_all_runs_share_is_under_the_checksum(tmp_path):
    path = tmp_path / "toy.jsonl"
    export(records(), path, experiment="toy")
    path.write_text(path.read_text().replace('"commit":"abc"', '"commit":"NVIDIA H100"'))
    with pytest.raises(ValueError, match="checksum in its first line"):
        read_export(path, schema=Toy)


RESULTS = sorted((Path(__file__).resolve().parents[2] / "book" / "results").rglob("*.jsonl"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_committed_records_are_whole(path):
    assert read_export(path, schema=FrozenConfig if path.parent.name == "frozen" else RunConfig)


def test_a_key_that_its_config_does_not_give_is_refused(tmp_path):
    path = tmp_path / "toy.jsonl"
    one = records()[0]
    export([Record(Toy(seed=5).key(), one.config, one.result)], path, experiment="toy")
    with pytest.raises(ValueError, match=f"its config gives {Toy(seed=0).key()!r}"):
        read_export(path, schema=Toy)


def test_records_read_back_seed_a_store(store, tmp_path):
    export(records(), tmp_path / "toy.jsonl", experiment="toy")
    for record in read_export(tmp_path / "toy.jsonl", schema=Toy):
        store.put_record(record)
    assert Toy(seed=1) in store


def test_what_is_not_recorded_is_an_error_that_names_the_sweep(tmp_path):
    path = tmp_path / "toy.jsonl"
    export(records(), path, experiment="toy")
    assert [record.config["seed"] for record in recorded([Toy(seed=2), Toy(seed=0)], path, sweep="x")] == [2, 0]
    with pytest.raises(
        LookupError, match=f"1 of 2 runs are not recorded, the first {Toy(seed=9).key()}.*lae sweep toy"
    ):
        recorded([Toy(seed=1), Toy(seed=9)], path, sweep="lae sweep toy.yml")
    with pytest.raises(LookupError, match="1 of 1 runs"):
        recorded([Toy()], tmp_path / "none.jsonl", sweep="x")


def test_rounding_leaves_other_values_alone():
    assert rounded([1, True, "1.23456789", None, math.inf]) == [1, True, "1.23456789", None, math.inf]
    assert math.isnan(rounded(math.nan))
    assert rounded({"a": (1.00000049, 123456789.0)}) == {"a": [1.0, 123457000.0]}
