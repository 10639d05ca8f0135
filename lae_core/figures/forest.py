"""Figures of the evidence pages: the paper's tables as forest plots, and its hyperparameters against their searches.

Each function draws on new axes and returns the figure. Colours, markers and order of pools come from `style.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lae_core.evidence import redecide
from lae_core.evidence.compare import Comparisons
from lae_core.evidence.stats import ALPHA
from lae_core.figures.style import SERIES, style_of

INK, DISAGREES = "#2a2428", "#d1450b"
RING: dict[str, Any] = {
    "marker": "o", "color": DISAGREES, "markerfacecolor": "none", "markersize": 14, "markeredgewidth": 2,
    "linestyle": "none",
}  # fmt: skip
NAMES = {
    "lr": "learning rate",
    "flat_share": "share of epochs at constant rate",
    "weight_decay": "weight decay",
    "eps": "ε",
    "1 − momentum": "1 − momentum",
    "1 − beta2": "1 − β₂",
}


def row_label(row: pd.Series) -> str:
    """The pool of a row; for Squeeze-and-Excitation both pools; elsewhere what tells rows of one table apart."""
    label = str(style_of(row["pool"])["label"])
    return f"{label} | {style_of(row['squeeze_pool'])['label']}" if "squeeze_pool" in row else label


def forest(frame: pd.DataFrame, *, unit: str) -> Figure:
    """The table of `redecide` as one panel per column: mean and 95 % interval of each entry.

    Filled: bold in the paper. Ringed: bold by Welch's test differs from that.
    """
    figure, axes = _intervals(frame, "mean", filled=frame["bold"], ringed=~frame["agrees"])
    for axis in axes:
        axis.set_xlabel(unit)
    handles = _filled("bold in the paper", "not bold")
    if not frame["agrees"].all():
        handles.append(Line2D([], [], **RING, label="Welch's test disagrees"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def gains(frame: pd.DataFrame) -> Figure:
    """The rows of `redecide.comparison_frame` as one panel per setting: gain over the baseline with its 95 % interval.

    Right of the line is better. Filled: significant by Welch's test, two-sided, corrected by Holm.
    """
    figure, axes = _intervals(frame, "gain", filled=frame["outcome"].isin(["higher", "lower"]))
    for axis in axes:
        axis.axvline(0, color=INK, linewidth=1.2, zorder=1)
        axis.set_xlabel("worse  ←  percentage points  →  better")
    figure.legend(handles=_filled("significant", "not significant"), loc="outside lower center", ncols=2)
    return figure


def _intervals(
    frame: pd.DataFrame, centre: str, *, filled: pd.Series, ringed: pd.Series | None = None
) -> tuple[Figure, np.ndarray]:
    """One panel per column of the table, one row per pool: the centre of each entry and the bar from low to high."""
    columns = list(dict.fromkeys(frame["column"]))
    labels = list(dict.fromkeys(row_label(row) for _, row in frame.iterrows()))
    across = 3 if len(columns) == 3 else min(len(columns), 2)
    down = -(-len(columns) // across)
    figure, grid = plt.subplots(
        down, across, figsize=(8.6, (0.34 * len(labels) + 1.0) * down), sharey=True, squeeze=False
    )
    figure.set_layout_engine("constrained", h_pad=0.12, w_pad=0.08)
    for axis, column in zip(grid.flat, columns, strict=True):
        for index, row in frame[frame["column"] == column].iterrows():
            y, style = labels.index(row_label(row)), style_of(row["pool"])
            axis.plot([row["low"], row["high"]], [y, y], color=style["color"], linestyle="-", linewidth=2)
            face = style["color"] if filled[index] else "white"
            axis.plot(row[centre], y, marker=style["marker"], color=style["color"], markerfacecolor=face, markersize=7)
            if ringed is not None and ringed[index]:
                axis.plot(row[centre], y, **RING)
        axis.set(title=column, yticks=range(len(labels)), yticklabels=labels)
        axis.margins(y=0.12)
        axis.xaxis.set_major_locator(MaxNLocator(4))
    grid[0][0].invert_yaxis()
    return figure, grid.ravel()


def _filled(filled: str, hollow: str) -> list[Line2D]:
    """The key to filled and hollow markers."""
    return [
        Line2D([], [], marker="o", color="#555555", markerfacecolor=face, linestyle="none", label=label)
        for face, label in (("#555555", filled), ("white", hollow))
    ]


def p_over_n(found: Mapping[int, Comparisons], *, marked: int) -> Figure:
    """For each setting, Holm's p of each pool against its baseline, by the number of runs that may stand behind a mean.

    Solid where the pool is ahead of the baseline, dotted where it is behind; `marked` is an n to point out.
    """
    frames = pd.concat(
        [redecide.comparison_frame(comparisons).assign(n=n) for n, comparisons in found.items()], ignore_index=True
    )
    pools = list(dict.fromkeys(frames["pool"]))
    columns = list(dict.fromkeys(frames["column"]))
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.4), sharex=True, sharey=True)
    for axis, column in zip(axes.ravel(), columns, strict=True):
        for pool in pools:
            rows = frames[(frames["column"] == column) & (frames["pool"] == pool)]
            style, ahead = style_of(pool), rows["gain"].iloc[0] > 0
            look = style | {"linestyle": "-" if ahead else ":", "markevery": max(1, len(rows) // 5)}
            axis.plot(rows["n"], rows["p"].clip(lower=1e-4), **look, markerfacecolor=_face(pool))
        axis.axhline(ALPHA, color=DISAGREES, linewidth=1.2)
        axis.axvline(marked, color="#999999", linewidth=1.2, linestyle="--")
        axis.set(title=column, xscale="log", yscale="log", ylim=(8e-5, 1.3))
    for axis in axes[1]:
        axis.set_xlabel("runs behind each mean, n")
    figure.supylabel("p (Holm), against average pooling", fontsize="medium")
    # Markers alone: whether a line is solid or dotted differs from panel to panel.
    handles = [Line2D([], [], **style_of(p) | {"linestyle": "none"}, markerfacecolor=_face(p)) for p in pools]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _face(pool: str) -> str | None:
    """Pools that start at another temperature have hollow markers."""
    return "white" if "t0=" in pool else None


def lattice_steps(frames: dict[str, pd.DataFrame]) -> Figure:
    """Where each row of the hyperparameter tables lies on the lattice, counted in steps from the start."""
    rows = [(network, row) for network, frame in frames.items() for _, row in frame.iterrows()]
    directions = {"a": "learning rate ρ", "b": "λ up, ρ down", "c": "1 − μ up, ρ up"}
    figure, axes = plt.subplots(1, 3, figsize=(8.6, 0.27 * len(rows) + 1.2), sharey=True)
    for axis, (key, title) in zip(axes, directions.items(), strict=True):
        axis.axvline(0, color=INK, linewidth=1.2)
        for y, (_, row) in enumerate(rows):
            style = style_of(row["pool"])
            axis.plot([0, row[key]], [y, y], color=style["color"], linestyle="-", linewidth=1.5)
            axis.plot(row[key], y, marker=style["marker"], color=style["color"])
            if key == "c" and row["d"]:
                text = f"μ ÷ r, {row['d']}×"
                axis.text(-0.4, y, text, ha="right", va="center", fontsize=9, color=DISAGREES)
        axis.set(title=title, xlabel="steps of r", xticks=range(-4, 6, 2))
    names = {"cifar10": "C10", "cifar100": "C100"}
    labels = [f"{row_label(row)}, {names[row['data']]}" for _, row in rows]
    axes[0].set(yticks=range(len(rows)), yticklabels=labels)
    axes[0].tick_params(axis="y", labelsize=9)
    for axis in axes:
        axis.axhline(len(next(iter(frames.values()))) - 0.5, color="#999999", linewidth=1)
        axis.set(xlim=(-6, 5), ylim=(len(rows) - 0.4, -0.6))
    return figure


def rate_ratios(frame: pd.DataFrame) -> Figure:
    """Tuned step size of each pool over average pooling's, by network and data: once alone, once times weight decay."""
    shown = frame[frame["pool"] != "avg"]
    settings = list(dict.fromkeys(zip(shown["network"], shown["setting"], strict=True)))
    pools = list(dict.fromkeys(shown["pool"]))
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 4.4), sharey=True)
    for axis, (column, title) in zip(
        axes, {"rate_ratio": "tuned rate", "rate_decay_ratio": "tuned rate × weight decay"}.items(), strict=True
    ):
        axis.axvline(1, color=INK, linewidth=1.2)
        for number, pool in enumerate(pools):
            style = style_of(pool)
            for _, row in shown[shown["pool"] == pool].iterrows():
                y = settings.index((row["network"], row["setting"])) + 0.14 * (number - (len(pools) - 1) / 2)
                axis.plot(row[column], y, marker=style["marker"], color=style["color"], linestyle="none")
        axis.set(title=title, xscale="log", xlabel="ratio to average pooling's")
        ticks = [0.03, 0.1, 0.3, 1, 3] if column == "rate_ratio" else [0.2, 0.5, 1, 2]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    axes[0].set(yticks=range(len(settings)), yticklabels=[f"{a}, {b}" for a, b in settings])
    axes[0].invert_yaxis()
    handles = [Line2D([], [], **{**style_of(pool), "linestyle": "none"}) for pool in pools]  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def range_positions(frame: pd.DataFrame) -> Figure:
    """Each value of the MXResNet table inside the range that was searched first, both ends at ±1."""
    names = list(dict.fromkeys(frame["hyperparameter"]))
    pools = list(dict.fromkeys(frame["pool"]))
    figure, axis = plt.subplots(figsize=(8.6, 3.8))
    axis.axvspan(-1, 1, color="#eef2f7")
    axis.axvline(0, color=INK, linewidth=1.2)
    for number, pool in enumerate(pools):
        rows, style = frame[frame["pool"] == pool], style_of(pool)
        y = [names.index(name) + 0.13 * (number - (len(pools) - 1) / 2) for name in rows["hyperparameter"]]
        axis.plot(
            rows["position"], y, marker=style["marker"], color=style["color"], linestyle="none", label=style["label"]
        )
        outside = ~rows["inside"].to_numpy()
        axis.plot(rows["position"][outside], np.array(y)[outside], **RING)
    axis.set_yticks(range(len(names)), [NAMES[name] for name in names])
    axis.set_xticks([-1, 0, 1], ["lower end", "centre", "upper end"])
    axis.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def verdict_by_n(holds: pd.DataFrame, *, marked: int) -> Figure:
    """Where each statement of a claim holds: one row of `holds` per n, one column per statement; `marked` is an n."""
    figure, axis = plt.subplots(figsize=(8.6, 2.6))
    for y, statement in enumerate(holds.columns):
        met = holds[statement].to_numpy(dtype=bool)
        axis.fill_between(holds.index, y - 0.3, y + 0.3, where=met, step="post", color=SERIES[1], linewidth=0)
        axis.fill_between(
            holds.index, y - 0.3, y + 0.3, where=~met, step="post", facecolor="white", edgecolor="#aaaaaa",
            hatch="////", linewidth=0.5,
        )  # fmt: skip
    axis.axvline(marked, color="#777777", linewidth=1.2, linestyle="--")
    axis.set(xscale="log", xlabel="runs behind each mean, n", yticks=range(holds.shape[1]), yticklabels=holds.columns)
    axis.grid(False)
    axis.invert_yaxis()
    return figure
