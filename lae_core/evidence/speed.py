"""What `lae bench operator` recorded, as a table and as a figure."""

from __future__ import annotations

import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure

from lae_core.evidence.figures import pool_style

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
    """One row a case and contender; and what was measured besides (hardware, ResNet-50).

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


def speedups(frame: pd.DataFrame) -> pd.DataFrame:
    """For each case, how many times faster than the fastest eager peer ours is, forward + backward, eager and compiled."""
    keys = ["dtype", "layout", "shape", "threads", "t", "temperature", "values"]
    wide = frame.pivot_table(index=keys, columns="pool", values="both", sort=False)
    peers = [pool for pool in wide if pool not in ("mean", "lae") and not pool.endswith(", compiled")]
    fastest = wide[peers].min(axis=1)
    found = pd.DataFrame({"eager": fastest / wide["lae"]})
    if "lae, compiled" in wide:
        found["compiled"] = fastest / wide["lae, compiled"]
    return found.reset_index()


# how many times as fast as the fastest eager peer ours is meant to be, in float32 at every shape and layout
_AIMS = {("eager", "fixed"): 1.3, ("eager", "trained"): 1.0, ("compiled", "fixed"): 2.5, ("compiled", "trained"): 2.5}


def against_aims(found: pd.DataFrame) -> pd.DataFrame:
    """The least and most that `speedups` found in float32 at each temperature, and in how many cases the aim is reached."""
    rows = []
    for (t, threads), part in found[found["dtype"] == "float32"].groupby(["t", "threads"]):
        for (mode, temperature), aim in _AIMS.items():
            ratios = part.loc[part["temperature"] == temperature].get(mode, pd.Series()).dropna()
            if len(ratios):
                rows.append(
                    {
                        **{"mode": mode, "temperature": temperature, "t": f"{t:g}", "threads": threads},
                        **{"least": ratios.min(), "most": ratios.max(), "aim": f"{aim:g}"},
                        "reached": f"{(ratios >= aim).sum()} of {len(ratios)}",
                    }
                )
    return pd.DataFrame(rows)


def ratio_figure(frame: pd.DataFrame) -> Figure:
    """Forward + backward as multiples of the mean's, one line a shape, one panel for a fixed and one for a trained temperature."""
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
        axis.axvline(1, color="grey", linewidth=1)
        axis.set(title=f"{temperature} temperature", xscale="log", ylim=(len(shapes) - 0.5, -0.5))
        axis.set_yticks(range(len(shapes)), shapes)
        axis.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axis.minorticks_off()
    axes[-1].set_xlabel("time, as a multiple of the mean's")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
