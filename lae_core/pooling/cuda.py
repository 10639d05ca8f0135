"""The GPU kernel, in Triton: the formulas of `kernel.c`, one kernel forward and one backward, in float32.

A program does BLOCK_R rows, BLOCK_N elements of each at a time. Sums within a block are trees; the sums of blocks are added
together with what each addition lost. float64, and machines without Triton, take the plain form; LAE_KERNEL=off turns the
kernel off. It was tested in Triton's interpreter and compiled ahead of time, but has not run on a GPU yet.
"""

from __future__ import annotations

import functools
import os

import torch
from torch import Tensor

from lae_core.pooling.cpu import rows_in_memory


def accepts(z: Tensor) -> bool:
    return z.dtype != torch.float64 and z.layout == torch.strided and kernels() is not None


def forward(z: Tensor, t: Tensor, dims: tuple[int, ...], keepdim: bool) -> tuple[Tensor, Tensor]:
    """The value of every row, and what `backward` needs of it: c, 1 / sum exp(u), and L."""
    z, outer, n, inner = rows_in_memory(z, dims)
    shape = [1 if d in dims else size for d, size in enumerate(z.shape) if keepdim or d not in dims]
    value, kept = z.new_empty(shape), t.new_empty((3, outer * inner))
    t, t_step = (t, 0) if t.numel() == 1 else (t.expand(shape).contiguous(), 1)
    launch(kernels()[0], (z, t, value, kept), outer, n, inner, t_step)  # type: ignore[index]
    return value, kept


def backward(
    grad: Tensor, z: Tensor, t: Tensor, kept: Tensor, dims: tuple[int, ...], wants_t: bool
) -> tuple[Tensor, Tensor]:
    """The gradients to z and t; an empty one if that to t is not wanted."""
    rows, outer, n, inner = rows_in_memory(z, dims)
    grad = grad.resolve_neg().contiguous()
    grad_z, grad_t = torch.empty_like(rows), torch.empty(grad.shape if wants_t else 0, dtype=t.dtype, device=t.device)
    per_row, t_step = (t, 0) if t.numel() == 1 else (t.expand(grad.shape).contiguous(), 1)
    tensors = (rows, per_row, grad, kept, grad_z, grad_t)
    launch(kernels()[1], tensors, outer, n, inner, t_step, WANTS_T=wants_t)  # type: ignore[index]
    if rows is not z:
        grad_z = torch.empty_like(z).copy_(grad_z)
    return grad_z, grad_t.sum_to_size(t.shape).clone() if wants_t else grad_t


def block_sizes(n: int, side_by_side: bool) -> tuple[int, int]:
    """Rows and elements of a program: powers of two, some 1024 to 2048 numbers."""
    power = 1 << max(n - 1, 0).bit_length()
    if side_by_side:
        return 32, min(power, 64)
    block = min(power, 2048)
    return max(1, 1024 // block), block


def launch(
    kernel: object, tensors: tuple[Tensor, ...], outer: int, n: int, inner: int, t_step: int, **constants: bool
) -> None:
    if not outer * inner:
        return
    across, step = (1, inner) if inner > 1 else (n, 1)
    # rows side by side belong to one of `outer`; rows along memory are all alike
    groups, rows = (outer, inner) if inner > 1 else (1, outer)
    block_r, block_n = block_sizes(n, inner > 1)
    grid = (-(-rows // block_r), groups)
    kernel[grid](  # type: ignore[index]
        *tensors, n, rows, groups * rows, across, step, t_step, BLOCK_R=block_r, BLOCK_N=block_n, **constants
    )


@functools.cache
def kernels() -> tuple[object, object] | None:
    """Both kernels, or None without Triton."""
    if os.environ.get("LAE_KERNEL") == "off":
        return None
    try:
        from lae_core.pooling import triton_kernels
    except ImportError:
        return None
    return triton_kernels.forward, triton_kernels.backward
