"""What becomes of trained temperatures, drawn: where they end, how far they move, and their way there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lae_core.figures.experiments import bands, temperature_ticks
from lae_core.figures.style import DASHES, SERIES, style_of

OPEN_SQUARES: dict[str, Any] = {"color": SERIES[2], "marker": "s", "markerfacecolor": "none"}


def change(
    panels: Mapping[str, tuple[str, Mapping[float, Sequence[np.ndarray]]]],
    faster: Mapping[str, Mapping[float, Sequence[np.ndarray]]],
    label: str,
) -> Figure:
    """Above, final against initial temperature; below, how often it doubled. A panel is a pool and its runs by t₀.

    A run gives the temperatures of its channels: their spread is drawn as a violin over all runs, and each run as a dot
    at the mean of its logarithms. `faster` adds the runs of another arm, described by `label`, as open squares. The
    axes reach as far as the first arms do: a run of the other that ends beyond is a triangle at the edge.
    """
    figure, grid = plt.subplots(
        2, len(panels), figsize=(3.8 * max(len(panels), 2), 6.4), sharex=True, sharey="row", squeeze=False
    )
    for column, (title, (pool, arms)) in zip(grid.T, panels.items(), strict=True):
        starts = sorted(arms)
        for axes, relative in zip(column, (False, True), strict=True):
            reach = _reach(panels, relative)
            for t0 in starts:
                _runs_at(axes, t0, arms[t0], relative, style_of(pool), reach)
            for t0, runs in faster.get(title, {}).items():
                _runs_at(axes, t0, runs, relative, OPEN_SQUARES, reach, shift=0.55)
            ends = np.log2([starts[0], starts[-1]])
            axes.plot(ends, [0, 0] if relative else ends, color="0.4", linestyle=":", linewidth=1.2, zorder=0)
        temperature_ticks(column[1].xaxis, starts, of=np.log2)
        temperature_ticks(column[0].yaxis, _as_far_as(starts, *_reach(panels, False)), of=np.log2, most=12)
        column[0].set_title(title)
        column[1].set_xlabel("initial temperature t₀")
    grid[0][0].set_ylabel("final temperature")
    grid[1][0].set_ylabel("doublings: log₂(final / t₀)")
    if any(faster.values()):
        key = Line2D([], [], linestyle="", label=label, **OPEN_SQUARES)
        grid[0][0].legend(handles=[key], loc="upper center", bbox_to_anchor=(0.5, -0.02))  # clear of the runs
    return figure


def _as_far_as(starts: Sequence[float], low: float, high: float) -> list[float]:
    """The temperatures, and beyond them steps of 16 as far as these logarithms."""
    values = list(starts)
    while values[0] / 16 >= 2**low:
        values.insert(0, values[0] / 16)
    while values[-1] * 16 <= 2**high:
        values.append(values[-1] * 16)
    return values


def _logs(t0: float, runs: Sequence[np.ndarray], relative: bool) -> list[np.ndarray]:
    """The logarithms of each run's finite temperatures, without runs that have none."""
    origin = np.log2(t0) if relative else 0.0
    logs = [np.log2(run[np.isfinite(run)]) - origin for run in runs]
    return [run for run in logs if len(run)]


def _reach(
    panels: Mapping[str, tuple[str, Mapping[float, Sequence[np.ndarray]]]], relative: bool
) -> tuple[float, float]:
    """The lowest and the highest logarithm of all panels, and at least those of no change."""
    found = [run for _, arms in panels.values() for t0, runs in arms.items() for run in _logs(t0, runs, relative)]
    unmoved = [0.0] if relative else [float(np.log2(t0)) for _, arms in panels.values() for t0 in arms]
    values = np.concatenate([*found, unmoved]) if unmoved else np.zeros(1)
    return float(values.min()), float(values.max())


def _runs_at(
    axes: Axes,
    t0: float,
    runs: Sequence[np.ndarray],
    relative: bool,
    style: Mapping[str, Any],
    reach: tuple[float, float],
    shift: float = 0.0,
) -> None:
    """The runs that began at t₀: a violin of all their temperatures if they have many, and a dot per run."""
    logs = _logs(t0, runs, relative)
    if not logs:  # all of them diverged
        return
    at = np.log2(t0) + shift
    if any(len(run) > 1 for run in logs):
        bodies: Any = axes.violinplot([np.concatenate(logs)], [at], widths=0.9, showextrema=False)["bodies"]
        for body in bodies:
            body.set(facecolor=style["color"], edgecolor=style["color"], alpha=0.3)
    x = at + (np.linspace(-0.15, 0.15, len(logs)) if len(logs) > 1 else np.zeros(1))
    y = np.array([run.mean() for run in logs])
    dots = {name: value for name, value in style.items() if name not in ("label", "linestyle")}
    low, high = reach
    marks = (((low <= y) & (y <= high), dots), (y < low, dots | {"marker": "v"}), (y > high, dots | {"marker": "^"}))
    for chosen, mark in marks:
        if not chosen.any():
            continue
        axes.plot(x[chosen], y[chosen].clip(low, high), linestyle="", markersize=4, **mark)
    margin = 0.06 * max(high - low, 1.0)
    axes.set_ylim(low - margin, high + margin)


def courses(panels: Mapping[str, Mapping[float, tuple[Sequence[int], np.ndarray]]]) -> Figure:
    """Panels of how often the temperature has doubled by each epoch, one line per t₀ from dark to light."""
    figure, grid = plt.subplots(1, len(panels), figsize=(3.8 * max(len(panels), 2), 3.6), sharey=True, squeeze=False)
    for axes, (title, lines) in zip(grid[0], panels.items(), strict=True):
        shades = plt.get_cmap("viridis")(np.linspace(0, 0.88, len(lines)))
        for number, ((t0, (epochs, runs)), shade) in enumerate(zip(lines.items(), shades, strict=True)):
            bands(axes, epochs, runs, color=shade, linestyle=DASHES[number % len(DASHES)], label=f"t₀ = {t0:g}")
        axes.axhline(0, color="0.4", linestyle=":", linewidth=1.2, zorder=0)
        axes.set(xlabel="epoch", title=title)
    grid[0][0].set_ylabel("doublings: log₂(t / t₀)")
    grid[0][-1].legend(fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
