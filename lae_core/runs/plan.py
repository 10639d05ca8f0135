"""A sweep as a small file: what all runs share, and what varies::

    base: {network: wrn, depth: 8, width: 1, data: digits, epochs: 3}
    grid:
      pool: [avg, "lae(t0=1, train=one)"]
      seed: 0..4

Every combination of a grid is a run; `0..4` counts from 0 to 4. A list of grids runs each of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

C = TypeVar("C")
_COUNT = re.compile(r"(\d+)\.\.(\d+)")


def read_plan(path: str | Path) -> dict[str, Any]:
    import yaml

    try:
        plan = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not a plan: {error}") from None
    if not isinstance(plan, dict) or not set(plan) <= {"base", "grid"}:
        raise ValueError(f"{path}: expected a mapping with `base` and `grid`, see the page on scaling out")
    return plan


def expand(plan: Mapping[str, Any], config_type: type[C], changes: Mapping[str, Any] | None = None) -> list[C]:
    """All configs of a plan, each once; `changes` are laid over the base."""
    base = dict(plan.get("base") or {}) | dict(changes or {})
    grids = plan.get("grid") or {}
    configs: dict[C, None] = {}
    for grid in grids if isinstance(grids, list) else [grids]:
        if clash := set(grid) & set(changes or {}):
            raise ValueError(f"{sorted(clash)[0]!r} is varied by the plan's grid and cannot be set as well")
        for values in itertools.product(*(_values(name, entry) for name, entry in grid.items())):
            configs[config_type.from_dict(base | dict(zip(grid, values, strict=True)))] = None  # type: ignore[attr-defined]
    return list(configs)


def _values(name: str, entry: Any) -> list[Any]:
    if isinstance(entry, str) and (match := _COUNT.fullmatch(entry.strip())):
        return list(range(int(match[1]), int(match[2]) + 1))
    if not isinstance(entry, list):
        raise ValueError(f"grid: {name}={entry!r}: expected a list of values, or a count such as 0..4")
    return entry
