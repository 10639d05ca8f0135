"""LogAvgExp as one function: checks of its arguments, and the choice of the form that computes it.

`plain` has the formulas, in torch operations. `cpu` and `cuda` do the same in one kernel forward and one backward, where
that is possible: not for masks or weights, for an exported graph, for vmap and other transforms, or for second derivatives.
Each row is computed from that row alone: its bits do not depend on the batch, on threads, or on gradients being asked for.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd import forward_ad

from lae_core.pooling import cpu, cuda, plain

_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_RANGE = {dtype: (torch.finfo(dtype).tiny, torch.finfo(dtype).max) for dtype in (torch.float64, torch.float32)}


def logavgexp(
    z: Tensor,
    t: float | Tensor = 1.0,
    dim: int | Sequence[int] | None = -1,
    mask: Tensor | None = None,
    weights: Tensor | None = None,
    keepdim: bool = False,
) -> Tensor:
    r"""LogAvgExp, :math:`\mathrm{LAE}(z; t) = t \log\left(\frac{1}{n} \sum_i \exp(z_i / t)\right)`, over one or more dimensions.

    It moves smoothly from the maximum (t → 0) to the mean (t → ∞).

    Args:
        z: float64, float32, bfloat16 or float16, of any shape and layout. Half types are computed in float32.
        t: temperature, a positive number or a tensor that broadcasts against the result (a scalar, one per channel, one per
            sample). Gradients flow to a tensor. Its values are not checked, as that would make a GPU wait and would break
            compilation: where t ≤ 0 or nan the result is nan, and where it is infinite the mean.
        dim: the dimension or dimensions to pool over; None pools over all.
        mask: boolean, broadcastable to the shape of z. Elements where it is False count neither in the sum nor in n.
        weights: how much each element counts, broadcastable to the shape of z: the mean becomes a weighted mean. Only their
            ratios within a row matter; in float32 and half types, one below 1e-38 of the row's largest counts as that much,
            and in float64 one below 2e-308. An element of weight 0 does not count, as with a mask, and has no gradient.
            Gradients flow to other weights. A row with a negative, infinite or nan weight gives nan.
        keepdim: keep the pooled dimensions with size 1.

    Returns:
        A tensor of z's dtype.

    At the edges: one element, or a tensor without dimensions, is returned as it is; any nan gives nan; a +inf gives +inf
    (with nan as the gradient of the infinite elements); -inf elements count in n and add nothing; a row with nothing in it
    (no elements, all masked, or all -inf) gives -inf and zero gradient.

    Example:
        >>> logavgexp(torch.tensor([0.0, 1.0, 2.0]), t=0.01)
        tensor(1.9890)
        >>> logavgexp(torch.randn(8, 512, 7, 7), t=4.0, dim=(2, 3)).shape
        torch.Size([8, 512])
        >>> logavgexp(torch.tensor([0.0, 1.0, 2.0]), t=100.0, weights=torch.tensor([3.0, 1.0, 0.0]))
        tensor(0.2509)
    """
    dims = _check_dim(z, dim)
    if z.dim() == 0:
        row = z.reshape(1)
        mask, weights = (x.reshape(1) if isinstance(x, Tensor) and x.dim() == 0 else x for x in (mask, weights))
        return logavgexp(row, t, 0, mask, weights)
    shape = [1 if d in dims else size for d, size in enumerate(z.shape) if keepdim or d not in dims]
    t = _check_t(t, shape, z)
    if mask is not None:
        mask = _check_mask(mask, z)
    if weights is not None:
        mask = _check_weights(weights, mask, z, t.dtype, dims)
    if not z.numel() and any(z.shape[d] == 0 for d in dims):
        # not a constant, so that z and t have a gradient, of zeros
        everywhere = torch.ones((), dtype=torch.bool, device=z.device)
        return (z.sum(dims, keepdim=keepdim) + t).to(z.dtype).masked_fill(everywhere, -math.inf)
    kernel = _kernel(z, t) if mask is None else None
    if kernel is None:
        value = plain.logavgexp(z, _keepdim(t, dims, z.dim(), keepdim), mask, dims)
        return value if keepdim else value.squeeze(dims)
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack():
        return cast(Tensor, _forward_op(z, t, dims, keepdim)[0])
    if torch.is_grad_enabled() and (z.requires_grad or t.requires_grad):
        return cast(Tensor, _Fused.apply(z, t, dims, keepdim))
    return cast(Tensor, kernel.forward(z, t, dims, keepdim)[0])


def _kernel(z: Tensor, t: Tensor) -> ModuleType | None:
    """The fused kernel for this input, or None where only the plain form will do."""
    kernel = _kernel_of_device(z)
    if not (z.is_cpu or z.is_cuda) or t.device != z.device or not kernel.accepts(z):
        return None
    if torch.compiler.is_compiling():
        return None if torch.compiler.is_exporting() else kernel
    for x in (z, t):
        ordinary = type(x) is Tensor or type(x) is torch.nn.Parameter
        if not ordinary or x.is_neg() or is_functorch_wrapped_tensor(x) or is_legacy_batchedtensor(x):
            return None
    tracing = torch.jit.is_tracing()
    return None if tracing or forward_ad._current_level >= 0 else kernel


def _kernel_of_device(z: Tensor) -> ModuleType:
    return cpu if z.is_cpu else cuda


class _Fused(torch.autograd.Function):
    """One kernel forward, one backward: in eager code, where the registered operator would have twice the overhead."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, t: Tensor, dims: tuple[int, ...], keepdim: bool) -> Any:
        value, kept = _kernel_of_device(z).forward(z, t, dims, keepdim)
        ctx.save_for_backward(z, t, kept)
        ctx.dims, ctx.keepdim = dims, keepdim
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        z, t, kept = ctx.saved_tensors
        if torch.is_grad_enabled() or is_functorch_wrapped_tensor(grad) or is_legacy_batchedtensor(grad):
            # a second derivative is being prepared, or there is a batch of gradients
            grad_z, grad_t = _plain_backward(grad, z, t, ctx.dims, ctx.keepdim)
        else:
            grad_z, grad_t = _kernel_of_device(z).backward(grad, z, t, kept, ctx.dims, ctx.needs_input_grad[1])
        return grad_z, grad_t if ctx.needs_input_grad[1] else None, None, None


def _plain_backward(grad: Tensor, z: Tensor, t: Tensor, dims: tuple[int, ...], keepdim: bool) -> tuple[Tensor, Tensor]:
    grad, t_rows = (_keepdim(x, dims, z.dim(), keepdim) for x in (grad, t))
    weights, neg_grad_t = plain.derivatives(z, t_rows, plain.rows_of(None, dims))
    grad_t = plain.gradient_to_t(grad, neg_grad_t, t_rows.shape)
    return (grad * weights).to(z.dtype), grad_t.reshape(t.shape)


def _keepdim(x: Tensor, dims: tuple[int, ...], rank: int, keepdim: bool) -> Tensor:
    """x, which broadcasts against the result, with size 1 along `dims` where the result does without them."""
    missing = 0 if keepdim else len(dims)
    x = x.reshape((1,) * (rank - missing - x.dim()) + x.shape)
    for d in dims[:missing]:
        x = x.unsqueeze(d)
    return x


@torch.library.custom_op("lae::forward", mutates_args=())
def _forward_op(z: Tensor, t: Tensor, dims: Sequence[int], keepdim: bool) -> tuple[Tensor, Tensor]:
    """Value, and what backward needs: the operator that compiled graphs contain."""
    return cast(tuple[Tensor, Tensor], _kernel_of_device(z).forward(z, t, tuple(dims), keepdim))


@torch.library.custom_op("lae::backward", mutates_args=())
def _backward_op(
    grad: Tensor, z: Tensor, t: Tensor, kept: Tensor, dims: Sequence[int], wants_t: bool
) -> tuple[Tensor, Tensor]:
    return cast(tuple[Tensor, Tensor], _kernel_of_device(z).backward(grad, z, t, kept, tuple(dims), wants_t))


@_forward_op.register_fake
def _(z: Tensor, t: Tensor, dims: Sequence[int], keepdim: bool) -> tuple[Tensor, Tensor]:
    shape = [1 if d in dims else size for d, size in enumerate(z.shape) if keepdim or d not in dims]
    return z.new_empty(shape), t.new_empty((3, math.prod(shape)))


@_backward_op.register_fake
def _(grad: Tensor, z: Tensor, t: Tensor, kept: Tensor, dims: Sequence[int], wants_t: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(z), torch.empty_like(t, memory_format=torch.contiguous_format) if wants_t else t.new_empty(
        0
    )


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    z, t, ctx.dims, _ = inputs
    ctx.save_for_backward(z, t, output[1])


def _backward(ctx: Any, grad: Tensor, _: Any) -> Any:
    grad_z, grad_t = _backward_op(grad, *ctx.saved_tensors, ctx.dims, ctx.needs_input_grad[1])
    return grad_z, grad_t if ctx.needs_input_grad[1] else None, None, None


_forward_op.register_autograd(_backward, setup_context=_save)


def _check_dim(z: Tensor, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    check_input(z)
    rank = max(z.dim(), 1)  # as elsewhere in torch, a tensor without dimensions has a dimension 0
    if dim is None:
        return tuple(range(rank))
    # the compiler would trace the function that is cached, and warn
    find = _dims if torch.compiler.is_compiling() else _cached_dims
    return find((dim,) if isinstance(dim, int) else _indices(dim), rank)


def check_input(z: Tensor) -> None:
    """Refuse what no pool takes."""
    if not isinstance(z, Tensor):
        raise TypeError(f"z is {type(z).__name__}; expected a torch.Tensor")
    if z.dtype not in _DTYPES:
        raise TypeError(f"z has dtype {z.dtype}; expected float64, float32, bfloat16 or float16")
    if z.is_nested:  # its sizes are symbols, which would give wrong counts rather than an error
        raise TypeError(
            "z is a nested tensor; expected a padded one with a mask, or segment_logavgexp(z.values(), ptr=z.offsets())"
        )
    if z.layout != torch.strided:
        raise TypeError(f"z has layout {z.layout}; expected a dense tensor, such as z.to_dense()")


def _dims(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The dimensions from 0 on, sorted."""
    given = dims[0] if len(dims) == 1 else dims
    if not dims:
        raise ValueError(f"dim is {given!r}: name at least one dimension to pool over")
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"dim is {given!r}, but z has {rank} dimensions: each must lie in [{-rank}, {rank - 1}]")
    dims = tuple(sorted(d % rank for d in dims))
    if len(set(dims)) < len(dims):
        raise ValueError(f"dim is {given!r}, which names one of z's {rank} dimensions twice")
    return dims


_cached_dims = functools.lru_cache(_dims)  # of a small input, this would be a large part of the time


def _indices(dim: object) -> tuple[int, ...]:
    """The integers that `dim` is or holds, of whichever type: NumPy's among them."""
    several = hasattr(dim, "__len__") and getattr(dim, "ndim", 1) > 0  # an array without dimensions is a number
    try:
        return tuple(operator.index(d) for d in dim) if several else (operator.index(dim),)  # type: ignore
    except TypeError:
        raise TypeError(f"dim is {dim!r}: it must be an integer, several integers, or None for all") from None


def _check_t(t: float | Tensor, shape: Sequence[int], z: Tensor) -> Tensor:
    """t as a tensor that broadcasts against the result, in the dtype of the computation: float32 for half types."""
    dtype = torch.float64 if z.dtype == torch.float64 else torch.float32
    least, most = _RANGE[dtype]
    if not isinstance(t, Tensor):
        try:
            positive, number = bool(0 < t < math.inf), float(min(max(t, least), most))
        except (TypeError, ValueError):  # not ordered, or an array
            raise TypeError(f"t is {t!r}: the temperature must be a positive number or a tensor") from None
        if not positive:
            raise ValueError(f"t is {t!r}: the temperature must be a positive, finite number")
        return torch.full((), number, dtype=dtype, device=z.device)
    if not t.dtype.is_floating_point:
        raise TypeError(f"t has dtype {t.dtype}: the temperature must be a floating-point tensor or a number")
    if t.dim() == 0:
        t = t if t.device == z.device else t.to(z.device)
    else:
        try:
            fits = torch.broadcast_shapes(t.shape, shape) == torch.Size(shape)
        except RuntimeError:
            fits = False
        if not fits:
            raise ValueError(
                f"t has shape {tuple(t.shape)}, which does not broadcast against the result's {tuple(shape)}"
            )
        check_device("t", t, z)
    if t.dtype == torch.float64 and dtype == torch.float32:  # where it might become 0 or inf
        t = torch.where(t > 0, t.clamp(least, most), math.nan)
    return t if t.dtype == dtype else t.to(dtype)


def _check_mask(mask: Tensor, z: Tensor) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask is {kind}: it must be a boolean tensor, True where an element counts")
    return _aligned("mask", mask, z)


def _aligned(name: str, x: Tensor, z: Tensor) -> Tensor:
    """A tensor that broadcasts to z, with z's number of dimensions."""
    try:
        fits = torch.broadcast_shapes(x.shape, z.shape) == z.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, which does not broadcast to z's {tuple(z.shape)}")
    check_device(name, x, z)
    return x.reshape((1,) * (z.dim() - x.dim()) + x.shape)


def check_device(name: str, x: Tensor, z: Tensor) -> None:
    if x.device != z.device:
        raise ValueError(f"{name} is on {x.device}, z on {z.device}; expected one device")


def _check_weights(
    weights: Tensor, mask: Tensor | None, z: Tensor, dtype: torch.dtype, dims: tuple[int, ...]
) -> Tensor:
    """Weights between 0 and 1 of z's number of dimensions, in the dtype of the computation, and 0 where masked."""
    if not isinstance(weights, Tensor) or weights.dtype.is_complex:
        kind = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"weights is {kind}: it must be a tensor of real numbers that are not negative")
    weights = _aligned("weights", weights, z)
    if not weights.is_floating_point() or weights.dtype.itemsize < dtype.itemsize:
        weights = weights.to(dtype)
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    if weights.numel():
        # a factor common to a row changes nothing, not even the derivatives: this one keeps sums from overflowing
        largest = weights.detach().amax(dims, keepdim=True)
        least = torch.finfo(dtype).tiny  # what is not 0 stays so
        share = (weights / torch.where(largest == 0, 1.0, largest)).clamp(min=least)
        weights = torch.where(weights > 0, share, torch.where(weights == 0, 0.0, math.nan))
    return weights.to(dtype)
