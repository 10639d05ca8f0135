"""The form for compiled code on a CPU: few operations per element, one loop for all of them, and no look at the data.

The compiler turns each pooling into loops over memory whose length is the number of operations on an element. A library's
exponential is a call in the midst of them, and a series for expm1 comes on top. Here one short polynomial gives both, after
the exponent has been split: with u = v ln 2 and v = k + r, |r| <= 1/2,

    exp(u) = 2^k (1 + p(r)),    expm1(u) = 2^k p(r) + (2^k - 1),    p(r) = 2^r - 1

which is exact to a rounding or two for every u <= 0: where u is small, k is 0 and expm1(u) is p(r) itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LN2 = math.log(2)
LONG = 512  # so many terms may be added one by one


# (2^r - 1) / r for |r| <= 1/2, and phi(x ln 2) / x^2 for |x| <= 1: their power series, cut short as Chebyshev series
# and rounded to what float32 can tell; off by 0.1 and 0.7 of its eps
_EXP2 = [0.693147188, 0.240226508, 0.0555035711, 0.00961808256, 0.00133908634, 0.000154531629]
_PHI2 = [0.240226507, 0.111008307, 0.0288543943, 0.00533270444, 0.000770120559, 9.29510991e-05, 9.36257562e-06]


def fits(z: Tensor, work: torch.dtype) -> bool:
    """Whether this form may be used: the bits of 2^k are those of float32, and an exported graph is to hold plain operations."""
    return (
        work == torch.float32
        and z.device.type == "cpu"
        and torch.compiler.is_compiling()
        and not torch.compiler.is_exporting()
    )


def in_blocks(z: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, list[tuple[int, ...]]]:
    """z with a long row cut into equal blocks where its layout allows that, and the dimensions to reduce one after another.

    A compiler adds one by one, which drifts over a long row. A sum of short sums does not, and is cheaper than float64.
    """
    n = math.prod([z.shape[d] for d in dims])
    if (
        n > LONG
        and len(dims) == 2
        and z.stride(dims[0]) == z.shape[dims[1]] * z.stride(dims[1])
        and dims[1] - dims[0] == 1
    ):
        for length in (16, 32, 64, 128, 256, LONG):
            if n % length == 0 and n // length <= LONG:
                z = z.flatten(*dims).unflatten(dims[0], (n // length, length))
                first, second = (
                    dims if z.stride(dims[1]) == 1 else reversed(dims)
                )  # neighbours side by side in a vector
                return z, [(first,), (second,)]
    return z, [dims]


def binary_exponent(z: Tensor, top: Tensor, t: Tensor, last: int) -> Tensor:
    """v = (z - m) / (t ln 2), where `last` is the last of the pooled dimensions."""
    top = top.clamp(min=torch.finfo(top.dtype).min)  # -inf, where nothing is in the row
    # where a row lies along the vector, its maximum had better be ready; where rows lie side by side, that would
    # keep the compiler from finding the maximum and the sum in one loop, while the values are at hand
    if z.stride(last) == 1:
        top = buffer(top)
    return (z - top) * buffer((1 / _LN2) / t.clamp(min=torch.finfo(t.dtype).tiny))


def exp_and_expm1(v: Tensor) -> tuple[Tensor, Tensor]:
    """exp(u) and expm1(u) from v = u / ln 2 <= 0. Nan for +inf."""
    v = v.clamp(min=-127.0)  # 2^-127 comes out as 0
    k = v.round()
    p = _polynomial(v - k, _EXP2)
    power = ((k + 127.0) * 2.0**23).to(torch.int32).view(torch.float32)  # k + 127 put where float32 has its exponent
    rest = p * power
    return rest + power, rest + (power - 1)


def phi(v: Tensor, log_mean: Tensor, exp_delta: Tensor) -> Tensor:
    """phi(delta) for delta = u - L, from v = u / ln 2 and exp(delta)."""
    x = (v - buffer(log_mean / _LN2)).clamp(min=-1000.0)  # phi(-inf) is 1
    return torch.where(x.abs() < 1.0, _polynomial(x, _PHI2) * x, (x * _LN2 - 1) * exp_delta + 1)


def _polynomial(x: Tensor, coefficients: list[float]) -> Tensor:
    """x (c_0 + c_1 x + c_2 x^2 + ...), Horner's rule on pairs of terms: half as many operations that wait for one another."""
    square = x * x
    pairs: list[Tensor | float] = [a + b * x for a, b in zip(coefficients[::2], coefficients[1::2], strict=False)]
    pairs += coefficients[2 * len(pairs) :]
    total = pairs.pop()
    while pairs:
        total = pairs.pop() + square * total
    return total * x


def buffer(x: Tensor) -> Tensor:
    """x, in memory of its own. The compiler would compute it for each element anew, and split a loop that grows too long by it."""
    return x.as_strided(x.shape, x.stride())
