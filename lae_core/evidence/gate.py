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
from functools import cache
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
    ridge = [recorded_ridge(pictures(record.config)) for record in records]
    known = [value for value in ridge if value is not None]
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
        ridge=float(np.mean(known)) if len(known) == len(ridge) else None,
        gate=GATES[kind].get(family(first["data"])),
    )


def pictures(config: dict[str, Any]) -> str:
    """The name of the pictures that a run trains and validates on; without a subset the seed draws none of them."""
    named = {name: config[name] for name in PICTURES}
    if named["subset"] is None:
        named["seed"] = None
    return json.dumps(named, sort_keys=True)


def recorded_ridge(name: str) -> float | None:
    """Accuracy in % of ridge regression on these pictures, if `lae bench ridge` recorded it."""
    return _read(RIDGE).get(name) if RIDGE.is_file() else None


def write_ridge(found: dict[str, float], path: Path = RIDGE) -> None:
    """Write {name of the pictures: accuracy in %}, with a checksum."""
    body = {name: round(value, 2) for name, value in sorted(found.items())}
    text = json.dumps({"accuracy": body, "check": _check(body)}, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    _read.cache_clear()


def read_ridge(path: Path = RIDGE) -> dict[str, float]:
    """What `write_ridge` wrote; any edit is an error."""
    return dict(_read(path))


@cache
def _read(path: Path) -> dict[str, float]:
    text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text)
        body, check = found["accuracy"], found["check"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is invalid; expected what `lae bench ridge` writes") from None
    expected = json.dumps({"accuracy": body, "check": _check(body)}, indent=1, ensure_ascii=False) + "\n"
    if check != _check(body) or text != expected:
        raise ValueError(f"{path} was edited by hand: its checksum does not match; run `lae bench ridge` again")
    return body


def _check(body: dict[str, float]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
