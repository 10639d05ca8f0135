"""What the experiments' notebooks draw from samples of runs. Pools keep their look; every interval says what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from lae_core.evidence.stats import Group, Summary, mean_interval
from lae_core.figures.style import DASHES, SERIES, style_of

INTERVAL = "95 % interval of the mean"

Look = Callable[[str], Mapping[str, Any]]
Lines = Mapping[str, tuple[Sequence[float], np.ndarray]]  # by pool: x, and a matrix (runs, x)


# Rows: one per pool, from samples.


def strip(samples: Mapping[str, Sequence[float]], xlabel: str, paper: Mapping[str, float] | None = None) -> Figure:
    """One row per pool: each run a faint dot, the mean with its interval, and the paper's value as an open star.

    The paper's networks are other networks, so its values get an axis of their own on top.
    """
    figure, axes = plt.subplots(figsize=(6.4, 0.8 + 0.42 * len(samples)))
    _rows(axes, samples, list(samples))
    figure.supxlabel(f"{xlabel}; dots: runs, bar: {INTERVAL}", fontsize="medium")  # longer than the axes are wide
    stars = {paper[pool]: row for row, pool in enumerate(samples) if pool in paper} if paper else {}
    if stars:
        top = axes.twiny()
        top.plot(list(stars), list(stars.values()), "*", color="0.25", markerfacecolor="none", markersize=10)
        top.set_xlabel("☆ the paper's value, on its own scale")
        top.margins(x=0.1)
        top.grid(False)
        top.spines["top"].set_visible(True)
    return figure


def strip_panels(rows: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]], xlabel: str) -> Figure:
    """One row per setting and one panel per view, with one line per pool: runs as dots, the mean with its interval.

    A pool has the same line in all panels of its row; in a panel without its runs the line is empty. A dotted line
    stands at the mean of average pooling.
    """
    pools = [list(dict.fromkeys(pool for samples in panels.values() for pool in samples)) for panels in rows.values()]
    counts = [len(names) for names in pools]
    across = max(len(panels) for panels in rows.values())
    size = (max(1.85 * across + 1.8, 6.4), sum(0.34 * count + 1.0 for count in counts))
    figure, grid = plt.subplots(
        len(rows), across, figsize=size, sharex="row", sharey="row", squeeze=False, height_ratios=counts
    )
    for line, names, (setting, panels) in zip(grid, pools, rows.items(), strict=True):
        for axes, (view, samples) in zip(line, panels.items(), strict=True):
            _rows(axes, samples, names)
            axes.axvline(mean_interval(samples["avg"]).centre, color="0.25", linestyle=":", linewidth=1.2, zorder=0)
            axes.set(title=view)
        line[0].set_ylabel(setting)
    figure.supxlabel(f"{xlabel}\ndots: runs, bar: {INTERVAL}", fontsize="medium")
    return figure


def accuracy_and_gain(rows: Mapping[str, Mapping[str, Sequence[float]]], xlabel: str) -> Figure:
    """One row per setting: left, the accuracy of two pools; right, run by run, by how much the second is above."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 0.5 * len(rows) + 1.4), sharey=True)
    for row, samples in enumerate(rows.values()):
        for (pool, values), shift in zip(samples.items(), (-0.14, 0.14), strict=True):
            _runs(left, values, row + shift, style_of(pool))
        (_, first), (pool, second) = samples.items()
        _runs(right, [b - a for a, b in zip(first, second, strict=True)], row, style_of(pool))
    right.axvline(0, color="0.25", linestyle=":", linewidth=1.2, zorder=0)
    left.set_yticks(range(len(rows)), list(rows))
    left.set_ylim(len(rows) - 0.5, -0.5)
    left.set_title(xlabel)
    styles = [style_of(pool) for pool in samples]
    right.set_title(f"{styles[1]['label']} less {str(styles[0]['label']).lower()}")
    look = {"linestyle": ""}
    keys = [plt.Line2D([], [], **{k: style[k] for k in ("color", "marker", "label")} | look) for style in styles]
    figure.legend(handles=keys, loc="outside lower center", ncols=2)
    return figure


def squeeze_rows(panels: Mapping[str, Mapping[tuple[str, str | None], Group]]) -> Figure:
    """Top-1 error: panels with one row for each (global pool, squeeze pool): single runs as dots, the mean with its interval.

    A squeeze of None is the network without Squeeze-and-Excitation: an open ring in each row of its global pool.
    """
    rows = list(dict.fromkeys(name for panel in panels.values() for name in panel if name[1] is not None))
    size = (2.5 * len(panels) + 2.5, 1.4 + 0.42 * len(rows))
    figure, grid = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for axes, (title, panel) in zip(grid[0], panels.items(), strict=True):
        for row, (pool, squeeze) in enumerate(rows):
            if (pool, squeeze) in panel:
                _runs(axes, panel[pool, squeeze], row, style_of(str(squeeze)))
            if (pool, None) in panel:
                without = mean_interval(panel[pool, None]).centre
                axes.plot(without, row, "o", color="0.35", markerfacecolor="none", markersize=11)
        axes.set(title=title, xlabel="top-1 error (%)")
        axes.margins(y=0.1)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    labels = [[str(style_of(str(pool))["label"]) for pool in row] for row in rows]
    # the longest on two lines
    names = [" | ".join(row) if len("".join(row)) < 32 else " |\n".join(row) for row in labels]
    grid[0][0].set_yticks(range(len(rows)), names)
    grid[0][0].invert_yaxis()
    ring = plt.Line2D([], [], marker="o", color="0.35", markerfacecolor="none", markersize=11, linestyle="none")
    bar = plt.Line2D([], [], marker="o", color="0.35")
    figure.legend([bar, ring], [f"mean and {INTERVAL}", "mean without SE"], loc="outside lower center", ncols=2)
    return figure


def _rows(axes: Axes, samples: Mapping[str, Group], pools: Sequence[str]) -> None:
    """One row per pool, from the top."""
    for pool, values in samples.items():
        _runs(axes, values, pools.index(pool), style_of(pool))
    axes.set_yticks(range(len(pools)), [str(style_of(pool)["label"]) for pool in pools])
    axes.set_ylim(len(pools) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _runs(axes: Axes, values: Group, row: float, style: Mapping[str, Any]) -> None:
    """Single runs as dots, where they are known, and the mean with its interval."""
    if not isinstance(values, Summary):
        spread = row + 0.09 * np.resize([-1.0, 1.0, 0.0], len(values))  # so that equal runs do not hide each other
        axes.plot(values, spread, "o", color=style["color"], alpha=0.4, markersize=4, markeredgewidth=0)
    i = mean_interval(values)
    axes.errorbar(i.centre, row, xerr=i.high - i.centre, color=style["color"], marker=style["marker"], capsize=3)


# Lines: one per pool, through the means of runs.


def bands(axes: Axes, x: Sequence[float], runs: np.ndarray, **style: Any) -> None:
    """The mean of the runs (rows of a matrix) over x, with the 95 % interval of the mean as a band."""
    long = {"x": np.tile(x, len(runs)), "y": runs.ravel()}

    def interval(column: Sequence[float]) -> tuple[float, float]:
        return mean_interval(column)[1:]

    band = {"alpha": 0.15, "linewidth": 0}
    sns.lineplot(long, x="x", y="y", errorbar=interval, err_kws=band, legend=False, ax=axes, **style)
    axes.set(xlabel="", ylabel="")


def _line_panels(
    panels: Mapping[str, Lines],
    ylabel: str,
    *,
    across: int,
    size: tuple[float, float],
    look: Look = style_of,
    **shared: Any,
) -> tuple[Figure, dict[str, Axes]]:
    """One panel of that size per title, with one line per pool; panels are filled row by row."""
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(down, across, figsize=(size[0] * across, size[1] * down), squeeze=False, **shared)
    for axes, (title, lines) in zip(grid.flat, panels.items(), strict=False):
        for name, (x, runs) in lines.items():
            bands(axes, x, runs, markevery=max(1, len(x) // 10), **look(name))
        axes.set_title(title)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    return figure, dict(zip(panels, grid.flat, strict=False))


def _legend_below(figure: Figure) -> None:
    """The lines of all panels as a legend under the figure: a panel may lack a line that another has."""
    found = {text: line for axes in figure.axes for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found) if len(found) < 5 else 3)


def _reference(axes: Axes, values: Sequence[float]) -> None:
    """Average pooling across a panel: the mean as a line, its interval as a band."""
    i = mean_interval(values)
    axes.axhspan(i.low, i.high, color="0.45", alpha=0.3, linewidth=0)
    axes.axhline(i.centre, **style_of("avg") | {"marker": None})


def learning_curves(
    panels: Mapping[str, Lines],
    ylabel: str,
    until: int | None = None,
    minutes: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """Panels of lines over epochs, one line per pool; `until` marks the end of the span that a claim is decided on.

    `minutes` are the CPU-minutes that a run has taken after each epoch, by panel, for an axis on top.
    """
    across = len(panels)
    figure, grid = _line_panels(panels, ylabel, across=across, size=(max(4.3, 6.4 / across), 4.2))
    for title, axes in grid.items():
        if until is not None:
            left, _ = axes.get_xlim()
            axes.axvspan(left, until, color="0.5", alpha=0.12, linewidth=0)
            axes.set_xlim(left=left)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(f"epoch (band: {INTERVAL})")
        if minutes and len(minutes[title]):
            step = -(-len(minutes[title]) // 8)  # at most eight labels
            shown = range(step, len(minutes[title]) + 1, step)
            top = axes.secondary_xaxis("top", xlabel="CPU-minutes of a run with average pooling")
            top.set_xticks(list(shown), [f"{minutes[title][epoch - 1]:.1f}" for epoch in shown])
    _legend_below(figure)
    return figure


def over_temperature(
    panels: Mapping[str, Lines],
    ylabel: str,
    reference: Mapping[str, Sequence[float]] | None = None,
    lowest: float | None = None,
) -> Figure:
    """Panels of lines over the initial temperature, one line per pool with each run as a dot; `reference` is a band
    (average pooling) in each panel. The axes begin at `lowest`: runs below it are triangles at the edge."""
    across = len(panels) if len(panels) <= 3 else 2
    # In a narrower figure letters would be too small on a phone.
    figure, grid = _line_panels(panels, ylabel, across=across, size=(max(2.5, 6.4 / across), 3.6), sharey="row")
    for title, axes in grid.items():
        for number, (pool, (t0, runs)) in enumerate(panels[title].items()):
            beside = np.multiply(t0, 1.06 ** (number - (len(panels[title]) - 1) / 2))  # dots of pools stand apart
            axes.plot(beside, runs.T, "o", color=style_of(pool)["color"], alpha=0.45, markersize=4, markeredgewidth=0)
        if reference:
            _reference(axes, reference[title])
        lines = panels[title].values()
        _begin_at(axes, lowest, [dot for t0, runs in lines for run in runs for dot in zip(t0, run, strict=True)])
        _temperature_axis(axes, panels[title], most=4 if across > 2 else 8)
        axes.set_xlabel("initial temperature t₀" if across < 3 else "temperature t₀")
    _legend_below(figure)
    return figure


def over_relative_temperature(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    ylabel: str,
    reference: Sequence[float],
    lowest: float | None = None,
) -> Figure:
    """Each run as a dot at its final temperature in units of the features' spread; average pooling as a band.

    The axes begin at `lowest`: runs below it are triangles at the edge.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.8))
    for pool, (x, y) in lines.items():
        axes.plot(x, y, **style_of(pool) | {"linestyle": "", "markersize": 5, "alpha": 0.7})
    _reference(axes, reference)
    axes.set_xscale("log")
    _begin_at(axes, lowest, [dot for x, y in lines.values() for dot in zip(x, y, strict=True)])
    axes.set(xlabel="final temperature t / σ, in units of the features' spread over positions", ylabel=ylabel)
    _legend_below(figure)
    return figure


def _begin_at(axes: Axes, lowest: float | None, dots: Iterable[tuple[float, float]]) -> None:
    """Let the axes begin at `lowest`, if it is given, with a triangle at the edge for each dot below it."""
    if lowest is None:
        return
    if below := [x for x, y in dots if y < lowest]:
        axes.plot(below, [lowest] * len(below), "v", color="0.25", markersize=7, clip_on=False, zorder=5)
    axes.set_ylim(bottom=lowest)


def _temperature_axis(axes: Axes, lines: Lines, most: int = 8) -> None:
    """A logarithmic axis, with the temperatures of the lines as ticks."""
    axes.set_xscale("log", base=2)
    temperature_ticks(axes.xaxis, sorted({t for ts, _ in lines.values() for t in ts}), most=most)


def temperature_ticks(
    axis: Axis, values: Sequence[float], *, of: Callable[[float], float] = float, most: int = 8
) -> None:
    """Ticks at these temperatures, by their value (at every other where `most` and more would crowd); `of` places them."""
    named = values[:: 1 + len(values) // most]
    axis.set_ticks([of(t) for t in named], [f"{t:g}" for t in named])
    axis.set_minor_locator(NullLocator())


def over_input_size(rows: Mapping[str, tuple[int, Mapping[str, Lines]]], ylabel: str) -> Figure:
    """Accuracy over input size: a row of panels (views) per setting, one line per pool; the size of training is marked.

    `rows` has for each setting that size and the panels.
    """
    down, across = len(rows), max(len(views) for _, views in rows.values())
    size = (max(2.3 * across + 0.5, 6.4), 2.7 * down + 1)
    figure, grid = plt.subplots(down, across, figsize=size, sharex="row", sharey="row", squeeze=False)
    for line, (setting, (trained_at, views)) in zip(grid, rows.items(), strict=True):
        for axes, (view, lines) in zip(line, views.items(), strict=True):
            for pool, (sizes, runs) in lines.items():
                bands(axes, sizes, runs, **style_of(pool))
                axes.set_xticks(sizes if len(sizes) < 7 else sizes[::2])
            axes.axvline(trained_at, color="0.25", linestyle=":", linewidth=1.6, zorder=0)
            axes.set(xlabel="input size (px)", title=view)
        line[0].set_ylabel(f"{setting}\n{ylabel}")
    _legend_below(figure)
    return figure


# What the pool's `dtype` is called, and its look. Half precision has the warning colour.
PRECISIONS: dict[str, dict[str, Any]] = {
    "float16": {"label": "FP16", "color": SERIES[2], "linestyle": DASHES[0], "marker": "v"},
    "bfloat16": {"label": "BF16", "color": SERIES[4], "linestyle": DASHES[2], "marker": "D"},
    "float32": {"label": "FP32", "color": SERIES[1], "linestyle": DASHES[1], "marker": "s"},
    "float64": {"label": "FP64", "color": SERIES[0], "linestyle": DASHES[3], "marker": "o"},
}


def precision_panels(panels: Mapping[str, Lines], ylabel: str, *, marked: float) -> Figure:
    """Panels, two per row, of lines over the temperature on common axes, one line per dtype of the pool, runs as dots.

    `marked` is a temperature to point out.
    """
    look = PRECISIONS.__getitem__
    figure, grid = _line_panels(panels, ylabel, across=2, size=(3.8, 3.4), look=look, sharex=True, sharey=True)
    for title, axes in grid.items():
        for number, (dtype, (t, runs)) in enumerate(panels[title].items()):
            beside = np.multiply(t, 1.1 ** (number - (len(panels[title]) - 1) / 2))
            axes.plot(beside, runs.T, "o", color=look(dtype)["color"], alpha=0.45, markersize=4, markeredgewidth=0)
        axes.axvline(marked, color="0.4", linestyle=":", linewidth=1)
        _temperature_axis(axes, panels[title])
        axes.set_xlabel("temperature t at the start")
    low, high = figure.axes[0].get_ylim()
    # the interval of two runs can reach beyond what accuracy can be
    figure.axes[0].set_ylim(max(low, 0), min(high, 100))
    _legend_below(figure)
    return figure


def noise_over_temperature(errors: pd.DataFrame, marked: float) -> Figure:
    """Noise of the pooling step by form (columns) and part (rows), one line per precision; `marked` is a temperature.

    `errors` has the columns form, dtype, t, part and noise, as `rounding.errors` and a chapter make them.
    """
    parts, forms = list(dict.fromkeys(errors["part"])), list(dict.fromkeys(errors["form"]))
    titles = {"textbook": "textbook form", "stable": "ours"}
    figure, grid = plt.subplots(len(parts), len(forms), figsize=(7.0, 7.4), sharex=True, sharey="row", squeeze=False)
    for (part, form), axes in zip(product(parts, forms), grid.flat, strict=True):
        panel = errors[(errors["part"] == part) & (errors["form"] == form)]
        for dtype, line in panel.groupby("dtype", sort=False):
            axes.plot(line["t"], line["noise"], markersize=4, **PRECISIONS[str(dtype)])
        axes.axhline(1, color="0.55", linewidth=1, zorder=1)
        axes.axvline(marked, color="0.4", linestyle=":", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        temperature_ticks(axes.xaxis, sorted(panel["t"].unique()), most=5)
    for axes, form in zip(grid[0], forms, strict=True):
        axes.set_title(titles[form])
    for row, part in zip(grid, parts, strict=True):
        row[0].set_ylabel(f"noise of the {part}")
    for axes in grid[-1]:
        axes.set_xlabel("temperature t, with features of spread 1")
    _legend_below(figure)
    return figure
