"""Photograph every page of the built book, wide and narrow, light and dark: `python tests/helpers/look.py FOLDER [HTML]`."""

from __future__ import annotations

import sys
from pathlib import Path

from browser import screenshots

REPO = Path(__file__).resolve().parents[2]


def main(folder: str, html: str = str(REPO / "_build" / "html")) -> int:
    target = Path(folder).resolve()
    if target.is_relative_to(REPO) and not target.is_relative_to(REPO / "_build"):
        print(f"look.py: {folder} is inside the checkout; name a folder outside it, or under _build", file=sys.stderr)
        return 2
    for picture in screenshots(Path(html), target):
        print(picture, flush=True)
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
