"""Files that appear whole or not at all: a reader, on this machine or another, sees the old one, the new one, or none."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_whole(path: Path, content: bytes | memoryview, *, exclusive: bool = False, durable: bool = True) -> bool:
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
            return True
        return _link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except FileExistsError:
        # Over NFS a link can succeed and its answer be lost; the repeated request then finds our own file.
        return os.stat(source).st_nlink == 2
    return True
