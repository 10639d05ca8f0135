"""LogAvgExp in torch operations: the reference for the fused kernels, and the form for everything they do not do.

For a row z of n values, with the reference point c and u = (z - c) / t:

    LAE(z; t)    =  t log mean exp(z / t)  =  c + t L
    L            =  log mean exp(u)  =  log1p(mean expm1(u))
    dLAE / dz_i  =  exp(u_i - L) / n
    dLAE / dt    =  -mean phi(u - L)
    phi(x)       =  x exp(x) - expm1(x)  >=  0

With weights w, every mean is sum w x / sum w, dLAE / dz_i gets the factor n w_i / sum w, and

    dLAE / dw_i  =  t expm1(u_i - L) / sum w

Every c gives the same numbers. Here it is the mean of the row, where rounding errors are smallest; or the maximum, if that
is so far above the mean that exp(u) might overflow. The textbook form t (logsumexp(z / t) - log n) is off by t times the
rounding error, and its gradient to t is a difference of nearly equal numbers; here that is a sum of terms of one sign.

Shapes: z of any shape; t, and everything that is one number per row, with size 1 along the pooled dimensions `dims`; `mask`
with z's number of dimensions. It is boolean, True where an element counts; or it holds weights, which count if they are not 0.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

NEAR = 4.0  # the mean is the reference point of a row if the maximum is less than this many t above it


def logavgexp(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    """LAE of every row. Elements where the mask is False, or the weight 0, count neither in the sum nor in n."""
    # the compiler does not take a function with a rule for forward-mode derivatives
    function = _LogAvgExp if torch.compiler.is_compiling() else _LogAvgExpForwardMode
    value: Tensor = function.apply(z, t, mask, dims)[0]
    return value


def forward(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> tuple[Tensor, ...]:
    """LAE, c, L and 1 / sum exp(u) of every row."""
    n, t = _count(z, mask, dims), positive(t)
    c = reference_point(z, t, mask, dims)
    u = (_with_mask(z, mask, -math.inf) - c) / t
    mean_expm1 = _sum(_weighted(_with_mask(torch.expm1(u), mask, 0.0), mask), dims) / n
    mean_exp = _sum(_weighted(torch.exp(u), mask), dims) / n
    # mean_expm1 has lost its digits where it is close to -1; without any element it is 0
    usable = (mean_expm1 > -0.5) & (mean_exp > 0)
    log_mean = torch.where(usable, torch.log1p(mean_expm1), torch.log(mean_exp))
    total = n * torch.where(usable, 1 + mean_expm1, mean_exp)
    return (c + t * log_mean).to(z.dtype), c, log_mean, torch.where(total == 0, 0.0, 1 / total)


def derivatives(
    z: Tensor,
    t: Tensor,
    mask: Tensor | None,
    dims: tuple[int, ...],
    c: Tensor,
    log_mean: Tensor,
    wants_t: bool,
) -> tuple[Tensor, Tensor | None]:
    """w exp(u) of every element, which times `inverse` is dLAE/dz, and -dLAE/dt of every row."""
    t = positive(t)
    u = (_with_mask(z, mask, -math.inf) - c) / t
    if not wants_t:
        return _weighted(torch.exp(u), mask), None
    empty = log_mean == -math.inf
    slopes = phi(u - log_mean.masked_fill(empty, 0.0))
    neg_grad_t = _sum(_weighted(_with_mask(slopes, mask, 0.0), mask), dims) / _count(z, mask, dims)
    return _weighted(torch.exp(u), mask), neg_grad_t.masked_fill(empty, 0.0)


def differentiable_derivatives(
    z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    """dLAE/dz of every element and -dLAE/dt of every row, by operations that can be differentiated again."""
    n, empty, delta = _differences(z, t, mask, dims)
    neg_grad_t = _sum(_weighted(_with_mask(phi(delta), mask, 0.0), mask), dims) / n
    return _weighted(torch.exp(delta), mask) / n, neg_grad_t.masked_fill(empty, 0.0)


def derivative_by_weight(z: Tensor, t: Tensor, weights: Tensor, dims: tuple[int, ...]) -> Tensor:
    """dLAE/dw of every element, 0 where the weight is 0, by operations that can be differentiated again."""
    n, empty, delta = _differences(z, t, weights, dims)
    return _with_mask(positive(t) * torch.expm1(delta) / n, weights, 0.0).masked_fill(empty, 0.0)


def _differences(
    z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]
) -> tuple[int | Tensor, Tensor, Tensor]:
    """n, whether a row is empty, and u - L."""
    z, t, n, c = _with_mask(z, mask, -math.inf), positive(t), _count(z, mask, dims), reference_point(z, t, mask, dims)
    # an element at -inf would bring inf * 0 into the next derivative: c stands in for it, with no weight
    absent = z.detach() == -math.inf
    u = ((torch.where(absent, c, z) - c) / t).masked_fill(absent, -math.inf)
    log_mean = logavgexp(u, torch.ones_like(t), mask, dims)
    empty = log_mean.detach() == -math.inf
    return n, empty, (u.masked_fill(absent, 0.0) - log_mean.masked_fill(empty, 0.0)).masked_fill(absent, -math.inf)


def phi(x: Tensor) -> Tensor:
    """x exp(x) - expm1(x); where |x| < 1/2 by its power series, the sum of (k - 1) x^k / k! from k = 2."""
    x = x.clamp(min=-100.0)  # where phi is 1
    coefficients = [(k - 1) / math.factorial(k) for k in range(2, 18 if x.dtype == torch.float64 else 10)]
    series = torch.add(x.new_full((), coefficients[-2]), x, alpha=coefficients[-1])
    for coefficient in reversed(coefficients[:-2]):
        series = torch.addcmul(
            x.new_full((), coefficient), series, x
        )  # one operation, where a product and a sum are two
    far = torch.addcmul(x.new_full((), 1.0), x - 1, torch.exp(x))
    return torch.where(x.abs() < 0.5, series * x.square(), far)


class _LogAvgExp(torch.autograd.Function):
    """LAE; and c, L and 1 / sum exp(u) for the backward pass alone."""

    @staticmethod
    def forward(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> Any:
        return forward(z, t, mask, dims)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        z, t, mask, ctx.dims = inputs
        _, *kept = output
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, t, mask, *kept)
        ctx.save_for_forward(z, t, mask)

    @staticmethod
    def backward(ctx: Any, grad: Any, *_: Any) -> Any:
        z, t, mask, c, log_mean, inverse = ctx.saved_tensors
        if grad is None:
            return None, None, None, None
        needs_z, needs_t, needs_weights = ctx.needs_input_grad[:3]
        neg_grad_t: Any  # None if t needs no gradient
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # a second derivative is being prepared
            weights, neg_grad_t = differentiable_derivatives(z, t, mask, ctx.dims)
            grad_z = grad * weights
        else:
            exp_u, neg_grad_t = derivatives(z, t, mask, ctx.dims, c, log_mean, needs_t)
            grad_z = (grad * inverse) * exp_u
        given_z = grad_z.to(z.dtype) if needs_z else None
        grad_t = gradient_to_t(grad, neg_grad_t, t.shape) if needs_t else None
        if not needs_weights:
            return given_z, grad_t, None, None
        return given_z, grad_t, (grad * derivative_by_weight(z, t, mask, ctx.dims)).sum_to_size(mask.shape), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> Any:
        def in_front(x: Tensor, batch_dim: int | None) -> Tensor:
            return x.unsqueeze(0) if batch_dim is None else x.movedim(batch_dim, 0)

        z = in_front(z, in_dims[0]).expand(info.batch_size, *[-1] * (z.dim() - (in_dims[0] is not None)))
        mask = None if mask is None else in_front(mask, in_dims[2])
        found = _LogAvgExpForwardMode.apply(z, in_front(t, in_dims[1]), mask, tuple(d + 1 for d in dims))
        return found, (0, 0, 0, 0)


class _LogAvgExpForwardMode(_LogAvgExp):
    @staticmethod
    def jvp(ctx: Any, d_z: Any, d_t: Any, d_weights: Any, *_: Any) -> Any:
        if inside_another_forward_mode():
            # torch switches forward mode off within this function, so the outer derivative would be 0
            raise RuntimeError(
                "logavgexp: forward mode within forward mode is not supported; "
                "expected torch.func.hessian, or jacrev around jacfwd"
            )
        z, t, mask = ctx.saved_tensors
        weights, neg_grad_t = differentiable_derivatives(z, t, mask, ctx.dims)
        along_z: Any = 0.0 if d_z is None else (weights * d_z).sum(ctx.dims, keepdim=True)
        along_t = 0.0 if d_t is None else neg_grad_t * d_t
        along_weights: Any = 0.0
        if d_weights is not None:
            along_weights = (derivative_by_weight(z, t, mask, ctx.dims) * d_weights).sum(ctx.dims, keepdim=True)
        return (along_z - along_t + along_weights).to(z.dtype), None, None, None


def inside_another_forward_mode() -> bool:
    from torch._C._functorch import TransformType
    from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

    levels = [level.key() for level in retrieve_all_functorch_interpreters()]
    return levels.count(TransformType.Jvp) > 1


def gradient_to_t(grad: Tensor, neg_grad_t: Tensor, shape: torch.Size) -> Tensor:
    """The gradient to t, given that to the value of each row."""
    # 0 where that is 0 times inf or nan: a row without a gradient does not touch the others
    return torch.where(grad == 0, 0.0, -grad * neg_grad_t).sum_to_size(shape)


def reference_point(z: Tensor, t: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    """c of every row; finite, as otherwise every difference to it were nan."""
    z, t = z.detach(), t.detach()
    top = _with_mask(z, mask, -math.inf).amax(dims, keepdim=True).to(t.dtype)
    if mask is None:
        mean = z.mean(dims, keepdim=True).to(t.dtype)
    else:
        counted = _weighted(_with_mask(z, mask, 0.0), mask.detach())
        mean = counted.sum(dims, keepdim=True, dtype=t.dtype) / _count(z, mask.detach(), dims)
    gap = top - mean
    c = torch.where((gap >= 0) & (gap < NEAR * t), mean, top)
    return c.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def positive(t: Tensor) -> Tensor:
    """t, and nan where it is not positive; a finite one, so that t L is not inf times 0."""
    return torch.where(t > 0, t, math.nan).clamp(max=torch.finfo(t.dtype).max)


def _with_mask(x: Tensor, mask: Tensor | None, absent: float) -> Tensor:
    if mask is None:
        return x
    return x.masked_fill(~mask if mask.dtype == torch.bool else mask.detach() == 0, absent)


def _weighted(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None or mask.dtype == torch.bool else x * mask


def _count(z: Tensor, mask: Tensor | None, dims: tuple[int, ...]) -> int | Tensor:
    """How many elements count in each row, or what their weights add up to; 1 if it is nothing."""
    if mask is None:
        return math.prod([z.shape[d] for d in dims])
    mask = mask.expand(z.shape)
    if mask.dtype == torch.bool:
        return mask.sum(dims, keepdim=True).clamp(min=1)
    total = _sum(mask, dims)
    return torch.where(total == 0, 1.0, total)


def _sum(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of every row. Equal terms have equal rounding errors, which add up where a CPU adds them one by one."""
    return x.sum(dims, keepdim=True, dtype=torch.float64 if x.device.type == "cpu" else None).to(x.dtype)
