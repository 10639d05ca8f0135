"""The paper's own numbers: every table of its source as a small text file, with where it stands and what it means.

>>> tables()["wrn"].n
30
>>> frame = tables()["wrn"].frame()
>>> frame[(frame.pool == "avg") & (frame.data == "cifar10")]["mean"].item()
5.26

`printed/tables.yml` describes the files, `printed/searches.yml` the two hyperparameter searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import pandas as pd
import yaml

DATA_LABELS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenette": "Imagenette", "imagewoof": "Imagewoof"}
_HERE = files(__name__) / "printed"


@dataclass(frozen=True)
class Table:
    """One table of the paper; see the head of `tables.yml` for the fields."""

    name: str
    title: str
    kind: Literal["results", "hyperparameters"]
    source: str
    lines: str
    label: str
    printed_as: str | None
    status: Literal["printed", "dropped", "commented"]
    unit: str
    note: str | None
    better: Literal["low", "high"] | None = None
    spread: Literal["sd", "sem"] | None = None
    n: int | None = None
    n_comment: int | None = None
    test: str | None = None
    bold_over: tuple[str, ...] | None = None

    def printed(self) -> pd.DataFrame:
        """The entries as text, exactly as printed: their last digit tells how they were rounded."""
        return self._read(dtype=str)

    def frame(self) -> pd.DataFrame:
        """The entries as numbers; `bold` as booleans."""
        return self._read(true_values=["yes"], false_values=["no"])

    def _read(self, **how: Any) -> pd.DataFrame:
        with (_HERE / f"{self.name}.csv").open(encoding="utf-8") as handle:
            return pd.read_csv(handle, keep_default_na=False, **how)


@cache
def tables() -> dict[str, Table]:
    """All tables by name, results first."""
    content: dict[str, dict[str, Any]] = yaml.safe_load((_HERE / "tables.yml").read_text(encoding="utf-8"))
    for entry in content.values():
        if "bold_over" in entry:
            entry["bold_over"] = tuple(entry["bold_over"])
    return {name: Table(name=name, **entry) for name, entry in content.items()}


@cache
def searches() -> dict[str, dict]:
    """The two searches as described in the paper: ``lattice`` and ``random``."""
    return yaml.safe_load((_HERE / "searches.yml").read_text(encoding="utf-8"))
