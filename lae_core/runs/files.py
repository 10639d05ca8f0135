"""What cannot be written or used, said in time: errors of the store, of the disk, and of what the user typed."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from lae_core.training.files import write_whole

# What a run may raise that means the disk, not the run, is at fault: every other run would fail the same way.
DISK_ERRORS = {errno.ENOSPC: "is full", errno.EDQUOT: "is over its quota", errno.EROFS: "is read-only"}


class UsageError(ValueError):
    """What the user typed cannot be used; the message names argument, value and what is accepted."""


class StoreError(RuntimeError):
    """The store cannot be used: not a store, not writable, or full. Nothing that was recorded is lost."""


def store_error(action: str, path: Path, error: OSError) -> StoreError:
    reason = DISK_ERRORS.get(error.errno or 0)
    because = f"the disk {reason}" if reason else f"{error.strerror or error}"
    return StoreError(
        f"cannot {action} {path}: {because}. What is recorded is kept; free or change the place, then start again."
    )


def write_json(path: Path, value: Any, *, exclusive: bool = False, durable: bool = True) -> bool:
    """`write_whole` for a value of plain numbers, strings, lists and dicts; a disk that refuses is a `StoreError`."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    try:
        return write_whole(path, text.encode(), exclusive=exclusive, durable=durable)
    except OSError as error:
        raise store_error("write", path, error) from error


def check_output_file(argument: str, name: str | Path, expected: str = "the name of a file to write") -> Path:
    """Raise `UsageError` now, rather than after hours of work, unless a file can be written (or replaced) there."""
    target = Path(name)

    def refuse(reason: str) -> UsageError:
        return UsageError(f"{argument} = {str(name)!r} is invalid ({reason}); expected {expected}")

    try:
        if target.is_dir() or not target.name:
            raise refuse("it is a directory")
        if (target.exists() and not target.is_file()) or target.parent == Path("/dev"):
            raise refuse("it is not a regular file")
        place = next(parent for parent in target.absolute().parents if parent.exists())
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"1")
            probe.flush()
        if target.exists() and not os.access(target, os.W_OK):
            raise refuse("it is write-protected")
    except OSError as error:
        raise refuse(error.strerror or str(error)) from None
    return target
