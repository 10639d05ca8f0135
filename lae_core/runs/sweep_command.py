"""`lae sweep`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lae_core.runs.export import export, read_export
from lae_core.runs.files import StoreError, UsageError, check_output_file
from lae_core.runs.merge import Located, find_conflicts
from lae_core.runs.plan import expand, read_plan
from lae_core.runs.records import Record, RunStore
from lae_core.runs.sweep import sweep
from lae_core.runs.where import Where
from lae_core.runs.yaml_text import read_yaml
from lae_core.training import deadline


def main(args: argparse.Namespace) -> int:
    try:
        changes = {name: read_yaml(text, f"--set {name}={text}") for name, text in args.set.items()}
        configs = expand(read_plan(args.plan), changes)
        Where.parse(args.where)
        kept = _exported(args.export) if args.export else []
        store = RunStore(args.store)
    except (ValueError, StoreError) as error:
        raise UsageError(str(error)) from None
    exported = {record.key for record in kept}
    todo = [config for config in configs if config.key() not in exported]
    if len(todo) < len(configs):
        print(f"{len(configs) - len(todo)} of {len(configs)} runs are in {args.export} and are not run again")
    if args.dry_run:
        missing = [config for config in todo if config not in store]
        print(f"{len(todo)} runs in the plan, {len(todo) - len(missing)} recorded in {store.root}")
        for config in missing:
            print(f"  to run: {config.key()} {config}")
        return 0
    deadline.set_minutes(args.minutes)
    report = sweep(todo, store=store, where=args.where, progress=True)
    if not report.failures:
        print(report)
    if args.export:
        kept = _exported(args.export)  # once more: others may have added records during the sweep
        found = [record for record in map(store.get, todo) if record is not None]
        sources = {args.export: kept, str(store.root): found}
        if conflicts := find_conflicts([Located(record, where) for where, part in sources.items() for record in part]):
            print("\n".join([f"lae sweep: {line}" for line in conflicts[:20]]), file=sys.stderr)
            print(f"lae sweep: nothing was written to {args.export}; the store keeps the records", file=sys.stderr)
            return 1
        count = export([*kept, *found], args.export, experiment=Path(args.export).stem)
        print(f"{len(found)} records added to {args.export}, {count} in all")
    return 1 if report.failures else deadline.EXIT_CODE if report.stopped else 0


def _exported(name: str) -> list[Record]:
    """The records of an export, none if it is new or empty; a file that is not an export of ours is refused."""
    target = check_output_file("--export", name)
    if not target.exists() or not target.stat().st_size:
        return []
    try:
        with target.open(encoding="utf-8") as file:
            ours = {"experiment", "format", "runs"} <= set(json.loads(file.readline()))
    except (ValueError, TypeError):
        ours = False
    if not ours:
        raise ValueError(
            f"--export = {name!r} is invalid (it exists and holds no exported records); "
            "expected a new file, or an earlier export to add to"
        )
    return read_export(target)
