"""`lae bench operator` in small: what it measures and writes, not how fast it is."""

import json
import math

import pandas as pd
import pytest
import torch
from torch import nn

from lae_core import cli
from lae_core.bench import operator, traffic, windows
from lae_core.figures import speed


def test_it_measures_every_contender_and_writes_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(operator, "SHAPES", ((2, 8, 4, 4),))
    monkeypatch.setattr(operator, "keep_freed_memory", lambda: None)  # it would last for all tests that follow
    file = tmp_path / "bench.json"
    words = ["bench", "operator", "--eager", "--values", "normal", "--json", str(file), "--rounds"]
    assert cli.main([*words, "2", "--t", "1", "64"]) == 0
    assert "2x8x4x4" in capsys.readouterr().out
    report = json.loads(file.read_text())
    assert len(report["cases"]) == 2 * 2 * 2 * 2  # temperatures, dtypes, layouts, fixed and trained
    for case in report["cases"]:
        assert set(case["both"]) == {"mean", "lae", *operator.PEERS}
        assert all(0 < seconds < math.inf for kind in ("forward", "both") for seconds in case[kind].values())
        assert case["kept"]["lae"] <= 4 * (3 * 2 * 8 + 1), "three numbers per row, and t"
        assert case["values"] == "normal"
    assert cli.main([*words, "1", "--t", "1"]) == 0
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


def test_aims_are_geometric_means_on_one_thread():
    keys = {"dtype": "float32", "t": 4.0, "threads": 1, "shape": "64×512×8×8"}
    found = pd.DataFrame(
        [
            {**keys, "training": 2.0, "inference": 3.0},
            {**keys, "training": 8.0, "inference": 3.0},
            {**keys, "training": 0.5, "inference": 0.9, "shape": "2×16×4×4"},
            {**keys, "training": 0.1, "inference": 0.1, "threads": 2},
            {**keys, "training": 1.0, "inference": math.nan, "dtype": "bfloat16"},
        ]
    )
    table = speed.against_aims(found).set_index(["dtype", "what", "inputs"])
    assert table.loc[("float32", "training", "usual"), ["cases", "geometric mean", "least"]].tolist() == [
        2,
        pytest.approx(4.0),
        2.0,
    ]
    assert table.loc[("float32", "training", "tiny"), "geometric mean"] == pytest.approx(0.5)
    assert ("bfloat16", "inference", "usual") not in table.index and len(table) == 5


def test_traffic_is_counted_in_reads_of_the_input():
    assert traffic.traffic(lambda z, t: z.mean((2, 3)), torch.float32, False)[0] == pytest.approx(2, abs=0.1)
    twice, _ = traffic.traffic(lambda z, t: (z * t).mean((2, 3)), torch.float32, False)
    assert twice > 5
    table = traffic.traffic_table().set_index(["form", "dtype", "t"])
    assert len(table) == 10 and (table["reads"] >= 2).all()


def test_help_is_enough_to_go_on(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "operator", "--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in ("--threads", "--t ", "--eager", "--json", "--resnet50", "--values"))


def test_windows_are_measured_against_pools_that_compute_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(windows, "SHAPE", (2, 4, 9, 10))
    monkeypatch.setattr(windows, "keep_freed_memory", lambda: None)
    file = tmp_path / "bench.json"
    assert cli.main(["bench", "windows", "--rounds", "1", "--json", str(file)]) == 0
    assert "kernel 3, stride 2, padding 1, forward + backward: avg_pool2d 1.0" in capsys.readouterr().out
    cases = json.loads(file.read_text())["cases"]
    assert [(case["kernel"], case["stride"], case["padding"]) for case in cases] == [*windows.WINDOWS]
    assert all(0 < seconds < 10 for case in cases for kind in ("forward", "both") for seconds in case[kind].values())
    z = torch.randn(2, 4, 9, 10)
    for window in windows.WINDOWS:
        mean, ours, unfold = (pool(z) for pool in windows.contenders(*window).values())
        assert mean.shape == ours.shape
        torch.testing.assert_close(unfold, ours)
