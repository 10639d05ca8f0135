"""What became of trained temperatures: read off records, and drawn."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from lae_core.evidence import outcomes
from lae_core.figures import temperature
from lae_core.runs.records import Record

matplotlib.use("agg")


def run(pool: str, final: list[float | None], means: list[float | None]) -> Record:
    rows = [{"epoch": k + 1, "temperatures": {"global_pool": {"mean": m}}} for k, m in enumerate(means)]
    return Record("k", {"pool": pool}, {"pools": {"global_pool": {"temperature": final}}, "epochs": rows})


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


@pytest.mark.parametrize("slope", [1.0, 0.3, 0.0])
def test_memory_is_a_slope_run_by_run(slope):
    starts = [[run(f"lae(t0={t}, train=one)", [t**slope * 2**shift], []) for shift in (0, 1)] for t in (1, 4, 16)]
    assert outcomes.memory_slopes(starts) == pytest.approx([slope, slope])


def test_a_violin_where_a_run_has_many_and_a_dot_a_run():
    draw = np.random.default_rng(0)
    many = {t: [t * 2 ** draw.normal(0, 1, 8) for _ in range(3)] for t in (1.0, 4.0)}
    one = {t: [np.array([t * 2.0])] * 2 + [np.array([np.nan])] for t in (1.0, 4.0)}
    figure = temperature.change(
        {"one": ("lae(train=one)", one), "many": ("lae(train=channel)", many)}, {"one": {1.0: one[1.0]}}, "faster"
    )
    above, _, below, right = figure.axes
    assert [len(axes.collections) for axes in (above, right)] == [0, 2]
    dots = [line for line in below.lines if line.get_linestyle() == "None"]
    assert [line.get_ydata().tolist() for line in dots] == [[1, 1]] * 3
    assert above.get_legend().get_texts()[0].get_text() == "faster"
    plt.close(figure)


def test_a_faster_run_beyond_the_others_is_a_triangle_at_the_edge():
    usual = {t: [np.array([t * 2.0])] for t in (1.0, 4.0)}
    figure = temperature.change({"one": ("lae(train=one)", usual)}, {"one": {1.0: [np.array([2.0**80])]}}, "faster")
    above, below = figure.axes
    marks = [line.get_marker() for line in below.lines]
    assert marks.count("^") == 1
    assert above.get_ylim()[1] < 4 and below.get_ylim()[1] < 2
    plt.close(figure)


def test_courses_have_a_line_a_start():
    panel = {t: ([0, 1, 2], np.zeros((3, 3))) for t in (1.0, 4.0)}
    figure = temperature.courses({"one": panel, "many": panel})
    assert [text.get_text() for text in figure.axes[-1].get_legend().get_texts()] == ["t₀ = 1", "t₀ = 4"]
    plt.close(figure)
