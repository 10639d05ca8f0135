"""The cheapest exact form for every row, chosen by looking at the data: for a CPU, outside of compilation and tracing.

On a CPU a new tensor of the input's size costs as much as several passes over one that exists, and an expm1 five
exponentials. So all is done in place, and the careful forms of `functional` are kept for the rows that need them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lae_core.pooling.series import phi_by_looking

Rows = tuple[Tensor, Tensor, Tensor, Tensor | None]


def by_looking(z: Tensor, top: Tensor, t: Tensor, n: int, dims: tuple[int, ...], wants_t: bool) -> Rows:
    """exp(u), its sum, L, and -dLAE/dt where asked for, with each row's maximum given."""
    u = (z - top).div_(t)
    # log(mean(exp)) is off by about eps, so the value by t eps: fine where t is small against max|z|, at least |m|
    inexact = top.abs() < 0.5 * t
    if bool(inexact.all()):
        narrow = _narrow(u * 0.5 if wants_t else u.mul_(0.5), n, dims)
        if narrow is not None:
            return *narrow, _falling(u, *narrow, False, dims) if wants_t else None
        if not wants_t:
            u = (z - top).div_(t)
    exp_u = torch.exp(u, out=None if wants_t or bool(inexact.any()) else u)
    total = exp_u.sum(dims, keepdim=True)
    log_mean = torch.log(total / n)
    # since -L <= (max z - min z) / t, max|z| is at least -t L / 2; the gradient to t asks more of L where it is small
    inexact = (inexact | wants_t) & (log_mean > -1.0)
    excess = 2 * _repaired(total / (2 * n) - 0.5, inexact, lambda rows, _: _half_expm1(rows * 0.5), u, log_mean, dims)
    inexact &= excess > -0.5
    log_mean = torch.where(inexact, torch.log1p(excess), log_mean)
    return exp_u, total, log_mean, _falling(u, exp_u, total, log_mean, ~inexact, dims) if wants_t else None


def _narrow(half: Tensor, n: int, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor] | None:
    """exp(u), its sum and L from u/2, if t is large against the spread of every row, else None. Overwrites u/2."""
    half = _half_expm1(half)
    excess = half.sum(dims, keepdim=True) * (2 / n)
    if not bool((excess > -0.5).all()):
        return None
    return half.mul_(2.0).add_(1.0), n + n * excess, torch.log1p(excess)


def _half_expm1(half: Tensor) -> Tensor:
    """expm1(u)/2 = T / (1 - T) with T = tanh(u/2), from u/2 and in place: half the cost of torch.expm1."""
    return half.tanh_().reciprocal_().sub_(1.0).reciprocal_()


def _falling(
    u: Tensor, exp_u: Tensor, total: Tensor, log_mean: Tensor, rough: Tensor | bool, dims: tuple[int, ...]
) -> Tensor:
    """-dLAE/dt = KL(weights || uniform) = sum(w u) - L, or mean phi(u - L) for rows where that difference cancels.

    Both terms are off by about eps |L|, and a rough L by eps more. Overwrites u.
    """
    least = (rough * 1.0 - log_mean) / 32
    cancels = log_mean > -0.25  # in ordinary rows the KL is about a tenth of L^2: do not try if most rows will cancel
    if _most(cancels):
        simple = total
    else:
        simple = (exp_u * u).sum(dims, keepdim=True) / total - log_mean
        cancels = ~(simple >= least)
    return _repaired(simple, cancels, phi_by_looking, u, log_mean, dims)


def _repaired(
    result: Tensor,
    bad: Tensor,
    exactly: Callable[[Tensor, Tensor], Tensor],
    u: Tensor,
    log_mean: Tensor,
    dims: tuple[int, ...],
) -> Tensor:
    """`result` with its bad rows, or all if most are bad, replaced by the mean of exactly(u, L)."""
    if _most(bad):
        return exactly(u, log_mean).mean(dims, keepdim=True)
    index = bad.flatten().nonzero().squeeze(1)
    if not index.numel():
        return result
    rows = u.movedim(dims, tuple(range(-len(dims), 0))).reshape(bad.numel(), -1).index_select(0, index)
    exact = exactly(rows, log_mean.flatten().index_select(0, index).unsqueeze(1)).mean(1)
    return result.flatten().index_copy(0, index, exact).reshape(result.shape)


def _most(rows: Tensor) -> bool:
    """Whether so many rows are True that picking them out would cost more than treating all alike."""
    return bool(4 * rows.sum() > rows.numel())
