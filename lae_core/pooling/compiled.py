"""The form for compiled code on a CPU: few operations per element, one loop for all of them, and no look at the data.

The compiler turns each pooling into loops over memory whose length is the number of operations on an element. A library's
exponential is a call in the midst of them, and a series for expm1 comes on top. Here a short polynomial gives both, after
the exponent has been split: with u = -v ln 2 and v = k - r, |r| <= 1/2,

    exp(u) = 2^-k + 2^-k p(r),    p(r) = 2^r - 1

The two terms are summed apart. Then sum expm1(u) = sum 2^-k p(r) + (sum 2^-k - n) is exact to a rounding or two: where u is
small everywhere, sum 2^-k is n itself.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from lae_core.pooling.series import LN2

LONG = 256  # so many terms may be added in float32, sixteen at a time

# (2^r - 1) / r and 2^r for |r| <= 1/2, and phi(-x ln 2) / x^2 for |x| <= 1: polynomials of the smallest error, rounded to
# what float32 can tell; off by 0.1, 0.9 and 0.7 of its eps
_EXPM1 = [0.693147188, 0.240226508, 0.0555035711, 0.00961808256, 0.00133908634, 0.000154531629]
_EXP = [1.0, 0.693147004, 0.240222439, 0.0555073321, 0.00967151392, 0.00132647285]
_PHI = [0.240226507, -0.111008307, 0.0288543943, -0.00533270444, 0.000770120559, -9.29510991e-05, 9.36257562e-06]
_WHOLE = 1.5 * 2.0**23 + 127  # a float32 of this size has no digits behind the point


def fits(z: Tensor, work: torch.dtype) -> bool:
    """Whether this form may be used: the bits of 2^-k are those of float32, and an exported graph is to hold plain operations."""
    return (
        work == torch.float32
        and z.device.type == "cpu"
        and torch.compiler.is_compiling()
        and not torch.compiler.is_exporting()
    )


def in_blocks(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, list[tuple[int, ...]]]:
    """z with a long row cut into vectors where its layout allows that, and the dimensions to reduce one after another."""
    n = math.prod([z.shape[d] for d in dims])
    along = len(dims) == 2 and z.stride(dims[1]) == 1 and z.stride(dims[0]) == z.shape[dims[1]]
    if n > LONG and n % 16 == 0 and along:
        return z.flatten(*dims).unflatten(dims[0], (n // 16, 16)), [dims[:1], dims[1:]]
    return z, [dims]


def total(x: Tensor, steps: list[tuple[int, ...]], half: bool = False) -> Tensor:
    """The sum of every row, in the given steps, in float64 where so many terms are added one by one that float32 drifts.

    Half types do not see that before a row is long, and a GPU does not add so.
    """
    for step in steps:
        one_by_one = x.device.type == "cpu" and side_by_side(x, step) and not half
        drifts = one_by_one or math.prod([x.shape[d] for d in step]) > LONG
        x = x.sum(step, keepdim=True, dtype=torch.float64 if drifts else None)
    return x


def side_by_side(z: Tensor, dims: tuple[int, ...]) -> bool:
    """Whether a vector of neighbours in memory holds elements of many rows, not many of one."""
    return z.stride(dims[-1]) != 1


def fill_vectors(z: Tensor, dims: tuple[int, ...]) -> bool:
    """Whether the neighbours in memory make up whole vectors: what is left over has its bits taken one by one, slowly."""
    inner = [d for d in range(z.dim()) if z.stride(d) == 1 and z.shape[d] > 1]
    run = dims if inner[-1:] == [dims[-1]] else inner[-1:]
    return math.prod([z.shape[d] for d in run]) % 16 == 0


def maximum(z: Tensor, dims: tuple[int, ...], steps: list[tuple[int, ...]]) -> Tensor:
    """The maximum of every row, found in the given steps."""
    size = z.shape[dims[0]]
    if side_by_side(z, dims) and size >= 4:
        # each maximum would wait for the last one; here four are found that do not (their parts may overlap)
        part = -(-size // 4)
        a, b, c, d = (z.narrow(dims[0], min(i * part, size - part), part) for i in range(4))
        z = torch.maximum(torch.maximum(a, b), torch.maximum(c, d))
    for step in steps:
        z = z.amax(step, keepdim=True)
    return z


def inverse_unit(t: Tensor) -> Tensor:
    """1 / (t ln 2), by which differences become binary exponents."""
    return buffer((1 / LN2) / t.clamp(min=torch.finfo(t.dtype).tiny))


def reference(z: Tensor, top: Tensor, per_unit: Tensor, dims: tuple[int, ...]) -> Tensor:
    """From where differences are taken: about where a row begins and ends, or its maximum if that is far above.

    Where most values are alike, all differences are off by the same part of themselves, and had better be zero.
    """
    middle, last = z, z
    for d in dims:
        middle, last = middle.narrow(d, 0, 1), last.narrow(d, z.shape[d] - 1, 1)
    if not side_by_side(z, dims):  # else that were one value too many for the compiler to find all in one loop
        middle = 0.5 * middle + 0.5 * last
    return torch.where((top - middle) * per_unit < 4.0, middle, top)


def binary_exponent(z: Tensor, reference: Tensor, per_unit: Tensor, whole: bool) -> Tensor:
    """v = (reference - z) / (t ln 2), at most 127. A nan may become 127; where there is one, the row's maximum or t is nan."""
    v = (reference - z) * per_unit
    # floats above 0 are in the same order as their bits: one instruction, where a clamp that keeps nan takes four
    return v.view(torch.int32).clamp(max=0x42FE0000).view(torch.float32) if whole else v.clamp(max=127.0)


def exp_terms(v: Tensor, whole: bool) -> tuple[Tensor, Tensor]:
    """2^-k and 2^-k p(r), whose sum is exp(u)."""
    power, r = _split(v, whole)
    return power, _polynomial(r, _EXPM1) * r * power


def exp(v: Tensor, whole: bool) -> Tensor:
    """exp(u), a little cheaper and less exact than the sum of its terms."""
    power, r = _split(v, whole)
    return _polynomial(r, _EXP) * power


def phi(v: Tensor, log_mean: Tensor, exp_delta: Tensor) -> Tensor:
    """phi(delta) for delta = u - L."""
    x = v + buffer(log_mean / LN2)
    return torch.where(x.abs() < 1.0, _polynomial(x, _PHI) * (x * x), 1 - _fma(LN2, x, 1.0) * exp_delta)


def _split(v: Tensor, whole: bool) -> tuple[Tensor, Tensor]:
    """2^-k and r. 127 - k is put where float32 has the bits of its exponent; 2^-127 comes out as 0."""
    if not whole:
        k = v.round()
        return ((127.0 - k) * 2.0**23).to(torch.int32).view(torch.float32), k - v
    shifted = _WHOLE - v  # rounded to a whole number, with 127 - k in the last bits
    return (shifted.view(torch.int32) << 23).view(torch.float32), (_WHOLE - shifted) - v


def _polynomial(x: Tensor, coefficients: list[float]) -> Tensor:
    """c_0 + c_1 x + c_2 x^2 + ..., Horner's rule on pairs of terms: half as many operations that wait for one another."""
    square = x * x
    pairs: list[Tensor | float] = [_fma(b, x, a) for a, b in zip(coefficients[::2], coefficients[1::2], strict=False)]
    pairs += coefficients[2 * len(pairs) :]
    result = pairs.pop()
    while pairs:
        result = _fma(result, square, pairs.pop())
    return cast(Tensor, result)


def _fma(a: Tensor | float, x: Tensor, b: Tensor | float) -> Tensor:
    """a x + b in one instruction, where this version of the compiler can be told so: by itself it keeps the two apart."""
    fused = getattr(torch.ops.prims, "fma", None)
    if fused is None:
        return a * x + b
    return cast(Tensor, fused(x, a, b if isinstance(b, Tensor) else x.new_full((), b)))


def buffer(x: Tensor) -> Tensor:
    """x, in memory of its own. The compiler would compute it for each element anew, and split a loop that grows too long by it."""
    return x.as_strided(x.shape, x.stride())
