"""expm1 and phi without cancellation, by their power series where the closed form would lose digits."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def expm1(u: Tensor, exp_u: Tensor) -> Tensor:
    """expm1(u) for u <= 0, given exp(u). A compiler fuses the series into the loop around it; its own expm1 costs far more."""
    if not torch.compiler.is_compiling():
        return torch.expm1(u)
    near = u > -0.5
    coefficients = [1 / math.factorial(k) for k in range(1, _terms(u.dtype, 0.5))]
    return torch.where(near, _series(torch.where(near, u, 0.0), 1, coefficients), exp_u - 1)


def phi(x: Tensor) -> Tensor:
    """phi(x) = x exp(x) - expm1(x) = sum over k >= 2 of (k - 1) x^k / k!"""
    near = x.abs() < 1.0
    x = x.clamp(min=-1000.0)  # phi(-inf) is 1, and exp(-1000) is 0 in every dtype
    series = _series(torch.where(near, x, 0.0), 2, _phi_coefficients(x.dtype, 1.0))
    return torch.where(near, series, (x - 1) * torch.exp(x) + 1)


def phi_by_looking(x: Tensor) -> Tensor:
    """phi with only as many terms as the largest |x| asks for. Outside of autograd and tracing alone."""
    reach = float(torch.maximum(x.amax(), -x.amin()))
    return _series(x, 2, _phi_coefficients(x.dtype, reach), in_place=True) if reach <= 2.0 else phi(x)


def _phi_coefficients(dtype: torch.dtype, radius: float) -> list[float]:
    return [(k - 1) / math.factorial(k) for k in range(2, _terms(dtype, radius))]


def _series(x: Tensor, power: int, coefficients: list[float], in_place: bool = False) -> Tensor:
    """x^power (c_0 + c_1 x + c_2 x^2 + ...) by Horner's rule."""
    total = torch.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.mul_(x).add_(c) if in_place else total * x + c
    for _ in range(power):
        total = total.mul_(x) if in_place else total * x
    return total


def _terms(dtype: torch.dtype, radius: float) -> int:
    """The first k for which the term of order k is lost beside the first one, within the radius."""
    k, eps = 3, torch.finfo(dtype).eps
    while 2 * (k - 1) * radius ** (k - 2) / math.factorial(k) > 2 * eps:
        k += 1
    return k
