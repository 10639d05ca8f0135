"""What the chapter on input size compares and draws, on records made by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lae_core.evidence import outcomes
from lae_core.figures.experiments import over_input_size, strips
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig


def record(accuracy: float | None, **views: dict[str, float]) -> Record:
    """A run with this accuracy at 32 px, and at 24 and 40 px as given; None for one that diverged."""
    given = RunConfig(input_sizes=(40, 24))
    sizes = {"zoom": views.get("zoom"), "crop-zero": views.get("zero"), "crop-noise": views.get("noise")}
    final = {} if accuracy is None else {"accuracy": accuracy}
    result = {"epochs": [], "final": final, "input_sizes": {} if accuracy is None else sizes}
    return Record(given.key(), given.to_dict(), result, {})


GOOD = record(0.6, zoom={"40": 0.4, "24": 0.5}, zero={"40": 0.3, "24": 0.2}, noise={"40": 0.25, "24": 0.2})
LOST = record(None)


def test_the_training_size_stands_among_the_others():
    sizes, values = outcomes.over_sizes([GOOD, LOST], "zoom")
    assert sizes == [24, 32, 40]
    assert values == pytest.approx(np.array([[50, 60, 40], [10, 10, 10]]))


def test_the_measure_is_the_mean_over_other_sizes_less_the_accuracy_at_that_of_training():
    assert outcomes.off_size([GOOD, LOST], "zoom") == pytest.approx([45 - 60, 0])
    assert outcomes.off_size([GOOD], "crop-noise") == pytest.approx([22.5 - 60])


def test_a_third_off_has_the_crop_once():
    found = outcomes.a_third_off([GOOD, LOST])
    assert {name: values[0] for name, values in found.items()} == pytest.approx(
        {
            ("smaller", "zoom to 24 px"): 50,
            ("smaller", "crop to 24 px"): 20,
            ("larger", "zoom to 40 px"): 40,
            ("larger", "zero pad to 40 px"): 30,
            ("larger", "noise pad to 40 px"): 25,
        }
    )


def test_a_row_a_setting_and_a_panel_a_view():
    lines = {pool: outcomes.over_sizes([GOOD, LOST], "zoom") for pool in ("avg", "lae")}
    figure = over_input_size(
        {"A": (32, {"zoom": lines, "crop": lines}), "B": (32, {"zoom": lines, "crop": lines})}, "y"
    )
    assert len(figure.axes) == 4
    assert {axes.get_title() for axes in figure.axes} == {"zoom", "crop"}
    plt.close(figure)


def test_strips_name_each_pool_once_and_mark_the_reference():
    samples = {"avg": [-3.0, -1.0], "lae(t0=4)": [-5.0, -4.0]}
    figure = strips({"A": {"zoom": samples, "crop": samples}}, "points")
    first = figure.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["Average", "LAE t₀=4"]
    assert any(list(line.get_xdata()) == [-2.0, -2.0] for line in first.lines)
    plt.close(figure)
