"""The `lae` command. Each subcommand imports what it needs when it is called, so that `lae --help` is instant.

What needs more than torch names its `extra`; where that is not installed, the command says so in one line.
Exit codes: 0 done, 1 something failed on the way, 2 the command line cannot be used, 130 interrupted. Whatever a user can
mend is told in one message that names the argument, its value and what is accepted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Once(argparse.Action):
    """Keeps a value. A second one is refused, where argparse would pass over the first in silence, and so is an empty one."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        given = namespace.__dict__.setdefault("_given", set())
        if option_string and self.dest in given:
            raise argparse.ArgumentError(self, f"is given twice, at last as {values!r}; expected once")
        if option_string and values == "":
            raise argparse.ArgumentError(self, "'' is invalid; expected a value")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """Mistakes in one line; each option once; `-p NAME VALUE` with any value, also one that begins with a minus."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(_joined(words) if words[:1] == ["run"] else words, namespace)


def _joined(words: list[str]) -> list[str]:
    """Each `-p NAME VALUE` as one word, so that no value can be taken for an option."""
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-p", "--parameter"):
            name = next(rest, "")
            value = None if "=" in name else next(rest, None)
            word = f"--parameter={name}" if value is None else f"--parameter={name}={value}"
        joined.append(word)
    return joined


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is invalid; expected NAME VALUE, or NAME=VALUE")
    return name, value


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is invalid; expected a whole number of at least {least}")
        return value

    return read


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is invalid; expected a number above 0")
    return value


def _check_report(name: str | None) -> None:
    """Refuse a `--json` file that cannot be written, or that is not a report of an earlier benchmark."""
    from lae_core.runs.files import UsageError, check_output_file

    if name is None or name == "-":
        return
    target = check_output_file("--json", name)
    if not target.exists():
        return
    try:
        ours = "provenance" in json.loads(target.read_text(encoding="utf-8"))
    except (ValueError, TypeError):
        ours = False
    if not ours:
        raise UsageError(
            f"--json = {name!r} is invalid (it exists and is no report of `lae bench`); "
            "expected a new file, or such a report"
        )


def _bench_operator(args: argparse.Namespace) -> int:
    _check_report(args.json)
    from lae_core.bench import operator

    return operator.main(args)


def _bench_windows(args: argparse.Namespace) -> int:
    _check_report(args.json)
    from lae_core.bench import windows

    return windows.main(args)


def _add_bench(commands: argparse._SubParsersAction) -> None:
    bench = commands.add_parser("bench", help="time our code against its peers, as ratios")
    kinds = bench.add_subparsers(dest="kind", required=True, metavar="KIND")
    op = kinds.add_parser("operator", help="logavgexp against mean, logsumexp, logavgexp-pytorch and timm")
    op.add_argument("--threads", type=_whole(1), nargs="+", default=[1], metavar="N", help="torch threads (default 1)")
    op.add_argument("--t", type=_temperature, nargs="+", default=[1.0], metavar="T", help="temperatures (default 1)")
    op.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16", "float64"])
    op.add_argument(
        "--values",
        nargs="+",
        default=["normal", "features"],
        choices=["normal", "features"],
        help="what to pool: normal values, or such as are behind a rectifier (default both)",
    )
    op.add_argument(
        "--rounds", type=_whole(1), default=15, help="interleaved rounds; the best of them counts (default 15)"
    )
    op.add_argument("--eager", action="store_true", help="leave out compiled code, which takes minutes to compile")
    op.add_argument("--quick", action="store_true", help="one shape, float32, eager only")
    op.add_argument("--resnet50", action="store_true", help="also time a ResNet-50 training step at 224 px")
    op.add_argument("--json", metavar="FILE", help="write to FILE as JSON, or add to it ('-': the screen)")
    op.set_defaults(run=_bench_operator, extra="peers")
    wi = kinds.add_parser("windows", help="LogAvgExpPool2d against avg_pool2d and an unfold")
    wi.add_argument("--rounds", type=_whole(1), default=30, help="interleaved rounds; the best counts (default 30)")
    wi.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    wi.set_defaults(run=_bench_windows)
    tr = kinds.add_parser("training", help="our loop and augmentation against plain PyTorch, torchvision and timm")
    tr.add_argument("--data", default="digits", metavar="NAME", help="digits (default), cifar10 or cifar100")
    tr.add_argument(
        "--rounds", type=_whole(1), default=8, help="interleaved rounds; the best of them counts (default 8)"
    )
    tr.add_argument("--pictures", type=_whole(128), default=512, help="pictures in a round of the loops (default 512)")
    tr.add_argument("--accuracy", action="store_true", help="train ours and the textbook's too, and compare accuracies")
    tr.add_argument("--accuracy-only", action="store_true", help="the accuracies without the timings")
    tr.add_argument("--seeds", type=_whole(1), default=5, help="of the accuracy comparison (default 5)")
    tr.add_argument("--epochs", type=_whole(1), default=4, help="of each of its runs (default 4)")
    tr.add_argument(
        "--subset", type=_whole(64), metavar="N", help="pictures that each of its runs trains on (default all)"
    )
    tr.add_argument(
        "--full-epochs", type=_whole(0), default=2, help="of a pair on all pictures; 0 for none (default 2)"
    )
    tr.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    tr.set_defaults(run=_bench_training, extra="models,peers")
    sw = kinds.add_parser("sweep", help="speed-up of two workers over one")
    sw.add_argument("--runs", type=_whole(1), default=16, help="training runs for the speed-up (default 16)")
    sw.add_argument(
        "--rounds", type=_whole(1), default=2, help="turns of one and two workers; the best of each (default 2)"
    )
    sw.add_argument("--json", metavar="FILE", help="write the numbers to FILE as JSON ('-' for the screen)")
    sw.set_defaults(run=_bench_sweep, extra="scale")
    ri = kinds.add_parser(
        "ridge", help="ridge regression on the raw pixels of recorded runs, for the regime of verdicts"
    )
    ri.add_argument("records", nargs="*", metavar="FILE", help="files of records (default book/results/*.jsonl)")
    ri.add_argument("--whole", nargs="*", default=[], metavar="NAME", help="data sets to do as a whole, too")
    ri.set_defaults(run=_bench_ridge, extra="book")
    lo = kinds.add_parser("load", help="a sweep of very many runs: overhead, memory, resuming, kills")
    lo.add_argument("--runs", type=_whole(1), default=10000, help="trivial runs (default 10000)")
    lo.add_argument("--kills", type=_whole(0), default=10, help="random moments to kill the driver at (default 10)")
    lo.add_argument("--killed-runs", type=_whole(20), metavar="N", help="runs of the killed sweep (default as --runs)")
    lo.add_argument("--json", metavar="FILE", help="write the numbers to FILE as JSON ('-' for the screen)")
    lo.set_defaults(run=_bench_load, extra="scale")


def _bench_training(args: argparse.Namespace) -> int:
    from lae_core.runs.files import UsageError
    from lae_core.training.datasets import DATASETS

    if args.data not in DATASETS:
        raise UsageError(f"--data = {args.data!r} is invalid; expected digits, cifar10 or cifar100")
    _check_report(args.json)
    from lae_core.bench import training

    return training.main(args)


def _bench_ridge(args: argparse.Namespace) -> int:
    from lae_core.bench import ridge

    return ridge.main(args)


def _bench_sweep(args: argparse.Namespace) -> int:
    _check_report(args.json)
    from lae_core.bench import sweep

    return sweep.main(args)


def _bench_load(args: argparse.Namespace) -> int:
    from lae_core.runs.files import UsageError

    _check_report(args.json)
    killed_runs = args.killed_runs or args.runs
    if args.kills >= killed_runs or killed_runs > args.runs:
        raise UsageError(
            f"--killed-runs = {killed_runs} is invalid; expected more than --kills = {args.kills}, "
            f"at most --runs = {args.runs}"
        )
    from lae_core.bench import load

    return load.main(args)


def _sweep(args: argparse.Namespace) -> int:
    from lae_core.runs import sweep_command

    return sweep_command.main(args)


def _add_sweep(commands: argparse._SubParsersAction) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="run every training run of a plan that is not recorded yet",
        description="Run what a plan names and the store has no record of, here or on a cluster. Starting it again "
        "after anything went wrong resumes it; several at once on one store share the work.",
    )
    sweep.add_argument("plan", metavar="PLAN", help="YAML file with `base` (fields of RunConfig) and `grid` (lists)")
    sweep.add_argument("--store", help="directory of the records (default $LAE_RUNS, else runs)")
    sweep.add_argument(
        "--where",
        metavar="W",
        help="local, local(workers=2), inline, tcp://host:port, a scheduler file, "
        "or slurm(jobs=8, gpus=1, queue=Q, …) (default $LAE_WHERE, else local)",
    )
    sweep.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="change a field of all runs")
    sweep.add_argument(
        "--export", metavar="FILE", help="a text file that the records are added to; runs in it are not made again"
    )
    _add_minutes(sweep)
    sweep.add_argument("--dry-run", action="store_true", help="only list what would run")
    sweep.set_defaults(run=_sweep, extra="scale")


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is invalid; expected a number of minutes above 0")
    return value


def _add_minutes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--minutes",
        type=_minutes,
        metavar="M",
        help="stop training well before M minutes have passed, with checkpoints (exit code 3); started again it resumes",
    )


def _add_run(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="execute one notebook with parameters of your choice")
    run.add_argument("notebook", metavar="NOTEBOOK", help="notebooks/part/name.md, part/name, or a name that is unique")
    run.add_argument(
        "--profile", default="cpu", metavar="P", help="smoke, cpu (default), gpu or paper: the values to start from"
    )
    run.add_argument(
        "-p",
        "--parameter",
        type=_parameter,
        action="append",
        default=[],
        metavar="NAME VALUE",
        help="set one parameter (repeat for more); `lae params NOTEBOOK` lists them",
    )
    _add_minutes(run)
    run.add_argument("--output", metavar="F", help="executed notebook to write (default _build/runs/part/name.ipynb)")
    run.set_defaults(run=lambda args: _book_commands().run(args), extra="book")


def _add_params(commands: argparse._SubParsersAction) -> None:
    params = commands.add_parser("params", help="list a notebook's parameters and their values in each profile")
    params.add_argument("notebook", metavar="NOTEBOOK", help="as for `lae run`")
    params.set_defaults(run=lambda args: _book_commands().params(args), extra="book")


def _add_book(commands: argparse._SubParsersAction) -> None:
    book = commands.add_parser("book", help="execute what is stale and build the book")
    book.add_argument("--profile", default="cpu", metavar="P", help="smoke, cpu (default), gpu or paper")
    book.add_argument("--force", action="store_true", help="execute every notebook again, whatever the cache holds")
    book.add_argument("--output", metavar="DIR", help="build under DIR (default _build; the pages are in DIR/html)")
    book.add_argument(
        "--plan", action="store_true", help="only list what would be trained, its GPU-hours, data and disk"
    )
    _add_minutes(book)
    book.add_argument("--zip", action="store_true", help="also pack the pages into one file, to read without a network")
    book.add_argument("--print", action="store_true", help="also write all chapters as one page, to print")
    book.add_argument("--elsewhere", action="store_true", help="also write the notebooks that Colab and Binder open")
    book.set_defaults(run=lambda args: _book_commands().book(args), extra="book")


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    doctor = commands.add_parser("doctor", help="what this machine has: versions, devices, precision, data, browser")
    doctor.set_defaults(run=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    from lae_core.book import doctor

    return doctor.main(args)


def _book_commands() -> ModuleType:
    from lae_core.book import commands

    return commands


def _data(args: argparse.Namespace) -> int:
    from lae_core.training import fetch

    names = args.names
    if args.profile is not None:
        from lae_core.runs.files import UsageError

        if names:
            raise UsageError(f"--for = {args.profile!r} is invalid beside NAME = {names[0]!r}; expected one of the two")
        names = _book_commands().data_sets(args.profile)
        if not names:
            print(f"the profile {args.profile} trains on no data set that has to be fetched")
            return 0
    return fetch.main(names, args.folder, args.again)


def _add_data(commands: argparse._SubParsersAction) -> None:
    data = commands.add_parser(
        "data",
        help="fetch and verify data sets; without a name, list them",
        description="Fetch data sets into $LAE_DATA (else data/), verified by hash. Nothing else ever downloads one.",
    )
    data.add_argument("names", nargs="*", metavar="NAME", help="cifar10, cifar100, imagewoof-full, …; none lists all")
    data.add_argument("--for", dest="profile", metavar="P", help="exactly what the notebooks train on at this profile")
    data.add_argument("--from", dest="folder", metavar="FOLDER", help="look in this folder first for a copy by hand")
    data.add_argument("--again", action="store_true", help="fetch again what is there already")
    data.set_defaults(run=_data, extra="models")


def _records(args: argparse.Namespace) -> int:
    from lae_core.runs import incoming

    return incoming.main(args)


def _add_records(commands: argparse._SubParsersAction) -> None:
    records = commands.add_parser("records", help="check records that came from elsewhere, and take them in")
    kinds = records.add_subparsers(dest="kind", required=True, metavar="KIND")
    add = kinds.add_parser(
        "add",
        help="merge checked records into a file of book/results",
        description="Check records (keys computed anew, checksums, no run with two results, one kind of hardware per "
        "comparison) and merge them into one file. If anything is wrong, nothing is written.",
    )
    add.add_argument("files", nargs="+", metavar="FILE", help="an export, a record.json, or a directory of such")
    add.add_argument("--into", default="book/results/gpu.jsonl", metavar="FILE", help="default book/results/gpu.jsonl")
    add.set_defaults(run=_records, extra="models")


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="lae", description="LogAvgExp pooling and the executable edition of its paper.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        _add_run,
        _add_params,
        _add_book,
        _add_doctor,
        _add_data,
        _add_sweep,
        _add_records,
        _add_bench,
    ):
        add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    name = "lae"
    try:
        args = parser().parse_args(argv)
        name = " ".join(["lae", args.command, *([args.kind] if "kind" in args else [])])
        status = args.run(args)
        sys.stdout.flush()  # here, where a reader that has gone away is no surprise
        return status
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; what had finished is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as in `lae params NOTEBOOK | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if "extra" not in args or missing in ("", "lae_core"):
            raise
        print(f"{name}: {missing} is not installed: pip install 'logavgexp[{args.extra}]'", file=sys.stderr)
        return 2
    except OSError as error:  # a disk that is full, read-only or gone: no bug of ours
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except ValueError as error:
        from lae_core.runs.files import UsageError

        if not isinstance(error, UsageError):
            raise
        print(f"{name}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
