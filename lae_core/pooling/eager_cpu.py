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


def by_looking(top: Tensor, shifted: Tensor, t: Tensor, n: int, dims: tuple[int, ...], wants_t: bool) -> Rows:
    """exp(u), its sum, L, and -dLAE/dt where asked for, from each row's m and z - m. Overwrites z - m."""
    u = shifted.div_(t)
    # log(mean(exp)) is off by about eps, so the value by t eps: fine where t is small against max|z|, which is at least |m|
    inexact = top.abs() < 0.5 * t
    if bool(inexact.all()):
        narrow = _narrow(u, n, dims)
        if narrow is not None:
            return *narrow, _falling(u, *narrow, n, dims) if wants_t else None
    exp_u = torch.exp(u, out=None if wants_t or bool(inexact.any()) else u)
    total = exp_u.sum(dims, keepdim=True)
    log_mean = torch.log(total / n)
    inexact &= log_mean > -1.0  # since -L <= (max z - min z) / t, max|z| is at least -t L / 2
    if wants_t:
        inexact |= (
            log_mean > -1 / 32
        )  # phi(u - L) would see an error of eps in L where u spreads by little more than that
    excess = _repaired(total / n - 1, inexact, lambda rows, _: torch.expm1(rows), u, log_mean, dims)
    log_mean = torch.where(inexact & (excess > -0.5), torch.log1p(excess), log_mean)
    return exp_u, total, log_mean, _falling(u, exp_u, total, log_mean, n, dims) if wants_t else None


def _narrow(u: Tensor, n: int, dims: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor] | None:
    """exp(u), its sum and L if t is large against the spread of every row, else None.

    expm1(u) = 2 tanh(u/2) / (1 - tanh(u/2)) costs half of torch.expm1, and exp(u) falls off.
    """
    half = (u * 0.5).tanh_().reciprocal_().sub_(1.0).reciprocal_()
    excess = half.sum(dims, keepdim=True) * (2 / n)
    if not bool((excess > -0.5).all()):
        return None
    return half.mul_(2.0).add_(1.0), n + n * excess, torch.log1p(excess)


def _falling(u: Tensor, exp_u: Tensor, total: Tensor, log_mean: Tensor, n: int, dims: tuple[int, ...]) -> Tensor:
    """-dLAE/dt = KL(weights || uniform) = sum(w u) - L, or mean phi(u - L) for rows where that difference cancels.

    L - mean(u), the KL the other way round, is of the same size in ordinary rows, and tells beforehand if most will. Overwrites u.
    """
    error = (0.5 - log_mean) / 16  # in units where eps of it is what the difference may be off by
    cancels = ~(log_mean - u.sum(dims, keepdim=True) / n >= error)
    if _most(cancels):
        simple = total
    else:
        simple = (exp_u * u).sum(dims, keepdim=True) / total - log_mean
        cancels = ~(simple >= error)
    return _repaired(simple, cancels, lambda rows, mean: phi_by_looking(rows.sub_(mean)), u, log_mean, dims)


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
