"""The `lae` command. Each subcommand imports what it needs when it is called, so that `lae --help` is instant.

What needs more than torch names its `extra`; where that is not installed, the command says so in one line.
Exit codes: 0 done, 1 something failed on the way, 2 the command line cannot be used, 3 the time limit (`--minutes`) has
passed, 130 interrupted. A mistake that a user can correct is one message; it names the argument, its value and what is
accepted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class _Once(argparse.Action):
    """Stores a value once. argparse would silently keep the last of two; here a second or an empty one is an error."""

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


class _Pairs(argparse.Action):
    """Collects `NAME=VALUE` in a dict, each name once."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        name, equals, value = values.partition("=")
        pairs = getattr(namespace, self.dest)
        if not equals or not name:
            raise argparse.ArgumentError(self, f"{values!r} is invalid; expected {self.metavar}")
        if name in pairs:
            raise argparse.ArgumentError(self, f"{name} is given twice, at last as {value!r}; expected once")
        setattr(namespace, self.dest, pairs | {name: value})


def _number(kind: type, expected: str, accepts: Callable[[Any], bool]) -> Callable[[str], Any]:
    """What reads an argument as an int or a float, and says what is `expected` where it is not one that it `accepts`."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not accepts(value):
            raise argparse.ArgumentTypeError(f"{text!r} is invalid; expected {expected}")
        return value

    return read


_temperature = _number(float, "a number above 0", lambda value: 0 < value < math.inf)
_minutes = _number(float, "a number of minutes above 0", lambda value: 0 < value < math.inf)


def _whole(least: int) -> Callable[[str], int]:
    return _number(int, f"a whole number of at least {least}", lambda value: value >= least)


def _count(command: argparse.ArgumentParser, name: str, default: int | None, help: str, least: int = 1) -> None:
    """An option that is a whole number; without a default, `help` says what its absence means."""
    help = help if default is None else f"{help} (default {default})"
    command.add_argument(name, type=_whole(least), default=default, metavar="N", help=help)


def _add_minutes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--minutes",
        type=_minutes,
        metavar="M",
        help="stop training well before M minutes have passed, with checkpoints (exit code 3); started again it resumes",
    )


def _add_bench(commands: argparse._SubParsersAction) -> None:
    bench = commands.add_parser("bench", help="time our code against its peers, as ratios")
    kinds = bench.add_subparsers(dest="kind", required=True, metavar="KIND")

    def add(kind: str, help: str, extra: str | None, rounds: int | None = None) -> argparse.ArgumentParser:
        command = kinds.add_parser(kind, help=help)
        command.set_defaults(run=f"lae_core.bench.{kind}:main", **({"extra": extra} if extra else {}))
        if rounds:
            _count(command, "--rounds", rounds, "interleaved rounds; the best of them counts")
        if kind != "ridge":
            command.add_argument("--json", metavar="FILE", help="also write the results to FILE ('-': the screen)")
        return command

    op = add("operator", "logavgexp against mean, logsumexp, logavgexp-pytorch and timm", "peers", rounds=15)
    op.add_argument("--threads", type=_whole(1), nargs="+", default=[1], metavar="N", help="torch threads (default 1)")
    op.add_argument("--t", type=_temperature, nargs="+", default=[1.0], metavar="T", help="temperatures (default 1)")
    op.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16", "float64"])
    kinds_of_values = ["normal", "features"]
    values_help = "what to pool: normal values, or such as are behind a rectifier (default both)"
    op.add_argument("--values", nargs="+", default=kinds_of_values, choices=kinds_of_values, help=values_help)
    op.add_argument("--eager", action="store_true", help="leave out compiled code, which takes minutes to compile")
    op.add_argument("--quick", action="store_true", help="one shape, float32, eager only")
    op.add_argument("--resnet50", action="store_true", help="also time a ResNet-50 training step at 224 px")

    add("windows", "LogAvgExpPool2d against avg_pool2d and an unfold", None, rounds=30)

    tr = add(
        "training", "our loop and augmentation against plain PyTorch, torchvision and timm", "models,peers", rounds=8
    )
    tr.add_argument("--data", default="digits", choices=["digits", "cifar10", "cifar100"], help="default digits")
    _count(tr, "--pictures", 512, "pictures in a round of the loops", least=128)
    tr.add_argument("--accuracy", action="store_true", help="train ours and the textbook's too, and compare accuracies")
    tr.add_argument("--accuracy-only", action="store_true", help="the accuracies without the timings")
    _count(tr, "--seeds", 5, "of the accuracy comparison")
    _count(tr, "--epochs", 4, "of each of its runs")
    _count(tr, "--subset", None, "pictures that each of its runs trains on (default all)", least=64)
    _count(tr, "--full-epochs", 2, "of a pair on all pictures; 0 for none", least=0)

    sw = add("sweep", "speed-up of two workers over one", "scale", rounds=2)
    _count(sw, "--runs", 16, "training runs for the speed-up")

    ri = add("ridge", "ridge regression on the raw pixels of recorded runs, for the regime of verdicts", "book")
    ri.add_argument("records", nargs="*", metavar="FILE", help="files of records (default book/results/*.jsonl)")
    ri.add_argument("--whole", nargs="*", default=[], metavar="NAME", help="data sets to do as a whole, too")

    lo = add("load", "a sweep of very many runs: overhead, memory, resuming, kills", "scale")
    _count(lo, "--runs", 10000, "trivial runs")
    _count(lo, "--kills", 10, "random moments to kill the driver at", least=0)
    _count(lo, "--killed-runs", None, "runs of the killed sweep (default as --runs)", least=20)


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
    sweep.add_argument("--set", action=_Pairs, default={}, metavar="FIELD=VALUE", help="change a field of all runs")
    sweep.add_argument(
        "--export", metavar="FILE", help="a text file that the records are added to; runs in it are not made again"
    )
    _add_minutes(sweep)
    sweep.add_argument("--dry-run", action="store_true", help="only list what would run")
    sweep.set_defaults(run="lae_core.runs.sweep_command:main", extra="scale")


def _known_notebooks(**_: Any) -> list[str]:
    """For the shell's tab: what NOTEBOOK may be."""
    from lae_core.book.notebooks import all_notebooks, project_root

    return [notebook.name.rpartition("/")[2] for notebook in all_notebooks(project_root())]


def _known_profiles(**_: Any) -> list[str]:
    from lae_core.book.notebooks import profiles, project_root

    return profiles(project_root())


def _known_data_sets(**_: Any) -> list[str]:
    from lae_core.training.datasets import DATASETS

    return list(DATASETS)


def _completed(argument: argparse.Action, known: Callable[..., list[str]]) -> None:
    argument.completer = known  # type: ignore[attr-defined]  # argcomplete looks for it there


def _add_run(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="execute one notebook with parameters of your choice")
    said = "notebooks/part/name.md, part/name, or a name that is unique"
    _completed(run.add_argument("notebook", metavar="NOTEBOOK", help=said), _known_notebooks)
    said = "smoke, cpu (default), gpu or paper: the values to start from"
    _completed(run.add_argument("--profile", default="cpu", metavar="P", help=said), _known_profiles)
    run.add_argument(
        "-p",
        "--parameter",
        action=_Pairs,
        default={},
        metavar="NAME VALUE",
        help="set one parameter (repeat for more); `lae params NOTEBOOK` lists them",
    )
    _add_minutes(run)
    run.add_argument("--output", metavar="F", help="executed notebook to write (default _build/runs/part/name.ipynb)")
    run.set_defaults(run="lae_core.book.commands:run", extra="book")


def _add_params(commands: argparse._SubParsersAction) -> None:
    params = commands.add_parser("params", help="list a notebook's parameters and their values in each profile")
    _completed(params.add_argument("notebook", metavar="NOTEBOOK", help="as for `lae run`"), _known_notebooks)
    params.set_defaults(run="lae_core.book.commands:params", extra="book")


def _add_book(commands: argparse._SubParsersAction) -> None:
    book = commands.add_parser("book", help="execute what is stale and build the book")
    said = "smoke, cpu (default), gpu or paper"
    _completed(book.add_argument("--profile", default="cpu", metavar="P", help=said), _known_profiles)
    book.add_argument("--force", action="store_true", help="execute every notebook again, whatever the cache holds")
    book.add_argument("--output", metavar="DIR", help="build under DIR (default _build; the pages are in DIR/html)")
    book.add_argument(
        "--plan", action="store_true", help="only list what would be trained, its GPU-hours, data and disk"
    )
    _add_minutes(book)
    book.add_argument("--zip", action="store_true", help="also pack the pages into one file, to read without a network")
    book.add_argument("--print", action="store_true", help="also write all chapters as one page, to print")
    book.add_argument("--elsewhere", action="store_true", help="also write the notebooks that Colab and Binder open")
    book.set_defaults(run="lae_core.book.commands:book", extra="book")


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    doctor = commands.add_parser("doctor", help="what this machine has: versions, devices, precision, data, browser")
    doctor.set_defaults(run="lae_core.book.doctor:main")


def _add_data(commands: argparse._SubParsersAction) -> None:
    data = commands.add_parser(
        "data",
        help="fetch and verify data sets; without a name, list them",
        description="Fetch data sets into $LAE_DATA (else data/), verified by hash. Nothing else ever downloads one.",
    )
    said = "cifar10, cifar100, imagewoof-full, …; none lists all"
    _completed(data.add_argument("names", nargs="*", metavar="NAME", help=said), _known_data_sets)
    said = "exactly what the notebooks train on at this profile"
    _completed(data.add_argument("--for", dest="profile", metavar="P", help=said), _known_profiles)
    data.add_argument("--from", dest="folder", metavar="FOLDER", help="look in this folder first for a copy by hand")
    data.add_argument("--again", action="store_true", help="fetch again what is there already")
    data.set_defaults(run="lae_core.book.commands:data", extra="models")


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
    add.set_defaults(run="lae_core.runs.merge:main", extra="models")


def _check_bench(args: argparse.Namespace) -> None:
    """Refuse, before anything slow is imported, what a benchmark could only fail on at its end or on its way."""
    from lae_core.runs.files import UsageError, check_output_file

    if args.kind == "load":
        killed_runs = args.killed_runs or args.runs
        if not args.kills < killed_runs <= args.runs:
            raise UsageError(
                f"--killed-runs = {killed_runs} is invalid; expected more than --kills = {args.kills}, "
                f"at most --runs = {args.runs}"
            )
    if args.kind == "ridge" or args.json in (None, "-") or not check_output_file("--json", args.json).exists():
        return
    try:
        is_report = "provenance" in json.loads(Path(args.json).read_text(encoding="utf-8"))
    except (ValueError, TypeError):
        is_report = False
    if not is_report:
        raise UsageError(
            f"--json = {args.json!r} is invalid (it exists and is no report of `lae bench`); "
            "expected a new file, or such a report"
        )


def parser() -> argparse.ArgumentParser:
    top = _Parser(prog="lae", description="LogAvgExp pooling and the executable edition of its paper.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_run, _add_params, _add_book, _add_doctor, _add_data, _add_sweep, _add_records, _add_bench):
        add(commands)
    return top


def _call(args: argparse.Namespace) -> int:
    """Import what the command needs, no earlier than now, and run it."""
    if args.command == "bench":
        _check_bench(args)
    module, _, function = args.run.partition(":")
    return getattr(importlib.import_module(module), function)(args)


def main(argv: Sequence[str] | None = None) -> int:
    name, top = "lae", parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what Tab could mean
        import argcomplete

        argcomplete.autocomplete(top)
    try:
        args = top.parse_args(argv)
        name = " ".join(["lae", args.command, *([args.kind] if "kind" in args else [])])
        status = _call(args)
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
    except Exception as error:
        from lae_core.book.notebooks import BookError
        from lae_core.runs.files import StoreError, UsageError
        from lae_core.training import deadline

        if not isinstance(error, BookError | StoreError | UsageError):
            raise
        print(f"{name}: {error}", file=sys.stderr)
        if isinstance(error, UsageError):
            return 2
        return deadline.EXIT_CODE if deadline.passed() else 1


if __name__ == "__main__":
    sys.exit(main())
