"""What became of trained temperatures: read off records, decided by the rules, drawn."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from lae_core.evidence import outcomes, temperature_figures, temperature_rules
from lae_core.evidence.compare import compare
from lae_core.runs.records import Record

matplotlib.use("agg")
STEPS = [0.9, 1.1, 1.0, 1.05, 0.95]


def run(pool: str, final: list[float | None], means: list[float | None]) -> Record:
    rows = [{"epoch": k + 1, "temperatures": {"global_pool": {"mean": m}}} for k, m in enumerate(means)]
    return Record("k", {"pool": pool}, {"pools": {"global_pool": {"temperature": final}}, "epochs": rows})


def moves(change: float):
    return compare({"t": (np.array(STEPS) * change, [0.0] * 5)})["t"]


UP, DOWN, STILL = moves(1), moves(-1), compare({"t": ([-1, 1, 0.5, -0.4, 0], [0.0] * 5)})["t"]


def test_doublings_are_the_mean_over_channels():
    channel = run("lae(t0=4, train=channel)", [2.0, 16.0, 8.0], [4.0])
    assert outcomes.doublings([channel]) == pytest.approx([2 / 3])
    assert outcomes.doublings([run("lae(train=one)", [2.0], [2.0])]) == [1.0]


def test_a_diverged_run_did_not_move():
    gone = run("lae(t0=4, train=one)", [None], [8.0, None])
    assert outcomes.doublings([gone]) == [0.0]
    epochs, course = outcomes.temperature_course([gone, run("lae(t0=4, train=one)", [16.0], [4.0, 8.0, 16.0])])
    assert epochs == [0, 1, 2, 3]
    assert course.tolist() == [[0, 1, 1, 1], [0, 0, 1, 2]]


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([UP, UP, STILL, STILL], "reproduced"),
        ([UP, STILL, STILL, STILL], "partly"),
        ([UP, UP, UP, DOWN], "partly"),
        ([DOWN, DOWN, STILL, STILL], "contradicted"),
        ([DOWN, STILL, STILL, STILL], "open"),
    ],
)
def test_one_temperature_rises(found, verdict):
    assert temperature_rules.rises(dict(zip([1, 4, 16, 64], found, strict=True))) == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([UP, UP, DOWN, DOWN], "reproduced"),
        ([UP, UP, UP, UP], "partly"),
        ([DOWN, DOWN, UP, UP], "contradicted"),
        ([STILL, STILL, STILL, STILL], "open"),
    ],
)
def test_one_a_channel_turns_at_four(found, verdict):
    assert temperature_rules.turns(dict(zip([1, 4, 8, 64], found, strict=True))) == verdict


@pytest.mark.parametrize(("slope", "verdict"), [(1, "reproduced"), (0.3, "partly"), (0, "contradicted")])
def test_memory_is_a_slope(slope, verdict):
    noise = np.array(STEPS) * 0.01
    interval, decided = temperature_rules.memory({t: slope * np.log2(t) + noise for t in (1, 4, 16, 64)})
    assert interval.centre == pytest.approx(slope, abs=1e-9)
    assert decided == verdict


def test_memory_that_runs_disagree_on_is_open():
    finals = {t: np.array([0, 1, 0.2, 0.9, 0.5]) * np.log2(t) for t in (1, 4, 16)}
    assert temperature_rules.memory(finals)[1] == "open"


def test_a_violin_where_a_run_has_many_and_a_dot_a_run():
    draw = np.random.default_rng(0)
    many = {t: [t * 2 ** draw.normal(0, 1, 8) for _ in range(3)] for t in (1.0, 4.0)}
    one = {t: [np.array([t * 2.0])] * 2 + [np.array([np.nan])] for t in (1.0, 4.0)}
    figure = temperature_figures.change(
        {"one": ("lae(train=one)", one), "many": ("lae(train=channel)", many)}, {"one": {1.0: one[1.0]}}, "faster"
    )
    above, _, below, right = figure.axes
    assert [len(axes.collections) for axes in (above, right)] == [0, 2]
    dots = [line for line in below.lines if line.get_linestyle() == "None"]
    assert [line.get_ydata().tolist() for line in dots] == [[1, 1]] * 3
    assert above.get_legend().get_texts()[0].get_text() == "faster"
    plt.close(figure)


def test_courses_have_a_line_a_start():
    panel = {t: ([0, 1, 2], np.zeros((3, 3))) for t in (1.0, 4.0)}
    figure = temperature_figures.courses({"one": panel, "many": panel})
    assert [text.get_text() for text in figure.axes[-1].get_legend().get_texts()] == ["t₀ = 1", "t₀ = 4"]
    plt.close(figure)
