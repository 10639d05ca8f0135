"""What the experiments' notebooks draw from samples of runs. Pools keep their look; every interval says what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lae_core.evidence.forest import style_of
from lae_core.evidence.stats import mean_interval

INTERVAL = "95 % interval of the mean"


def strip(samples: Mapping[str, Sequence[float]], xlabel: str, paper: Mapping[str, float] | None = None) -> Figure:
    """One row a pool: each run a faint dot, the mean with its interval, and the paper's value as an open star.

    The paper's networks are other networks, so its values get an axis of their own on top.
    """
    figure, axes = plt.subplots(figsize=(6.4, 0.8 + 0.42 * len(samples)))
    styles = [style_of(pool) for pool in samples]
    for row, (values, style) in enumerate(zip(samples.values(), styles, strict=True)):
        axes.plot(values, [row] * len(values), ".", color=style["color"], alpha=0.35)
        _interval(axes, values, row, style)
    axes.set_yticks(range(len(samples)), [str(style["label"]) for style in styles])
    axes.set(xlabel=f"{xlabel}; dots: runs, bar: {INTERVAL}")
    axes.invert_yaxis()
    if paper:
        top = axes.twiny()
        rows = [row for row, pool in enumerate(samples) if pool in paper]
        top.plot(
            [paper[pool] for pool in samples if pool in paper],
            rows,
            "*",
            color="0.25",
            markerfacecolor="none",
            markersize=10,
        )
        top.set_xlabel("☆ the paper's value, on its own scale")
        top.margins(x=0.1)
        top.grid(False)
        top.spines["top"].set_visible(True)
    return figure


def _interval(axes: Axes, values: Sequence[float], row: float, style: Mapping[str, Any]) -> None:
    i = mean_interval(values)
    error = [[i.centre - i.low], [i.high - i.centre]]
    axes.errorbar(i.centre, row, xerr=error, color=style["color"], marker=style["marker"], capsize=3)


def bands(axes: Axes, x: Sequence[float], runs: np.ndarray, **style: Any) -> None:
    """The mean of the runs (rows of a matrix) over x, with the 95 % interval of the mean as a band."""
    intervals = [mean_interval(column) for column in runs.T]
    axes.plot(x, [i.centre for i in intervals], **style)
    axes.fill_between(
        x, [i.low for i in intervals], [i.high for i in intervals], color=style["color"], alpha=0.15, linewidth=0
    )


def learning_curves(
    curves: Mapping[str, tuple[Sequence[int], np.ndarray]], ylabel: str, until: int | None = None
) -> Figure:
    """One line a pool over epochs; `until` marks the end of the span that a claim is decided on."""
    figure, axes = plt.subplots()
    for pool, (epochs, runs) in curves.items():
        bands(axes, epochs, runs, **style_of(pool))
    if until is not None:
        axes.axvspan(axes.get_xlim()[0], until, color="0.5", alpha=0.12, linewidth=0)
    axes.set(xlabel=f"epoch (band: {INTERVAL})", ylabel=ylabel)
    axes.legend(ncols=2)
    return figure


def over_temperature(
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], np.ndarray]]],
    ylabel: str,
    reference: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Panels of lines over the initial temperature, one line a pool; `reference` is a band (average pooling) a panel."""
    figure, grid = plt.subplots(1, len(panels), figsize=(3.3 * max(len(panels), 2), 3.6), sharey=True, squeeze=False)
    for axes, (title, lines) in zip(grid[0], panels.items(), strict=True):
        for pool, (t0, runs) in lines.items():
            bands(axes, t0, runs, **style_of(pool))
        if reference:
            i = mean_interval(reference[title])
            axes.axhspan(i.low, i.high, color="0.45", alpha=0.3, linewidth=0)
            axes.axhline(i.centre, **style_of("avg") | {"marker": None})
        axes.set_xscale("log", base=2)
        axes.set(xlabel="initial temperature t₀", title=title)
    grid[0][0].set_ylabel(ylabel)
    grid[0][-1].legend(fontsize=9)
    return figure


def over_input_size(
    panels: Mapping[str, Mapping[str, tuple[Sequence[int], np.ndarray]]], trained_at: int, ylabel: str
) -> Figure:
    """Panels (views) of accuracy over input size, one line a pool; the size of training is marked."""
    figure, grid = plt.subplots(1, len(panels), figsize=(9.6, 3.6), sharey=True, squeeze=False)
    for axes, (title, lines) in zip(grid[0], panels.items(), strict=True):
        for pool, (sizes, runs) in lines.items():
            bands(axes, sizes, runs, **style_of(pool))
        axes.axvline(trained_at, color="0.4", linestyle=":", linewidth=1)
        axes.set(xlabel="input size (px)", title=title)
    grid[0][0].set_ylabel(ylabel)
    grid[0][-1].legend(fontsize=9)
    return figure
