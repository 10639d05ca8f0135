"""The book as one file: every page and what it loads, to read where there is no network."""

from __future__ import annotations

import zipfile
from pathlib import Path

NAME = "logavgexp-book"


def bundle(html: Path) -> Path:
    """Pack the folder of rendered pages into `logavgexp-book.zip` beside it. The same pages make the same file."""
    archive, unfinished = html.parent / f"{NAME}.zip", html.parent / f"{NAME}.zip.part"
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(path for path in html.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{NAME}/{file.relative_to(html).as_posix()}")  # dated 1980, as all entries are
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, file.read_bytes())
    return unfinished.replace(archive)
