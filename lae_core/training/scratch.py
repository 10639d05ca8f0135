"""Directories for work in progress: gone when it ends, and removed by the next process if this one was killed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch(parent: Path, prefix: str) -> Iterator[Path]:
    """A new directory `<prefix><machine>-<process>-<random>` in `parent`; those that killed processes left are removed."""
    remove_abandoned(parent, prefix)
    place = Path(tempfile.mkdtemp(prefix=f"{prefix}{_machine()}-{os.getpid()}-", dir=parent))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove what `scratch` made in `parent` on this machine for processes that are gone."""
    ours = re.compile(rf"{re.escape(prefix)}{_machine()}-(\d+)-\w+")
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(parent)):
            match = ours.fullmatch(entry.name)
            if match and entry.is_dir(follow_symlinks=False) and not _lives(int(match[1])):
                shutil.rmtree(entry.path, ignore_errors=True)


def _machine() -> str:
    """A machine that shares the file system has other processes: its name is part of the directory's."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
