"""The cheapest exact form, chosen by looking at the data: for a CPU, outside of compilation and tracing.

On a CPU a new tensor of the input's size costs as much as several passes over one that stays in the cache. So the batch is
taken in parts that do, and each is done in place: by a short polynomial where t is large against the spread of every row,
else by the exponential, with the careful forms of `functional` for the rows that need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lae_core.pooling.series import phi, psi

Rows = tuple[Tensor, Tensor, Tensor, Tensor]
PART = 2**20  # elements; smaller parts would be faster still, were it not for what each call of torch costs
_FAR = 2.0  # in units of t: a polynomial that reaches further is longer than an exponential, and less exact


def by_looking(
    z: Tensor, t: Tensor, dims: tuple[int, ...], wants_t: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """exp((z - c) / t) for a finite reference c of every row, and of every row c, the sum, L = log mean, and -dLAE/dt or nothing.

    LAE is c + t L. The exponentials are in the dtype of z.
    """
    batch = z.shape[0]
    size = batch if 0 in dims else max(1, PART * batch // z.numel())
    exponentials, found = torch.empty_like(z), []
    for start in range(0, batch, size):
        part = slice(start, start + size)
        found.append(_part(z[part], t if t.shape[0] == 1 else t[part], dims, wants_t, exponentials[part]))
    reference, total, log_mean, falling = found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
    return exponentials, reference, total, log_mean, falling


def finite_maximum(z: Tensor, dims: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """The maximum of each row; 0 where that is infinite or nan and would turn every difference to it into nan."""
    return _finite(z.detach().amax(dims, keepdim=True).to(dtype))


def _part(z: Tensor, t: Tensor, dims: tuple[int, ...], wants_t: bool, out: Tensor) -> Rows:
    top = finite_maximum(z, dims, t.dtype)
    # log(mean(exp)) is off by about eps, so the value by t eps: fine where t is small against max|z|
    inexact = top.abs() < 0.5 * t
    if wants_t or bool(inexact.any()):
        low = z.amin(dims, keepdim=True).to(t.dtype)
        inexact &= _finite(low).abs() < 0.5 * t
        # the spread is nan or infinite where anything in the row, or t, is
        if (wants_t or _most(inexact)) and bool((top - low <= 2 * _FAR * t).all()):
            centre = z.mean(dims, keepdim=True, dtype=t.dtype)
            reach = float((torch.maximum(top - centre, centre - low) / t).max())
            if reach <= _FAR:
                return _narrow(z, centre, t, reach, dims, wants_t, out)
    return _wide(z, top, t, inexact, dims, wants_t, out)


def _narrow(
    z: Tensor, centre: Tensor, t: Tensor, reach: float, dims: tuple[int, ...], wants_t: bool, out: Tensor
) -> Rows:
    """With x = (z - mean z) / t and psi(x) = exp(x) - 1 - x >= 0, where x sums to 0,

    mean exp(x) = 1 + mean psi(x)  and  mean x exp(x) = mean x (x + psi(x)):  sums of terms of one sign.
    """
    n = _length(z, dims)
    x = (z - centre).div_(t)
    drift = x.mean(dims, keepdim=True)  # the mean was rounded; where z has a large offset, that shows
    y = psi(x.sub_(drift), reach)
    bend = y.mean(dims, keepdim=True)
    log_mean = torch.log1p(bend)
    torch.add(y.add_(x), 1.0, out=out)
    falling = y.mul_(x).mean(dims, keepdim=True) / (1 + bend) - log_mean if wants_t else x.new_empty(0)
    return centre + t * drift, n + n * bend, log_mean, falling


def _wide(
    z: Tensor, top: Tensor, t: Tensor, inexact: Tensor, dims: tuple[int, ...], wants_t: bool, out: Tensor
) -> Rows:
    n = _length(z, dims)
    u = (z - top).div_(t)
    exp_u = torch.exp(u, out=out if out.dtype == u.dtype else None)
    total = exp_u.sum(dims, keepdim=True)
    log_mean = torch.log(total / n)
    # since -L <= (max z - min z) / t, max|z| is at least -t L / 2; the gradient to t asks more of L where it is small
    inexact = (inexact | wants_t) & (log_mean > -1.0)
    excess = _repaired(total / n - 1.0, inexact, lambda rows, _: torch.expm1(rows), u, log_mean, dims)
    inexact &= excess > -0.5
    log_mean = torch.where(inexact, torch.log1p(excess), log_mean)
    falling = _falling(u, exp_u, total, log_mean, ~inexact, dims) if wants_t else u.new_empty(0)
    if exp_u is not out:
        out.copy_(exp_u)
    return top, total, log_mean, falling


def _falling(u: Tensor, exp_u: Tensor, total: Tensor, log_mean: Tensor, rough: Tensor, dims: tuple[int, ...]) -> Tensor:
    """-dLAE/dt = KL(weights || uniform) = sum(w u) - L, or mean phi(u - L) for rows where that difference cancels.

    Both terms are off by about eps |L|, and a rough L by eps more.
    """
    simple = (exp_u * u).sum(dims, keepdim=True) / total - log_mean
    cancels = ~(simple >= (rough * 1.0 - log_mean) / 32)
    return _repaired(simple, cancels, lambda rows, log_mean: phi(rows - log_mean), u, log_mean, dims)


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
    if not bool(bad.any()):
        return result
    rows = u.movedim(dims, tuple(range(-len(dims), 0)))[bad.squeeze(dims)].flatten(1)
    exact = exactly(rows, log_mean[bad].unsqueeze(1)).mean(1)
    return result.masked_scatter(bad, exact)


def _most(rows: Tensor) -> bool:
    """Whether so many rows are True that picking them out would cost more than treating all alike."""
    return bool(4 * rows.sum() > rows.numel())


def _finite(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _length(z: Tensor, dims: tuple[int, ...]) -> int:
    return math.prod([z.shape[d] for d in dims])
