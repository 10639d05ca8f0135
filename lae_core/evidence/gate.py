"""The regime of an experiment: does its baseline arm work at all?

A comparison of pools in a network that does not work says nothing. So before a verdict on training counts, the
average-pooling arm of the runs that it rests on must reach the accuracy that :data:`GATES` asks for on that data set,
and the page prints it beside ridge regression on the same raw pixels of the same pictures (`lae bench ridge`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lae_core.evidence.outcomes import accuracies, network_title
from lae_core.runs.records import Record
from lae_core.training.datasets import DATASETS

Kind = Literal["table", "sweep", "frozen"]

# Accuracy in % that the average-pooling arm must reach: in tables of pools, in wide sweeps over temperature, and on the
# frozen features of a pretrained network, where CIFAR-10 stands for small objects in clutter: three times guessing.
GATES: dict[str, dict[str, float]] = {
    "table": {"cifar10": 85.0, "cifar100": 50.0, "imagewoof": 60.0, "imagenette": 80.0},
    "sweep": {"cifar10": 75.0, "cifar100": 50.0, "imagewoof": 60.0, "imagenette": 80.0},
    "frozen": {"cifar10": 30.0, "cifar100": 50.0, "imagenette": 80.0},
}
RIDGE = Path("book") / "results" / "ridge.json"  # from the root of the project, where notebooks run
PICTURES = ("data", "image_size", "subset", "fold", "eval_subset", "seed")  # what names the pictures of a run


@dataclass(frozen=True)
class Regime:
    """How well the baseline arm of one place works. `ridge` is None where it was not recorded."""

    place: str
    network: str
    pictures: str
    baseline: str
    accuracy: float
    n: int
    ridge: float | None
    gate: float | None

    @property
    def passed(self) -> bool:
        """Data sets without a gate are for trying things out: nothing is decided on them."""
        return self.gate is not None and self.accuracy >= self.gate

    def __str__(self) -> str:
        ridge = "not recorded" if self.ridge is None else f"{self.ridge:.1f} %"
        gate = "this data set decides nothing" if self.gate is None else f"the gate is {self.gate:g} %"
        return (
            f"{self.network}, {self.place}, {self.pictures}: {self.baseline} {self.accuracy:.1f} % (n = {self.n}), "
            f"ridge regression on the same raw pixels {ridge}; {gate}{'' if self.passed else ', not passed'}"
        )


def family(data: str) -> str:
    """The data set without version and size: imagewoof2-128 and imagewoof-160 are Imagewoof.

    >>> family("imagewoof2-128"), family("cifar10")
    ('imagewoof', 'cifar10')
    """
    found = re.match(r"imagewoof|imagenette", data)
    return found.group() if found else data


def regime(place: str, records: Sequence[Record], kind: Kind) -> Regime:
    """The regime of a place, from the runs of its baseline arm."""
    first = records[0].config
    recorded = read_ridge()
    ridge = [recorded.get(pictures(record.config), np.nan) for record in records]
    sizes = DATASETS[first["data"]].sizes
    used = f"{first['subset']:,} of {sizes['train']:,}" if first["subset"] else f"all {sizes['train']:,}"
    used = used if first["epochs"] else "no"
    pool = "average pooling" if first["pool"] == "avg" else first["pool"]
    return Regime(
        place=place,
        network=network_title(first),
        pictures=f"{used} training pictures at {first['image_size']} px",
        baseline=pool,
        accuracy=float(np.mean(accuracies(records))),
        n=len(records),
        ridge=None if np.isnan(ridge).any() else float(np.mean(ridge)),
        gate=GATES[kind].get(family(first["data"])),
    )


def pictures(config: dict[str, Any]) -> str:
    """The name of the pictures that a run trains and validates on; without a subset the seed draws none of them."""
    named = {name: config[name] for name in PICTURES}
    if named["subset"] is None:
        named["seed"] = None
    return json.dumps(named, sort_keys=True)


def write_ridge(found: dict[str, float]) -> None:
    """Write {name of the pictures: accuracy in %}, with a checksum, to `RIDGE`."""
    RIDGE.write_text(_text({name: round(value, 2) for name, value in sorted(found.items())}), encoding="utf-8")


def read_ridge() -> dict[str, float]:
    """What `write_ridge` wrote, if it did; any edit is an error."""
    if not RIDGE.is_file():
        return {}
    text = RIDGE.read_text(encoding="utf-8")
    try:
        body = json.loads(text)["accuracy"]
    except (ValueError, KeyError, TypeError):
        body = None
    if text != _text(body):
        raise ValueError(f"{RIDGE} was edited by hand: its checksum does not match; run `lae bench ridge` again")
    return body


def _text(body: dict[str, float] | None) -> str:
    check = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({"accuracy": body, "check": check}, indent=1, ensure_ascii=False) + "\n"
