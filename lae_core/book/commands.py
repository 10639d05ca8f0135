"""The commands that read the notebooks: `lae run`, `lae params`, `lae book`, and what `lae data --for` fetches."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from lae_core.book.notebooks import Notebook, check_profile, find_notebook, profiles, project_root
from lae_core.book.outputs import check_output
from lae_core.runs.files import UsageError
from lae_core.training import deadline


def run(args: argparse.Namespace) -> int:
    """`lae run NOTEBOOK`: everything is checked before the libraries that start kernels are even loaded."""
    notebook = find_notebook(args.notebook, project_root())
    values = notebook.values(args.profile, args.parameter)
    output = notebook.root / "_build" / "runs" / f"{notebook.name}.ipynb"
    if args.output is not None:
        output = check_output(args.output, notebook.root / "_build")
    from lae_core.book.execute import execute
    from lae_core.book.progress import Progress

    deadline.set_minutes(args.minutes)
    done = execute(notebook, values, output, Progress(notebook.name))
    print(f"executed in {done.metadata['seconds']:.1f} s: {os.path.relpath(done.notebook)}")
    return 0


def params(args: argparse.Namespace) -> int:
    """`lae params NOTEBOOK`."""
    print(parameter_table(find_notebook(args.notebook, project_root())))
    return 0


def parameter_table(notebook: Notebook) -> str:
    """Each parameter's type, default, value in each profile (`.` where it is the default) and help, in columns."""
    names = profiles(notebook.root)
    overrides = {profile: notebook.profile_values(profile, slow=False) for profile in names}
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
    start = time.perf_counter()
    root = project_root()
    check_profile(args.profile, root)
    if args.plan:
        return _show_plan(root, args.profile)
    deadline.set_minutes(args.minutes)
    from lae_core.book import elsewhere
    from lae_core.book.build import build
    from lae_core.book.bundle import bundle
    from lae_core.book.print_page import print_page

    output = root / "_build" if args.output is None else Path(args.output)
    index = build(root, output, args.profile, args.force)
    print(f"the book is {os.path.relpath(index)} ({time.perf_counter() - start:.0f} s)")
    if args.print:
        print(f"all chapters on one page: {os.path.relpath(print_page(root, index.parent))}")
    if args.elsewhere and (repository := elsewhere.repository_url()):
        folder = index.parents[1] / "elsewhere"
        elsewhere.write(root, index.parents[1] / "src", folder, repository)
        print(f"notebooks for Colab and Binder: {os.path.relpath(folder)}")
    elif args.elsewhere:
        print("no notebooks for Colab and Binder: the address of the repository (LAE_REPOSITORY) is not set")
    if args.zip:
        print(f"all of it in one file: {os.path.relpath(bundle(index.parent))}")
    return 0


def _show_plan(root: Path, profile: str) -> int:
    from lae_core.book import plan
    from lae_core.runs.records import RunStore

    place = Path(os.environ.get("LAE_RUNS", "runs"))
    store = RunStore(place) if (place / "store.json").is_file() else None  # opening one would create it
    print(plan.report(plan.plan(root, profile, store), place))
    return 0


def data(args: argparse.Namespace) -> int:
    """`lae data`: the data sets that are named, or those that the notebooks train on at a profile."""
    from lae_core.training import fetch
    from lae_core.training.datasets import DATASETS

    names, folder = args.names, None if args.folder is None else Path(args.folder)
    if unknown := [name for name in names if name not in DATASETS]:
        near = [name for name in DATASETS if name.startswith(unknown[0])] or DATASETS
        raise UsageError(f"NAME = {unknown[0]!r} is invalid; expected one of {', '.join(near)}")
    if folder and not folder.is_dir():
        raise UsageError(f"--from = {args.folder!r} is invalid; expected a folder that exists")
    if args.profile is not None:
        if names:
            raise UsageError(f"--for = {args.profile!r} is invalid beside NAME = {names[0]!r}; expected one of the two")
        check_profile(args.profile, project_root())
        from lae_core.book import plan

        names = plan.plan(project_root(), args.profile).data_sets
        if not names:
            print(f"the profile {args.profile} trains on no data set that has to be fetched")
            return 0
    if not names and (folder or args.again):
        raise UsageError(f"{'--from' if folder else '--again'} needs a NAME; lae data lists them")
    return fetch.main(names, folder, args.again)
