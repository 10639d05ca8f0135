"""The arms of an experiment: configs that are compared, each run with the same seeds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from lae_core.runs.export import export, read_export, recorded
from lae_core.runs.records import Config, Record, RunStore
from lae_core.runs.sweep import sweep
from lae_core.runs.where import Where, gpu_count
from lae_core.runs.worker import Run
from lae_core.training.deadline import TimeUp

if TYPE_CHECKING:
    from lae_core.training.config import RunConfig
    from lae_core.training.frozen import FrozenConfig

Name = TypeVar("Name", bound=Hashable)
_PLAN: ContextVar[list[Config] | None] = ContextVar("_PLAN", default=None)


class _NoRuns(dict):
    """What `gather` gives while runs are only planned: every arm is there, without a run."""

    def __missing__(self, name: object) -> list[Record]:
        return []


@contextmanager
def only_planned() -> Iterator[list[Config]]:
    """In here `gather` trains nothing and reads nothing: the configs that it would train are added to the list."""
    configs: list[Config] = []
    token = _PLAN.set(configs)
    try:
        yield configs
    finally:
        _PLAN.reset(token)


def gather(
    arms: Mapping[Name, RunConfig] | Mapping[Name, FrozenConfig],
    *,
    seeds: int | Mapping[Name, int],
    record: str,
    save: str = "",
    over: Literal["seed", "fold"] = "seed",
    where: str | None = None,
    partial: bool = False,
    run: Run | None = None,
) -> dict[Name, list[Record]]:
    """The records of each arm for the seeds 0, 1, …, in that order; or, by `over`, for so many folds. `seeds` is their
    number, of all arms or by arm.

    They are read from the file `record`; what it lacks is an error that says how to train it. With `partial` an arm may
    lack runs, or all of them; `missing_runs` counts them, for the page to say so. Where `record` is empty they are
    trained, by a sweep into the store `$LAE_RUNS` (else `runs/`), so that starting again resumes; `save` then names a
    file that they are added to, and those that it holds are not trained again. `run` trains a config, by default in
    the training loop.
    """
    count = _count(arms, seeds)
    if (least := min(count.values(), default=2)) < 2:
        raise ValueError(f"seeds = {least} is invalid; expected at least 2, since one run says nothing of its spread")
    planned = {name: [config.replace(**{over: i}) for i in range(count[name])] for name, config in arms.items()}
    everything = [config for configs in planned.values() for config in configs]
    if (plan := _PLAN.get()) is not None:
        plan += [] if record else everything
        return _NoRuns()
    if record:
        fill = f'this notebook by `lae run`, with -p record "" -p save {record}'
        found = {r.key: r for r in recorded(everything, record, sweep=fill, partial=partial)}
    else:
        found = _saved(save, everything)
        left = [config for config in everything if config.key() not in found]
        new = _trained(left, where, run) if left else {}
        found |= new
        if save and new:
            # read once more: others may have added records while these were trained
            export((new | _saved(save, everything)).values(), save, experiment=Path(save).stem)
            found = _saved(save, everything)  # with its rounded numbers, so that reading the file gives the same
    return {name: [found[c.key()] for c in configs if c.key() in found] for name, configs in planned.items()}


def _saved(save: str, configs: Sequence[Config]) -> dict[str, Record]:
    kept = read_export(save, schema=type(configs[0])) if save and Path(save).exists() else []
    return {record.key: record for record in kept}


def _count(arms: Mapping[Name, object], seeds: int | Mapping[Name, int]) -> Mapping[Name, int]:
    return dict.fromkeys(arms, seeds) if isinstance(seeds, int) else seeds


def missing_runs(
    arms: Mapping[Name, RunConfig], runs: Mapping[Name, Sequence[Record]], seeds: int | Mapping[Name, int]
) -> tuple[int, float]:
    """How many runs `gather` did not find, and the CPU-hours that they would take at the mean of those it found."""
    count = _count(arms, seeds)
    missing = sum({config: count[name] - len(runs[name]) for name, config in arms.items()}.values())
    spent = [record.provenance.get("cpu_seconds") or 0.0 for records in runs.values() for record in records]
    return missing, missing * sum(spent) / max(len(spent), 1) / 3600


def _trained(configs: Sequence[Config], where: str | None, run: Run | None) -> dict[str, Record]:
    store = RunStore()
    left = [config for config in configs if config.key() not in store]
    here = run is None and Where.parse(where).kind in ("inline", "local")
    if here and any(config.to_dict().get("device") == "cuda" for config in left) and not gpu_count():
        raise ValueError(
            f"device = 'cuda' is invalid: torch sees no GPU here, and {len(left)} runs are left; expected 'cpu' or 'auto', "
            "or $LAE_WHERE to name a cluster"
        )
    report = sweep(configs, store=store, where=where, run=run)
    if report.failures:
        first = report.failures[0]
        raise RuntimeError(f"{len(report.failures)} of {len(configs)} runs failed, the first with {first.error}")
    if report.stopped:
        raise TimeUp(f"{len(report.stopped)} of {len(configs)} runs are left; start again to resume")
    return {record.key: record for record in store.select(configs)}
