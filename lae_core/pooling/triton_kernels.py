"""The two Triton kernels that `cuda` launches: the formulas of `kernel.c`, under the same names.

Row r of group o has its element i at z[o * n * rows + r * across + i * step]. One number per row: c, 1 / sum exp(u) and L
are kept for the backward pass, each `all_rows` long.
"""

# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def terms(d, per):
    """2^-k and 2^-k (2^r - 1), whose sum is exp(-d / t): d per = k - r."""
    magic = 12583039.0  # 1.5 * 2^23 + 127: numbers of this size are whole
    shifted = magic - d * per
    power = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    r = (magic - shifted) - d * per
    p = 0.00015403530393381610 + r * 1.5252733804059841e-05  # ln(2)^k / k!
    p = 0.0096181291076284772 + r * (0.0013333558146428443 + r * p)
    p = 0.69314718055994531 + r * (0.24022650695910071 + r * (0.055504108664821580 + r * p))
    return power, p * r * power


@triton.jit
def phi(x, exp_x):
    """x exp(x) - expm1(x), given exp(x)."""
    p = 1 / 840 + x * (1 / 5760 + x * (1 / 45360))
    p = 1 / 2 + x * (1 / 3 + x * (1 / 8 + x * (1 / 30 + x * (1 / 144 + x * p))))
    return tl.where(tl.abs(x) < 0.5, p * x * x, 1 - (1 - x) * exp_x)


@triton.jit
def log_1p(x, y):
    """log(y) for y = 1 + x, where x is the more exact one if y is near 1: 2 atanh(x / (2 + x)) by its power series.

    The logarithm of the hardware is too coarse near 1.
    """
    bits = y.to(tl.int32, bitcast=True)
    e = (bits - 0x3F3504F3) >> 23  # y = 2^e f, sqrt(1/2) <= f < sqrt(2)
    f = (bits - (e << 23)).to(tl.float32, bitcast=True)
    g = tl.where(e == 0, x, f - 1)
    s = tl.div_rn(g, 2 + g)
    q = s * s
    p = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11)))))
    return e.to(tl.float32) * 0.69314718055994531 + 2 * s * p + 0 * x


@triton.jit
def add(total, lost, x):
    """total + x, and what all additions have lost so far."""
    new = total + x
    back = new - total
    return new, lost + ((total - (new - back)) + (x - back))


@triton.jit
def finite(t):
    """t, but no more than the largest number; nan stays nan."""
    return tl.where(t > 3.4028234e38, 3.4028234e38, t)


@triton.jit
def inverse_unit(t):
    """1 / (t ln 2), at most the largest number."""
    return tl.minimum(tl.div_rn(t * 0 + 1.4426950408889634, t), 3.4028234e38)


@triton.jit
def distance(x, c, most):
    """c - x, but no more than 2^-k can hold; nan stays nan."""
    d = c[:, None] - x
    return tl.where(d > most[:, None], most[:, None], d)


@triton.jit
def forward(z, t, value, kept, n, rows, all_rows, across, step, t_step, BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr):
    INF: tl.constexpr = float("inf")
    o, r = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    here, row = r < rows, o * rows + r
    at = z + o * n * rows + r.to(tl.int64)[:, None] * across
    top = tl.full((BLOCK_R,), -INF, tl.float32)
    total, lost, nans = tl.zeros_like(top), tl.zeros_like(top), tl.zeros_like(top)
    for start in range(0, n, BLOCK_N):
        i = start + tl.arange(0, BLOCK_N)[None, :]
        x = tl.load(at + i.to(tl.int64) * step, mask=here[:, None] & (i < n), other=-INF).to(tl.float32)
        top = tl.maximum(top, tl.max(x, 1))
        nans = tl.maximum(nans, tl.max(tl.where(x != x, 1.0, 0.0), 1))
        total += tl.sum(tl.where(i < n, x, 0.0), 1)
    heat = finite(tl.load(t + row * t_step, mask=here, other=1.0))
    per, mean = inverse_unit(heat), total / n
    most, gap = 127.0 / per, top - mean
    c = tl.where((gap >= 0) & (gap * per < 6.0), mean, top)
    powers, rests = tl.zeros_like(top), tl.zeros_like(top)
    lost_rests = tl.zeros_like(top)
    for start in range(0, n, BLOCK_N):
        i = start + tl.arange(0, BLOCK_N)[None, :]
        x = tl.load(at + i.to(tl.int64) * step, mask=here[:, None] & (i < n), other=-INF).to(tl.float32)
        power, rest = terms(distance(x, c, most), per[:, None])
        powers, lost = add(powers, lost, tl.sum(tl.where(i < n, power, 0.0), 1))
        rests, lost_rests = add(rests, lost_rests, tl.sum(tl.where(i < n, rest, 0.0), 1))
    rests += lost + lost_rests
    total = powers + rests
    excess = tl.div_rn(rests + (powers - n), total * 0 + n)
    log_mean = log_1p(excess, tl.where(excess > -0.5, 1 + excess, tl.div_rn(total, total * 0 + n)))
    result = c + heat * log_mean
    result = tl.where(result > top, top, result)
    inverse = 1 / total
    empty, infinite = (top == -INF) & (nans == 0), (top == INF) & (nans == 0)
    result = tl.where(empty | infinite, top, tl.where(nans > 0, float("nan"), result))
    inverse = tl.where(empty, 0.0, tl.where(infinite, 1.0, inverse))  # weights of an infinite row: 0, and nan at inf
    result, inverse = tl.where(heat > 0, result, float("nan")), tl.where(heat > 0, inverse, float("nan"))
    tl.store(value + row, result, mask=here)
    tl.store(kept + row, tl.where(empty, 0.0, c), mask=here)
    tl.store(kept + all_rows + row, inverse, mask=here)
    tl.store(kept + 2 * all_rows + row, tl.where(empty, 0.0, log_mean), mask=here)


@triton.jit
def backward(
    z,
    t,
    grad,
    kept,
    grad_z,
    grad_t,
    n,
    rows,
    all_rows,
    across,
    step,
    t_step,
    BLOCK_R: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WANTS_T: tl.constexpr,
):
    o, r = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    here, row = r < rows, o * rows + r
    at = o * n * rows + r.to(tl.int64)[:, None] * across
    per = inverse_unit(finite(tl.load(t + row * t_step, mask=here, other=1.0)))
    c = tl.load(kept + row, mask=here, other=0.0)
    inverse = tl.load(kept + all_rows + row, mask=here, other=0.0)
    log_mean = tl.load(kept + 2 * all_rows + row, mask=here, other=0.0)
    g = tl.load(grad + row, mask=here, other=0.0).to(tl.float32)
    most, share, scale = 127.0 / per, g * inverse, n * inverse
    slope, lost = tl.zeros_like(per), tl.zeros_like(per)
    for start in range(0, n, BLOCK_N):
        i = start + tl.arange(0, BLOCK_N)[None, :]
        place, there = at + i.to(tl.int64) * step, here[:, None] & (i < n)
        d = distance(tl.load(z + place, mask=there, other=0.0).to(tl.float32), c, most)
        power, rest = terms(d, per[:, None])
        e = power + rest
        tl.store(grad_z + place, e * share[:, None], mask=there)
        if WANTS_T:
            slopes = phi(d * (per * -0.69314718055994531)[:, None] - log_mean[:, None], e * scale[:, None])
            slope, lost = add(slope, lost, tl.sum(tl.where(i < n, slopes, 0.0), 1))
    if WANTS_T:
        none = (g == 0) | (inverse == 0)
        tl.store(grad_t + row, tl.where(none, 0.0, -g * ((slope + lost) / n)), mask=here)
