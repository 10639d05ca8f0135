"""The paper's bill: FLOPs against a count by hand, runs against the tables."""

import pytest

from lae_core.paper import cost
from lae_core.runs.records import Record
from lae_core.training import network
from lae_core.training.config import RunConfig


def test_flops_of_a_small_network_by_hand():
    """WRN-8 of width 1: per stage one block of two 3×3 convolutions and a 1×1 on the shortcut where widths change."""
    config = RunConfig(depth=8, width=1.0)
    widths, side, last = (16, 32, 64), 32, 16
    multiply_adds = 32 * 32 * 9 * 3 * 16  # the stem
    for stage, width in enumerate(widths):
        side = side // 2 if stage else side
        multiply_adds += side * side * 9 * (last * width + width * width)
        multiply_adds += side * side * last * width if (stage or last != width) else 0
        last = width
    multiply_adds += 64 * 10
    step, forward = cost.step_flops(config)
    assert forward == 2 * multiply_adds
    assert 2.5 * forward < step < 3 * forward  # backward: twice as much, less the gradient to the picture
    assert forward == network.measure(network.build(config), 32)["flops"]


def test_a_runs_bill_by_hand():
    config = RunConfig(depth=8, width=1.0, epochs=2)
    step, forward = cost.step_flops(config)
    assert cost.Work("", "", config, 1).flops() == 2 * (50000 * step + 10000 * forward)
    assert cost.Work("", "", config, 1, share=0.8).flops() == 2 * (40000 * step + 10000 * forward)


def test_the_number_of_runs_is_the_papers():
    work = list(cost.paper_work(temperatures=11, mxresnet_runs=40))
    runs = {name: sum(item.runs for item in work if item.experiment == name) for name in {w.experiment for w in work}}
    assert runs["E3"] == 6 * 2 * 30 and runs["E9"] == 7 * 2 * 30 and runs["E4"] == 8 * 4 * 40
    assert runs["N6"] == 5 * (400 + 300 + 140 + 140 + 4 * 35)
    assert runs["E6"] == 2 * 2 * 11 * 10 and runs["E8"] == 4 * 34 * 10
    epochs = {item.experiment: item.config.epochs for item in work}
    assert (epochs["E3"], epochs["N5"], epochs["E4"], epochs["N6"], epochs["E6"], epochs["E2"]) == (
        48,
        60,
        5,
        6,
        25,
        300,
    )


def test_the_least_number_of_points_of_a_lattice_search():
    assert cost.least_points(0, 0, 0) == 7
    assert cost.least_points(1, -2, 0, 1) == 1 + 4 + 5


def test_hours_follow_from_the_card():
    work = [cost.Work("E", "a", RunConfig(depth=8, width=1.0, epochs=1), 3)]
    slow = cost.table(iter(work), peak_tflops=10, utilisation=0.5)
    fast = cost.table(iter(work), peak_tflops=20, utilisation=0.5)
    assert slow["hours"].item() == pytest.approx(3 * work[0].flops() / 5e12 / 3600)
    assert slow["hours"].item() == 2 * fast["hours"].item()
    with pytest.raises(ValueError, match="utilisation = 35"):
        cost.table(iter(work), peak_tflops=10, utilisation=35)


def test_cpu_hours_are_those_of_a_recorded_run_by_their_flops():
    config = RunConfig(depth=8, width=1.0, epochs=2)
    like = Record(config.key(), config.to_dict(), {}, {"times": {"cpu": [1800.0, 1800.0]}})
    assert cost.cpu_hours([config], like) == pytest.approx(1.0)
    assert cost.cpu_hours([config.replace(epochs=4), config], like) == pytest.approx(3.0)
