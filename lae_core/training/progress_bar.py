"""A bar on standard error for what takes minutes."""

from __future__ import annotations

import sys
from typing import Any


def progress_bar(what: str, unit: str, total: int, done: int, shown: bool | None = None) -> Any:
    """tqdm's bar, by default only on a terminal; in a log file it writes a line now and then."""
    from tqdm import tqdm

    hidden = None if shown is None else not shown  # None: but on a terminal
    every = 0.1 if sys.stderr.isatty() else 30
    return tqdm(total=total, initial=done, desc=what, unit=unit, disable=hidden, mininterval=every)
