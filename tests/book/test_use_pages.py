"""The generated pieces of *Use it*: their numbers are the record's, and what was not measured is not made up."""

from __future__ import annotations

import json

import pytest

from lae_core.book import use_pages

SHAPES = [[2, 4, 8, 8], [2, 4, 16, 16]]
OTHERS = ({"threads": 2}, {"t": 32.0}, {"dtype": "bfloat16"}, {"values": "features"})


def case(shape: list[int], temperature: str, lae: float, **changes) -> dict:
    size = 4 * shape[0] * shape[1] * shape[2] * shape[3]
    seconds = {"mean": 1.0, "lae": lae, "lae, compiled": lae / 2, "logsumexp": 9.0}
    facts = {"shape": shape, "layout": "contiguous", "dtype": "float32", "temperature": temperature, "t": 1.0}
    times = {"forward": seconds, "both": seconds, "kept": {"mean": 0, "lae": size, "logsumexp": 2 * size}}
    return facts | {"threads": 1, "values": "normal"} | times | changes


@pytest.fixture
def recorded(tmp_path):
    cases = [case(SHAPES[0], "fixed", 2.0), case(SHAPES[1], "fixed", 3.04), case(SHAPES[0], "trained", 4.0)]
    # none of these belongs into the table
    cases += [case(SHAPES[0], "fixed", 77.0, **other) for other in OTHERS]
    report = {"cases": cases, "provenance": {"cpu": "A CPU", "versions": {"torch": "9.9"}}, "rounds": 3}

    def write(**more):
        file = tmp_path / "bench.json"
        file.write_text(json.dumps(report | more))
        return file

    return write


def test_costs_are_those_of_the_record(recorded):
    said = use_pages.cost(recorded())
    assert "| the mean | 1.0 | 1.0 | 0.0 |" in said
    assert "| `logavgexp` | 2.0 to 3.0 | 4.0 | 1.0 |" in said
    assert "| `logavgexp`, compiled | 1.0 to 1.5 | 2.0 | – |" in said
    assert "| timm's `LsePlus2d` | – | – | – |" in said
    assert "2×4×8×8, 2×4×16×16" in said and "one thread of A CPU, torch 9.9" in said
    assert "77" not in said and "whole network" not in said


@pytest.mark.parametrize(("ratio", "words"), [(1.026, "2.6 % longer than"), (0.99, "1.0 % less than")])
def test_the_whole_network_is_said_as_it_was_measured(recorded, ratio, words):
    assert words in use_pages.cost(recorded(resnet50={"batch": 8, "ratio": ratio}))


def test_a_record_without_the_cases_is_refused(recorded):
    with pytest.raises(ValueError, match="no case in float32 at t = 1"):
        use_pages.cost(recorded(cases=[case(SHAPES[0], "fixed", 2.0, t=4.0)]))


def test_models_are_counted_and_a_failure_stops_the_page():
    found = {
        "counts": {"swapped": 5},
        "without a global pool": ["vit_b_16", "alexnet", "vit_b_32"],
        "failed": {},
    }
    assert use_pages.swapped({"torchvision": found}) == (
        "- **torchvision**: 5 of 8 classification models. Not: alexnet, vit.\n"
    )
    found["failed"] = {"odd_net": "no gradient"}
    with pytest.raises(ValueError, match="timm: 1 failed to be swapped: odd_net"):
        use_pages.swapped({"timm": found})


def test_what_windows_cost_is_the_ratio_recorded():
    seconds = {"avg_pool2d": 2.0, "LogAvgExpPool2d": 5.0, "unfold": 9.0}
    case = {"kernel": 2, "stride": 2, "padding": 0, "shape": [2, 4, 8, 8], "both": seconds}
    said = use_pages.window_cost({"cases": [case], "provenance": {"cpu": "A CPU"}})
    assert "2.5 times as long with kernel 2 and stride 2" in said and "4.5 times)" in said
    assert "2×4×8×8, one thread of A CPU" in said
