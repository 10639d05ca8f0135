"""The `lae` command. Each subcommand imports what it needs when it is called, so that `lae --help` is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType


def _bench_operator(args: argparse.Namespace) -> int:
    from lae_core.bench import operator

    return operator.main(args)


def _add_bench(commands: argparse._SubParsersAction) -> None:
    bench = commands.add_parser("bench", help="time our code against its peers, as ratios")
    kinds = bench.add_subparsers(dest="kind", required=True, metavar="KIND")
    op = kinds.add_parser("operator", help="logavgexp against mean, logsumexp, logavgexp-pytorch and timm")
    op.add_argument("--threads", type=int, default=1, help="torch threads (default 1)")
    op.add_argument("--rounds", type=int, default=15, help="interleaved rounds; the best of them counts (default 15)")
    op.add_argument("--quick", action="store_true", help="one shape, float32, eager only")
    op.add_argument("--resnet50", action="store_true", help="also time a ResNet-50 training step at 224 px")
    op.add_argument("--json", metavar="FILE", help="write the table to FILE as JSON ('-' for the screen)")
    op.set_defaults(run=_bench_operator)


def _add_run(commands: argparse._SubParsersAction) -> None:
    run = commands.add_parser("run", help="execute one notebook with parameters of your choice")
    run.add_argument("notebook", metavar="NOTEBOOK", help="notebooks/part/name.md, part/name, or a name that is unique")
    run.add_argument(
        "--profile", default="cpu", metavar="P", help="smoke, cpu (default) or paper: the values to start from"
    )
    run.add_argument(
        "-p",
        "--parameter",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set one parameter (repeat for more); `lae params NOTEBOOK` lists them",
    )
    run.add_argument("--output", metavar="F", help="executed notebook to write (default _build/runs/part/name.ipynb)")
    run.set_defaults(run=lambda args: _book_commands().run(args))


def _add_params(commands: argparse._SubParsersAction) -> None:
    params = commands.add_parser("params", help="list a notebook's parameters and their values in each profile")
    params.add_argument("notebook", metavar="NOTEBOOK", help="as for `lae run`")
    params.set_defaults(run=lambda args: _book_commands().params(args))


def _add_book(commands: argparse._SubParsersAction) -> None:
    book = commands.add_parser("book", help="execute what is stale and build the book")
    book.add_argument("--profile", default="cpu", metavar="P", help="smoke, cpu (default) or paper")
    book.add_argument("--force", action="store_true", help="execute every notebook again, whatever the cache holds")
    book.add_argument("--output", metavar="DIR", help="build under DIR (default _build; the pages are in DIR/html)")
    book.set_defaults(run=lambda args: _book_commands().book(args))


def _book_commands() -> ModuleType:
    from lae_core.book import commands

    return commands


def _data(args: argparse.Namespace) -> int:
    from lae_core.training import fetch

    return fetch.main(args.names, args.folder, args.again)


def _add_data(commands: argparse._SubParsersAction) -> None:
    data = commands.add_parser(
        "data",
        help="fetch and verify data sets; without a name, list them",
        description="Fetch data sets into $LAE_DATA (else data/), verified by hash. Nothing else ever downloads one.",
    )
    data.add_argument("names", nargs="*", metavar="NAME", help="cifar10, cifar100, imagewoof-160, …; none lists all")
    data.add_argument("--from", dest="folder", metavar="FOLDER", help="look in this folder first for a copy by hand")
    data.add_argument("--again", action="store_true", help="fetch again what is there already")
    data.set_defaults(run=_data)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lae", description="LogAvgExp pooling and the executable edition of its paper.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (
        _add_run,
        _add_params,
        _add_book,
        _add_data,
        _add_bench,
    ):
        add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
