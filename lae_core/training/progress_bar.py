"""A bar on standard error for what takes minutes."""

from __future__ import annotations

import sys
from typing import Any


def progress_bar(what: str, unit: str, total: int, done: int, shown: bool | None) -> Any:
    """tqdm's bar, by default only on a terminal; in a log file it writes a line now and then."""
    from tqdm import tqdm

    terminal = sys.stderr.isatty()
    hidden = not (terminal if shown is None else shown)
    every = 0.1 if terminal else 30
    return tqdm(total=total, initial=done, desc=what, unit=unit, disable=hidden, mininterval=every)
