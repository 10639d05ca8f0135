"""What the recorded runs of the named recipes reach in how much CPU time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lae_core.evidence import outcomes
from lae_core.figures.style import SERIES
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig
from lae_core.training.datasets import DATASETS
from lae_core.training.recipes import RECIPES, recipe

# What a run of a recipe may change without becoming another recipe.
_FREE = {"data": "cifar10", "seed": 0, "precision": "fp32", "device": "auto", "pool": "avg", "fold": None}
FORMER = "the former recipe"  # what this book's experiments were made with before: the paper's network made tiny
Runs = Mapping[tuple[str, str], Sequence[Record]]


def recipe_of(config: Mapping[str, Any]) -> str:
    """The name of the recipe that a config follows: one of `RECIPES`, a title of the network, or the former recipe."""
    plain = RunConfig.from_dict(dict(config)).replace(**_FREE)
    for name in RECIPES:
        if recipe(name, data=config["data"]).replace(**_FREE) == plain:
            return name
    return FORMER if plain.subset else outcomes.network_title(dict(config))


def by_recipe(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """The records by recipe and data set, in the order of CPU time."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda r: cpu_minutes(r)[-1]):
        found.setdefault((recipe_of(record.config), record.config["data"]), []).append(record)
    return found


def cpu_minutes(record: Record) -> np.ndarray:
    """CPU-minutes from the start of a run to the end of each epoch, validation with it."""
    return np.cumsum(record.provenance["times"]["cpu"]) / 60


def table(runs: Runs) -> pd.DataFrame:
    """One row per recipe and data set: network, positions, precision, n, accuracy and CPU-minutes."""
    rows = []
    for (name, data), records in runs.items():
        first = records[0]
        rows.append(
            {
                "recipe": name,
                "data": DATASETS[data].title,
                "parameters": f"{first.result['network']['parameters']:,}",
                "positions": first.result["network"]["pooled_positions"],
                "epochs": first.config["epochs"],
                "precision": first.config["precision"],
                "n": len(records),
                "accuracy": float(np.mean(outcomes.accuracies(records))),
                "minutes": float(np.mean([cpu_minutes(record)[-1] for record in records])),
            }
        )
    return pd.DataFrame(rows)


def speed_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What `lae bench training` found of each recipe's loop."""
    return pd.DataFrame(
        {
            "recipe": f"{row['recipe']}, {row['augment']}",
            "precision": row["precision"],
            "pictures per second": round(row["pictures_per_second"]["ours"]),
            "× plain PyTorch": row["ratio"]["plain PyTorch"],
            "× timm": row["ratio"].get("timm", "–"),
            "not network (%)": round(100 * row["not_network"]),
            "of the peak (%)": round(100 * row["share_of_peak"]),
        }
        for row in rows
    )


def error_over_time(runs: Runs, data: str, ridge: float | None = None) -> Figure:
    """Validation error in % over CPU-minutes, one line per run and a dot at its end; accuracy of ridge regression in %."""
    figure, axes = plt.subplots(figsize=(6.4, 4))
    here = {name: records for (name, trained_on), records in runs.items() if trained_on == data}
    for number, (name, records) in enumerate(here.items()):
        colour = SERIES[number % len(SERIES)]
        for record in records:
            rows = record.result["epochs"]
            seen = [i for i, row in enumerate(rows) if row.get("valid_error") is not None]
            errors = [100 * rows[i]["valid_error"] for i in seen]
            minutes = cpu_minutes(record)[seen]
            axes.plot(minutes, errors, color=colour, linestyle="-", linewidth=1, alpha=0.5)
            axes.plot(minutes[-1], errors[-1], "o", color=colour)
        axes.annotate(name, (minutes[-1], errors[-1]), (4, -11), textcoords="offset points", color=colour, fontsize=10)
    if ridge is not None:
        axes.axhline(100 - ridge, color="0.35", linestyle=":", linewidth=1.5)
        axes.annotate("ridge regression on pixels", (1, 100 - ridge), (-4, 4), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", color="0.35", fontsize=10)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="CPU-minutes on one core", ylabel="test error (%)")
    ticks = [5, 7, 10, 15, 20, 30, 40, 60]
    axes.set_yticks(ticks, [str(t) for t in ticks])
    axes.set_yticks([], minor=True)
    marks = [m for m in (0.2, 0.5, 1, 2, 5, 10, 20, 30) if axes.get_xlim()[0] < m < axes.get_xlim()[1]]
    axes.set_xticks(marks, [f"{m:g}" for m in marks])
    axes.set_xticks([], minor=True)
    axes.margins(x=0.15)
    return figure
