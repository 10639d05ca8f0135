"""A build between execution and rendering: what each generator of pages gets, and how it writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lae_core.book.execute import Executed
from lae_core.book.notebooks import Notebook
from lae_core.book.template import fill
from lae_core.evidence.claims import load_claims
from lae_core.evidence.ledger import Entry, join
from lae_core.evidence.verdicts import read_verdicts


@dataclass(frozen=True)
class Stage:
    """The state of a build after execution and before rendering."""

    root: Path  # the checkout
    source: Path  # the staged tree
    profile: str
    executed: dict[str, Executed]  # by notebook name, in the order of the book

    @cached_property
    def titles(self) -> dict[str, str]:
        return {name: Notebook(self.root, name).title for name in self.executed}

    @cached_property
    def ledger(self) -> list[Entry]:
        """Every claim with the verdict that the executed notebooks give it."""
        verdicts = {name: read_verdicts(done.verdicts) for name, done in self.executed.items()}
        return join(load_claims(self.root / "book" / "claims.yml"), verdicts, self.root / "notebooks")

    def fill(self, page: str, template: str, **values: Any) -> None:
        """Write `page`, for example `_generated/cost.md`, from a template."""
        self.write(page, fill(template, **values))

    def write(self, page: str, text: str) -> None:
        file = self.source / "book" / page
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
