"""How far each implementation of LogAvgExp is from the exact value and gradients, in units of its own precision.

Temperatures are powers of two, so that t and 1/t are exact in every dtype. t is a scalar tensor in float32 (float64 for
float64), which is the kindest case for half precision: torch keeps the operands' dtype, and t itself never overflows.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from lae_core.bench.operator import textbook
from lae_core.bench.reference import Reference, reference
from lae_core.pooling import logavgexp

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _logavgexp_pytorch(z: Tensor, t: Tensor) -> Tensor:
    import logavgexp_pytorch

    return logavgexp_pytorch.logavgexp(z, temp=t)


def _timm(z: Tensor, t: Tensor) -> Tensor:
    pooled = torch.func.functional_call(_lse_plus(), {"r": 1 / t}, (z[:, None, None, :],))
    return pooled[:, 0]


@cache
def _lse_plus() -> torch.nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a progress bar that timm imports asks for widgets; no bar is drawn here
        from timm.layers import LsePlus2d

    return LsePlus2d()


# name: function of rows (rows, n) and a scalar t
FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "textbook": lambda z, t: textbook(z, t, dim=(-1,)),
    "logavgexp-pytorch": _logavgexp_pytorch,
    "timm LsePlus2d": _timm,
    "lae_core": logavgexp,
}


class Errors(NamedTuple):
    """The largest error over all rows, in units of the dtype's eps; infinite where a result is not finite."""

    value: float  # against the largest |z| of the row
    d_z: float  # against the largest weight of the row
    d_log_t: float  # against the exact derivative


def measure(form: str, z: Tensor, t: float, exact: list[Reference]) -> Errors:
    """The errors of one form over the rows of z, (rows, n), at one temperature; `exact` has one reference per row."""
    temperature = torch.tensor(
        t, dtype=torch.float64 if z.dtype == torch.float64 else torch.float32, requires_grad=True
    )
    eps = torch.finfo(z.dtype).eps
    worst = Errors(0.0, 0.0, 0.0)
    for row, wanted in zip(z, exact, strict=True):
        row = row.clone().requires_grad_()
        value = FORMS[form](row[None], temperature)[0]
        d_z, d_t = torch.autograd.grad(value, (row, temperature))
        off = [
            abs(_number(value) - wanted.value) / float(row.detach().abs().max()),
            _weight_error(d_z, wanted),
            abs(_number(d_t) * t - wanted.d_log_t) / abs(wanted.d_log_t),
        ]
        worst = Errors(*(max(old, float(new) / eps) for old, new in zip(worst, off, strict=True)))
    return worst


def sweep(rows: int, n: int, log2_t: range) -> pd.DataFrame:
    """The errors on rows of standard normal numbers: one line per form, dtype and temperature."""
    normal = torch.randn(rows, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lines = []
    for dtype, t in itertools.product(DTYPES, (2.0**power for power in log2_t)):
        z = normal.to(dtype)
        exact = [reference(row.tolist(), t) for row in z.double()]
        where = {"dtype": str(dtype).removeprefix("torch."), "t": t}
        lines += [{"form": form, **where, **measure(form, z, t, exact)._asdict()} for form in FORMS]
    return pd.DataFrame(lines)


def _weight_error(d_z: Tensor, wanted: Reference) -> float:
    high, low = torch.tensor(wanted.weight_parts, dtype=torch.float64)
    return float(((d_z.double() - high) - low).abs().max().nan_to_num(nan=math.inf) / high.max())


def _number(x: Tensor) -> float:
    """The tensor's number; an infinity for nan, so that it counts as the largest error."""
    number = float(x.detach())
    return math.inf if math.isnan(number) else number


def derivative_errors(row: list[float], t: float) -> tuple[float, float]:
    """Largest relative error, over all entries and t, of autograd and of central differences, both in float64.

    A central difference of half-width h = step·t is off by about step² and by the value's rounding over h.
    """
    exact, step = reference(row, t), 1e-5
    wanted = torch.tensor([*map(float, exact.weights), float(exact.d_log_t) / t], dtype=torch.float64)
    point = torch.tensor([*row, t], dtype=torch.float64, requires_grad=True)
    (auto,) = torch.autograd.grad(logavgexp(point[:-1], point[-1]), point)
    steps = step * t * torch.eye(len(point), dtype=torch.float64)
    above, below = point.detach() + steps, point.detach() - steps
    central = (logavgexp(above[:, :-1], above[:, -1]) - logavgexp(below[:, :-1], below[:, -1])) / (2 * step * t)
    off_auto, off_central = (float(((found - wanted).abs() / wanted.abs()).max()) for found in (auto, central))
    return off_auto, off_central
