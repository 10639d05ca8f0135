"""What the records of an experiment say, as the numbers that its notebook compares and draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lae_core.paper import DATA_LABELS
from lae_core.pooling import PoolSpec
from lae_core.runs.records import Record
from lae_core.training.datasets import DATASETS

POOL = "global_pool"  # the networks' name for their last pool


def accuracies(records: Sequence[Record]) -> list[float]:
    """Final top-1 accuracy in %. A run that diverged counts as guessing."""
    return [100 * r.result["final"]["accuracy"] if r.result["final"] else _chance(r) for r in records]


def errors(records: Sequence[Record]) -> list[float]:
    """Final top-1 error in %."""
    return [100 - value for value in accuracies(records)]


def diverged(records: Sequence[Record]) -> int:
    return sum(r.result["status"] == "diverged" for r in records)


def _chance(record: Record) -> float:
    """The accuracy in % of guessing."""
    return 100 / DATASETS[record.config["data"]].classes


def curves(records: Sequence[Record]) -> tuple[list[int], np.ndarray]:
    """Epochs that were validated, and a matrix (runs, epochs) of errors in %; after a divergence a run guesses."""
    longest = max((record.result["epochs"] for record in records), key=len)
    epochs = [row["epoch"] for row in longest if "valid_error" in row]
    return epochs, np.array([_errors_at(record, epochs) for record in records])


def _errors_at(record: Record, epochs: Iterable[int]) -> list[float]:
    seen = {row["epoch"]: row.get("valid_error") for row in record.result["epochs"]}
    return [100 - _chance(record) if seen.get(e) is None else 100 * seen[e] for e in epochs]


def early_accuracies(records: Sequence[Record]) -> list[float]:
    """Each run's mean validation accuracy in % over the first half of training; after a divergence it guesses."""
    means = []
    for record in records:
        due = [e for e in range(1, first_half(record.config["epochs"]) + 1) if e % record.config["eval_every"] == 0]
        means.append(100 - float(np.mean(_errors_at(record, due))))
    return means


def first_half(epochs: int) -> int:
    """The last epoch of the first half of training: 2 of 5; of one epoch, that one."""
    return max(1, epochs // 2)


def repeat(record: Record) -> tuple[Any, Any]:
    """Which repeat of its arm a run is: its seed and fold. Runs of two arms are compared where these agree."""
    return record.config.get("seed"), record.config.get("fold")


def common_repeats(arms: Sequence[Sequence[Record]]) -> set[tuple[Any, Any]]:
    """The seeds and folds that every arm has."""
    return set.intersection(*({repeat(run) for run in arm} for arm in arms)) if arms else set()


def with_repeats(side: Any, wanted: set[tuple[Any, Any]]) -> Any:
    """The runs with these seeds and folds, in that order, of an arm or of each arm in nested lists."""
    if not isinstance(side, list | tuple):
        return side
    if all(isinstance(run, Record) for run in side):
        return sorted((run for run in side if repeat(run) in wanted), key=repeat)
    return [with_repeats(part, wanted) for part in side]


def with_common_repeats(*arms: Sequence[Record]) -> list[list[Record]]:
    """The runs of each arm whose seed and fold all of them have, in that order."""
    return with_repeats(arms, common_repeats(arms))


def gradient_ratio(records: Sequence[Record], base: Sequence[Record]) -> tuple[list[int], np.ndarray]:
    """Epochs, and a matrix (runs, epochs) of mean gradient norms, each divided by that of the `base` run with the same index.

    It ends where the first of all these runs diverged.
    """
    norms, base_norms = (
        [[row["gradient_norm"] for row in r.result["epochs"]] for r in runs] for runs in (records, base)
    )
    last = min(run.index(None) if None in run else len(run) for run in [*norms, *base_norms])
    ratio = np.array([run[:last] for run in norms]) / np.array([run[:last] for run in base_norms])
    return list(range(1, last + 1)), ratio


def final_temperatures(records: Sequence[Record]) -> list[np.ndarray]:
    """The temperatures of each run's global pool at the end: one, or one per channel. nan after a divergence."""
    found = (r.result["pools"][POOL]["temperature"] for r in records)
    return [np.array([np.nan if t is None else t for t in values], dtype=float) for values in found]


def initial_temperature(record: Record) -> float:
    """The t₀ of the run's global pool."""
    return PoolSpec.parse(record.config["pool"])["t0"]


def spreads(records: Sequence[Record]) -> list[float]:
    """The features' standard deviation over positions where they meet the global pool, at the end of each run."""
    return [float(r.result["epochs"][-1].get("spread") or np.nan) for r in records]


def relative_temperatures(records: Sequence[Record]) -> list[float]:
    """Each run's final temperature in units of the features' spread; the geometric mean where it has several."""
    final = final_temperatures(records)
    return [float(np.exp(np.log(t).mean()) / spread) for t, spread in zip(final, spreads(records), strict=True)]


def doublings(records: Sequence[Record]) -> list[float]:
    """How often each run doubled its temperature: log₂ of final over initial, the mean over channels.

    A run that diverged to no final temperature counts as one that did not move it.
    """
    moved = []
    for record, final in zip(records, final_temperatures(records), strict=True):
        change = float(np.log2(final / initial_temperature(record)).mean())
        moved.append(change if np.isfinite(change) else 0.0)
    return moved


def memory_slopes(starts: Sequence[Sequence[Record]]) -> list[float]:
    """By seed, the slope of final on initial log-temperature over several starts, one list of runs for each t₀."""
    initial = np.log2([initial_temperature(records[0]) for records in starts])
    final = initial[:, None] + np.array([doublings(records) for records in starts])
    return np.polyfit(initial, final, 1)[0].tolist()


def temperature_course(records: Sequence[Record]) -> tuple[list[int], np.ndarray]:
    """Epochs from 0, and a matrix (runs, epochs) of log₂ of the geometric mean temperature over t₀.

    After a divergence a run stays where it was last seen.
    """
    epochs = list(range(1 + max(len(r.result["epochs"]) for r in records)))
    rows = []
    for record in records:
        seen = [row["temperatures"][POOL]["mean"] for row in record.result["epochs"]]
        course = [0.0]
        for k in range(len(epochs) - 1):
            t = seen[k] if k < len(seen) else None
            course.append(float(np.log2(t / initial_temperature(record))) if t else course[-1])
        rows.append(course)
    return epochs, np.array(rows)


def accuracy_by_size(records: Sequence[Record], view: str) -> tuple[list[int], np.ndarray]:
    """Input sizes, including that of training, and a matrix (runs, sizes) of accuracy in %.

    The view is zoom, crop-zero or crop-noise. A run that diverged guesses at every size.
    """
    trained_at = records[0].config["image_size"]
    sizes = sorted({*records[0].config["input_sizes"], trained_at})
    rows = []
    for record, accuracy in zip(records, accuracies(records), strict=True):
        if record.result["final"]:
            seen = {int(size): 100 * value for size, value in record.result["input_sizes"][view].items()}
            rows.append([accuracy if size == trained_at else seen[size] for size in sizes])
        else:
            rows.append([accuracy] * len(sizes))
    return sizes, np.array(rows)


def gain_at_other_sizes(records: Sequence[Record], view: str) -> list[float]:
    """Each run's mean accuracy over the sizes other than that of training, minus its accuracy at that of training."""
    sizes, values = accuracy_by_size(records, view)
    trained = sizes.index(records[0].config["image_size"])
    return (np.delete(values, trained, axis=1).mean(axis=1) - values[:, trained]).tolist()


def other_sizes_measure(side: tuple[Sequence[str], Sequence[Sequence[Record]]]) -> list[float]:
    """`gain_at_other_sizes` by seed, averaged over views and arms: a side is (views, arms)."""
    views, arms = side
    return np.mean([gain_at_other_sizes(arm, view) for view in views for arm in arms], axis=0).tolist()


def accuracy_at_two_thirds_and_four_thirds(records: Sequence[Record]) -> dict[tuple[str, str], list[float]]:
    """Accuracy in % at the input sizes nearest to ⅔ and 4⁄3 of that of training, by (smaller or larger, view and size).

    Below the size of training nothing is padded, so both ways to pad are the same crop.
    """
    trained_at = records[0].config["image_size"]
    smaller = {"zoom": "zoom", "crop-zero": "crop"}
    larger = {"zoom": "zoom", "crop-zero": "zero pad", "crop-noise": "noise pad"}
    found = {}
    for side, share, views in (("smaller", 2 / 3, smaller), ("larger", 4 / 3, larger)):
        for view, name in views.items():
            sizes, values = accuracy_by_size(records, view)
            nearest = min(sizes, key=lambda size: abs(size - share * trained_at))
            found[side, f"{name} to {nearest} px"] = values[:, sizes.index(nearest)].tolist()
    return found


def gap_narrowed(arms: Sequence[Sequence[Record]]) -> list[float]:
    """By how many per cent the gap between training and validation error is narrower in the first arm than in the second."""
    final = [[record.result["final"] for record in arm] for arm in arms]
    gaps = [[run["valid_error"] - run["train_error"] for run in arm] for arm in final]
    return [100 * (1 - first / second) for first, second in zip(*gaps, strict=True)]


NO_SWAP = "no swap"


def swap_accuracies(records: Sequence[Record], pool: str, when: str = "accuracy") -> list[float]:
    """Accuracy in % of trained networks after a swap to `pool` and one more epoch, or `accuracy_before` that epoch."""
    found = [(r.result.get("swaps") or {}).get(pool, {}).get(when) for r in records]
    return [_chance(r) if share is None else 100 * share for r, share in zip(records, found, strict=True)]


def swap_measure(side: tuple[Sequence[str], Sequence[Sequence[Record]]]) -> list[float]:
    """Accuracy in % of an arm after the swap to the one pool named, or with `NO_SWAP` at the end of training."""
    (pool,), (records,) = side
    return accuracies(records) if pool == NO_SWAP else swap_accuracies(records, pool)


def cpu_hours(records: Iterable[Record]) -> float:
    """CPU time of these runs on one core; a run that is given twice counts once."""
    return sum({r.key: r.provenance.get("cpu_seconds") or 0.0 for r in records}.values()) / 3600


def describe_runs(records: Sequence[Record]) -> str:
    """One line under a figure: data, network, n and hardware, read off the records."""
    first = records[0]
    config, network, origin = first.config, first.result.get("network"), first.provenance
    over = "seed" if config["fold"] is None else "fold"
    n = len({r.config[over] for r in records})
    pictures = f"{config['subset']:,} training pictures" if config["subset"] else "all training pictures"
    device = origin.get("device", "cpu")  # a GPU by its name
    where = origin.get("cpu", "unknown hardware") if device == "cpu" else device
    named = network_title(config)
    if network is not None:  # heads on a frozen network record none
        named += f" with {network['parameters']:,} parameters, pooling {network['pooled_positions']} positions"
    return (
        f"{_data(config)}, {pictures}, {config['epochs']} epochs, batch {config['batch']}; {named}; "
        f"n = {n} {over}s per arm; {where}."
    )


def _data(config: dict[str, Any]) -> str:
    title = DATA_LABELS.get(config["data"], DATASETS[config["data"]].title)
    return f"{title} at {config['image_size']} px"


def network_title(config: dict[str, Any]) -> str:
    """The network of a run in a few words."""
    if config["network"].startswith("efficientnet"):
        return f"{config['network'].replace('efficientnet', 'EfficientNet')}, frozen"
    names = {"wrn": "WRN", "pyramidnet": "PyramidNet", "mxresnet": "MXResNet", "speed": "SpeedNet"}
    return f"{names.get(config['network'], config['network'])}-{config['depth']}, width {config['width']:g}"
