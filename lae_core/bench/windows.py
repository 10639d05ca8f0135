"""`lae bench windows`: what `LogAvgExpPool2d` costs, as ratios to `avg_pool2d`, beside an unfold with the textbook form.

Contenders take turns as in `lae bench operator`, on one thread, by its CPU time, and the best of many rounds counts.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lae_core.bench.report import write_report
from lae_core.bench.timing import best_of_pools, keep_freed_memory
from lae_core.pooling import LogAvgExpPool2d
from lae_core.training.provenance import provenance

WINDOWS = ((2, 2, 0), (3, 2, 1))  # kernel size, stride, padding: those of most networks
SHAPE = (16, 64, 56, 56)


class _Textbook(nn.Module):
    """Unfold, then t (LSE(z / t) - log n), with -inf in the padding; n is what a window holds of the input."""

    def __init__(self, kernel: int, stride: int, padding: int) -> None:
        super().__init__()
        self.kernel, self.stride, self.padding = kernel, stride, padding

    def forward(self, z: Tensor, t: float = 1.0) -> Tensor:
        batch, channels, *size = z.shape
        height, width = ((s + 2 * self.padding - self.kernel) // self.stride + 1 for s in size)

        def columns(x: Tensor, around: float) -> Tensor:
            x = F.pad(x, (self.padding,) * 4, value=around) if self.padding else x
            return F.unfold(x, self.kernel, stride=self.stride)

        counts = columns(torch.ones(1, 1, *size), 0.0).sum(1).reshape(height, width)
        found = columns(z.reshape(batch * channels, 1, *size), -math.inf)
        return t * (torch.logsumexp(found / t, 1).reshape(batch, channels, height, width) - counts.log())


def contenders(kernel: int, stride: int, padding: int) -> dict[str, nn.Module]:
    return {
        "avg_pool2d": nn.AvgPool2d(kernel, stride, padding, count_include_pad=False),
        "LogAvgExpPool2d": LogAvgExpPool2d(kernel, stride, padding),
        "unfold": _Textbook(kernel, stride, padding),
    }


def measure(window: tuple[int, int, int], shape: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """The best seconds of every contender."""
    torch.set_num_threads(1)
    pools = contenders(*window)
    z = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    grad = torch.randn_like(pools["avg_pool2d"](z))
    kernel, stride, padding = window
    case = {"shape": shape, "kernel": kernel, "stride": stride, "padding": padding}
    return {**case, **best_of_pools(pools, z, grad, rounds)}


def main(args: argparse.Namespace) -> int:
    keep_freed_memory()
    cases = [measure(window, SHAPE, args.rounds) for window in WINDOWS]
    for case in cases:
        for kind, shown in (("forward", "inference"), ("both", "forward + backward")):
            ratios = (f"{name} {seconds / case[kind]['avg_pool2d']:.1f}" for name, seconds in case[kind].items())
            window = f"kernel {case['kernel']}, stride {case['stride']}, padding {case['padding']}"
            print(f"{window}, {shown}: {', '.join(ratios)} times avg_pool2d")
    write_report({"provenance": provenance(), "rounds": args.rounds, "cases": cases}, args.json)
    return 0
