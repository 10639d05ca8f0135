"""PyramidNet of BasicBlocks with ShakeDrop (N1), in both tail orders that the paper tried."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lae_core.models.prelu import PReLU
from lae_core.pooling import PoolSpec, make_pool

STEM = 16


class _Shake(torch.autograd.Function):
    """Scale by α going forward and by β going backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(beta)
        return alpha * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (beta,) = ctx.saved_tensors
        return beta * grad, None, None


class ShakeDrop(nn.Module):
    """Keep the branch with probability `survival`, else scale it by α ∈ [−1, 1] forward and β ∈ [0, 1] backward.

    One gate a batch, α and β a sample. Evaluation scales by E[gate + (1 − gate)·α] = survival.
    """

    def __init__(self, survival: float) -> None:
        super().__init__()
        self.survival = survival

    def extra_repr(self) -> str:
        return f"survival={self.survival:.3f}"

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x * self.survival
        # The gate is drawn on the CPU: it decides what is computed, and a draw on a GPU would have to be waited for.
        if torch.rand(()).item() < self.survival:
            return x
        shape = (len(x), 1, 1, 1)
        alpha = torch.empty(shape, dtype=x.dtype, device=x.device).uniform_(-1, 1)
        beta = torch.empty(shape, dtype=x.dtype, device=x.device).uniform_(0, 1)
        return _Shake.apply(x, alpha, beta)


class Block(nn.Module):
    """BN-conv-BN-ReLU-conv-BN, ShakeDrop, added to the input: average-pooled where the block halves the resolution, and
    padded with zero channels up to the block's width."""

    def __init__(self, inputs: int, outputs: int, stride: int, survival: float) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
            ShakeDrop(survival),
        )
        self.pool = nn.AvgPool2d(2) if stride == 2 else nn.Identity()
        self.missing = outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        return self.branch(x) + F.pad(self.pool(x), (0, 0, 0, 0, 0, self.missing))


class PyramidNet(nn.Module):
    """3n blocks, n = (depth − 2) / 6, whose widths rise evenly from 16 to 16 + α, rounded up.

    The probability of keeping a block falls linearly to `survival` at the last one.
    `tail` is the order after the blocks: "bn-relu-pool", or "bn-pool-bn-relu" where the activation follows the pool.
    A 32 px picture is pooled over 8×8 positions.
    """

    def __init__(
        self,
        depth: int = 110,
        alpha: float = 200,
        classes: int = 10,
        pool: PoolSpec | str = "avg",
        *,
        survival: float = 0.5,
        tail: str = "bn-relu-pool",
        last_activation: str = "relu",
    ) -> None:
        super().__init__()
        n = (depth - 2) // 6
        blocks = 3 * n
        widths = [STEM + math.ceil(alpha * i / blocks) for i in range(blocks + 1)]
        self.stem = nn.Sequential(nn.Conv2d(3, STEM, 3, 1, 1, bias=True), nn.BatchNorm2d(STEM))
        self.blocks = nn.Sequential()
        for i in range(blocks):
            stride = 2 if i in (n, 2 * n) else 1
            self.blocks.append(Block(widths[i], widths[i + 1], stride, 1 - (1 - survival) * (i + 1) / blocks))
        channels = widths[-1]
        activation: nn.Module = PReLU() if last_activation == "prelu" else nn.ReLU()
        self.norm = nn.BatchNorm2d(channels)
        self.global_pool = make_pool(pool, channels)
        early = tail == "bn-relu-pool"
        self.before: nn.Module = activation if early else nn.Identity()
        self.after: nn.Module = nn.Identity() if early else nn.Sequential(nn.BatchNorm1d(channels), activation)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.before(self.norm(self.blocks(self.stem(x))))
        return self.fc(self.after(self.global_pool(x)))
