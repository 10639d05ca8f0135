"""What the paper claims: the entries of `book/claims.yml`, which say no word on what became of them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

# T for theory, N for networks and searches, E for experiments, C for further claims
CLAIM_ID = re.compile(r"[TNEC][0-9]+[a-z]?")


class LedgerError(ValueError):
    """Claims and verdicts do not fit together; the message names both."""


@dataclass(frozen=True)
class Claim:
    """One entry of `book/claims.yml`; see the head of that file."""

    id: str
    claim: str
    place: str
    notebook: str
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
    claims = []
    for number, item in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), start=1):
        expected = set(Claim.__dataclass_fields__) - {"also"}
        if not isinstance(item, dict) or set(item) - {"also"} != expected:
            raise LedgerError(f"{path.name}, entry {number}: expected the keys {sorted(expected)}, got {item!r}")
        if empty := [key for key, value in item.items() if not (isinstance(value, str) and value.strip())]:
            raise LedgerError(f"{path.name}, entry {number}: {empty[0]}={item[empty[0]]!r} is not a text")
        if not CLAIM_ID.fullmatch(item["id"]):
            raise LedgerError(f"{path.name}: id={item['id']!r} is no claim id; they begin with one of T, N, E, C")
        claims.append(Claim(**item))
    if repeated := [name for name, count in Counter(claim.id for claim in claims).items() if count > 1]:
        raise LedgerError(f"{path.name}: id={repeated[0]!r} stands there more than once")
    return claims
