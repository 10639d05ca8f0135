"""What a benchmark found, as JSON, and the circumstances under which it did."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lae_core.runs.files import write_whole
from lae_core.training.provenance import provenance


def write_report(found: dict[str, Any], file: str | None) -> None:
    """Write to the file, to the screen if it is "-", or nowhere without one."""
    if not file:
        return
    text = json.dumps(found, indent=1) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(file), text.encode())


def circumstances() -> dict[str, Any]:
    """Load and priority beside the provenance, for what other programs disturb."""
    return {"load": os.getloadavg()[0], "priority": _priority(), "provenance": provenance()}


def _priority() -> int:
    """The niceness under which this was measured, of the session where Linux shares the cores out by session."""
    try:
        return int(Path("/proc/self/autogroup").read_text().split()[-1])
    except (OSError, ValueError):
        return os.nice(0)
