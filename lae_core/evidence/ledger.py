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

import yaml

from lae_core.evidence.claims import CLAIM_ID, VERDICTS, Costs, Verdict

KINDS = {"T": "theory", "N": "networks and searches", "E": "experiments", "C": "further claims"}


class LedgerError(ValueError):
    """Claims and verdicts do not fit together; the message names both."""


@dataclass(frozen=True)
class Claim:
    """One entry of `book/claims.yml`; see the head of that file."""

    id: str
    claim: str
    place: str
    notebook: str

    @property
    def kind(self) -> str:
        return KINDS[self.id[0]]

    @property
    def needs_training(self) -> bool:
        """Only runs can decide it, so that the paper's own scale needs GPUs."""
        return self.notebook.startswith("experiments/")

    @property
    def command(self) -> str:
        """What decides it at the paper's scale."""
        return f"lae run {self.notebook.rpartition('/')[2]} --profile paper"


@dataclass(frozen=True)
class Entry:
    """A claim with its verdict, or with what is missing for one."""

    claim: Claim
    verdict: Verdict | None
    missing: str = ""

    @property
    def state(self) -> str:
        """One of `VERDICTS`; *open* where there is no verdict yet."""
        return self.verdict.verdict if self.verdict else "open"

    @property
    def open_at_paper_scale(self) -> bool:
        return self.claim.needs_training and not (
            self.verdict and self.verdict.scale == "paper" and self.verdict.verdict != "open"
        )


def load_claims(path: Path) -> list[Claim]:
    """The claims in their order. Unknown keys, ids that are none, and repeated ids are errors."""
    claims = []
    for number, item in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), start=1):
        expected = set(Claim.__dataclass_fields__)
        if not isinstance(item, dict) or set(item) != expected:
            raise LedgerError(f"{path.name}, entry {number}: expected the keys {sorted(expected)}, got {item!r}")
        if empty := [key for key, value in item.items() if not (isinstance(value, str) and value.strip())]:
            raise LedgerError(f"{path.name}, entry {number}: {empty[0]}={item[empty[0]]!r} is not a text")
        if not CLAIM_ID.fullmatch(item["id"]) or item["id"][0] not in KINDS:
            raise LedgerError(
                f"{path.name}: id={item['id']!r} is no claim id; they begin with one of {', '.join(KINDS)}"
            )
        claims.append(Claim(**item))
    if repeated := [name for name, count in Counter(claim.id for claim in claims).items() if count > 1]:
        raise LedgerError(f"{path.name}: id={repeated[0]!r} stands there more than once")
    return claims


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
            if listed[name].notebook != notebook:
                raise LedgerError(
                    f"notebooks/{notebook}.md records a verdict on {name!r}, which book/claims.yml leaves to "
                    f"notebooks/{listed[name].notebook}.md"
                )
    entries = []
    for claim in listed.values():
        if claim.notebook in verdicts:
            if claim.id not in verdicts[claim.notebook]:
                raise LedgerError(f"notebooks/{claim.notebook}.md was executed but records no verdict on {claim.id!r}")
            entries.append(Entry(claim, verdicts[claim.notebook][claim.id]))
        elif (notebooks / f"{claim.notebook}.md").is_file():
            entries.append(Entry(claim, None, f"notebooks/{claim.notebook}.md has not been run for this book"))
        elif claim.needs_training:
            entries.append(
                Entry(claim, None, "the notebook that decides it is not written yet, and its runs are not made")
            )
        else:
            entries.append(Entry(claim, None, f"notebooks/{claim.notebook}.md is not written yet"))
    return entries


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
