"""expm1, phi and others without cancellation, by their power series where the closed form would lose digits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

LN2 = math.log(2)


def expm1(u: Tensor, exp_u: Tensor) -> Tensor:
    """expm1(u) for u <= 0, given exp(u). A compiler fuses the series into its loop; its own expm1 costs far more."""
    if not torch.compiler.is_compiling():
        return torch.expm1(u)
    near = u > -0.5
    coefficients = _while_seen(lambda k: 1 / math.factorial(k), 1, 0.5, 2 * torch.finfo(u.dtype).eps)
    return torch.where(near, _series(u, 1, coefficients), exp_u - 1)


def phi(x: Tensor) -> Tensor:
    """phi(x) = x exp(x) - expm1(x) = sum over k >= 2 of (k - 1) x^k / k!"""
    near = x.abs() < 1.0
    x = x.clamp(min=-1000.0)  # phi(-inf) is 1, and exp(-1000) is 0 in every dtype
    coefficients = _while_seen(lambda k: (k - 1) / math.factorial(k), 2, 1.0, 4 * torch.finfo(x.dtype).eps)
    series = _series(torch.where(near, x, 0.0), 2, coefficients)
    return torch.where(near, series, (x - 1) * torch.exp(x) + 1)


def exp_from(order: int, x: Tensor, reach: float, out: Tensor, scale: float = 1.0) -> Tensor:
    """exp(scale x) less the terms of its series below that order, from as few terms as |scale x| <= reach asks for.

    Not for autograd.
    """
    coefficients = _shortest(order, max(1, math.ceil(8 * reach)) / 8, torch.finfo(x.dtype).eps)
    *others, c, last = [c * scale ** (k + order) for k, c in enumerate(coefficients)]
    torch.add(x.new_tensor(c), x, alpha=last, out=out)
    for c in reversed(others):
        torch.addcmul(x.new_tensor(c), out, x, out=out)  # one pass, where a product and a sum are two
    for _ in range(order):
        out.mul_(x)
    return out


@functools.cache
def _shortest(order: int, radius: float, eps: float) -> list[float]:
    """Coefficients of that rest of exp(x), divided by x^order, within the radius.

    Of Taylor's, the last is replaced as long as that is not seen: a multiple of Chebyshev's polynomial in y = x / radius, which
    stays within 1, takes away y^k for a change of the other coefficients.
    """
    chebyshev = [[1], [0, 1]]
    for k in range(2, 30):
        chebyshev.append([2 * a - b for a, b in zip([0, *chebyshev[k - 1]], [*chebyshev[k - 2], 0, 0], strict=True)])
    found, error = [radius**k / math.factorial(k + order) for k in range(30)], 0.0
    while (error := error + abs(share := found[-1] / chebyshev[len(found) - 1][-1])) < eps / 4:
        found = [c - share * b for c, b in zip(found, chebyshev[len(found) - 1], strict=True)][:-1]
    return [c / radius**k for k, c in enumerate(found)]


def _while_seen(coefficient: Callable[[int], float], first: int, radius: float, share: float) -> list[float]:
    """Coefficients from order `first` on, until a term within the radius is less than a share of the first one."""
    found = [coefficient(first)]
    while (term := coefficient(first + len(found))) * radius ** len(found) > share * found[0]:
        found.append(term)
    return found


def _series(x: Tensor, power: int, coefficients: list[float]) -> Tensor:
    """x^power (c_0 + c_1 x + c_2 x^2 + ...) by Horner's rule."""
    total = x * coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = (total + c) * x
    for _ in range(power - 1):
        total = total * x
    return total
