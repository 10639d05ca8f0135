"""expm1, phi and psi without cancellation, by their power series where the closed form would lose digits."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


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


def psi(x: Tensor, reach: float) -> Tensor:
    """psi(x) = exp(x) - 1 - x, with only as many terms as |x| <= reach asks for. Not for autograd."""
    coefficients = _while_seen(lambda k: 1 / math.factorial(k), 2, reach, torch.finfo(x.dtype).eps)
    total = x * coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total.add_(c).mul_(x)
    return total.mul_(x)


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
