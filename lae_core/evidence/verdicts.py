"""Verdicts on the paper's claims: the one form in which a notebook says what it found.

A notebook applies a rule and records what it decided: ``record(rules.e3(comparisons))``. Where algebra or the paper's
own page decides, without a rule, it calls :func:`record_verdict`. Nothing else writes verdicts, and no page states one
that it did not read from these files. `book/claims.yml` lists the claims, `ledger.py` joins the two.

The file is ``<directory>/<claim>.json`` with exactly these keys:

========  =====================================================================================
claim     id of the claim in `book/claims.yml`, such as ``"T6"`` or ``"C13a"``
verdict   one of the words in `decision.py`
because   what held the word down, if anything: a gate that was not passed, too few runs
evidence  one or two plain sentences: what was found, with its numbers
scale     one of the scales in `scale.py`: on what the verdict rests; derived from the runs
rule      what decided it, in words
regime    how well the networks work that it rests on, one sentence for each place; empty without runs
n         runs per arm, or null
figure    name of the figure (or table) that decides it, as in the cell's ``mystnb: figure: name``; or null
numbers   flat mapping of the deciding numbers, so that other pages can quote them
========  =====================================================================================

Beside them the notebook that adds up the paper's bill leaves ``costs.yml`` (:func:`record_costs`).

The directory is ``$LAE_VERDICTS``, which whoever runs a notebook sets for its kernel (one directory for
each executed notebook, beside it), else ``_build/verdicts``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from lae_core.evidence.claims import ClaimId, Text
from lae_core.evidence.decision import VERDICTS, Decision
from lae_core.evidence.scale import SCALES
from lae_core.evidence.text import sentence
from lae_core.runs.files import write_json

WITHOUT_RUNS = ("symbolic", "printed")  # scales that a notebook may name itself: no run stands behind them


def _plain(value: Any) -> Any:
    """Python's own number for one of NumPy, torch or sympy; as text if JSON has no such number."""
    if hasattr(value, "item"):
        value = value.item()
    elif getattr(value, "is_number", False):  # sympy
        value = float(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[int | float | str | bool | None, BeforeValidator(_plain)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Verdict:
    """What one notebook found about one claim. See the module's docstring for the fields."""

    claim: ClaimId
    verdict: Literal[VERDICTS]  # type: ignore[valid-type]
    evidence: Text
    scale: Literal[SCALES]  # type: ignore[valid-type]
    because: str = ""
    rule: str = ""
    regime: tuple[str, ...] = ()
    n: int | None = None
    figure: Annotated[str, StringConstraints(min_length=1)] | None = None
    numbers: dict[str, Number] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _earned(self) -> Self:
        if self.verdict == "proved" and self.scale != "symbolic":
            raise ValueError(
                f"scale = {self.scale!r} is invalid with verdict = 'proved'; expected 'symbolic': runs do not prove"
            )
        if self.verdict == "reproduced" and self.scale == "printed":
            raise ValueError(
                "verdict = 'reproduced' is invalid with scale = 'printed'; expected 'consistent with print': "
                "only runs reproduce"
            )
        return self

    @property
    def by_runs(self) -> bool:
        """Whether runs of networks that work decided the claim, one way or the other."""
        decided = self.verdict in ("reproduced", "partly", "contradicted")
        return decided and self.scale not in WITHOUT_RUNS and bool(self.regime)


def _directory() -> Path:
    """Where this process's verdicts go: ``$LAE_VERDICTS``, else ``_build/verdicts``."""
    directory = Path(os.environ.get("LAE_VERDICTS") or Path("_build") / "verdicts")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def record(
    decision: Decision, *, evidence: str = "", figure: str | None = None, numbers: Mapping[str, Any] | None = None
) -> Verdict:
    """Write what a rule decided to its file, and return it. Without `evidence` its comparisons speak for themselves."""
    found: dict[str, Any] = (
        {} if decision.comparisons is None else {c.name: c.difference for c in decision.comparisons.values()}
    )
    return _write(
        Verdict(
            claim=decision.claim,
            verdict=decision.word,
            evidence=evidence or decision.evidence or sentence(decision.because),
            scale=decision.scale,
            because=decision.because,
            rule=decision.rule,
            regime=tuple(map(str, decision.regimes)),
            n=decision.n,
            figure=figure,
            numbers=found if numbers is None else dict(numbers),
        )
    )


def record_verdict(
    claim: str,
    verdict: str,
    *,
    evidence: str,
    scale: str,
    figure: str | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> Verdict:
    """Write a verdict of algebra (*symbolic*) or of the paper's own page (*printed*), and return it.

    >>> import tempfile
    >>> os.environ["LAE_VERDICTS"] = tempfile.mkdtemp()
    >>> record_verdict("T2", "proved", evidence="Both sides agree.", scale="symbolic").verdict
    'proved'
    """
    if scale not in WITHOUT_RUNS:
        raise ValueError(
            f"scale = {scale!r} is invalid; expected one of {', '.join(WITHOUT_RUNS)}: the scale of runs follows from them"
        )
    given: dict[str, Any] = {"verdict": verdict, "evidence": evidence, "scale": scale, "figure": figure}
    return _write(Verdict(claim=claim, **given, numbers=dict(numbers or {})))


def _write(given: Verdict) -> Verdict:
    write_json(_directory() / f"{given.claim}.json", asdict(given), durable=False)
    return given


def read_verdicts(directory: Path) -> dict[str, Verdict]:
    """All verdicts of one directory, by claim. An unreadable file is an error that names it."""
    found = {}
    for path in sorted(Path(directory).glob("*.json")):
        try:
            verdict = TypeAdapter(Verdict).validate_json(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if verdict.claim != path.stem:
            raise ValueError(f"{path}: holds a verdict on {verdict.claim}, its name says {path.stem}")
        found[verdict.claim] = verdict
    return found


@dataclass(frozen=True)
class Costs:
    """Estimated GPU-hours of the paper's experiments, and the card that they are for."""

    card: str
    hours: Mapping[str, float]


def record_costs(hours: Mapping[str, float], *, card: str) -> None:
    """Write the estimated GPU-hours by experiment (``"E3"``, or ``"E1, E2"`` for runs that both use).

    An open claim at the paper's scale then says what settling it would cost.
    """
    content = {"card": card, "hours": {name: round(float(value), 3) for name, value in hours.items()}}
    (_directory() / "costs.yml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")


def read_costs(directory: Path) -> Costs | None:
    """The costs that a notebook left in its directory of verdicts, if it did."""
    path = Path(directory) / "costs.yml"
    return Costs(**yaml.safe_load(path.read_text(encoding="utf-8"))) if path.is_file() else None
