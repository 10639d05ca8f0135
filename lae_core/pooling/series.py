"""expm1 and phi without cancellation, by their power series where the closed form would lose digits."""

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
    series = _series(torch.where(near, x, 0.0), 2, _phi_coefficients(x.dtype, 1.0))
    return torch.where(near, series, (x - 1) * torch.exp(x) + 1)


def phi_by_looking(u: Tensor, log_mean: Tensor) -> Tensor:
    """phi(u - L) with only as many terms as the largest |u - L| <= |u| asks for. Overwrites u; not for autograd or tracing."""
    reach = -float(u.amin())
    x = u.sub_(log_mean)
    return _series(x, 2, _phi_coefficients(x.dtype, reach), in_place=True) if reach <= 2.0 else phi(x)


def _phi_coefficients(dtype: torch.dtype, radius: float) -> list[float]:
    return _while_seen(lambda k: (k - 1) / math.factorial(k), 2, radius, 4 * torch.finfo(dtype).eps)


def _while_seen(coefficient: Callable[[int], float], first: int, radius: float, share: float) -> list[float]:
    """Coefficients from order `first` on, until a term within the radius is less than a share of the first one."""
    found = [coefficient(first)]
    while (term := coefficient(first + len(found))) * radius ** len(found) > share * found[0]:
        found.append(term)
    return found


def _series(x: Tensor, power: int, coefficients: list[float], in_place: bool = False) -> Tensor:
    """x^power (c_0 + c_1 x + c_2 x^2 + ...) by Horner's rule."""
    total = x * coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total.add_(c).mul_(x) if in_place else (total + c) * x
    for _ in range(power - 1):
        total = total.mul_(x) if in_place else total * x
    return total
