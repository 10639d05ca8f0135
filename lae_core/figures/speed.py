"""What `lae bench operator` recorded, as a table and as a figure."""

from __future__ import annotations

import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import gmean

from lae_core.figures.style import pool_style

_OURS = pool_style("lae")["color"]
# contender: colour and marker; ours is filled, eager and compiled share a colour
_LOOK = {
    "lae": (_OURS, "o"),
    "lae, compiled": (_OURS, "*"),
    "logsumexp": ("#2a2428", "s"),
    "logsumexp, compiled": ("#2a2428", "P"),
    "logavgexp-pytorch": ("#de790b", "^"),
    "timm LsePlus2d": ("#9e0a5b", "v"),
}


def load(file: str | Path) -> tuple[pd.DataFrame, dict]:
    """One row per case and contender; and what was measured besides (hardware, ResNet-50).

    Times are multiples of the mean's, and what is kept for backward of the input's size (nan for compiled code).
    """
    report = json.loads(Path(file).read_text())
    rows = []
    for case in report.pop("cases"):
        size = math.prod(case["shape"]) * getattr(torch, case["dtype"]).itemsize
        for name in case["both"]:
            rows.append(
                {
                    "shape": "×".join(map(str, case["shape"])),
                    **{key: case[key] for key in ("layout", "dtype", "temperature", "t", "threads", "values")},
                    "pool": name,
                    "forward": case["forward"][name] / case["forward"]["mean"],
                    "both": case["both"][name] / case["both"]["mean"],
                    "kept": case["kept"].get(name, math.nan) / size,
                }
            )
    return pd.DataFrame(rows), report


def plainest(frame: pd.DataFrame, dtype: str) -> pd.DataFrame:
    """The cases at t = 1 on one thread, with contiguous inputs of normal values."""
    return frame.query("dtype == @dtype and layout == 'contiguous' and threads == 1 and t == 1 and values == 'normal'")


TINY = 10_000  # elements: an input on which the number of calls counts, not the work in them


def speedups(frame: pd.DataFrame) -> pd.DataFrame:
    """For each case, how many times as fast as the fastest eager peer ours is: in inference, training, and compiled training."""
    keys = ["dtype", "layout", "shape", "threads", "t", "temperature", "values"]
    found = {}
    for name, column in (("inference", "forward"), ("training", "both")):
        wide = frame.pivot_table(index=keys, columns="pool", values=column, sort=False)
        peers = [pool for pool in wide if pool not in ("mean", "lae") and not pool.endswith(", compiled")]
        found[name] = wide[peers].min(axis=1) / wide["lae"]
        if name == "training" and "lae, compiled" in wide:
            found["compiled"] = wide[peers].min(axis=1) / wide["lae, compiled"]
    return pd.DataFrame(found).reset_index()


# how many times as fast as the fastest eager peer ours is meant to be, as a geometric mean over cases on one thread
_AIMS = {("float32", "training"): 2.5, ("float32", "inference"): 2.5, ("bfloat16", "training"): 1.5}
_AIMS |= {("bfloat16", "inference"): 1.5}


def against_aims(found: pd.DataFrame) -> pd.DataFrame:
    """The geometric mean and the worst case of `speedups` on one thread, against the aims; tiny inputs in rows of their own."""
    elements = found["shape"].map(lambda shape: math.prod(map(int, shape.split("×"))))
    cases = found.assign(inputs=elements.map(lambda count: "tiny" if count < TINY else "usual"))
    cases = cases[cases["threads"] == 1].melt(["dtype", "inputs"], ["training", "inference"], "what", "ratio").dropna()
    rows = []
    for (dtype, what), aim in _AIMS.items():
        part = cases[(cases["dtype"] == dtype) & (cases["what"] == what)]
        for inputs, ratios in part.sort_values("inputs", ascending=False).groupby("inputs", sort=False)["ratio"]:
            shown = {"dtype": dtype, "what": what, "inputs": inputs, "cases": len(ratios)}
            goal = 1.0 if inputs == "tiny" else aim
            rows.append(shown | {"geometric mean": gmean(ratios), "aim": goal, "least": ratios.min()})
    return pd.DataFrame(rows)


def ratio_figure(frame: pd.DataFrame) -> Figure:
    """Forward + backward as multiples of the mean's, one line per shape; panels for a fixed and a trained temperature."""
    figure, axes = plt.subplots(2, 1, figsize=(5.6, 6.2), sharex=True)
    shapes = list(dict.fromkeys(frame["shape"]))
    for axis, temperature in zip(axes, ("fixed", "trained"), strict=True):
        part = frame[frame["temperature"] == temperature]
        for pool, (colour, marker) in _LOOK.items():
            ratios = part[part["pool"] == pool].set_index("shape")["both"]
            if len(ratios):
                face = colour if pool.startswith("lae") else "none"
                places = [shapes.index(shape) for shape in ratios.index]
                axis.plot(
                    ratios, places, marker, color=colour, markerfacecolor=face, markersize=8, label=pool, linestyle=""
                )
        axis.axvline(1, color="grey", linewidth=1.5, label="mean")
        axis.set(
            title=f"{temperature} temperature",
            xscale="log",
            ylim=(len(shapes) - 0.5, -0.5),
            ylabel="shape of the input",
        )
        axis.set_yticks(range(len(shapes)), shapes)
        axis.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axis.minorticks_off()
    axes[-1].set_xlabel("time, as a multiple of the mean's")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
