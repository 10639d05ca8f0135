"""The CPU kernel: finds the library made from `kernel.c`, describes a tensor to it, and calls it.

The library holds plain C and knows neither Python nor torch, so one build serves every version of both.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import warnings
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
            f"({error}). Install a C compiler, then lae again; or set LAE_KERNEL=off, which silences this warning.",
            stacklevel=2,
        )
        return None
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    library.lae_run.argtypes = [pointer] * 7 + [size] * 4 + [number] * 2 + [pointer]
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


def accepts(z: Tensor) -> bool:
    return LIBRARY is not None and z.layout == torch.strided


def forward(z: Tensor, t: Tensor, dims: tuple[int, ...], keepdim: bool) -> tuple[Tensor, Tensor]:
    """The value of every row, and what `backward` needs of it: c, 1 / sum exp(u), and L."""
    z, outer, n, inner = rows_in_memory(z, dims)
    shape = [1 if d in dims else size for d, size in enumerate(z.shape) if keepdim or d not in dims]
    t = _per_row(t, shape)
    value, kept = z.new_empty(shape), t.new_empty((3, outer * inner))
    _run(z, t, outer, n, inner, value=value, kept=kept)
    return value, kept


def backward(
    grad: Tensor, z: Tensor, t: Tensor, kept: Tensor, dims: tuple[int, ...], wants_t: bool
) -> tuple[Tensor, Tensor]:
    """The gradients to z and t; an empty one if that to t is not wanted."""
    rows, outer, n, inner = rows_in_memory(z, dims)
    grad_z, grad_t = torch.empty_like(rows), t.new_empty(outer * inner + 1 if wants_t else 0)
    grad = grad.resolve_neg().contiguous()
    _run(rows, _per_row(t, grad.shape), outer, n, inner, grad=grad, kept=kept, grad_z=grad_z, grad_t=grad_t)
    if rows is not z:
        grad_z = torch.empty_like(z).copy_(grad_z)
    if wants_t:
        grad_t = grad_t[-1:].view(t.shape) if t.numel() == 1 else grad_t[:-1].view(grad.shape).sum_to_size(t.shape)
    return grad_z, grad_t.clone() if wants_t else grad_t


def rows_in_memory(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, int, int, int]:
    """z, a copy if need be, and the sizes (outer, n, inner) as which it lies in memory, with the rows along n."""
    kept = [d for d in range(z.dim()) if d not in dims]
    n = math.prod([z.shape[d] for d in dims])
    if dims[0] == len(kept) and z.is_contiguous():  # the usual case, without the time that views take
        return z, math.prod(z.shape[: dims[0]]), n, 1
    for split in range(len(kept), -1, -1):
        if z.permute(*kept[:split], *dims, *kept[split:]).is_contiguous():
            inner = math.prod([z.shape[d] for d in kept[split:]])
            return z, z.numel() // max(n * inner, 1), n, inner
    order = [*kept, *dims]
    copy = z.permute(order).contiguous().permute(sorted(range(z.dim()), key=order.__getitem__))
    return copy, z.numel() // n, n, 1


def _per_row(t: Tensor, shape: list[int] | torch.Size) -> Tensor:
    return t if t.numel() == 1 else t.expand(shape).contiguous()


def _run(
    z: Tensor,
    t: Tensor,
    outer: int,
    n: int,
    inner: int,
    *,
    kept: Tensor,
    grad: Tensor | None = None,
    value: Tensor | None = None,
    grad_z: Tensor | None = None,
    grad_t: Tensor | None = None,
) -> None:
    pointers = [None if x is None or not x.numel() else x.data_ptr() for x in (z, t, grad, value, kept, grad_z, grad_t)]
    step = 0 if t.numel() == 1 else 1
    threads = torch.get_num_threads()
    LIBRARY.lae_run(*pointers, outer, n, inner, step, _DTYPES[z.dtype], threads, _PARALLEL)  # type: ignore[union-attr]
