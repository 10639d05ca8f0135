"""What a generator of pages gets: the one thing that the build and the pages that it lets write themselves share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lae_core.book.execute import Executed


@dataclass(frozen=True)
class Stage:
    """The state of a build after execution and before rendering."""

    root: Path  # the checkout
    source: Path  # the staged tree; write pages under `source / "book"`
    profile: str
    executed: dict[str, Executed]  # by notebook name, in the order of the book
