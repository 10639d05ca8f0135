"""The `lae` command. Each subcommand imports what it needs when it is called, so that `lae --help` is instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


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


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lae", description="LogAvgExp pooling and the executable edition of its paper.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_bench,):
        add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
