"""Writing small files so that a reader, on this machine or another, sees the old one, the new one, or none."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

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
    """`write_whole` for a value of plain numbers, strings, lists and dicts."""
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    return write_whole(path, text.encode(), exclusive=exclusive, durable=durable)


def write_whole(path: Path, content: bytes, *, exclusive: bool = False, durable: bool = True) -> bool:
    """Write a file whole or not at all. `exclusive`: only if there is no such file yet. `durable`: onto the disk.

    Returns whether it was written. Linking a finished file, rather than creating it with O_EXCL and filling it then,
    leaves no moment at which another process finds it half written; both rename and link are atomic on NFS.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if not exclusive:
            os.replace(temporary, path)
        elif not _link(temporary, path):
            return False
        return True
    except OSError as error:
        raise store_error("write", path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        # Over NFS a link can succeed and its answer be lost; the repeated request then finds our own file.
        return os.stat(source).st_nlink == 2
    return True


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
