"""Figures of the theory chapters that take more lines to draw than to say."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import lae_core
from lae_core.figures.style import DASHES, pool_style


def between_max_and_mean(rows: Mapping[str, Tensor], temperatures: Tensor) -> Figure:
    """One panel per row: LAE over temperature, its bounds as a band, its asymptotes dotted (low t) and dash-dotted (high t)."""
    fig, panels = plt.subplots(len(rows), 1, figsize=(6.4, 8.2), sharex=True)
    for axes, (title, row) in zip(panels, rows.items(), strict=True):
        top, mean, spread = row.max(), row.mean(), row.max() - row.min()
        low = torch.maximum(mean, top - temperatures * torch.tensor(float(len(row))).log())
        high = torch.minimum(top, mean + spread**2 / (8 * temperatures))
        axes.fill_between(temperatures, low, high, color="#dce9f5", label="bounds")
        near = top - temperatures * torch.log(len(row) / (row == top).sum())
        far = mean + row.var(correction=0) / (2 * temperatures)
        thin = {"color": "black", "lw": 1.3}
        axes.plot(temperatures[near >= mean], near[near >= mean], ":", label="max − t·log(n/m)", **thin)
        axes.plot(temperatures[far <= top], far[far <= top], "-.", label="mean + var/2t", **thin)
        value = lae_core.logavgexp(row.expand(len(temperatures), -1), temperatures)
        axes.plot(temperatures, value, **pool_style("lae"))
        axes.axhline(top, **pool_style("max") | {"lw": 1.2})
        axes.axhline(mean, **pool_style("avg") | {"lw": 1.2})
        margin = 0.12 * (top - mean)
        axes.set(xscale="log", ylabel="pooled value", title=title, ylim=(mean - margin, top + margin))
    panels[0].legend(loc="center right")
    panels[-1].set_xlabel("temperature t")
    return fig


def growth(row: Tensor, clutter: float) -> Figure:
    """How pooled values change as a row grows up to 16 times, left by positions of value `clutter`, right by repeats."""
    times = torch.arange(1, 17)
    ways = {
        "positions without evidence": [torch.cat([row, row.new_full(((k - 1) * len(row),), clutter)]) for k in times],
        "every entry repeated": [row.repeat(int(k)) for k in times],
    }
    pools = {
        "max": ("max", lambda z: z.max()),
        "average": ("avg", lambda z: z.mean()),
        "LSE": ("lse", lambda z: z.logsumexp(0)),
    }
    temperatures = (0.5, 1.0, 2.0)
    fig, panels = plt.subplots(1, 2, figsize=(6.4, 3.8), sharey=True)
    for axes, (title, rows) in zip(panels, ways.items(), strict=True):
        for label, (name, pool) in pools.items():
            # lines lie on each other: broad below, thin above
            look = pool_style(name) | {"label": label, "lw": {"max": 6, "avg": 3.5}.get(name, 1.9)}
            axes.plot(times, [pool(z) - pool(row) for z in rows], **look, alpha=0.5 if name == "max" else 1)
        for t, dash in zip(temperatures, DASHES[1:], strict=False):
            change = [lae_core.logavgexp(z, t) - lae_core.logavgexp(row, t) for z in rows]
            look = pool_style("lae") | {"label": f"LAE, t = {t:g}", "linestyle": dash}
            axes.plot(times, change, **look)
        axes.set(xscale="log", xlabel="length, relative to the row alone", title=title, ylim=(-6, 3.2))
        axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
        axes.minorticks_off()
    panels[0].set_ylabel("change of the pooled value")
    panels[1].legend(loc="lower center", ncols=2)
    return fig


def errors_over_temperature(measured: pd.DataFrame, dtypes: tuple[str, ...]) -> Figure:
    """What `accuracy.sweep` found: one panel per quantity and dtype, one line per form; grey where no digit is right."""
    forms = list(dict.fromkeys(measured.form))
    looks = dict(
        zip(forms, zip(("#de790b", "#2a2428", "#9e0a5b", "#0178ef"), (3.4, 1.6, 1.8, 2.2), strict=True), strict=True)
    )
    quantities = {"value": "value", "d_z": "gradient to z", "d_log_t": "gradient to log t"}
    fig, panels = plt.subplots(len(quantities), len(dtypes), figsize=(6.4, 7.2), sharex=True, squeeze=False)
    for across, dtype in enumerate(dtypes):
        here, wrong = measured[measured.dtype == dtype], 1 / torch.finfo(getattr(torch, dtype)).eps
        for axes, (quantity, words) in zip(panels[:, across], quantities.items(), strict=True):
            for (form, (colour, width)), dash in zip(looks.items(), ("-", DASHES[2], DASHES[1], "-"), strict=True):
                line = here[here.form == form]
                axes.plot(line.t, line[quantity].clip(lower=1e-2), color=colour, ls=dash, lw=width, label=form)
            top = 10 * here.loc[here[quantity] < float("inf"), quantity].max()
            axes.axhspan(wrong, max(top, 2 * wrong), color="#e8e8e8", label="no digit right")
            axes.set(xscale="log", yscale="log", title=f"{words}, {dtype}", ylim=(5e-3, max(top, 2 * wrong)))
            axes.set_xticks([1e-2, 1, 1e2, 1e4, 1e6])
    fig.supxlabel("temperature t", fontsize=11)
    fig.supylabel("error in ε", fontsize=11)
    fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig
