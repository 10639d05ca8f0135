"""What the chapter on precision draws: its panels keep their lines, and stay within what accuracy can be."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lae_core.figures.experiments import PRECISIONS, side_by_side


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_two_panels_share_axes_and_one_legend_names_every_line_once():
    runs = np.array([[60.0, 55.0, 12.0], [62.0, 50.0, 11.0]])
    lines = {dtype: ([1, 32, 1024], runs) for dtype in PRECISIONS}
    panels = {"left": {"float16": lines["float16"]}, "right": lines}
    figure = side_by_side(panels, "accuracy", look=PRECISIONS.__getitem__, marked=32)
    left, right = figure.axes
    assert left.get_ylim() == right.get_ylim() and left.get_xlim() == right.get_xlim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["FP16", "BF16", "FP32", "FP64"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["1", "32", "1024"]


def test_intervals_of_two_runs_do_not_stretch_the_axis_beyond_accuracies():
    lines = {"lae": ([1, 32], np.array([[5.0, 95.0], [15.0, 99.0]]))}
    low, high = side_by_side({"only": lines}, "accuracy").axes[0].get_ylim()
    assert (low, high) == (0, 100)
