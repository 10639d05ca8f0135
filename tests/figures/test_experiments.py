"""What the experiments' figures draw: every pool named once, panels where they belong, axes within what can be."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lae_core.evidence.stats import Summary
from lae_core.figures import temperature
from lae_core.figures.experiments import (
    PRECISIONS,
    learning_curves,
    over_input_size,
    over_temperature,
    precision_panels,
    squeeze_rows,
    strip_panels,
)

RUNS = np.array([[60.0, 55.0, 12.0], [62.0, 50.0, 11.0]])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_strips_name_each_pool_once_and_mark_the_reference():
    samples = {"avg": [-3.0, -1.0], "lae(t0=4)": [-5.0, -4.0]}
    first = strip_panels({"A": {"zoom": samples, "crop": samples}}, "points").axes[0]
    assert labels(first.yaxis) == ["Average", "LAE (t = 4)"]
    assert any(list(line.get_xdata()) == [-2.0, -2.0] for line in first.lines)


def test_rows_name_both_pools_and_rings_stand_where_the_network_without_lies():
    ours = {("avg", "avg"): [40.0, 42.0], ("avg", "lae"): [39.0, 41.0], ("avg", None): [43.0, 45.0]}
    printed = {("avg", "avg"): Summary(5.07, 0.12, 30), ("avg", "lae"): Summary(4.91, 0.14, 30)}
    left, right = squeeze_rows({"ours": ours, "the paper": printed}).axes
    assert labels(left.yaxis) == ["Average | Average", "Average | LAE"]
    rings = [[list(line.get_xdata()) for line in axes.lines if line.get_markersize() == 11] for axes in (left, right)]
    assert rings == [[[44.0], [44.0]], []]


def test_learning_curves_mark_the_first_half():
    lines = {pool: ([1, 2, 3], RUNS) for pool in ("avg", "lae")}
    figure = learning_curves({"A": lines, "B": lines}, "error", until=2)
    assert [axes.get_title() for axes in figure.axes] == ["A", "B"]
    for axes in figure.axes:
        assert len(axes.lines) == 2
        assert axes.patches[0].get_extents().x1 == pytest.approx(axes.transData.transform((2, 0))[0])


def test_over_temperature_has_two_panels_a_row():
    lines = {"lae": ([1, 4, 16], RUNS)}
    figure = over_temperature({f"{k}": lines for k in range(4)}, "accuracy", {f"{k}": [60.0, 61.0] for k in range(4)})
    assert [axes.get_subplotspec().rowspan.start for axes in figure.axes] == [0, 0, 1, 1]
    assert labels(figure.axes[0].xaxis) == ["1", "4", "16"]


def test_over_input_size_has_one_row_per_setting_and_one_panel_per_view():
    lines = {pool: ([24, 32, 40], RUNS) for pool in ("avg", "lae")}
    figure = over_input_size({name: (32, {"zoom": lines, "crop": lines}) for name in "AB"}, "y")
    assert [axes.get_title() for axes in figure.axes] == ["zoom", "crop"] * 2


def test_side_by_side_shares_axes_and_one_legend_names_every_line_once():
    lines = {dtype: ([1, 32, 1024], RUNS) for dtype in PRECISIONS}
    panels = {"left": {"float16": lines["float16"]}, "right": lines}
    figure = precision_panels(panels, "accuracy", marked=32)
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim() and left.get_xlim() == right.get_xlim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FP16", "BF16", "FP32", "FP64"]
    assert labels(right.xaxis) == ["1", "32", "1024"]


def test_intervals_of_two_runs_do_not_stretch_the_axis_beyond_accuracies():
    lines = {"float32": ([1, 32], np.array([[5.0, 95.0], [15.0, 99.0]]))}
    assert precision_panels({"only": lines}, "accuracy", marked=32).axes[0].get_ylim() == (0, 100)


def test_temperatures_are_violins_where_a_run_has_many_and_one_dot_per_run():
    draw = np.random.default_rng(0)
    many = {t: [t * 2 ** draw.normal(0, 1, 8) for _ in range(3)] for t in (1.0, 4.0)}
    one = {t: [np.array([t * 2.0])] * 2 + [np.array([np.nan])] for t in (1.0, 4.0)}
    panels = {"one": ("lae(train=one)", one), "many": ("lae(train=channel)", many)}
    above, _, below, right = temperature.change(panels, {"one": {1.0: one[1.0]}}, "faster").axes
    assert [len(axes.collections) for axes in (above, right)] == [0, 2]
    dots = [line for line in below.lines if line.get_linestyle() == "None"]
    assert [line.get_ydata().tolist() for line in dots] == [[1, 1]] * 3
    assert above.get_legend().get_texts()[0].get_text() == "faster"


def test_a_faster_run_beyond_the_others_is_a_triangle_at_the_edge():
    usual = {t: [np.array([t * 2.0])] for t in (1.0, 4.0)}
    figure = temperature.change({"one": ("lae(train=one)", usual)}, {"one": {1.0: [np.array([2.0**80])]}}, "faster")
    above, below = figure.axes
    assert [line.get_marker() for line in below.lines].count("^") == 1
    assert above.get_ylim()[1] < 4 and below.get_ylim()[1] < 2


def test_courses_have_one_line_per_start():
    panel = {t: ([0, 1, 2], np.zeros((3, 3))) for t in (1.0, 4.0)}
    figure = temperature.courses({"one": panel, "many": panel})
    assert [text.get_text() for text in figure.axes[-1].get_legend().get_texts()] == ["t₀ = 1", "t₀ = 4"]
