"""The cheapest exact form, chosen by looking at the data: for a CPU, outside of compilation and tracing.

On a CPU a new tensor of the input's size costs as much as several passes over one that stays in the cache. So the rows are
taken in parts that do, and each is done in place: by a short polynomial where t is large against the spread of most rows,
else by exponentials. The rows that this does not suit are done again the other way, and those that neither suits in float64.

Inside, z is (outer, n, inner): rows go along the middle. They lie along memory where inner is 1, else side by side.
"""

from __future__ import annotations

import ctypes
import math

import torch
from torch import Tensor

from lae_core.pooling.series import LN2, exp_from, phi

Which = Tensor | bool  # of which rows something holds; one call less where it holds for all or none
Rows = tuple[Tensor, Tensor, Tensor, Which]  # LAE, -dLAE/dt or nothing, the factor, and which are to be found again
# elements for each thread; smaller parts would be faster still, were it not for what each call of torch costs
PART = 2**20
_VECTOR = 16  # neighbours in memory that a CPU may treat as one
_HUGE = 1e30  # what is larger may overflow when it is divided
# shares of rows:
_MANY = 0.02  # to find more again in float64 costs much
_MOST = 0.3  # to do more again costs more than to do all another way
# in units of t:
_SMALL = 0.33  # where max|z| is smaller, the error of an exponential shows
_FAR = 2.0  # a polynomial that reaches further is long, and less exact
_NEAR = 0.5  # where max|z| is smaller, a polynomial in z itself is short; up to twice that, shorter than repairs
# in units of t sqrt(log n), as about so far out is the maximum of n values:
_TIGHT = 0.42  # of a row that reaches less far from its mean, -dLAE/dt by exponentials is a difference of like numbers
_LOOSE = 1.1  # of a row that reaches further it is none, even if the exponents are taken from the maximum


def by_looking(z: Tensor, t: Tensor, dims: tuple[int, ...], wants_t: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """LAE of every row; weights but for a factor, in the dtype of z; that factor; and -dLAE/dt, or nothing."""
    order, begin, end = _order(z, dims)
    sizes = [z.shape[d] for d in order]
    n, inner = math.prod(sizes[begin:end]), math.prod(sizes[end:])
    flat = z.permute(order).reshape(-1, n, inner)
    if t.numel() > 1:
        t = t.expand([1 if d in dims else size for d, size in enumerate(z.shape)]).permute(order).reshape(-1, 1, inner)
    t = t.view(-1, 1, t.shape[-1])
    out, found = torch.empty_like(flat, memory_format=torch.contiguous_format), []
    count = min(len(flat), max(1, PART * torch.get_num_threads() // (n * inner)))
    scratch = torch.empty_like(out[:count], dtype=t.dtype)
    for start in range(0, len(flat), count):
        part = slice(start, start + count)
        room = scratch[: len(flat) - start]
        found.append(_part(flat[part], t if len(t) == 1 else t[part], wants_t, room, out[part]))
    values, fallings, factors, which = zip(*found, strict=True)
    value, falling, factor = map(_joined, (values, fallings, factors))
    if any(bad is not False for bad in which):
        bad = [
            x if isinstance(x, Tensor) else torch.full_like(v, x, dtype=torch.bool)
            for v, x in zip(values, which, strict=True)
        ]
        _repair(value, falling, _joined(bad), flat, t)
    place = sorted(range(len(order)), key=order.__getitem__)

    def back(x: Tensor, middle: list[int]) -> Tensor:
        return x.reshape(sizes[:begin] + middle + sizes[end:]).permute(place)

    row = [1] * len(dims)
    return (
        back(value, row),
        back(out, sizes[begin:end]),
        back(factor, row),
        back(falling, row) if wants_t else falling,
    )


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


def _order(z: Tensor, dims: tuple[int, ...]) -> tuple[list[int], int, int]:
    """The dimensions in such an order that the pooled ones, `begin` to `end`, can be merged, if possible without a copy."""
    least = min(z.stride(d) for d in dims)
    kept = [d for d in range(z.dim()) if d not in dims]
    inner = [d for d in kept if z.stride(d) < least and z.shape[d] > 1]
    if math.prod([z.shape[d] for d in inner]) < _VECTOR:
        inner = []
    outer = [d for d in kept if d not in inner]
    return [*outer, *dims, *inner], len(outer), len(outer) + len(dims)


def _part(z: Tensor, t: Tensor, wants_t: bool, room: Tensor, out: Tensor) -> Rows:
    heat = float(t) if t.numel() == 1 else t
    near = 0.0
    # eight powers of t are to be within float32; and of n = 1, LAE is z as it is
    if not wants_t and isinstance(heat, float) and 1e-4 < heat < 1e4 and z.shape[1] > 1:
        near = _NEAR * heat
        # a glance at few elements may tell that not all are near
        if _largest(z[:: 1 + len(z) // 64, :1, :1]) <= near and (largest := _largest(z)) <= near:
            return _near_zero(z, heat, largest, room, out)
    top = z.amax(1, keepdim=True).to(t.dtype)
    least, most = map(float, top.aminmax())
    # of such rows the difference to top, and z / t for one t, are finite or -inf
    usual = z.dtype != torch.float64 and z.shape[1] > 1 and max(-least, most) < _HUGE
    if isinstance(heat, float):
        usual = usual and 1 / _HUGE < heat < _HUGE and max(-least, most) < _HUGE * heat
    centre = top if usual else _finite(top)
    inexact = _small(top, least, most, heat)
    share = 0.0 if wants_t else _share(inexact)
    outlying = math.sqrt(math.log(z.shape[1]))
    # a glance at one element may tell that a row is wide
    if _share(top - z[:, :1] > _LOOSE * outlying * heat) < 0.5 if wants_t else share > _MANY:
        if near and share > 0.5 * _MOST and (largest := max(most, -float(z.amin()))) <= 2 * near:
            return _near_zero(z, float(heat), largest, room, out)
        low = z.amin(1, keepdim=True).to(t.dtype)
        least, most = map(float, low.aminmax())
        inexact = inexact & _small(low, least, most, heat) & (low < top)  # the value of a constant row is exact
        if wants_t or _share(inexact) > _MOST:
            middle, reach = _reach(z, low, top, heat, wants_t)
            far = ~(reach <= _limit(wants_t))  # also where anything in the row, or t, is nan or infinite
            share = _share(far)
            tight = (reach < _TIGHT * outlying) & (low < top) if wants_t else inexact
            if _share(tight) > _MOST + share:
                reach = reach.masked_fill(far, 0.0) if share else reach
                found = _by_polynomial(z, middle, reach, heat, usual, wants_t, room, out)
                return _far_rows_again(found, far, z, heat, usual, wants_t, out) if share else found
            if wants_t and z.dtype == t.dtype:  # an exponential from there may be too large for float16
                centre = torch.where((reach <= 4 * _FAR) & (low < top), middle, centre)
    found = _wide(z, centre, top, heat, inexact, usual, wants_t, room, out)
    return _inexact_rows_again(found, z, heat, usual, wants_t) if _share(found[3]) > _MANY else found


def _limit(wants_t: bool) -> float:
    return _FAR if wants_t else 0.5 * _FAR


def _reach(z: Tensor, low: Tensor, top: Tensor, t: float | Tensor, wants_t: bool) -> tuple[Tensor, Tensor]:
    """The middle of each row, and how far it reaches from there. Exponents from there are smaller, and so are their errors."""
    middle = z.mean(1, keepdim=True, dtype=top.dtype) if wants_t else torch.lerp(low, top, 0.5)
    return middle, torch.maximum(top - middle, middle - low) / t


def _by_polynomial(
    z: Tensor, middle: Tensor, reach: Tensor, t: float | Tensor, usual: bool, wants_t: bool, room: Tensor, out: Tensor
) -> Rows:
    way = _narrow_with_t if wants_t else _narrow
    return way(z, middle, t, float(reach.max()), usual, room, out)


def _far_rows_again(
    found: Rows, far: Tensor, z: Tensor, t: float | Tensor, usual: bool, wants_t: bool, out: Tensor
) -> Rows:
    """What was found by a polynomial, but for the rows that are too wide for it: these by exponentials."""
    which, rows, top, heat = _picked(far, z, t, found[2].dtype)
    room, weights = torch.empty_like(rows, dtype=top.dtype), torch.empty_like(rows)
    again = _wide(rows, top if usual else _finite(top), top, heat, False, usual, wants_t, room, weights)
    _put_back(found[:3], which, again[:3])
    if (inner := out.shape[2]) == 1:
        out.index_copy_(0, which, weights)
    else:
        out[which // inner, :, which % inner] = weights.squeeze(2)
    bad = torch.zeros_like(far)
    bad.view(-1)[which] = again[3].flatten() if isinstance(again[3], Tensor) else again[3]
    return *found[:3], bad


def _inexact_rows_again(found: Rows, z: Tensor, t: float | Tensor, usual: bool, wants_t: bool) -> Rows:
    """What was found by exponentials, but for the rows of which only the weights are exact: by a polynomial if they are narrow."""
    bad = found[3] if isinstance(found[3], Tensor) else torch.full_like(found[0], found[3], dtype=torch.bool)
    which, rows, top, heat = _picked(bad, z, t, found[2].dtype)
    middle, reach = _reach(rows, rows.amin(1, keepdim=True).to(top.dtype), top, heat, wants_t)
    close = (reach <= _limit(wants_t)).flatten()
    far = ~close
    bad.view(-1)[which] = far
    if bool(close.any()):
        narrow, heats = rows[close], heat[close] if isinstance(heat, Tensor) else heat
        room, unused = torch.empty_like(narrow, dtype=top.dtype), torch.empty_like(narrow)
        again = _by_polynomial(narrow, middle[close], reach[close], heats, usual, wants_t, room, unused)
        _put_back(found[:2], which[close], again[:2])
    if int(far.count_nonzero()) > _MANY * bad.numel():
        heats = heat[far] if isinstance(heat, Tensor) else heat
        _with_care(found[:2], which[far], rows[far].to(top.dtype), heats, alike=True)
        bad.view(-1)[which] = False
    return *found[:3], bad


def _picked(
    mask: Tensor, z: Tensor, t: float | Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """Where the mask is True; those rows, one after another; their maxima; and their temperatures, or the one of all."""
    which = mask.flatten().nonzero().squeeze(1)
    rows = _rows(z, which).unsqueeze(2)
    heat = t.expand_as(mask).reshape(-1, 1, 1)[which] if isinstance(t, Tensor) else t
    return which, rows, rows.amax(1, keepdim=True).to(dtype), heat


def _put_back(wholes: tuple[Tensor, ...], which: Tensor, rows: tuple[Tensor, ...]) -> None:
    for whole, some in zip(wholes, rows, strict=True):
        if whole.numel():
            whole.view(-1)[which] = some.flatten().to(whole.dtype)


def _small(ends: Tensor, least: float, most: float, t: float | Tensor) -> Which:
    """Of which rows the ends, which lie between least and most, are so small that the error of log(mean(exp)) shows.

    That is off by about eps, so the value by t eps: fine where t is small against max|z|.
    """
    if isinstance(t, float):
        if least >= _SMALL * t or most <= -_SMALL * t:
            return False
        if -_SMALL * t < least:
            return most < _SMALL * t or ends < _SMALL * t
    return _finite(ends).abs() < _SMALL * t


def _near_zero(z: Tensor, t: float, largest: float, room: Tensor, out: Tensor) -> Rows:
    """By a polynomial in z for expm1(z / t), where |z| <= largest."""
    x = z if z.dtype == room.dtype else room.copy_(z)
    per_t = 1 / t if x.dtype == torch.float64 else _as_float32(1 / t)
    y = exp_from(1, x, largest / t, _working(out, room), per_t)
    log_mean, factor = _narrow_sums(y, room, out)
    return log_mean / per_t, x.new_empty(0), factor, False


def _narrow(z: Tensor, centre: Tensor, t: float | Tensor, reach: float, usual: bool, room: Tensor, out: Tensor) -> Rows:
    """By a polynomial for expm1."""
    x, origin, t = _scaled(z, centre, t, 1.0, usual, room)
    y = exp_from(1, x, reach, _working(out, room))
    log_mean, factor = _narrow_sums(y, room, out)
    return centre + t * (log_mean - origin), x.new_empty(0), factor, False


def _narrow_sums(y: Tensor, room: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """L and the factor, given expm1. Leaves the weights in `out`."""
    total = exact_sum(_folded(y, room), (1,))
    sums = torch.log1p(total / y.shape[1]), (y.shape[1] + total).to(y.dtype).reciprocal()
    torch.add(y, 1.0, out=out)  # not before: a row of one is its own sum
    return sums


def _narrow_with_t(
    z: Tensor, mean: Tensor, t: float | Tensor, reach: float, usual: bool, room: Tensor, out: Tensor
) -> Rows:
    """With x = (z - mean z) / t and psi(x) = exp(x) - 1 - x >= 0, where x sums to 0,

    mean exp(x) = 1 + mean psi(x)  and  mean x exp(x) = mean x (x + psi(x)):  sums of terms of one sign.
    """
    x, origin, t = _scaled(z, mean, t, 1.0, usual, room)
    drift = x.mean(1, keepdim=True)  # the mean was rounded; where z has a large offset, that shows
    y = exp_from(2, x.sub_(drift), reach, _working(out, room))
    bend = y.mean(1, keepdim=True)
    log_mean = torch.log1p(bend)
    y.add_(x)
    falling = x.mul_(y).mean(1, keepdim=True) / (1 + bend) - log_mean
    torch.add(y, 1.0, out=out)
    value = mean + t * (log_mean.double() + drift - origin)
    return value, falling, 1 / (z.shape[1] * (1 + bend)), False


def _wide(
    z: Tensor,
    centre: Tensor,
    top: Tensor,
    t: float | Tensor,
    inexact: Which,
    usual: bool,
    wants_t: bool,
    room: Tensor,
    out: Tensor,
) -> Rows:
    """By exponentials. Where L is inexact, or -dLAE/dt a difference of nearly equal numbers, a row is to be found again."""
    # torch takes less than half as long for float32's exp2 as for its exp
    power, unit = (torch.exp, 1.0) if z.dtype == torch.float64 else (torch.exp2, LN2)
    e = _working(out, room)
    u, origin, heat = _scaled(z, centre, t, unit, usual, room if wants_t else e)
    power(u, out=e)
    sum_u = unit * u.mul_(e).sum(1, keepdim=True) if wants_t else 0.0
    total = exact_sum(_folded(e, room), (1,)) if e is out else e.sum(1, keepdim=True).double()
    falling = top.new_empty(0)
    if wants_t:
        log_mean, mean_u = torch.log(total / z.shape[1]), sum_u / total
        falling = mean_u - log_mean
        cancels = ~(24 * falling >= 1 + log_mean.abs() + mean_u.abs())
        inexact = (cancels | inexact) & ((sum_u != 0) | (centre != top))  # of a constant row both are exact
    # against the exponential of the centre as it is: so like values give that value, and LAE is never above the maximum
    log_mean = torch.log(total / (z.shape[1] * power(origin).double()))
    if e is not out:
        out.copy_(e)
    factor = total.to(e.dtype).reciprocal()
    if not usual:
        factor = torch.where(total == 0, 0.0, factor)
    return torch.minimum(centre + heat * log_mean, top), falling, factor, inexact


def _scaled(
    z: Tensor, c: Tensor, t: float | Tensor, unit: float, usual: bool, out: Tensor
) -> tuple[Tensor, Tensor, float | Tensor]:
    """(z - c) / t in that unit, but for a shift that a row has in common, and a t that is off by a rounding; both of these."""
    if usual and isinstance(t, float):
        per_t = _as_float32(1 / (t * unit))
        shift = c * -per_t
        x, origin = torch.add(shift, z, alpha=per_t, out=out), torch.add(shift, c, alpha=per_t)  # one pass over z
        return x, origin, 1 / (per_t * unit)
    x, origin = torch.sub(z, c, out=out), torch.zeros_like(c)
    if unit == 1.0:
        return x.div_(t), origin, t
    factor = (1 / (torch.as_tensor(t, dtype=torch.float64) * unit)).to(c.dtype)
    return x.mul_(factor), origin, 1 / (factor.double() * unit)


def _working(out: Tensor, room: Tensor) -> Tensor:
    """`out`, or another such tensor if half types are computed in float32."""
    return out if out.dtype == room.dtype else torch.empty_like(room)


def _folded(x: Tensor, room: Tensor) -> Tensor:
    """x with parts of a long row added up: float64 is slow to make, and two or three roundings of many terms even out."""
    side_by_side, room = x.shape[2] > 1, room.view(-1)
    for step in range(0 if x.shape[1] < 16 else 3 if side_by_side else 2):
        half, odd = divmod(x.shape[1], 2)
        low, high, left = x[:, :half], x[:, half : 2 * half], x[:, 2 * half :]
        if step and side_by_side:
            x = low.add_(high)
        else:  # rows along memory are read faster without gaps between them
            x, room = torch.add(low, high, out=room[: low.numel()].view(low.shape)), room[low.numel() :]
        if odd:
            x[:, :1].add_(left)
    return x


def _repair(value: Tensor, falling: Tensor, bad: Tensor, z: Tensor, t: Tensor) -> None:
    """Bad rows found again, in float64."""
    which, rows, _, heat = _picked(bad, z, float(t) if t.numel() == 1 else t, torch.float64)
    if not len(which):
        return
    if not falling.numel() and bool((_finite(rows.amin(1, keepdim=True)) <= -_SMALL * heat).all()):
        return  # it was only their maximum that is small
    _with_care((value, falling), which, rows.double(), heat, alike=z.dtype == torch.float64)


def _with_care(found: tuple[Tensor, ...], which: Tensor, rows: Tensor, t: float | Tensor, alike: bool) -> None:
    """LAE, and -dLAE/dt where that is asked for, of those rows again."""
    top = _finite(rows.amax(1, keepdim=True))
    log_mean, falling = _carefully((rows - top).div_(t), found[1].numel() > 0, alike)
    _put_back(found, which, (top + t * log_mean, falling))


def _rows(z: Tensor, which: Tensor) -> Tensor:
    inner = z.shape[2]
    return z.select(2, 0).index_select(0, which) if inner == 1 else z[which // inner, :, which % inner]


def _carefully(u: Tensor, wants_t: bool, alike: bool) -> tuple[Tensor, Tensor]:
    """L and -dLAE/dt as sums of terms of one sign, also where the errors of terms that are alike would show."""

    def mean(x: Tensor) -> Tensor:
        return (exact_sum(x, (1,)) if alike else x.sum(1, keepdim=True)) / x.shape[1]

    excess = mean(torch.expm1(u))
    log_mean = torch.where(excess > -0.5, torch.log1p(excess), torch.log(mean(torch.exp(u))))
    return log_mean, mean(phi(u - log_mean.to(u.dtype))) if wants_t else u.new_empty(0)


def _joined(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def _share(rows: Which) -> float:
    return int(rows.count_nonzero()) / rows.numel() if isinstance(rows, Tensor) else float(rows)


def _largest(x: Tensor) -> float:
    """max|x|, or nan."""
    least, most = map(float, x.aminmax())
    return max(-least, most)


def _as_float32(x: float) -> float:
    return ctypes.c_float(x).value


def _finite(x: Tensor) -> Tensor:
    return x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
