"""What the records of an experiment say, as the numbers that its notebook compares and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lae_core.evidence.paper import DATA_LABELS
from lae_core.runs.records import Record
from lae_core.training.datasets import DATASETS

POOL = "global_pool"  # the networks' name for their last pool


def accuracies(records: Sequence[Record]) -> list[float]:
    """Final top-1 accuracy in %. A run that diverged counts as guessing, which is all that its network can do."""
    return [100 * r.result["final"]["accuracy"] if r.result["final"] else _guess(r) for r in records]


def errors(records: Sequence[Record]) -> list[float]:
    """Final top-1 error in %."""
    return [100 - value for value in accuracies(records)]


def diverged(records: Sequence[Record]) -> int:
    return sum(r.result["status"] == "diverged" for r in records)


def _guess(record: Record) -> float:
    return 100 / DATASETS[record.config["data"]].classes


def curves(records: Sequence[Record], what: str = "valid_error") -> tuple[list[int], np.ndarray]:
    """Epochs that were validated, and a matrix (runs, epochs) in %; after a divergence a run stays at guessing."""
    epochs = [
        row["epoch"] for row in max(records, key=lambda r: len(r.result["epochs"])).result["epochs"] if what in row
    ]
    values = []
    for record in records:
        seen = {row["epoch"]: row.get(what) for row in record.result["epochs"]}
        worst = 100 - _guess(record)
        values.append([worst if seen.get(e) is None else 100 * seen[e] for e in epochs])
    return epochs, np.array(values)


def final_temperatures(records: Sequence[Record]) -> list[np.ndarray]:
    """Of each run, the temperatures of its global pool at the end: one, or one a channel. nan after a divergence."""
    found = (r.result["pools"][POOL]["temperature"] for r in records)
    return [np.array([np.nan if t is None else t for t in values], dtype=float) for values in found]


def over_sizes(records: Sequence[Record], view: str) -> tuple[list[int], np.ndarray]:
    """Input sizes, and a matrix (runs, sizes) of accuracy in %, for one view: zoom, crop-zero, crop-noise."""
    sizes = sorted(int(size) for size in records[0].result["input_sizes"][view])
    rows = [[100 * r.result["input_sizes"][view][str(size)] for size in sizes] for r in records]
    return sizes, np.array(rows)


def setting(records: Sequence[Record], profile: str) -> str:
    """One line under a figure: profile, data, network, n and hardware, read off the records."""
    first = records[0]
    config, network, origin = first.config, first.result["network"], first.provenance
    seeds = len({r.config["seed"] for r in records})
    pictures = f"{config['subset']:,} training pictures" if config["subset"] else "all training pictures"
    where = origin.get("gpu") or origin.get("cpu") or "unknown hardware"
    return (
        f"{profile}: {_data(config)}, {pictures}, {config['epochs']} epochs, batch {config['batch']}; "
        f"{_network(config)} with {network['parameters']:,} parameters, pooling {network['pooled_positions']} positions; "
        f"n = {seeds} seeds an arm; {where}."
    )


def _data(config: dict[str, Any]) -> str:
    title = DATASETS[config["data"]].title if config["data"] not in DATA_LABELS else DATA_LABELS[config["data"]]
    return f"{title} at {config['image_size']} px"


def _network(config: dict[str, Any]) -> str:
    names = {"wrn": "WRN", "pyramidnet": "PyramidNet", "mxresnet": "MXResNet"}
    return f"{names[config['network']]}-{config['depth']}, width {config['width']:g}"
