"""What a hyperparameter search did: its path on the lattice, all its trials at once, and what mattered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from lae_core.figures.style import HEAT, SERIES

if TYPE_CHECKING:
    import optuna

AXES = ("steps of ρ", "steps of λ against ρ", "steps of 1−μ with ρ")
LABELS = {"lr": "learning rate", "weight_decay": "weight decay", "momentum": "momentum", "beta2": "β₂", "eps": "ε"}
LABELS |= {"flat": "flat share"}
# Drawn as log x, or as log(1−x) for those that are told by their distance from 1.
LOG, COMPLEMENT = ("lr", "weight_decay", "eps"), ("momentum", "beta2")


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
    names = list(trials[0].params)
    columns = [np.array([_scaled(name, trial.params[name]) for trial in trials]) for name in names]
    columns.append(100 * np.array([trial.value for trial in trials]))
    figure, axes = plt.subplots(figsize=(0.95 * len(columns) + 0.8, 3.6))
    heights = [(column - column.min()) / (np.ptp(column) or 1.0) for column in columns]
    best = max(1, len(trials) // 10)
    for index in range(len(trials)):
        good = index >= len(trials) - best
        line = [height[index] for height in heights]
        axes.plot(line, color=SERIES[1] if good else "0.75", linestyle="-", linewidth=1.6 if good else 0.7)
    titles = [*(LABELS.get(name, name) for name in names), "error (%)"]
    axes.set_xticks(range(len(columns)), [title.replace(" ", "\n") for title in titles])
    axes.set(yticks=[], ylim=(-0.12, 1.12))
    axes.grid(axis="x")
    for place, (name, column) in enumerate(zip([*names, None], columns, strict=True)):
        for height, value in ((-0.04, column.min()), (1.04, column.max())):
            text = f"{_unscaled(name, value):.3g}"
            axes.text(place, height, text, ha="center", va="top" if height < 0 else "bottom", fontsize=9)
    return figure


def _scaled(name: str, value: float) -> float:
    if name in LOG:
        return float(np.log(value))
    return float(-np.log1p(-value)) if name in COMPLEMENT else value


def _unscaled(name: str | None, value: float) -> float:
    if name in LOG:
        return float(np.exp(value))
    return float(-np.expm1(-value)) if name in COMPLEMENT else value


def importances(study: optuna.Study) -> dict[str, float]:
    """The share of the variance of the error that each hyperparameter explains alone (functional ANOVA on a forest)."""
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    _finished(study)
    return get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))


def importance(study: optuna.Study) -> Figure:
    """Bars of `importances`."""
    shares = dict(sorted(importances(study).items(), key=lambda item: item[1]))
    figure, axes = plt.subplots(figsize=(5.2, 0.45 * len(shares) + 1))
    axes.barh([LABELS.get(name, name) for name in shares], list(shares.values()), color=SERIES[1])
    axes.set(xlabel="share of the error's variance", xlim=(0, 1))
    axes.grid(axis="y", visible=False)
    return figure
