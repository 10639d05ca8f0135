"""The book's own ledger at `smoke`: every claim has a state, and the pages state what the verdict files give."""

from __future__ import annotations

from pathlib import Path

import pytest
from stated import disagreements

from lae_core.book.build import book_notebooks
from lae_core.book.cache import Cache
from lae_core.book.stage import Stage
from lae_core.evidence.decision import VERDICTS
from lae_core.evidence.ledger import Entry


@pytest.fixture(scope="module")
def entries(smoke_book: Path, repo: Path) -> list[Entry]:
    found = {}
    for notebook in book_notebooks(repo):
        executed = Cache(repo).find(notebook, notebook.values("smoke"))
        assert executed is not None, f"{notebook.name} was built but is not in the cache"
        found[notebook.name] = executed
    return Stage(repo, smoke_book / "src", "smoke", found).ledger


def test_every_claim_has_a_state_and_an_open_one_says_why(entries: list[Entry]):
    assert {entry.state for entry in entries} <= set(VERDICTS)
    for entry in entries:
        assert entry.verdict or entry.missing, entry.claim.id


def test_the_pages_state_what_the_data_gives(entries: list[Entry], smoke_book: Path):
    assert disagreements(entries, smoke_book / "html") == []
