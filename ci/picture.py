"""Draw the README's picture, LogAvgExp over its temperature: `.venv/bin/python ci/picture.py [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from lae_core import logavgexp
from lae_core.evidence.figures import pool_style, use_style

TARGET = Path(__file__).resolve().parents[1] / "book" / "_static" / "lae.svg"
VALUES = torch.tensor([-1.0, 0.0, 1.4, 1.6], dtype=torch.float64)  # the matrix of the paper's first figure, in a row
SHOWN = (0.1, 1.0, 10.0)


def draw(target: Path) -> None:
    use_style()
    plt.rcParams["svg.fonttype"] = "path"
    figure = plt.figure(figsize=(8.2, 3.4))
    curve, *bars = figure.subplot_mosaic("aaab;aaac;aaad").values()
    t = torch.logspace(-2, 3, 200, dtype=torch.float64)
    curve.semilogx(t, logavgexp(VALUES.expand(len(t), -1), t), **pool_style("lae") | {"linewidth": 3})
    for value, name in ((VALUES.max(), "max"), (VALUES.mean(), "avg")):
        style = pool_style(name) | {"linewidth": 1.5}
        curve.axhline(value, **style)
        curve.text(1e3, value + 0.03, style["label"], ha="right", color=style["color"])
    curve.text(1.6, 0.95, "LogAvgExp", color=pool_style("lae")["color"], fontweight="bold")
    curve.set(xlabel="temperature t", ylabel="pooled value", title="One operator, from the maximum to the mean")
    for axis, temperature in zip(bars, SHOWN, strict=True):
        curve.plot(temperature, logavgexp(VALUES, temperature), "o", color=pool_style("lae")["color"])
        axis.bar(
            [f"{value:g}" for value in VALUES], (VALUES / temperature).softmax(0), color=pool_style("lae")["color"]
        )
        axis.set(ylim=(0, 1), yticks=[0, 1], ylabel=f"t = {temperature:g}")
        axis.tick_params(labelbottom=axis is bars[-1])
    bars[0].set_title("weight of each value")
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
