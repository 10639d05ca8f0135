"""What a hyperparameter search did: its path on the lattice, all its trials at once, and what mattered.

`optuna.visualization.matplotlib` draws the last two with the parameters' internal names, colours every trial by its value,
and cannot put the best ones on top, so these are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from lae_core.figures.style import HEAT, SERIES
from lae_core.runs.random_search import PAPER_SPACE

if TYPE_CHECKING:
    import optuna

AXES = ("steps of ρ", "steps of λ against ρ", "steps of 1−μ with ρ")
LABELS = {"lr": "learning rate", "weight_decay": "weight decay", "momentum": "momentum", "beta2": "β₂", "eps": "ε"}
LABELS |= {"flat": "flat share"}


def _finished(study: optuna.Study) -> list[Any]:
    trials = [
        trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished() and trial.value is not None
    ]
    if not trials:
        raise ValueError(f"study {study.study_name!r} has no finished trial to draw")
    return trials


def lattice_path(study: optuna.Study) -> Figure:
    """The points that a lattice search measured, coloured by error, and the path that it walked, in two projections."""
    path = study.user_attrs.get("path")
    if path is None:
        raise ValueError(f"study {study.study_name!r} has no path: it is not a lattice search, or has not moved yet")
    trials = _finished(study)
    points = np.array([_point(trial.user_attrs["name"]) for trial in trials])
    errors = 100 * np.array([trial.value for trial in trials])
    walked = np.array(path)
    figure, panels = plt.subplots(1, 2, figsize=(7.6, 3.6), sharex=True)
    norm = Normalize(errors.min(), errors.max())
    for axes, other in zip(panels, (1, 2), strict=True):
        best_last = np.argsort(-errors)  # where projections coincide, the better point shows
        dots = axes.scatter(
            *points[best_last][:, [0, other]].T, c=errors[best_last], cmap=f"{HEAT}_r", norm=norm, s=70, edgecolor="0.3"
        )
        axes.plot(walked[:, 0], walked[:, other], color=SERIES[2], linestyle="-", linewidth=1.5, zorder=1)
        axes.plot(*walked[0, [0, other]], marker="s", color="none", markeredgecolor=SERIES[2], markersize=13)
        axes.plot(*walked[-1, [0, other]], marker="*", color="none", markeredgecolor=SERIES[2], markersize=22)
        axes.set(xlabel=AXES[0], ylabel=AXES[other])
        axes.locator_params(integer=True)
    figure.colorbar(dots, ax=panels, label="mean error over the folds (%)")
    return figure


def _point(name: str) -> list[int]:
    return [int(part) for part in name.removeprefix("lattice (").rstrip(")").split(",")]


def parallel_coordinates(study: optuna.Study) -> Figure:
    """One line per trial through all its hyperparameters to its error; the best tenth is drawn on top, dark."""
    trials = sorted(_finished(study), key=lambda trial: -trial.value)
    found = pd.DataFrame([trial.params for trial in trials]).assign(error=[100 * trial.value for trial in trials])
    scaled = found.apply(
        lambda column: column.map(PAPER_SPACE[column.name].coordinate if column.name in LABELS else float)
    )
    heights = (scaled - scaled.min()) / (scaled.max() - scaled.min()).replace(0, 1)
    figure, axes = plt.subplots(figsize=(0.95 * len(found.columns) + 0.8, 3.6))
    best = max(1, len(trials) // 10)
    axes.plot(heights[:-best].T, color="0.75", linestyle="-", linewidth=0.7)
    axes.plot(heights[-best:].T, color=SERIES[1], linestyle="-", linewidth=1.6)
    titles = [LABELS.get(name, "error (%)").replace(" ", "\n") for name in found]
    axes.set_xticks(range(len(titles)), titles)
    axes.set(yticks=[], ylim=(-0.12, 1.12))
    axes.grid(axis="x")
    for place, name in enumerate(found):
        axes.text(place, -0.04, f"{found[name].min():.3g}", ha="center", va="top", fontsize=9)
        axes.text(place, 1.04, f"{found[name].max():.3g}", ha="center", va="bottom", fontsize=9)
    return figure


def importance(study: optuna.Study) -> Figure:
    """The share of the variance of the error that each hyperparameter explains alone (functional ANOVA on a forest)."""
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    _finished(study)
    shares = pd.Series(get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))).sort_values()
    figure, axes = plt.subplots(figsize=(5.2, 0.45 * len(shares) + 1))
    axes.barh([LABELS[name] for name in shares.index], shares, color=SERIES[1])
    axes.set(xlabel="share of the error's variance", xlim=(0, 1))
    axes.grid(axis="y", visible=False)
    return figure
