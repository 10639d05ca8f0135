"""What the chapter on Squeeze-and-Excitation draws: rows from runs and from printed means alike."""

import matplotlib.pyplot as plt

from lae_core.evidence.stats import Summary
from lae_core.figures.experiments import squeeze_rows


def test_rows_name_both_pools_and_rings_stand_where_the_network_without_lies():
    ours = {("avg", "avg"): [40.0, 42.0], ("avg", "lae"): [39.0, 41.0], ("avg", None): [43.0, 45.0]}
    printed = {("avg", "avg"): Summary(5.07, 0.12, 30), ("avg", "lae"): Summary(4.91, 0.14, 30)}
    figure = squeeze_rows({"ours": ours, "the paper": printed})
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["Average | Average", "Average | LAE"]
    rings = [list(line.get_xdata()) for line in left.lines if line.get_markersize() == 11]
    assert rings == [[44.0], [44.0]]
    assert not [line for line in right.lines if line.get_markersize() == 11]
    plt.close(figure)
