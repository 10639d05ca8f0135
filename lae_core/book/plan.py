"""What a profile would train: `lae book --profile P --plan`. Nothing starts.

The runs are those that the notebooks themselves ask for: their cells are executed here up to the first that trains, with
`gather` noting configs in place of training them. Searches, whose runs follow from each other, cannot be planned.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt

from lae_core.book.notebooks import Notebook, all_notebooks
from lae_core.book.template import fill
from lae_core.paper import cost
from lae_core.runs.gather import only_planned
from lae_core.runs.records import Config, RunStore
from lae_core.training import network
from lae_core.training.config import RunConfig
from lae_core.training.data import data_root
from lae_core.training.datasets import DATASETS

# Bytes of a picture that is kept as ImageNet has it, uncompressed: 500×375 px is a usual size there. An estimate.
FULL_SIZE = 3 * 500 * 375
COPIES = 4  # most copies of the weights in a checkpoint: themselves, and Ranger's two moments and slow weights


@dataclass(frozen=True)
class Chapter:
    """The runs that one notebook would make, each once."""

    notebook: str
    configs: tuple[Config, ...]


@dataclass(frozen=True)
class Plan:
    """All runs of a profile. Chapters share runs: `left` has each of those that the store lacks once."""

    profile: str
    chapters: tuple[Chapter, ...]
    recorded: frozenset[str]

    @cached_property
    def runs(self) -> dict[str, Config]:
        return {config.key(): config for chapter in self.chapters for config in chapter.configs}

    @property
    def left(self) -> list[Config]:
        return [config for key, config in self.runs.items() if key not in self.recorded]

    @property
    def data_sets(self) -> list[str]:
        """What must be there before the first run; the digits always are."""
        return sorted({str(config.to_dict()["data"]) for config in self.runs.values()} - {"digits"})


def chapter(notebook: Notebook, profile: str) -> Chapter:
    """The runs of one notebook, found by its own cells in this process."""
    values = notebook.values(profile)
    if not any(name.endswith("record") and value == "" for name, value in values.items()):
        return Chapter(notebook.name, ())
    names: dict[str, object] = {"display": lambda *shown: None}
    open_before = set(plt.get_fignums())
    with only_planned() as found, contextlib.chdir(notebook.root), contextlib.redirect_stdout(io.StringIO()):
        for cell in notebook.read().cells:
            if cell.cell_type != "code":
                continue
            if "parameters" in cell.metadata.get("tags", []):
                names |= values
                continue
            exec(compile(cell.source, f"notebooks/{notebook.name}.md", "exec"), names)
            if found:
                break
    for number in set(plt.get_fignums()) - open_before:  # else the caller's cell would show them
        plt.close(number)
    return Chapter(notebook.name, tuple({config.key(): config for config in found}.values()))


def plan(root: Path, profile: str, store: RunStore | None = None) -> Plan:
    """What the notebooks of a checkout would run, and which of it the store has."""
    planned = [chapter(notebook, profile) for notebook in all_notebooks(root) if "gather(" in notebook.text]
    chapters = tuple(part for part in planned if part.configs)
    keys = {config.key() for part in chapters for config in part.configs}
    return Plan(profile, chapters, frozenset(key for key in keys if store is not None and key in store))


def hours(configs: Iterable[Config]) -> float:
    """GPU-hours of training runs on one modern card; frozen networks train in seconds and are left out."""
    return sum(cost.modern_hours(config) for config in configs if isinstance(config, RunConfig))


def gigabytes(name: str) -> float:
    """The size of a prepared data set: known where all pictures have one size, else estimated."""
    spec = DATASETS[name]
    side = name.rpartition("-")[2]  # the shorter one, of pictures that mostly are 4:3
    picture = 3 * 32 * 32 if spec.pixels else 4 * int(side) ** 2 if side.isdecimal() else FULL_SIZE
    return sum(spec.sizes.values()) * picture / 1e9


def report(planned: Plan, store: Path) -> str:
    """The plan in lines for a terminal."""
    rows, seen = [], set(planned.recorded)
    for part in planned.chapters:
        left = [config for config in part.configs if config.key() not in seen]
        known = sum(config.key() in planned.recorded for config in part.configs)
        rows.append((part.notebook, len(part.configs), known, len(left), hours(left)))
        seen |= {config.key() for config in left}
    left = planned.left
    rows.append(("together", len(planned.runs), len(planned.recorded), len(left), hours(left)))
    sizes = {name: gigabytes(name) for name in planned.data_sets}
    missing = [name for name in sizes if not (data_root() / name / "manifest.json").is_file()]
    place = next(parent for parent in (data_root(), *data_root().absolute().parents) if parent.exists())
    return fill(
        "plan.txt",
        planned=planned,
        store=store,
        rows=rows,
        card=cost.MODERN,
        share=cost.MODERN_UTILISATION,
        sizes=sizes,
        missing=missing,
        needed=sum(sizes[name] for name in missing) + _checkpoint_gigabytes(left),
        place=place,
        free=shutil.disk_usage(place).free / 1e9,
    ).rstrip()


def _checkpoint_gigabytes(configs: Iterable[Config]) -> float:
    """The size of the largest network's checkpoint; one is kept at a time."""
    kinds = {(c.network, c.depth, c.width, c.squeeze): c for c in configs if isinstance(c, RunConfig)}
    return COPIES * 4 * max((_parameters(config) for config in kinds.values()), default=0) / 1e9


def _parameters(config: RunConfig) -> int:
    import torch

    with torch.device("meta"):
        return sum(p.numel() for p in network.build(config).parameters())
