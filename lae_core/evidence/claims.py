"""What the paper claims: the entries of `book/claims.yml`, which say no word on what became of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import ConfigDict, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

# T for theory, N for networks and searches, E for experiments, C for further claims
ClaimId = Annotated[str, StringConstraints(pattern=r"^[TNEC][0-9]+[a-z]?$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class LedgerError(ValueError):
    """Claims and verdicts do not fit together; the message names both."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Claim:
    """One entry of `book/claims.yml`; see the head of that file."""

    id: ClaimId
    claim: Text
    place: Text
    notebook: Text
    also: str = ""

    @property
    def needs_training(self) -> bool:
        """Only runs can decide it, so that the paper's own scale needs GPUs."""
        return (self.also or self.notebook).startswith("experiments/")

    @property
    def in_paper(self) -> bool:
        """Whether the paper claims it, so that there is a paper's scale to decide it at."""
        return not self.place.startswith("not in the paper")

    @property
    def command(self) -> str:
        """What decides it at the paper's scale."""
        return f"lae run {(self.also or self.notebook).rpartition('/')[2]} --profile paper"


def load_claims(path: Path) -> list[Claim]:
    """The claims in their order. Unknown keys, ids that are none, and repeated ids are errors."""
    try:
        claims = TypeAdapter(list[Claim]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise LedgerError(f"{path.name}: {error}") from error
    if repeated := [name for name, count in Counter(claim.id for claim in claims).items() if count > 1]:
        raise LedgerError(f"{path.name}: id = {repeated[0]!r} is given more than once; expected each id once")
    return claims
