"""The CPU kernel: finds the library made from `kernel.c`, describes a tensor to it, and calls it.

The library holds plain C and knows neither Python nor torch, so one build serves every version of both.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

_DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float64: 3}
FILE = Path(__file__).with_name("_kernel.dll" if sys.platform == "win32" else "_kernel.so")


def _load() -> ctypes.CDLL | None:
    """The library; None if it is missing, with a warning, or if LAE_KERNEL is `off`. An error if that is `required`."""
    mode = os.environ.get("LAE_KERNEL")
    if mode == "off":
        return None
    try:
        library = ctypes.CDLL(str(FILE))
    except OSError as error:
        if mode == "required":
            raise
        warnings.warn(
            f"logavgexp runs without its CPU kernel, several times slower: {FILE.name} was not built or does not load "
            f"({error}). Install a C compiler, then logavgexp again; or set LAE_KERNEL=off, which silences this warning.",
            stacklevel=2,
        )
        return None
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    library.lae_run.argtypes = [pointer] * 8 + [size] * 4 + [number] * 2 + [pointer]
    library.lae_run.restype = None
    return library


def _parallel() -> int | None:
    """GOMP_parallel of the OpenMP that torch has loaded: all kinds of OpenMP but Microsoft's have it.

    Threads of our own would have to compete with those of torch, which wait for work by spinning.
    """
    folder = Path(torch.__file__).parent
    files = sorted([*folder.glob("lib/lib*omp*"), *folder.parent.glob("torch.libs/lib*omp*")])
    for name in [None, *map(str, files)]:
        try:
            loaded = ctypes.CDLL(name, mode=getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0))
            return ctypes.cast(loaded.GOMP_parallel, ctypes.c_void_p).value
        except (OSError, AttributeError, TypeError):
            continue
    return None


LIBRARY = _load()
_PARALLEL = _parallel() if LIBRARY else None
_run: Callable[..., None] = LIBRARY.lae_run if LIBRARY else None  # type: ignore[assignment]


def accepts(z: Tensor) -> bool:
    return LIBRARY is not None and z.layout == torch.strided


def forward(z: Tensor, t: Tensor, dims: tuple[int, ...], keepdim: bool) -> tuple[Tensor, Tensor]:
    """The value of every row, and what `backward` needs of it: c, 1 / sum exp(u), and L."""
    z, outer, n, inner = rows_in_memory(z, dims)
    shape = [1 if d in dims else size for d, size in enumerate(z.shape) if keepdim or d not in dims]
    t = _per_row(t, shape)
    value, kept = z.new_empty(shape), t.new_empty((3, outer * inner))
    pointers = z.data_ptr(), t.data_ptr(), None, value.data_ptr(), kept.data_ptr(), None, None, None
    _run(*pointers, outer, n, inner, t.numel() > 1, _DTYPES[z.dtype], torch.get_num_threads(), _PARALLEL)
    return value, kept


def backward(
    grad: Tensor, z: Tensor, t: Tensor, kept: Tensor, dims: tuple[int, ...], wants_t: bool
) -> tuple[Tensor, Tensor]:
    """The gradients to z and t; an empty one if that to t is not wanted."""
    rows, outer, n, inner = rows_in_memory(z, dims)
    grad = grad.resolve_neg().contiguous()
    grad_z, grad_t = torch.empty_like(rows), t.new_empty(grad.shape if wants_t else 0)  # of each row
    sum_t = t.new_empty(t.shape) if wants_t and t.numel() == 1 else None
    t_rows = _per_row(t, grad.shape)
    pointers = rows.data_ptr(), t_rows.data_ptr(), grad.data_ptr(), None, kept.data_ptr(), grad_z.data_ptr()
    pointers_t = grad_t.data_ptr() if wants_t else None, None if sum_t is None else sum_t.data_ptr()
    sizes = outer, n, inner, t.numel() > 1
    _run(*pointers, *pointers_t, *sizes, _DTYPES[z.dtype], torch.get_num_threads(), _PARALLEL)
    if rows is not z:
        grad_z = torch.empty_like(z).copy_(grad_z)
    if sum_t is not None:
        grad_t = sum_t
    elif wants_t:
        grad_t = grad_t.sum_to_size(t.shape)
    return grad_z, grad_t


def rows_in_memory(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, int, int, int]:
    """z, a copy if need be, and the sizes (outer, n, inner) as which it lies in memory, with the rows along n."""
    sizes = _sizes(z.shape, z.stride(), dims)
    if sizes is not None:
        return z, *sizes
    order = [*(d for d in range(z.dim()) if d not in dims), *dims]
    copy = z.permute(order).contiguous().permute(sorted(range(z.dim()), key=order.__getitem__))
    n = math.prod([z.shape[d] for d in dims])
    return copy, z.numel() // n, n, 1


@functools.lru_cache(maxsize=256)  # of a small input, this would be a large part of the time
def _sizes(shape: tuple[int, ...], strides: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(outer, n, inner) for rows along `dims`, or None if they do not lie at equal distances."""
    kept = [d for d in range(len(shape)) if d not in dims]
    for split in range(len(kept), -1, -1):
        if _contiguous(shape, strides, [*kept[:split], *dims, *kept[split:]]):
            outer, n, inner = (math.prod([shape[d] for d in part]) for part in (kept[:split], dims, kept[split:]))
            return outer, n, inner
    return None


def _contiguous(shape: tuple[int, ...], strides: tuple[int, ...], order: list[int]) -> bool:
    step = 1
    for d in reversed(order):
        if shape[d] > 1 and strides[d] != step:
            return False
        step *= shape[d]
    return True


def _per_row(t: Tensor, shape: list[int] | torch.Size) -> Tensor:
    return t if t.numel() == 1 else t.expand(shape).contiguous()
