"""Learning rates of heads on frozen maps, chosen for each arm on held-out pictures; test pictures play no part."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from lae_core.evidence.outcomes import accuracies
from lae_core.pooling import make_pool
from lae_core.runs.gather import gather
from lae_core.runs.records import Record
from lae_core.training.frozen import FrozenConfig

Name = TypeVar("Name", bound=Hashable)


def with_own_rates(
    arms: Mapping[Name, FrozenConfig],
    *,
    rates: Sequence[float],
    pool_rates: Sequence[float] = (),
    folds: int,
    **how: Any,
) -> tuple[dict[Name, FrozenConfig], list[Record]]:
    """Each arm at the rates that did best on the held-out pictures, and the runs of this search.

    First the rate of the head, then, of a pool that learns something, that of the pool, at the head's rate just chosen.
    The score is the mean accuracy over `folds` runs; a single rate is taken without a search. `how` goes to
    :func:`.gather`; with `partial`, an arm whose search is not recorded is left out.
    """
    chosen = dict(arms)
    spent: dict[str, Record] = {}
    for field, values in (("lr", rates), ("pool_lr", pool_rates)):
        searched = {name: config for name, config in chosen.items() if field == "lr" or learns(config.pool)}
        if not searched or len(values) < 2:
            chosen |= {name: config.replace(**{field: value}) for name, config in searched.items() for value in values}
            continue
        tried = {
            (name, value): config.replace(**{field: value}) for name, config in searched.items() for value in values
        }
        found = gather(tried, seeds=folds, over="fold", **how)
        spent |= {record.key: record for records in found.values() for record in records}
        for name, config in searched.items():
            if any(len(found[name, value]) < folds for value in values):
                del chosen[name]
                continue
            score = {value: float(np.mean(accuracies(found[name, value]))) for value in values}
            chosen[name] = config.replace(**{field: max(values, key=lambda value: score[value])})
    return chosen, list(spent.values())


def learns(pool: str) -> bool:
    """Whether a pool has parameters of its own.

    >>> learns("lae"), learns("lae(train=one)")
    (False, True)
    """
    return any(True for _ in make_pool(pool, channels=1).parameters())
