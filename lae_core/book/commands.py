"""The commands `lae run`, `lae params`, `lae book`. An error that a user can mend is one message, no traceback."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from lae_core.book.notebooks import Notebook, NotebookError, find_notebook, profiles, project_root


def run(args: argparse.Namespace) -> int:
    """`lae run NOTEBOOK`: everything is checked before the libraries that start kernels are even loaded."""
    try:
        notebook = find_notebook(args.notebook, project_root())
        values = notebook.values(args.profile, dict(args.parameter))
        output = Path(args.output) if args.output else notebook.root / "_build" / "runs" / f"{notebook.name}.ipynb"
        if output.suffix != ".ipynb":
            raise NotebookError(f"--output {args.output!r}: give a file name that ends in .ipynb")
    except NotebookError as error:
        print(f"lae run: {error}", file=sys.stderr)
        return 2
    from lae_core.book.execute import CellError, execute
    from lae_core.book.progress import Live

    try:
        done = execute(notebook, values, output, Live(notebook.name))
    except CellError as error:
        print(f"lae run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlae run: interrupted; nothing was written, records of finished runs are kept", file=sys.stderr)
        return 130
    print(f"executed in {done.metadata['seconds']:.1f} s: {os.path.relpath(done.notebook)}")
    return 0


def params(args: argparse.Namespace) -> int:
    """`lae params NOTEBOOK`."""
    try:
        print(parameter_table(find_notebook(args.notebook, project_root())))
    except NotebookError as error:
        print(f"lae params: {error}", file=sys.stderr)
        return 2
    return 0


def parameter_table(notebook: Notebook) -> str:
    """Each parameter's type, default, value in each profile (`.` where it is the default) and help, in columns."""
    names = profiles(notebook.root)
    overrides = {profile: notebook.profile_values(profile) for profile in names}
    rows = [["parameter", "type", "default", *names, "help"]]
    for parameter in notebook.parameters.values():
        values = [
            repr(overrides[profile][parameter.name]) if parameter.name in overrides[profile] else "."
            for profile in names
        ]
        rows.append([parameter.name, parameter.type, repr(parameter.default), *values, parameter.help])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join([f"{notebook.title} (notebooks/{notebook.name}.md)", "", *lines])


def book(args: argparse.Namespace) -> int:
    """`lae book`."""
    from lae_core.book.build import BuildError, build
    from lae_core.book.execute import CellError

    start = time.perf_counter()
    try:
        root = project_root()
        index = build(root, Path(args.output or root / "_build").resolve(), args.profile, args.force)
    except (NotebookError, BuildError, CellError) as error:
        print(f"lae book: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nlae book: interrupted; finished executions are kept", file=sys.stderr)
        return 130
    print(f"the book is {os.path.relpath(index)} ({time.perf_counter() - start:.0f} s)")
    return 0
