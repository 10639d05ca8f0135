"""Draw the picture of README and front page, LogAvgExp over its temperature: `.venv/bin/python ci/picture.py [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from lae_core import logavgexp
from lae_core.figures.style import pool_style, use_style

TARGET = Path(__file__).resolve().parents[1] / "book" / "_static" / "lae.svg"
VALUES = torch.tensor([-1.0, 0.0, 1.4, 1.6], dtype=torch.float64)  # the matrix of the paper's first figure, in a row
SHOWN = (0.1, 1.0, 10.0)


def draw(target: Path) -> None:
    """Above, how much each value counts at three temperatures; below, the pooled value. Narrow, for a phone's sake."""
    use_style()
    plt.rcParams["svg.fonttype"] = "path"
    colour = pool_style("lae")["color"]
    figure = plt.figure(figsize=(5.2, 4.4))
    *bars, curve = figure.subplot_mosaic("abc;ddd;ddd").values()
    for axis, temperature in zip(bars, SHOWN, strict=True):
        axis.bar([f"{value:g}".replace("-", "−") for value in VALUES], (VALUES / temperature).softmax(0), color=colour)
        axis.set(ylim=(0, 1), yticks=[0, 1], title=f"t = {temperature:g}")
        axis.tick_params(labelleft=axis is bars[0])
    bars[0].set_ylabel("weight")
    bars[1].set_xlabel("the four values that are pooled")
    t = torch.logspace(-2, 3, 200, dtype=torch.float64)
    curve.semilogx(t, logavgexp(VALUES.expand(len(t), -1), t), **pool_style("lae") | {"linewidth": 3})
    for value, name in ((VALUES.max(), "max"), (VALUES.mean(), "avg")):
        style = pool_style(name) | {"linewidth": 1.5}
        curve.axhline(value, **style)
        curve.text(1e3, value + 0.04, style["label"], ha="right", color=style["color"])
    curve.text(1.7, 0.95, "LogAvgExp", color=colour, fontweight="bold", fontsize=14)
    for temperature in SHOWN:
        curve.plot(temperature, logavgexp(VALUES, temperature), "o", color=colour, markersize=8)
    curve.set(xlabel="temperature t", ylabel="pooled value", ylim=(0.4, 1.75))
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
