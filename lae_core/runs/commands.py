"""`lae sweep`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

from lae_core.runs.export import export
from lae_core.runs.files import StoreError
from lae_core.runs.plan import expand, read_plan
from lae_core.runs.records import RunStore
from lae_core.runs.sweep import sweep


def main(args: argparse.Namespace) -> int:
    from lae_core.training.config import RunConfig

    try:
        changes = {}
        for text in args.set:
            name, equals, value = text.partition("=")
            if not equals:
                raise ValueError(f"--set {text}: expected FIELD=VALUE")
            changes[name] = yaml.safe_load(value)
        configs = expand(read_plan(args.plan), RunConfig, changes)
        store = RunStore(args.store)
        if args.dry_run:
            missing = [config for config in configs if config not in store]
            print(f"{len(configs)} runs in the plan, {len(configs) - len(missing)} recorded in {store.root}")
            for config in missing:
                print(f"  to run: {config.key()} {config}")
            return 0
        report = sweep(configs, store=store, where=args.where, progress=True)
        if not report.failures:
            print(report)
        if args.export:
            found = [record for record in map(store.get, configs) if record is not None]
            count = export(found, args.export, experiment=Path(args.export).stem)
            print(f"{count} of {len(configs)} records written to {args.export}")
        return 1 if report.failures else 0
    except (ValueError, StoreError, ConnectionError, FileNotFoundError) as error:
        print(f"lae sweep: {error}", file=sys.stderr)
        return 2
