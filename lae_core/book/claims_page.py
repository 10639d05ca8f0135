"""The page *Claims*, written from the verdicts of executed notebooks.

`write` is one of the build's generators. It makes `book/claims.md`. A page that rests advice on a claim includes
`_generated/claim_<ID>.md`, which is made for the ids that pages ask for. Every verdict on these pages and on the front
page stands in an element with the class ``lae-verdict`` or a ``data-verdict``, so that a test can read it
back from the rendered page and compare it with the data.
"""

from __future__ import annotations

import re
from pathlib import Path

from lae_core.book.stage import Stage
from lae_core.evidence.claims import LedgerError
from lae_core.evidence.ledger import counts, hours_by_notebook
from lae_core.evidence.text import sentence
from lae_core.evidence.verdicts import Verdict, read_costs

RULES = "experiments/rules"  # the notebook with the table of rules


def write(stage: Stage) -> None:
    """Write the Claims page and the claims that other pages include into the staged tree."""
    bills = {name: costs for name, done in stage.executed.items() if (costs := read_costs(done.verdicts))}
    hours: dict[str, float] = {}
    for costs in bills.values():
        hours |= hours_by_notebook(stage.ledger, costs)
    common = {"titles": stage.titles, "reasons": reasons}
    numbers = {"counts": counts(stage.ledger), "bills": bills, "hours": hours}
    stage.fill("claims.md", "claims.md", entries=stage.ledger, rules=RULES, **numbers, **common)
    found = {entry.claim.id: entry for entry in stage.ledger}
    for name, page_that_asks in included(stage.source / "book").items():
        if name not in found:
            raise LedgerError(f"{page_that_asks} includes claim {name!r}, which is not in book/claims.yml")
        stage.fill(f"_generated/claim_{name}.md", "claim.md", entry=found[name], **common)


def included(book: Path) -> dict[str, str]:
    """The claims that pages under `book` include, each with a page that does."""
    asks = re.compile(r"^`{3,}\{include\} \S*_generated/claim_(\w+)\.md$", re.MULTILINE)
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(book.rglob("*.md"))}
    return {name: str(path.relative_to(book.parent)) for path, text in pages.items() for name in asks.findall(text)}


def reasons(verdict: Verdict) -> list[str]:
    """Why the word is what it is: what held it down, the evidence, the regime."""
    because = [sentence(verdict.because)] if verdict.because else []
    return [*because, verdict.evidence, *(f"Regime: {regime}." for regime in verdict.regime)]
