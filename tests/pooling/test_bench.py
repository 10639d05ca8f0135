"""`lae bench operator` in small: what it measures and writes, not how fast it is."""

import json
import math

import pandas as pd
import pytest
import torch
from torch import nn

from lae_core import cli
from lae_core.bench import operator
from lae_core.evidence import speed


def test_it_measures_every_contender_and_writes_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(operator, "SHAPES", ((2, 8, 4, 4),))
    monkeypatch.setattr(operator, "_keep_freed_memory", lambda: None)  # it would last for all tests that follow
    file = tmp_path / "bench.json"
    assert cli.main(["bench", "operator", "--eager", "--t", "1", "64", "--rounds", "2", "--json", str(file)]) == 0
    assert "2x8x4x4" in capsys.readouterr().out
    report = json.loads(file.read_text())
    assert len(report["cases"]) == 2 * 2 * 2 * 2  # temperatures, dtypes, layouts, fixed and trained
    for case in report["cases"]:
        assert set(case["both"]) == {"mean", "lae", *operator.PEERS}
        assert all(0 < seconds < math.inf for kind in ("forward", "both") for seconds in case[kind].values())
        size = 2 * 8 * 4 * 4 * (4 if case["dtype"] == "float32" else 2)
        assert size <= case["kept"]["lae"] < 2 * size, "exp(u) is kept, and little else"
        assert case["values"] == "normal"
    assert cli.main(["bench", "operator", "--eager", "--t", "1", "--rounds", "1", "--json", str(file)]) == 0
    assert len(json.loads(file.read_text())["cases"]) == len(report["cases"]), (
        "measured again, a case takes its own place"
    )
    frame, rest = speed.load(file)
    assert (frame[frame["pool"] == "mean"]["both"] == 1).all() and rest["provenance"]["cpu"]
    assert len(speed.speedups(frame)) == len(report["cases"])
    assert len(speed.ratio_figure(frame).axes) == 2


def test_a_pool_is_timed_within_a_network():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    seconds = operator._seconds_within(network[1])
    for steps in (1, 2):
        network(torch.randn(2, 3, 8, 8)).sum().backward()
        assert len(seconds) == 2 * steps, "forward and backward"
    assert all(0 < s < 60 for s in seconds)


def test_features_are_rectified_and_some_maps_are_zero():
    z = operator.Case((8, 64, 7, 7), "contiguous", "float32", "fixed", 1.0, 1, "features").input()
    empty = (z == 0).all(-1).all(-1).float().mean()
    assert (z >= 0).all() and 0.3 < empty < 0.5


def test_aims_are_counted_case_by_case():
    keys = {"dtype": "float32", "t": 4.0, "threads": 2}
    found = pd.DataFrame(
        [
            {**keys, "temperature": "fixed", "eager": 1.3, "compiled": 2.4},
            {**keys, "temperature": "fixed", "eager": 1.2, "compiled": 3.0},
            {**keys, "temperature": "trained", "eager": 1.1, "compiled": math.nan},
            {**keys, "temperature": "fixed", "eager": 0.1, "compiled": 0.1, "dtype": "bfloat16"},
        ]
    )
    table = speed.against_aims(found).set_index(["mode", "temperature"])
    assert list(table.index) == [("eager", "fixed"), ("eager", "trained"), ("compiled", "fixed")]
    assert table.loc[("eager", "fixed"), ["least", "most", "reached"]].tolist() == [1.2, 1.3, "1 of 2"]
    assert table["reached"].tolist() == ["1 of 2", "1 of 1", "1 of 2"] and table["t"].tolist() == ["4"] * 3
    assert len(speed.against_aims(found.drop(columns="compiled"))) == 2


def test_help_is_enough_to_go_on(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "operator", "--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in ("--threads", "--t ", "--eager", "--json", "--resnet50", "--values"))
