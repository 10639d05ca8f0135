"""The verdict files: one schema, written whole, refused when wrong."""

import json

import numpy as np
import pytest
import sympy

from lae_core.evidence.claims import VERDICTS, Costs, Verdict, read_costs, read_verdicts, record_costs, record_verdict


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_VERDICTS", str(tmp_path / "verdicts"))
    return tmp_path / "verdicts"


def test_record_and_read_back(directory):
    written = record_verdict(
        "C13a",
        "contradicted",
        evidence="87.0 against 87.5.",
        scale="printed numbers",
        figure="fig-forest",
        numbers={"p": np.float64(0.25), "n": np.int64(30), "limit": sympy.Rational(1, 2), "gap": float("inf")},
    )
    assert read_verdicts(directory) == {
        "C13a": Verdict(**{**vars(written), "numbers": {**written.numbers, "gap": "inf"}})
    }
    stored = json.loads((directory / "C13a.json").read_text())
    assert stored["numbers"] == {"p": 0.25, "n": 30, "limit": 0.5, "gap": "inf"}
    assert [path.name for path in directory.iterdir()] == ["C13a.json"]


def test_a_second_verdict_replaces_the_first(directory):
    record_verdict("T1", "open", evidence="Not yet.", scale="symbolic")
    record_verdict("T1", "proved", evidence="Equal.", scale="symbolic")
    assert read_verdicts(directory)["T1"].verdict == "proved"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "lae"}, "claim='lae'"),
        ({"claim": "../C1"}, "claim="),
        ({"verdict": "true"}, "verdict='true'.*" + VERDICTS[0]),
        ({"scale": "gpu"}, "scale='gpu'.*printed numbers"),
        ({"evidence": " "}, "evidence=' '"),
        ({"verdict": "proved", "scale": "cpu"}, "proved.*symbolic"),
        ({"figure": ""}, "figure=''"),
    ],
)
def test_wrong_verdicts_name_the_field_and_what_would_do(directory, change, message):
    given = {"claim": "C1", "verdict": "open", "evidence": "None yet.", "scale": "cpu", "figure": None, **change}
    with pytest.raises(ValueError, match=message):
        record_verdict(given.pop("claim"), given.pop("verdict"), **given)
    assert not directory.exists()


def test_numbers_must_be_plain():
    with pytest.raises(TypeError, match="numbers\\['p'\\]"):
        record_verdict("C1", "open", evidence="None.", scale="cpu", numbers={"p": [1, 2]})


def test_a_file_with_other_keys_is_refused_by_name(directory):
    record_verdict("C1", "open", evidence="None yet.", scale="cpu")
    (directory / "C2.json").write_text('{"claim": "C2"}')
    with pytest.raises(ValueError, match="C2.json"):
        read_verdicts(directory)


def test_a_renamed_file_is_refused(directory):
    record_verdict("C1", "open", evidence="None yet.", scale="cpu")
    (directory / "C1.json").rename(directory / "C3.json")
    with pytest.raises(ValueError, match="C3"):
        read_verdicts(directory)


def test_costs_lie_beside_the_verdicts(directory):
    assert read_costs(directory) is None
    record_costs({"E3": np.float64(12.5)}, card="some card")
    record_verdict("C1", "open", evidence="None yet.", scale="cpu")
    assert read_costs(directory) == Costs("some card", {"E3": 12.5})
    assert list(read_verdicts(directory)) == ["C1"]
