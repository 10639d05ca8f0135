"""A time limit for everything that trains: after it no run starts, and those under way keep a checkpoint and stop.

`$LAE_DEADLINE` is the moment, in seconds since 1970. Whoever starts the work sets it once, and every process below
inherits it: kernels, and workers on this machine.
"""

from __future__ import annotations

import os
import time

VARIABLE = "LAE_DEADLINE"
EXIT_CODE = 3  # of a command that its time limit stopped; started again it resumes


class TimeUp(Exception):
    """The time limit has passed; what was done is kept."""


def set_minutes(minutes: float | None) -> None:
    """Stop so many minutes from now, less a tenth of them (ten minutes at most) to finish in good order."""
    if minutes is not None:
        seconds = 60 * minutes
        os.environ[VARIABLE] = f"{time.time() + seconds - min(seconds / 10, 600):.0f}"


def passed() -> bool:
    moment = os.environ.get(VARIABLE)
    return moment is not None and time.time() >= float(moment)
