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
_ROUGH = 1.5  # in units of t: where max|z| is smaller, the error of a sum shows
_SMALL = 0.25  # in units of t: where max|z| is smaller, the error of an exponential shows
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


def exact_sum(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of each row in float64.

    Where terms are alike, so are the errors that a sum makes of them. Those of torch's come to several eps.
    """
    if x.dtype != torch.float64:
        return x.sum(dims, keepdim=True, dtype=torch.float64)
    x = x.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
    while x.shape[-1] > 1:  # what is alike and added in pairs makes no error at all
        half = x.shape[-1] // 2
        x = torch.cat([x[..., :half] + x[..., half : 2 * half], x[..., 2 * half :]], -1)
    return x.unflatten(-1, (1,) * len(dims)).movedim(tuple(range(-len(dims), 0)), dims)


def _part(z: Tensor, t: Tensor, dims: tuple[int, ...], wants_t: bool, out: Tensor) -> Rows:
    top = finite_maximum(z, dims, t.dtype)
    half = z.dtype != t.dtype
    if not wants_t and z.dtype != torch.float64 and (half or z.stride(dims[-1]) == 1):
        # along a row torch adds in vectors, to within 5 eps; where t is small against nearly every max|z|, that will do
        few = (top.abs() < _ROUGH * t).flatten().nonzero().squeeze(1)
        if 50 * len(few) < top.numel():
            return _rough(z, top, t, few, dims, out)
    # log(mean(exp)) is off by about eps, so the value by t eps: fine where t is small against max|z|
    inexact = top.abs() < _SMALL * t
    some = int(inexact.sum())
    if wants_t or 50 * some > inexact.numel():  # a few are sooner treated with care than looked at again
        low = z.amin(dims, keepdim=True).to(t.dtype)
        inexact &= _finite(low).abs() < _SMALL * t
        # the spread is nan or infinite where anything in the row, or t, is
        if (wants_t or _most(inexact)) and bool((top - low <= 2 * _FAR * t).all()):
            centre = z.mean(dims, keepdim=True, dtype=t.dtype)
            reach = float((torch.maximum(top - centre, centre - low) / t).max())
            if reach <= _FAR:
                return _narrow(z, centre, t, reach, dims, wants_t, out)
    return _wide(z, top, t, inexact if wants_t or some else None, dims, wants_t, out)


def _rough(z: Tensor, top: Tensor, t: Tensor, few: Tensor, dims: tuple[int, ...], out: Tensor) -> Rows:
    """The exponential and torch's own sum, and those few rows in float64."""
    _, exp_u = _exponentials(z, top, t, False, out)
    total = exp_u.sum(dims, keepdim=True)
    log_mean = torch.log(total / _length(z, dims))
    if len(few):
        where = torch.unravel_index(few, top.squeeze(dims).shape)
        rows, top_there, t_there = _picked(where, dims, z, top, t)
        exact = torch.log1p(torch.expm1((rows - top_there) / t_there).mean(1))
        log_mean = log_mean.flatten().index_copy(0, few, exact.to(t.dtype)).view_as(top)
    return top, total, log_mean, exp_u.new_empty(0)


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
    z: Tensor, top: Tensor, t: Tensor, inexact: Tensor | None, dims: tuple[int, ...], wants_t: bool, out: Tensor
) -> Rows:
    n = _length(z, dims)
    u, exp_u = _exponentials(z, top, t, wants_t, out)
    total = exact_sum(_folded(exp_u, dims), dims) if out.dtype == t.dtype else exp_u.sum(dims, keepdim=True).double()
    log_mean = torch.log(total / n)
    if inexact is None:
        return top, total, log_mean, u.new_empty(0)
    # since -L <= (max z - min z) / t, max|z| is at least -t L / 2; the gradient to t asks more of L where it is small
    inexact = (inexact | wants_t) & (log_mean > -1.0)
    excess = _repaired(total / n - 1.0, inexact, lambda u, _: torch.expm1(u), z, top, t, log_mean, dims)
    inexact &= excess > -0.5
    log_mean = torch.where(inexact, torch.log1p(excess), log_mean)
    if not wants_t:
        return top, total, log_mean, u.new_empty(0)
    # -dLAE/dt = KL(weights || uniform) = sum(w u) - L, or mean phi(u - L) for rows where that difference cancels:
    # both terms are off by about eps |L|, and a rough L by eps more
    falling = u.mul_(exp_u).sum(dims, keepdim=True) / total - log_mean
    cancels = ~(falling >= (~inexact * 1.0 - log_mean) / 16)
    falling = _repaired(falling, cancels, lambda u, log_mean: phi(u - log_mean), z, top, t, log_mean, dims)
    return top, total, log_mean, falling


def _exponentials(z: Tensor, top: Tensor, t: Tensor, keep_u: bool, out: Tensor) -> tuple[Tensor, Tensor]:
    """u = (z - top) / t, or its memory used again, and exp(u), which goes to `out` in that one's dtype as well."""
    place = out if out.dtype == t.dtype else None
    u = torch.sub(z, top, out=None if keep_u else place).div_(t)
    exp_u = torch.exp(u, out=place if keep_u else u)
    if exp_u is not out:
        out.copy_(exp_u)
    return u, exp_u


def _picked(where: tuple[Tensor, ...], dims: tuple[int, ...], z: Tensor, *of_rows: Tensor) -> list[Tensor]:
    """The rows of z at those places, one below the other, and what belongs to each; in float64."""
    rows = z.movedim(dims, tuple(range(-len(dims), 0)))[where].flatten(1)
    shape = [1 if d in dims else size for d, size in enumerate(z.shape)]
    return [rows.double(), *(x.expand(shape).squeeze(dims)[where].unsqueeze(1).double() for x in of_rows)]


def _folded(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x with parts of a long row added up: float64 is slow to make, and two or three roundings of many terms even out."""
    d, times = dims[0], 2 if x.stride(dims[-1]) == 1 else 3
    for step in range(times if _length(x, dims) >= 16 else 0):
        half, odd = divmod(x.shape[d], 2)
        if half:
            low, high, left = x.narrow(d, 0, half), x.narrow(d, half, half), x.narrow(d, 2 * half, odd)
            x = low.add_(high) if step else low + high
            if odd:
                x.narrow(d, 0, 1).add_(left)
    return x


def _repaired(
    result: Tensor,
    bad: Tensor,
    exactly: Callable[[Tensor, Tensor], Tensor],
    z: Tensor,
    top: Tensor,
    t: Tensor,
    log_mean: Tensor,
    dims: tuple[int, ...],
) -> Tensor:
    """`result` with its bad rows, or all if most are bad, replaced by the mean of exactly(u, L).

    u is found again: that is cheaper than to keep it.
    """
    if _most(bad):
        return exact_sum(exactly((z - top).div_(t), log_mean.to(t.dtype)), dims) / _length(z, dims)
    where = bad.squeeze(dims).nonzero(as_tuple=True)
    if not len(where[0]):
        return result
    rows, top, t, log_mean = _picked(where, dims, z, top, t, log_mean)
    return result.masked_scatter(bad, exact_sum(exactly((rows - top).div_(t), log_mean), (1,)) / rows.shape[1])


def _most(rows: Tensor) -> bool:
    """Whether so many rows are True that picking them out would cost more than treating all alike."""
    return bool(4 * rows.sum() > rows.numel())


def _finite(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _length(z: Tensor, dims: tuple[int, ...]) -> int:
    return math.prod([z.shape[d] for d in dims])
