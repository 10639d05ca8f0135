"""A sweep as a small file: what all runs share, and what varies::

    base: {network: wrn, depth: 8, width: 1, data: digits, epochs: 3}
    grid:
      pool: [avg, "lae(t0=1, train=one)"]
      seed: 0..4

Every combination of a grid is a run; `0..4` counts from 0 to 4. A list of grids runs each of them. `from: ten` starts
from the fields of a named recipe, in the base or, with a list of names, in a grid.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lae_core.runs.yaml_text import read_yaml
from lae_core.training.config import RunConfig
from lae_core.training.recipes import recipe

_COUNT = re.compile(r"(\d+)\.\.(\d+)")


def read_plan(path: str | Path) -> dict[str, Any]:
    """The plan in a file, checked as far as it goes without knowing the fields of a run."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ValueError(f"PLAN = {str(path)!r} is invalid ({reason}); expected a YAML file") from None
    plan = read_yaml(text, str(path))
    if not isinstance(plan, dict) or not plan or not set(plan) <= {"base", "grid"}:
        raise ValueError(f"{path}: expected a mapping with `base` and `grid`, see the page on scaling out")
    if "base" in plan and not isinstance(plan["base"], dict):
        raise ValueError(f"{path}: base = {plan['base']!r} is invalid; expected fields of a run, such as {{lr: 0.1}}")
    if "grid" in plan and not plan["grid"]:
        raise ValueError(f"{path}: grid = {plan['grid']!r} is invalid; expected at least one field with its values")
    return plan


def expand(plan: Mapping[str, Any], changes: Mapping[str, Any] | None = None) -> list[RunConfig]:
    """All configs of a plan, each once; `changes` are laid over the base."""
    base = dict(plan.get("base") or {}) | dict(changes or {})
    grids = plan.get("grid") or {}
    configs: dict[RunConfig, None] = {}
    for grid in grids if isinstance(grids, list) else [grids]:
        if not isinstance(grid, dict):
            raise ValueError(f"grid: {grid!r} is invalid; expected fields with their values, such as {{seed: 0..4}}")
        if clash := set(grid) & set(changes or {}):
            name = sorted(clash)[0]
            value = dict(changes or {})[name]
            raise ValueError(
                f"{name} = {value!r} is invalid: the plan's grid varies it; expected a field that it does not"
            )
        for values in itertools.product(*(_values(name, entry) for name, entry in grid.items())):
            fields = base | dict(zip(grid, values, strict=True))
            name = fields.pop("from", None)
            configs[RunConfig(**fields) if name is None else recipe(name, **fields)] = None
    return list(configs)


def _values(name: str, entry: Any) -> list[Any]:
    values = entry
    if isinstance(entry, str) and (match := _COUNT.fullmatch(entry.strip())):
        values = range(int(match[1]), int(match[2]) + 1)
    if not isinstance(values, list | range) or not values:
        raise ValueError(f"grid: {name} = {entry!r} is invalid; expected a list of values, or a count such as 0..4")
    return list(values)
