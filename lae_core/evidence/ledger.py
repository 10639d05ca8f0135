"""The claims ledger: `book/claims.yml` joined with the verdicts that notebooks wrote.

A claim whose notebook was not executed is *open*, and its entry says what is missing. Everything else that does not
fit is an error: a verdict without a claim, a verdict from a notebook that does not decide the claim, and a notebook
that was executed but left a claim of its own without a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lae_core.evidence.claims import Claim, LedgerError
from lae_core.evidence.decision import VERDICTS
from lae_core.evidence.verdicts import Costs, Verdict


@dataclass(frozen=True)
class Entry:
    """A claim with its verdict, or with what is missing for one."""

    claim: Claim
    verdict: Verdict | None
    missing: str = ""
    beside: Verdict | None = None  # what the other of two notebooks found
    source: str = ""  # the notebook that wrote `verdict`

    @property
    def state(self) -> str:
        """One of the words; *open* where there is no verdict yet."""
        return self.verdict.verdict if self.verdict else "open"

    @property
    def open_at_paper_scale(self) -> bool:
        decided = self.verdict and self.verdict.verdict not in ("open", "not testable here")
        settled = decided and self.verdict and self.verdict.scale == "paper"
        return self.claim.needs_training and self.claim.in_paper and not settled


def join(claims: Iterable[Claim], verdicts: Mapping[str, Mapping[str, Verdict]], notebooks: Path) -> list[Entry]:
    """The ledger. `verdicts` holds, for each executed notebook (``theory/derivatives``), its verdicts by claim.

    `notebooks` is the directory of text notebooks: it tells a notebook that does not exist from one that did not run.
    """
    listed = {claim.id: claim for claim in claims}
    for notebook, found in verdicts.items():
        for name in found:
            if name not in listed:
                raise LedgerError(
                    f"notebooks/{notebook}.md records a verdict on {name!r}, which is not in book/claims.yml"
                )
            if notebook not in (listed[name].notebook, listed[name].also):
                raise LedgerError(
                    f"notebooks/{notebook}.md records a verdict on {name!r}, which book/claims.yml leaves to "
                    f"notebooks/{listed[name].notebook}.md"
                )
    entries = []
    for claim in listed.values():
        if claim.notebook in verdicts:
            if claim.id not in verdicts[claim.notebook]:
                raise LedgerError(f"notebooks/{claim.notebook}.md was executed but records no verdict on {claim.id!r}")
            entries.append(_weighed(claim, verdicts))
        elif (notebooks / f"{claim.notebook}.md").is_file():
            entries.append(Entry(claim, None, f"notebooks/{claim.notebook}.md has not been run for this book"))
        else:
            entries.append(
                Entry(claim, None, f"the notebook that decides it is not written yet: notebooks/{claim.notebook}.md")
            )
    return entries


def _weighed(claim: Claim, verdicts: Mapping[str, Mapping[str, Verdict]]) -> Entry:
    """Where runs of networks that work decided a claim they come first; else what its own notebook found."""
    own, other = verdicts[claim.notebook][claim.id], verdicts.get(claim.also, {}).get(claim.id)
    if other is not None and other.by_runs:
        return Entry(claim, other, beside=own, source=claim.also)
    return Entry(claim, own, beside=other, source=claim.notebook)


def counts(entries: Iterable[Entry]) -> dict[str, int]:
    """How many claims stand at each verdict, in the order of `VERDICTS`."""
    found = Counter(entry.state for entry in entries)
    return {verdict: found[verdict] for verdict in VERDICTS}


def hours_by_notebook(entries: Iterable[Entry], costs: Costs) -> dict[str, float]:
    """Estimated GPU-hours of each experiment notebook at the paper's scale: those of the experiments (E) it decides."""
    owner = {entry.claim.id: entry.claim.notebook for entry in entries}
    found = {notebook: 0.0 for notebook in owner.values() if notebook.startswith("experiments/")}
    for names, hours in costs.hours.items():
        # Runs that several experiments share count for each of them.
        for notebook in {owner[name] for name in names.split(", ") if name in owner}:
            if notebook in found:
                found[notebook] += hours
    return found
