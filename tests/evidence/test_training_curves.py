"""What the chapter on early learning compares and draws, on records made by hand."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lae_core.evidence import outcomes
from lae_core.figures.experiments import learning_curves
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig


def record(errors: list[float | None], norms: list[float | None] | None = None, **config) -> Record:
    """A run with this validation error after each epoch; None is where it diverged."""
    given = RunConfig(epochs=5, **config)
    norms = norms or [1.0] * len(errors)
    rows = [
        {"epoch": k, "gradient_norm": norm} | ({} if error is None else {"valid_error": error})
        for k, (error, norm) in enumerate(zip(errors, norms, strict=True), start=1)
    ]
    final = {} if errors[-1] is None else {"accuracy": 1 - errors[-1]}
    return Record(given.key(), given.to_dict(), {"epochs": rows, "final": final}, {})


def test_the_first_half_decides_and_the_rest_does_not():
    run, later = record([0.9, 0.7, 0.5, 0.4, 0.3]), record([0.9, 0.7, 0.1, 0.1, 0.1])
    assert outcomes.first_half(run.config["epochs"]) == 2
    assert outcomes.early_accuracies([run, later]) == pytest.approx([20.0, 20.0])


def test_a_run_that_diverged_guesses_from_then_on():
    assert outcomes.early_accuracies([record([0.5, None])]) == pytest.approx([(50 + 10) / 2])
    assert outcomes.early_accuracies([record([None])]) == pytest.approx([10.0])
    assert outcomes.early_accuracies([record([None], data="cifar100")]) == pytest.approx([1.0])


def test_epochs_that_were_not_validated_do_not_count():
    run = record([None, 0.7, None, 0.5, 0.4], eval_every=2)
    assert outcomes.early_accuracies([run]) == pytest.approx([30.0])


def test_gradients_are_compared_seed_by_seed_as_far_as_all_runs_went():
    pool = [record([0.5] * 3, [2.0, 3.0, 4.0]), record([0.5] * 3, [1.0, 1.0, None])]
    base = [record([0.5] * 3, [1.0, 2.0, 4.0]), record([0.5] * 3, [2.0, 1.0, 1.0])]
    epochs, ratio = outcomes.gradient_ratio(pool, base)
    assert epochs == [1, 2]
    assert ratio == pytest.approx(np.array([[2.0, 1.5], [0.5, 1.0]]))


def test_one_panel_a_data_set_with_a_line_a_pool_and_the_first_half_marked():
    lines = {pool: ([1, 2, 3], np.array([[3.0, 2, 1], [3, 2, 2]])) for pool in ("avg", "lae")}
    figure = learning_curves({"A": lines, "B": lines}, "error", until=2)
    assert [axes.get_title() for axes in figure.axes] == ["A", "B"]
    for axes in figure.axes:
        assert len(axes.lines) == 2
        assert axes.patches[0].get_extents().x1 == pytest.approx(axes.transData.transform((2, 0))[0])
    plt.close(figure)
