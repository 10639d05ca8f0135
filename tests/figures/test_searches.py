"""Figures of searches: what they draw is what the study holds."""

import math

import matplotlib.pyplot as plt
import pytest

from lae_core.figures import searches
from lae_core.runs.lattice_search import Lattice, lattice_search
from lae_core.runs.random_search import Range, random_search


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def walk():
    goal = Lattice().params((2, -1, 1))

    def measure(candidates):
        return [[sum(math.log(c.params[n] / goal[n]) ** 2 for n in goal)] * len(c.folds) for c in candidates]

    return lattice_search(measure, name="walk", storage=None, folds=2).study


@pytest.fixture(scope="module")
def draws():
    """The error depends on the learning rate alone."""

    def measure(candidates):
        return [[math.log(c.params["lr"] / 0.01) ** 2] * len(c.folds) for c in candidates]

    space = {"lr": Range(0.001, 0.1), "momentum": Range(0.5, 0.99, "complement"), "flat": Range(0.5, 0.85, "linear")}
    return random_search(measure, name="draws", storage=None, space=space, samples=(40, 20), top=5).study


def test_the_path_is_the_studys(walk):
    left, right = searches.lattice_path(walk).axes[:2]
    for axes, other in ((left, 1), (right, 2)):
        line = axes.lines[0]
        drawn = list(zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert drawn == [(point[0], point[other]) for point in walk.user_attrs["path"]]
        assert len(axes.collections[0].get_offsets()) == len(walk.trials)


def test_parallel_coordinates_draw_each_trial_and_label_the_ends(draws):
    axes = searches.parallel_coordinates(draws).axes[0]
    assert len(axes.lines) == len(draws.trials)
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "learning\nrate",
        "momentum",
        "flat\nshare",
        "error\n(%)",
    ]
    rates = [trial.params["lr"] for trial in draws.trials]
    texts = [text.get_text() for text in axes.texts]
    assert f"{min(rates):.3g}" in texts and f"{max(rates):.3g}" in texts
    best = axes.lines[-1].get_ydata()  # the best trial is drawn last, on top
    assert best[-1] == 0


def test_importance_finds_what_matters(draws):
    axes = searches.importance(draws).axes[0]
    shares = [bar.get_width() for bar in axes.patches]
    assert shares[-1] > 0.8 and sum(shares) == pytest.approx(1)
    assert axes.get_yticklabels()[-1].get_text() == "learning rate"


def test_a_study_with_nothing_to_draw(draws):
    import optuna

    with pytest.raises(ValueError, match="no finished trial"):
        searches.parallel_coordinates(optuna.create_study(study_name="empty"))
    with pytest.raises(ValueError, match="no path"):
        searches.lattice_path(draws)
