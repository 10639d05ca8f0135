"""PReLU with one slope. Its backward pass on a CPU is ours, since the one in torch takes over twice as long there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class _PReLU(torch.autograd.Function):
    """max(x, 0) + a · min(x, 0): a leaky ReLU, but for the gradient to a, Σ grad · min(x, 0)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope, ctx.dtype = slope.item(), slope.dtype
        return F.leaky_relu(x, ctx.slope)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        (x,) = ctx.saved_tensors
        to_slope = (x.clamp(max=0) * grad).sum(dtype=ctx.dtype).view(1)
        return torch.ops.aten.leaky_relu_backward(grad, x, ctx.slope, False), to_slope


class PReLU(nn.PReLU):
    """`nn.PReLU()`, the same up to the rounding of the slope's gradient."""

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cpu:  # in bf16 too, for which torch's own leaves its fast path beside a float32 slope
            return _PReLU.apply(x, self.weight)
        return super().forward(x)
