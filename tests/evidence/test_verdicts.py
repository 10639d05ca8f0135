"""The verdict files: one schema, written whole, refused when wrong."""

import json

import numpy as np
import pytest
import sympy

from lae_core.evidence.compare import Comparison, Comparisons, Contrast
from lae_core.evidence.decision import VERDICTS, Decision
from lae_core.evidence.gate import Regime
from lae_core.evidence.stats import Interval
from lae_core.evidence.verdicts import (
    Costs,
    read_costs,
    read_verdicts,
    record,
    record_costs,
    record_verdict,
)


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_VERDICTS", str(tmp_path / "verdicts"))
    return tmp_path / "verdicts"


def test_record_and_read_back(directory):
    written = record_verdict(
        "C13a",
        "contradicted",
        evidence="87.0 against 87.5.",
        scale="printed",
        figure="fig-forest",
        numbers={"p": np.float64(0.25), "n": np.int64(30), "limit": sympy.Rational(1, 2), "gap": float("inf")},
    )
    assert read_verdicts(directory) == {"C13a": written}
    stored = json.loads((directory / "C13a.json").read_text())
    assert stored["numbers"] == {"p": 0.25, "n": 30, "limit": 0.5, "gap": "inf"}
    assert [path.name for path in directory.iterdir()] == ["C13a.json"]


def test_a_decision_is_recorded_with_all_that_it_rests_on(directory):
    key = Contrast("CIFAR-10", "lae", "avg")
    found = Comparison(str(key), 10, 0.5, Interval(0.5, 0.3, 0.7), 0.001, 0.002, "higher")
    regime = Regime("CIFAR-10", "WRN-8", "all pictures", "average pooling", 91.0, 10, 40.8, 85.0)
    decision = Decision(
        "E3", "partly", "The rule.", "cpu", 10, (regime,), "nothing on cifar100", Comparisons({key: found})
    )
    record(decision, figure="fig-x")
    (verdict,) = read_verdicts(directory).values()
    assert (verdict.verdict, verdict.scale, verdict.n, verdict.rule) == ("partly", "cpu", 10, "The rule.")
    assert verdict.because == "nothing on cifar100" and verdict.numbers == {str(key): 0.5}
    assert "91.0 %" in verdict.regime[0] and "40.8 %" in verdict.regime[0]
    assert verdict.evidence == "CIFAR-10: lae against avg: +0.50 (+0.30 to +0.70, p = 0.002): higher."


def test_a_decision_without_comparisons_says_why(directory):
    assert record(Decision("E3", "open", "The rule.", "cpu", because="not run")).evidence == "Not run."


def test_a_second_verdict_replaces_the_first(directory):
    record_verdict("T1", "open", evidence="Not yet.", scale="symbolic")
    record_verdict("T1", "proved", evidence="Equal.", scale="symbolic")
    assert read_verdicts(directory)["T1"].verdict == "proved"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"claim": "lae"}, "claim\n.*input_value='lae'"),
        ({"claim": "../C1"}, "claim\n"),
        ({"verdict": "true"}, f"verdict\n.*{VERDICTS[0]}.*input_value='true'"),
        ({"scale": "gpu"}, "scale = 'gpu'.*symbolic, printed"),
        ({"evidence": " "}, "evidence\n.*at least 1 character.*input_value=' '"),
        ({"verdict": "proved", "scale": "printed"}, "proved.*symbolic"),
        ({"verdict": "reproduced", "scale": "printed"}, "consistent with print"),
        ({"scale": "cpu"}, "the scale of runs follows from them"),
        ({"scale": "paper"}, "the scale of runs follows from them"),
        ({"figure": ""}, "figure\n.*input_value=''"),
    ],
)
def test_wrong_verdicts_name_the_field_and_what_would_do(directory, change, message):
    given = {"claim": "C1", "verdict": "open", "evidence": "None yet.", "scale": "printed", "figure": None, **change}
    with pytest.raises(ValueError, match=message):
        record_verdict(given.pop("claim"), given.pop("verdict"), **given)
    assert not directory.exists()


def test_numbers_must_be_plain():
    with pytest.raises(ValueError, match=r"numbers.p.*\n.*input_value=\[1, 2\]"):
        record_verdict("C1", "open", evidence="None.", scale="symbolic", numbers={"p": [1, 2]})


def test_a_file_with_other_keys_is_refused_by_name(directory):
    record_verdict("C1", "open", evidence="None yet.", scale="symbolic")
    (directory / "C2.json").write_text('{"claim": "C2"}')
    with pytest.raises(ValueError, match=r"C2.json"):
        read_verdicts(directory)


def test_a_renamed_file_is_refused(directory):
    record_verdict("C1", "open", evidence="None yet.", scale="symbolic")
    (directory / "C1.json").rename(directory / "C3.json")
    with pytest.raises(ValueError, match="C3"):
        read_verdicts(directory)


def test_costs_lie_beside_the_verdicts(directory):
    assert read_costs(directory) is None
    record_costs({"E3": np.float64(12.5)}, card="some card")
    record_verdict("C1", "open", evidence="None yet.", scale="symbolic")
    assert read_costs(directory) == Costs("some card", {"E3": 12.5})
    assert list(read_verdicts(directory)) == ["C1"]
