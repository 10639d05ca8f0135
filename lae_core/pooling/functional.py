"""LogAvgExp as one function: the paper's equation, computed so that it stays exact at every temperature.

For a row z of n values with maximum m, and u = (z - m) / t <= 0:

    LAE(z; t)    =  t log mean exp(z / t)  =  m + t L
    L            =  log mean exp(u)  =  log1p(mean expm1(u))
    dLAE / dz_i  =  exp(u_i) / sum exp(u)
    dLAE / dt    =  -mean phi(delta),   delta = u - L
    phi(x)       =  x exp(x) - expm1(x)  >=  0

The textbook form t (logsumexp(z / t) - log n) is off by t times the rounding error, and its gradient to t is a difference
of nearly equal numbers. Here both are sums of terms of one sign. Where a choice may depend on the data, that is on a CPU
and outside of compilation and tracing, `eager_cpu` finds for every row the cheapest form that is as exact as these;
`compiled` writes them so that a compiler makes short loops of them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor

from lae_core.pooling import compiled
from lae_core.pooling.eager_cpu import by_looking, exact_sum, finite_maximum
from lae_core.pooling.series import LN2, expm1, phi

_HALF = (torch.float16, torch.bfloat16)
_DTYPES = (torch.float64, torch.float32, *_HALF)


def logavgexp(
    z: Tensor,
    t: float | Tensor = 1.0,
    dim: int | Sequence[int] = -1,
    mask: Tensor | None = None,
    keepdim: bool = False,
) -> Tensor:
    r"""LogAvgExp, :math:`\mathrm{LAE}(z; t) = t \log\left(\frac{1}{n} \sum_i \exp(z_i / t)\right)`, over one or more dimensions.

    It moves smoothly from the maximum (t → 0) to the mean (t → ∞).

    Args:
        z: float64, float32, bfloat16 or float16, of any shape and layout. Half types are computed in float32.
        t: temperature, a positive number or a tensor that broadcasts against the result (a scalar, one per channel, one per
            sample). Gradients flow to a tensor. Its values are not checked, as that would make a GPU wait and would break
            compilation: where t ≤ 0 or nan the result is nan.
        dim: the dimension or dimensions to pool over.
        mask: boolean, broadcastable to the shape of z. Elements where it is False count neither in the sum nor in n.
        keepdim: keep the pooled dimensions with size 1.

    Returns:
        A tensor of z's dtype.

    At the edges: one element is returned as it is; any nan gives nan; a +inf gives +inf (with nan as the gradient of the
    infinite elements); -inf elements count in n and add nothing; a row with nothing in it (no elements, all masked, or all
    -inf) gives -inf and zero gradient.

    Example:
        >>> logavgexp(torch.tensor([0.0, 1.0, 2.0]), t=0.01)
        tensor(1.9890)
        >>> logavgexp(torch.randn(8, 512, 7, 7), t=4.0, dim=(2, 3)).shape
        torch.Size([8, 512])
    """
    dims = _check_dim(z, dim)
    sizes = [1 if d in dims else size for d, size in enumerate(z.shape) if keepdim or d not in dims]
    t_rows = _check_t(t, torch.Size(sizes), z, dims, keepdim)
    if mask is not None:
        mask = _check_mask(mask, z)
    if any(z.shape[d] == 0 for d in dims):
        return z.sum(dims, keepdim=keepdim) - math.inf
    rows: Tensor = _LogAvgExp.apply(z, t_rows, mask, dims, t_rows.requires_grad)[0]
    return rows if keepdim else rows.squeeze(dims)


class _LogAvgExp(torch.autograd.Function):
    """LAE over `dims`, keepdim. The outputs after the first are what the backward pass needs; nobody else sees them."""

    @staticmethod
    def forward(z, t, mask, dims, wants_t):
        return _forward(z, t, mask, dims, wants_t)

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, t, mask, ctx.dims, ctx.wants_t = inputs
        ctx.compiled = compiled.fits(z, t.dtype)
        _, *kept = output
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, t, mask, *kept)

    @staticmethod
    def backward(ctx, grad, *_):
        z, t, mask, *kept = ctx.saved_tensors
        needs_z, needs_t = ctx.needs_input_grad[:2]
        if grad is None:
            return None, None, None, None, None
        grad = grad.to(t.dtype)
        # a second derivative is being prepared, or t's gradient was not foreseen
        if (torch.is_grad_enabled() and not torch.compiler.is_compiling()) or (needs_t and not ctx.wants_t):
            weights, falling = _differentiable(z, t, mask, ctx.dims)
            grad_z, fall = grad * weights, _product(grad, falling)
        elif ctx.compiled:
            grad_z, fall = _compiled_backward(grad, z, t, mask, ctx.dims, needs_t, *kept)
        else:
            exp_u, inverse, falling = kept
            out = exp_u if _may_reuse(exp_u, grad) else None
            # a product of one dtype is one pass, and the rounding of a half type is that of its result
            grad_z = torch.mul(exp_u, (grad * inverse).to(exp_u.dtype), out=out) if needs_z else None
            fall = _product(grad, falling) if needs_t else None
        return (
            grad_z.to(z.dtype) if needs_z else None,
            (-fall).sum_to_size(t.shape) if needs_t else None,
            None,
            None,
            None,
        )

    @staticmethod
    def vmap(info, in_dims, z, t, mask, dims, wants_t):
        def in_front(x: Tensor, batch_dim: int | None) -> Tensor:
            return x.unsqueeze(0) if batch_dim is None else x.movedim(batch_dim, 0)

        z = in_front(z, in_dims[0]).expand(info.batch_size, *[-1] * (z.dim() - (in_dims[0] is not None)))
        t = in_front(t, in_dims[1])
        if mask is not None:
            mask = in_front(mask, in_dims[2])
        return _LogAvgExp.apply(z, t, mask, tuple(d + 1 for d in dims), wants_t), (0, 0, 0, 0)


# torch asks for it at every call, and is slow to find it
_LogAvgExp.forward.__signature__ = inspect.signature(_LogAvgExp.forward)  # type: ignore[attr-defined]


def _product(grad: Tensor, x: Tensor) -> Tensor:
    """grad x, and 0 where that is 0 times inf or nan."""
    return torch.where(grad == 0, 0.0, grad * x)


def _may_reuse(kept: Tensor, grad: Tensor) -> bool:
    """Whether the backward pass under way frees what was kept for it: then that can hold the result.

    Compiled code asks autograd the same before it reuses what it kept. A batch of gradients would not fit.
    """
    if torch.compiler.is_compiling():
        return False
    for x in (kept, grad):
        if type(x) is not Tensor or is_functorch_wrapped_tensor(x) or is_legacy_batchedtensor(x):
            return False
    keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
    return not keeps_graph()


def _forward(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...], wants_t: bool) -> tuple[Tensor, ...]:
    """Value, exp(u), the inverse of its sum, and falling = -dLAE/dt (where asked for) of every row.

    Or other numbers whose product is that of the second and third: the weights.
    """
    if compiled.fits(z, t.dtype):
        return _compiled_forward(z, t, mask, dims)
    if mask is None and _may_look(z):
        value, exp_u, inverse, falling = by_looking(z, t, dims, wants_t)
    else:
        n = _count(z, mask, dims, t.dtype)
        top, z = _top(z, mask, dims)
        # compiled code divides for every element otherwise
        u = (z - top) * (1 / t.clamp(min=torch.finfo(t.dtype).tiny))
        exp_u = torch.exp(u)
        total, excess = _sum(exp_u, dims), _masked_mean(expm1(u, exp_u), mask, n, dims)
        narrow = (excess > -0.5) & (total > 0)
        log_mean = torch.where(narrow, torch.log1p(excess), torch.log(total / n))
        inverse = torch.where(total == 0, 0.0, 1 / torch.where(narrow, n + n * excess, total))
        falling = _masked_mean(phi(u - log_mean), mask, n, dims) if wants_t else t.new_empty(0)
        value = top + t * log_mean
    # where no element counts the value is -inf, and by definition there is no gradient
    falling = torch.where(value == -math.inf, 0.0, falling) if wants_t else falling
    return value.to(z.dtype), exp_u.to(z.dtype), inverse.to(t.dtype), falling.to(t.dtype)


def _compiled_forward(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Value, maximum, the inverse of sum exp(u), and L of every row, in the form for a compiler."""
    n = _count(z, mask, dims, t.dtype)
    if mask is None:
        rows, steps = compiled.in_blocks(z, dims)
    else:
        rows, steps = z.masked_fill(~mask, -math.inf), [dims]
    top = compiled.maximum(rows.detach(), dims, steps).to(t.dtype)
    per_unit = compiled.inverse_unit(t)
    reference = compiled.reference(rows, top, per_unit, dims) if mask is None else top
    if not compiled.side_by_side(rows, dims):
        # it had better be ready for a loop along the row; else that would keep the compiler from finding the maximum and
        # the sum in one loop, while the values are at hand
        reference = compiled.buffer(reference)
    whole = compiled.fill_vectors(rows, dims)
    powers, rests = compiled.exp_terms(compiled.binary_exponent(rows, reference, per_unit, whole), whole)
    half = z.dtype != t.dtype
    powers, rests = compiled.total(powers, steps, half), compiled.total(rests, steps, half)
    total = torch.where((top.abs() < math.inf) & (t > 0), (powers + rests).to(t.dtype), (top + t).clamp(min=0.0))
    excess = ((rests + (powers - n)) / n).to(t.dtype)  # of mean exp(u) over 1
    log_mean = torch.where(excess > -0.5, torch.log1p(excess), torch.log(total / n))
    # t as it was used, and in float64: the value of a narrow row has no rounding to spare
    value = reference + log_mean / (per_unit.double() * LN2)
    return value.to(z.dtype), top, torch.where(total == 0, 0.0, 1 / total), log_mean


def _compiled_backward(
    grad: Tensor,
    z: Tensor,
    t: Tensor,
    mask: Tensor | None,
    dims: tuple[int, ...],
    needs_t: bool,
    top: Tensor,
    inverse: Tensor,
    log_mean: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """The gradient to z, and that to -t of every row, or of all rows of a sample.

    The exponential is cheaper to compute again than to write and read.
    """
    if mask is not None:
        z = z.masked_fill(~mask, -math.inf)
    whole = compiled.fill_vectors(z, dims)
    share = compiled.buffer(grad * inverse)
    # a row without a gradient may hold nothing but -inf; and what depends on grad is not moved to the forward pass, where a
    # buffer or a sum would cost a loop of its own
    top = torch.where(share == 0, torch.finfo(t.dtype).max, top)
    per_unit = compiled.inverse_unit(t)
    reference = compiled.buffer(compiled.reference(z, top, per_unit, dims) if mask is None else top)
    v = compiled.binary_exponent(z, reference, per_unit, whole)
    exp_u = compiled.exp(v, whole)
    grad_z = exp_u * share
    if not needs_t:
        return grad_z, None
    n = _count(z, mask, dims, t.dtype)
    slope = compiled.phi(v, log_mean, exp_u * compiled.buffer(inverse * n))
    grad = torch.where(log_mean == -math.inf, 0.0, grad)
    if mask is None and compiled.side_by_side(z, dims) and 0 not in dims and math.prod(t.shape[1:]) == 1:
        # of rows side by side the compiler writes z's gradient row after row; such a sum it finds in the same loop, where it
        # would write and read again what it is to sum along each row
        terms = _product(compiled.buffer(grad / n), slope)
        return grad_z, terms.sum(tuple(range(1, z.dim())), keepdim=True, dtype=torch.float64).to(t.dtype)
    return grad_z, _product(grad, _masked_mean(slope, mask, n, dims))


def _differentiable(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The weights and -dLAE/dt again, from operations that autograd can differentiate further."""
    n = _count(z, mask, dims, t.dtype)
    top, z = _top(z, mask, dims)
    shifted = z - top
    # an element at -inf, masked or not, would bring inf * 0 into the derivatives: a finite one stands in, with no weight
    absent = shifted.detach() == -math.inf
    u = torch.where(absent, 0.0, shifted) / t
    log_mean = _LogAvgExp.apply(u.masked_fill(absent, -math.inf), torch.ones_like(t), mask, dims, False)[0]
    delta = u - torch.where(log_mean == -math.inf, 0.0, log_mean)
    present = (~absent).any(dims, keepdim=True)
    falling = _masked_mean(torch.where(absent, 1.0, phi(delta)), mask, n, dims) * present
    return torch.where(absent, 0.0, torch.exp(delta) / n), falling


def _top(z: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The finite reference m of each row, in the precision of the computation, and z with -inf for what is masked."""
    if mask is not None:
        z = z.masked_fill(~mask, -math.inf)
    return finite_maximum(z, dims, _work_dtype(z)), z


def _count(z: Tensor, mask: Tensor | None, dims: tuple[int, ...], dtype: torch.dtype) -> int | Tensor:
    if mask is None:
        return math.prod([z.shape[d] for d in dims])
    return mask.expand(z.shape).sum(dims, keepdim=True).clamp(min=1).to(dtype)


def _masked_mean(x: Tensor, mask: Tensor | None, n: int | Tensor, dims: tuple[int, ...]) -> Tensor:
    return _sum(x if mask is None else x.masked_fill(~mask, 0.0), dims) / n


def _sum(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    if not torch.compiler.is_compiling():
        # a GPU adds in a tree, which is exact enough
        return exact_sum(x, dims).to(x.dtype) if x.device.type == "cpu" else x.sum(dims, keepdim=True)
    # a graph that is exported for any size must not ask for it, or it would hold for long rows only, or for short ones
    if torch.compiler.is_exporting() and not isinstance(math.prod([x.shape[d] for d in dims]), int):
        return x.sum(dims, keepdim=True, dtype=torch.float64).to(x.dtype)
    return compiled.total(x, [dims]).to(x.dtype)


def _may_look(z: Tensor) -> bool:
    """Whether a choice may depend on z's values: free on a CPU, a wait on a GPU, impossible while a graph is being traced."""
    plain = type(z) in (Tensor, torch.nn.Parameter)
    return (
        plain
        and z.numel() > 0
        and z.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
    )


def _work_dtype(z: Tensor) -> torch.dtype:
    return torch.float32 if z.dtype in _HALF else z.dtype


def _check_dim(z: Tensor, dim: int | Sequence[int]) -> tuple[int, ...]:
    if z.dtype not in _DTYPES:
        raise TypeError(f"z has dtype {z.dtype}; logavgexp takes float64, float32, bfloat16 or float16")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims:
        raise ValueError(f"dim is {dim!r}: name at least one dimension to pool over")
    rank = z.dim()
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"dim is {dim!r}, but z has {rank} dimensions: each must lie in [{-rank}, {rank - 1}]")
    dims = tuple(sorted(d % rank for d in dims))
    if len(set(dims)) < len(dims):
        raise ValueError(f"dim is {dim!r}, which names a dimension of z (shape {tuple(z.shape)}) twice")
    return dims


def _check_t(t: float | Tensor, shape: torch.Size, z: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """t in the dtype of the computation, shaped to broadcast against the keepdim result."""
    dtype = _work_dtype(z)
    if not isinstance(t, Tensor):
        if not 0 < t < math.inf:
            raise ValueError(f"t is {t!r}: the temperature must be a positive, finite number")
        return torch.full((1,) * z.dim(), float(t), dtype=dtype, device=z.device)
    if not t.dtype.is_floating_point:
        raise TypeError(f"t has dtype {t.dtype}: the temperature must be a floating-point tensor or a number")
    try:
        fits = torch.broadcast_shapes(t.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"t has shape {tuple(t.shape)}, which does not broadcast against the result's {tuple(shape)}")
    t = t.to(dtype).reshape((1,) * (len(shape) - t.dim()) + t.shape)
    if not keepdim:
        for d in dims:
            t = t.unsqueeze(d)
    return torch.where(t > 0, t, math.nan)


def _check_mask(mask: Tensor, z: Tensor) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask is {kind}: it must be a boolean tensor, True where an element counts")
    try:
        fits = torch.broadcast_shapes(mask.shape, z.shape) == z.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, which does not broadcast to z's {tuple(z.shape)}")
    return mask.reshape((1,) * (z.dim() - mask.dim()) + mask.shape)
