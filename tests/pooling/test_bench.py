"""`lae bench operator` in small: what it measures and writes, not how fast it is."""

import json
import math

import pytest

from lae_core import cli
from lae_core.bench import operator
from lae_core.evidence import speed


def test_it_measures_every_contender_and_writes_json(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(operator, "SHAPES", ((2, 8, 4, 4),))
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
    frame, rest = speed.load(file)
    assert (frame[frame["pool"] == "mean"]["both"] == 1).all() and rest["provenance"]["cpu"]
    assert len(speed.speedups(frame)) == len(report["cases"])
    assert len(speed.ratio_figure(frame).axes) == 2


def test_help_is_enough_to_go_on(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "operator", "--help"])
    text = capsys.readouterr().out
    assert all(option in text for option in ("--threads", "--t ", "--eager", "--json", "--resnet50"))
