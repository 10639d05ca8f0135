"""The rules by claim, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lae_core.evidence.decision import Rule

RULES: dict[str, Rule] = {}


def rule(claim: str, **options: Any) -> Callable[[Callable[..., str]], Rule]:
    """Register a function as the rule of a claim."""

    def register(function: Callable[..., str]) -> Rule:
        RULES[claim] = Rule(claim, function, **options)
        return RULES[claim]

    return register


def overview() -> list[dict[str, str]]:
    """Every rule as a row of a table: the claim, its rule in words, and what was fixed with it."""
    return [
        {
            "claim": claim,
            "rule": found.text,
            "margin": "–" if found.margin is None else f"{found.margin:g}",
            "runs per arm": ", ".join(f"{n} ({data})" if data != "other" else str(n) for data, n in found.n.items())
            or "–",
            "gate": found.gate if found.n else "–",
            "data sets": ", ".join(found.places) or "–",
        }
        for claim, found in sorted(RULES.items(), key=lambda item: _place_in_ledger(item[0]))
    ]


def _place_in_ledger(claim: str) -> tuple[str, int, str]:
    """E2 before E10, and letters in the order of the ledger: networks, experiments, further claims."""
    digits = "".join(c for c in claim[1:] if c.isdigit())
    return str("TNEC".index(claim[0])), int(digits), claim
