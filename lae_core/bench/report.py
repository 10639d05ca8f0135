"""What a benchmark found, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def write_report(found: dict[str, Any], file: str | None) -> None:
    """Write to the file, to the screen if it is "-", or nowhere without one."""
    if not file:
        return
    text = json.dumps(found, indent=1, sort_keys=True) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        Path(file).write_text(text)
