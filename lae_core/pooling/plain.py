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

What is one number per row has a row's shape, and `rows` brings it to the elements; it also sums, masks and weights them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from lae_core.pooling.rows import Along, Segments

NEAR = 4.0  # the mean is the reference point of a row if the maximum is less than this many t above it


def logavgexp(z: Tensor, t: Tensor, where: Tensor | None, along: tuple[int, ...] | int) -> Tensor:
    """LAE of every row: along dimensions, with a mask or weights in `where`; or of so many segments, with the index there."""
    # the compiler does not take a function with a rule for forward-mode derivatives
    function = _LogAvgExp if torch.compiler.is_compiling() else _LogAvgExpForwardMode
    value: Tensor = function.apply(z, t, where, along)[0]
    return value


def rows_of(where: Tensor | None, along: tuple[int, ...] | int) -> Along | Segments:
    return Along(where, along) if isinstance(along, tuple) else Segments(where, along)


def forward(z: Tensor, t: Tensor, rows: Along | Segments) -> tuple[Tensor, ...]:
    """LAE, c, L and 1 / sum exp(u) of every row."""
    n, t = rows.count(z), rows.per_row(positive(t), z)
    c = reference_point(z, t, rows, n)
    u = (rows.only(z, -math.inf) - rows.spread(c)) / rows.spread(t)
    mean_expm1 = rows.sum(rows.only(torch.expm1(u), 0.0)) / n
    mean_exp = rows.sum(torch.exp(u)) / n
    # mean_expm1 has lost its digits where it is close to -1; without any element it is 0
    usable = (mean_expm1 > -0.5) & (mean_exp > 0)
    log_mean = torch.where(usable, torch.log1p(mean_expm1), torch.log(mean_exp))
    total = n * torch.where(usable, 1 + mean_expm1, mean_exp)
    return (c + t * log_mean).to(z.dtype), c, log_mean, torch.where(total == 0, 0.0, 1 / total)


def unnormalised_derivatives(
    z: Tensor, t: Tensor, rows: Along, c: Tensor, log_mean: Tensor, wants_t: bool
) -> tuple[Tensor, Tensor | None]:
    """w exp(u) of every element, which times 1 / sum exp(u) is dLAE/dz, and -dLAE/dt of every row."""
    u = (rows.only(z, -math.inf) - c) / positive(t)
    if not wants_t:
        return rows.weighted(torch.exp(u)), None
    empty = log_mean == -math.inf
    slopes = phi(u - log_mean.masked_fill(empty, 0.0))
    neg_grad_t = rows.sum(rows.only(slopes, 0.0)) / rows.count(z)
    return rows.weighted(torch.exp(u)), neg_grad_t.masked_fill(empty, 0.0)


def derivatives(
    z: Tensor, t: Tensor, rows: Along | Segments, kept: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """dLAE/dz of every element and -dLAE/dt of every row; without `kept`, c and L, they can be differentiated again."""
    n, empty, delta = _differences(z, t, rows, kept)
    neg_grad_t = rows.sum(rows.only(phi(delta), 0.0)) / n
    return rows.weighted(torch.exp(delta)) / rows.spread(n), neg_grad_t.masked_fill(empty, 0.0)


def derivative_by_weight(z: Tensor, t: Tensor, rows: Along) -> Tensor:
    """dLAE/dw of every element, 0 where the weight is 0, by operations that can be differentiated again."""
    n, empty, delta = _differences(z, t, rows, None)
    return rows.only(positive(t) * torch.expm1(delta) / n, 0.0).masked_fill(empty, 0.0)


def _differences(
    z: Tensor, t: Tensor, rows: Along | Segments, kept: tuple[Tensor, Tensor] | None
) -> tuple[int | Tensor, Tensor, Tensor]:
    """n, whether a row is empty, and u - L."""
    z, t, n = rows.only(z, -math.inf), rows.per_row(positive(t), z), rows.count(z)
    c = rows.spread(kept[0] if kept else reference_point(z, t, rows, n))
    # an element at -inf would bring inf * 0 into the next derivative: c stands in for it, with no weight
    absent = z.detach() == -math.inf
    u = ((torch.where(absent, c, z) - c) / rows.spread(t)).masked_fill(absent, -math.inf)
    log_mean = kept[1] if kept else logavgexp(u, torch.ones_like(t), rows.where, rows.along)
    empty = log_mean.detach() == -math.inf
    log_mean = rows.spread(log_mean.masked_fill(empty, 0.0))
    return n, empty, (u.masked_fill(absent, 0.0) - log_mean).masked_fill(absent, -math.inf)


def phi(x: Tensor) -> Tensor:
    """x exp(x) - expm1(x); where |x| < 1/2 by its power series, the sum of (k - 1) x^k / k! from k = 2."""
    x = x.clamp(min=-100.0)  # where phi is 1
    coefficients = [(k - 1) / math.factorial(k) for k in range(2, 18 if x.dtype == torch.float64 else 10)]
    series = torch.add(x.new_full((), coefficients[-2]), x, alpha=coefficients[-1])
    for coefficient in reversed(coefficients[:-2]):
        # one operation, where a product and a sum are two
        series = torch.addcmul(x.new_full((), coefficient), series, x)
    far = torch.addcmul(x.new_full((), 1.0), x - 1, torch.exp(x))
    return torch.where(x.abs() < 0.5, series * x.square(), far)


def reference_point(z: Tensor, t: Tensor, rows: Along | Segments, n: int | Tensor) -> Tensor:
    """c of every row; finite, as otherwise every difference to it would be nan."""
    top, mean = rows.maximum_and_mean(z.detach(), n, t.dtype)
    gap = top - mean.detach()
    c = torch.where((gap >= 0) & (gap < NEAR * t.detach()), mean.detach(), top)
    return c.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def positive(t: Tensor) -> Tensor:
    """t, and nan where it is not positive; a finite one, so that t L is not inf times 0."""
    return torch.where(t > 0, t, math.nan).clamp(max=torch.finfo(t.dtype).max)


def gradient_to_t(grad: Tensor, neg_grad_t: Tensor, shape: torch.Size) -> Tensor:
    """The gradient to t, given that to the value of each row."""
    # 0 where that is 0 times inf or nan: a row without a gradient does not touch the others
    return torch.where(grad == 0, 0.0, -grad * neg_grad_t).sum_to_size(shape)


class _LogAvgExp(torch.autograd.Function):
    """LAE; and c, L and 1 / sum exp(u) for the backward pass alone."""

    @staticmethod
    def forward(z: Tensor, t: Tensor, where: Tensor | None, along: tuple[int, ...] | int) -> Any:
        return forward(z, t, rows_of(where, along))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        z, t, where, ctx.along = inputs
        _, *kept = output
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(z, t, where, *kept)
        ctx.save_for_forward(z, t, where)

    @staticmethod
    def backward(ctx: Any, grad: Any, *_: Any) -> Any:
        if grad is None:
            return None, None, None, None
        z, t, where, c, log_mean, inverse = ctx.saved_tensors
        rows: Any = rows_of(where, ctx.along)
        needs_z, needs_t, needs_weights = ctx.needs_input_grad[:3]
        again = torch.is_grad_enabled() and not torch.compiler.is_compiling()  # a second derivative is being prepared
        neg_grad_t: Any  # None if t needs no gradient
        if again or isinstance(rows, Segments):
            weights, neg_grad_t = derivatives(z, t, rows, None if again else (c, log_mean))
            grad_z = rows.spread(grad) * weights
        else:
            exp_u, neg_grad_t = unnormalised_derivatives(z, t, rows, c, log_mean, needs_t)
            grad_z = (grad * inverse) * exp_u
        grad_z = grad_z.to(z.dtype) if needs_z else None
        grad_t = gradient_to_t(grad, neg_grad_t, t.shape) if needs_t else None
        grad_where = (grad * derivative_by_weight(z, t, rows)).sum_to_size(where.shape) if needs_weights else None
        return grad_z, grad_t, grad_where, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, z: Tensor, t: Tensor, where: Tensor | None, along: Any) -> Any:
        segments = not isinstance(along, tuple)
        if segments and in_dims[2] is not None:
            raise ValueError("index is mapped over by vmap; expected the same segments throughout")
        place = int(segments)  # of the batch: the entries of segments stay in front

        def batched(x: Tensor, batch_dim: int | None) -> Tensor:
            return x.unsqueeze(place) if batch_dim is None else x.movedim(batch_dim, place)

        z = batched(z, in_dims[0])
        z = z.expand(*z.shape[:place], info.batch_size, *z.shape[place + 1 :])
        if not segments:
            where = None if where is None else batched(where, in_dims[2])
            along = tuple(d + 1 for d in along)
        return _LogAvgExpForwardMode.apply(z, batched(t, in_dims[1]), where, along), (place,) * 4


class _LogAvgExpForwardMode(_LogAvgExp):
    @staticmethod
    def jvp(ctx: Any, d_z: Any, d_t: Any, d_weights: Any, *_: Any) -> Any:
        if _inside_another_forward_mode():
            # torch switches forward mode off within this function, so the outer derivative would be 0
            raise RuntimeError(
                "logavgexp: forward mode within forward mode is not supported; "
                "expected torch.func.hessian, or jacrev around jacfwd"
            )
        z, t, where = ctx.saved_tensors
        rows: Any = rows_of(where, ctx.along)
        weights, neg_grad_t = derivatives(z, t, rows)
        along_z: Any = 0.0 if d_z is None else rows.total(weights * d_z)
        along_t = 0.0 if d_t is None else neg_grad_t * d_t
        along_weights: Any = 0.0
        if d_weights is not None:
            along_weights = rows.total(derivative_by_weight(z, t, rows) * d_weights)
        return (along_z - along_t + along_weights).to(z.dtype), None, None, None


def _inside_another_forward_mode() -> bool:
    from torch._C._functorch import TransformType
    from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

    levels = [level.key() for level in retrieve_all_functorch_interpreters()]
    return levels.count(TransformType.Jvp) > 1
