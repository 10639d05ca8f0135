"""What may be overwritten: results that carry our own stamp, and nothing else.

An executed notebook is stamped by its metadata, which also list the files in its directory of verdicts. A directory that a
book was built in holds the file `STAMP`. Under `_build`, which is ours, everything may be replaced.
"""

from __future__ import annotations

import json
from pathlib import Path

from lae_core.runs.files import UsageError, check_output_file

STAMP = ".lae-book"
# What a build writes in its directory.
_OURS = ("src", "html", "elsewhere", "print", ".doctrees", "rendered.json", ".build.lock")


def verdicts_beside(output: Path) -> Path:
    return output.with_suffix(".verdicts")


def check_output(name: str, build: Path) -> Path:
    """The file that `lae run --output NAME` may write, or an error that says why not."""
    output = Path(name)
    if output.suffix != ".ipynb":
        raise UsageError(f"--output = {name!r} is invalid; expected a file name that ends in .ipynb")
    check_output_file("--output", name)
    verdicts = verdicts_beside(output)
    reason = ""
    stamp = _stamp(output)
    if output.exists() and stamp is None:
        reason = "it exists and was not written by `lae run`"
    elif verdicts.is_symlink() or (verdicts.exists() and not verdicts.is_dir()):
        reason = f"{verdicts.name} exists and is no directory"
    elif verdicts.exists():
        others = sorted({path.name for path in verdicts.iterdir()} - set(stamp or ()))
        reason = f"{verdicts.name}/ holds {others[0]}, which is not ours" if others else ""
    if reason and build.resolve() not in output.resolve().parents:
        raise UsageError(f"--output = {name!r} is invalid ({reason}); expected a new name, or an earlier result")
    return output


def _stamp(notebook: Path) -> list[str] | None:
    """The names of the verdict files that an execution of ours left; None if this is no execution of ours."""
    try:
        return list(json.loads(notebook.read_text(encoding="utf-8"))["metadata"]["lae"].get("verdicts", []))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def check_book_directory(name: Path, root: Path) -> Path:
    """The directory that `lae book --output NAME` may build in, resolved, or an error that says why not."""
    directory = name.resolve()

    def refuse(reason: str, expected: str) -> UsageError:
        return UsageError(f"--output = {str(name)!r} is invalid ({reason}); expected {expected}")

    if directory.exists() and not directory.is_dir():
        raise refuse("it is a file", "a directory")
    if directory != root / "_build":
        for part in ("book", "notebooks", "lae_core", "ci", "tests"):
            if (root / part) == directory or (root / part) in directory.parents:
                raise refuse(f"it lies in the book's sources, {part}/", "a directory of its own")
        taken = [part for part in _OURS if (directory / part).exists()]
        if taken and not (directory / STAMP).is_file():
            raise refuse(f"it holds {taken[0]}, which no build of ours made", "a new directory, or one built in before")
    try:
        check_output_file("--output", directory / STAMP, "a directory to write in")
    except UsageError as error:
        raise UsageError(str(error).replace(str(directory / STAMP), str(name))) from None
    return directory
