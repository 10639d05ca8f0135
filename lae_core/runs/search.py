"""What the paper's two searches share: a study that keeps their history, and measuring candidates by sweeps.

A search is a deterministic function of its settings and of what it measured. It resumes by being started again: what
the study knows is not measured again, and runs that were cut short are in the run store. One process drives a study;
its runs may be anywhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep
from lae_core.runs.worker import Run

if TYPE_CHECKING:
    import optuna

Params = dict[str, float]


def settled(value: float) -> float:
    """To twelve digits, so that another machine's last bit of a power does not make another run of the same draw."""
    return float(f"{value:.12g}")


@dataclass(frozen=True)
class Candidate:
    """Hyperparameters to measure on some folds of the training set; `name` is its place in the search."""

    name: str
    params: Mapping[str, float]
    folds: tuple[int, ...]


# The error of each candidate on each of its folds, in the order given.
Measure = Callable[[Sequence[Candidate]], list[list[float]]]


@dataclass(frozen=True)
class SearchResult:
    params: Params
    value: float
    converged: bool
    study: optuna.Study


class SearchError(RuntimeError):
    """Some runs of a search failed; nothing was decided without them."""


def measure_by_sweep(
    base: Any, *, store: RunStore | str | Path, where: str | None = None, run: Run | None = None
) -> Measure:
    """Measure by training: `base` is a `RunConfig`, of which a candidate's hyperparameters and its fold are replaced.

    The measure is the error on the fold's held-out part; a run that diverged counts as wrong throughout.
    """
    kept = store if isinstance(store, RunStore) else RunStore(store)

    def measure(candidates: Sequence[Candidate]) -> list[list[float]]:
        configs = [[base.replace(**c.params, fold=fold) for fold in c.folds] for c in candidates]
        report = sweep([config for row in configs for config in row], store=kept, where=where, run=run)
        if report.failures:
            raise SearchError(f"{len(report.failures)} runs failed; the first: {report.failures[0].error}")
        return [[record.result["final"].get("valid_error", 1.0) for record in kept.select(row)] for row in configs]

    return measure


def replayed(config: Any, **_: Any) -> dict[str, Any]:
    """As `run`: a search over recorded runs alone, which trains nothing. A run that is not recorded is an error."""
    raise LookupError(f"run {config.key()} is not recorded; let the search train it, and record it")


def open_study(name: str, storage: str | Path | None, settings: Mapping[str, Any]) -> optuna.Study:
    """The study of a search: in a journal file, or in a database where `storage` is an address, or in memory.

    Settings other than those it was begun with are refused, since its history would mean something else.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    place: Any = None if storage is None else str(storage)
    if place is not None and "://" not in place:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        # A lock by exclusive creation, which NFS keeps from version 3 on; Optuna's default is a symbolic link.
        place = JournalStorage(JournalFileBackend(place, lock_obj=JournalFileOpenLock(place)))
    study = optuna.create_study(study_name=name, storage=place, direction="minimize", load_if_exists=True)
    wanted = json.loads(json.dumps(settings))
    begun = study.user_attrs.get("settings")
    if begun is None:
        study.set_user_attr("settings", wanted)
    elif begun != wanted:
        changed = sorted(key for key in {*begun, *wanted} if begun.get(key) != wanted.get(key))
        raise ValueError(
            f"{changed[0]} = {wanted.get(changed[0])!r} is invalid; expected {begun.get(changed[0])!r}, with which study "
            f"{name!r} was begun, or another name for the search"
        )
    return study


def evaluate(
    study: optuna.Study, candidates: Sequence[Candidate], distributions: Mapping[str, Any], measure: Measure
) -> list[float]:
    """The mean error of each candidate, measured now or known from before, as trials of the study."""
    from optuna.trial import TrialState

    known: dict[str, float] = {}
    for past in study.get_trials(deepcopy=False):
        if past.state == TrialState.COMPLETE and past.value is not None:
            known[past.user_attrs["name"]] = past.value
        elif not past.state.is_finished():  # left by a search that was killed
            study.tell(past.number, state=TrialState.FAIL)
    missing = [candidate for candidate in candidates if candidate.name not in known]
    trials = []
    for candidate in missing:
        study.enqueue_trial(dict(candidate.params), user_attrs={"name": candidate.name})
        trials.append(study.ask(fixed_distributions=dict(distributions)))
    measured = measure(missing) if missing else []
    for candidate, trial, errors in zip(missing, trials, measured, strict=True):
        if len(errors) != len(candidate.folds) or not all(math.isfinite(error) for error in errors):
            raise ValueError(
                f"measure gave {errors} for {candidate}, which is invalid; expected one finite number per fold"
            )
        trial.set_user_attr("errors", [float(error) for error in errors])
        known[candidate.name] = sum(errors) / len(errors)
        study.tell(trial, known[candidate.name])
    return [known[candidate.name] for candidate in candidates]
