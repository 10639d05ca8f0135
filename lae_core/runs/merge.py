"""`lae records add`: records from another machine, checked and merged into one committed file.

Checked are each record's checksum and its key, computed anew from its config; that no run has two results from one kind
of machine, here or in the files beside the target; and that the runs of one comparison with one seed come from one kind of
hardware. Runs are compared seed by seed, so what a machine does to both sides cancels. Every problem is reported with
file and line, and then nothing is written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lae_core.runs.export import export, read_export, rounded
from lae_core.runs.files import UsageError, check_output_file
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig

# Fields in which runs that are compared may differ: the pool, the hyperparameters that were tuned for it, and what else was
# measured. All other fields, the seed among them, name the comparison.
MAY_DIFFER = (
    "pool", "squeeze", "squeeze_ratio", "squeeze_place", "tail", "last_activation", "device", "lr", "weight_decay",
    "momentum", "beta2", "eps", "flat", "lr_decay", "temperature_lr", "decay_slopes", "input_sizes", "swaps", "eval_every",
)  # fmt: skip


class RecordProblem(ValueError):
    """What is wrong with records; the message has one line for each problem, with file and line."""


@dataclass(frozen=True)
class Located:
    """A record and where it was read."""

    record: Record
    where: str


def record_files(path: Path) -> list[Path]:
    """A file, or all files of records below a directory, such as a run store."""
    if not path.is_dir():
        return [path]
    files = sorted([*path.rglob("record.json"), *path.rglob("*.jsonl")])
    if not files:
        raise RecordProblem(f"{path}: holds no record; expected record.json or .jsonl files in it")
    return files


def read_records(path: Path) -> Iterator[Located]:
    """The records of an export, or the one of a `record.json`."""
    if path.suffix == ".jsonl":
        try:
            records = read_export(path)
        except (ValueError, OSError) as error:
            raise RecordProblem(str(error)) from None
        yield from (Located(record, f"{path}, line {line}") for line, record in enumerate(records, start=2))
    else:
        yield Located(_read_record_json(path), str(path))


def _read_record_json(path: Path) -> Record:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise RecordProblem(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RecordProblem(f"{path}: cannot be read ({getattr(error, 'strerror', None) or 'not text'})") from None
    try:
        key = value.get("key", "") if isinstance(value, dict) else ""
        return Record.from_json(value, key).checked(RunConfig)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordProblem(f"{path}: {error}") from None


def hardware(record: Record) -> str:
    """The kind of machine that a run was made on, with the settings that change its rounding."""
    origin = record.provenance
    device = str(origin.get("device", "unknown"))
    settings = ", ".join(origin.get("execution", []))
    machine = f"{device}, {origin.get('cpu', 'unknown')}" if device == "cpu" else device
    return f"{machine} ({settings})" if settings else machine


def comparison_key(config: dict[str, Any]) -> str:
    """The fields, as text, that a run shares with all runs that it is compared with."""
    shared = RunConfig.from_dict(config).to_dict()
    return json.dumps({name: value for name, value in shared.items() if name not in MAY_DIFFER}, sort_keys=True)


def find_conflicts(new: Sequence[Located], others: Sequence[Located] = ()) -> list[str]:
    """What forbids to merge the records, one line each: two results of a run, or two kinds of machine in a comparison.

    `others` are recorded in other files; `new` must not contradict them.
    """
    conflicts: list[str] = []
    first: dict[str, Located] = {}
    for item in (*others, *new):
        known = first.setdefault(f"{item.record.key} {hardware(item.record)}", item)
        if rounded(known.record.result) != rounded(item.record.result):
            conflicts.append(f"{item.where}: run {item.record.key} has another result than in {known.where}")
    machines: dict[str, Located] = {}
    for item in new:
        name = comparison_key(item.record.config)
        known = machines.setdefault(name, item)
        here, there = hardware(item.record), hardware(known.record)
        if here != there:
            conflicts.append(
                f"{item.where}: made on {here}, but {known.where}, which it would be compared with, on {there}"
            )
    return conflicts


def add(files: Sequence[str | Path], into: str | Path) -> tuple[int, int]:
    """Merge the records of `files` into the export `into`; how many are new there, and how many it has now."""
    target = Path(into)
    wrong: list[str] = []
    found: list[Located] = []
    kept = list(read_records(target)) if target.exists() else []
    for name in files:
        try:
            below = record_files(Path(name))
        except RecordProblem as error:
            wrong.append(str(error))
            continue
        for file in below:
            try:
                found += read_records(file)
            except RecordProblem as error:
                wrong.append(str(error))
    beside = [item for path in sorted(target.parent.glob("*.jsonl")) if path != target for item in read_records(path)]
    wrong += find_conflicts([*kept, *found], beside)
    if wrong:
        raise RecordProblem("\n".join(wrong))
    merged = {item.record.key: item.record for item in (*found, *kept)}  # a record that is there stays as it is
    total = export(merged.values(), target, experiment=target.stem)
    return total - len(kept), total


def main(args: argparse.Namespace) -> int:
    target = check_output_file("--into", args.into)
    if target.suffix != ".jsonl":
        raise UsageError(f"--into = {args.into!r} is invalid; expected a file name that ends in .jsonl")
    try:
        new, total = add(args.files, target)
    except RecordProblem as error:
        lines = str(error).splitlines()
        shown = [*lines[:20], *([f"and {len(lines) - 20} more"] if len(lines) > 20 else [])]
        print("\n".join(f"lae records add: {line}" for line in shown), file=sys.stderr)
        print("lae records add: nothing was written", file=sys.stderr)
        return 1
    print(f"{new} new records in {args.into}, {total} in all")
    return 0
