"""The temperature that a module holds: as a logarithm, so that no step of an optimiser can make it negative."""

from __future__ import annotations

import math
import numbers

import torch
from torch import Tensor, nn


def check_t0(t0: float, t_min: float = 0.0) -> None:
    if isinstance(t0, bool) or not isinstance(t0, numbers.Real) or not 0 < t0 < math.inf:
        raise ValueError(f"t0 = {t0!r} is invalid; expected a positive number")
    if not 0 <= t_min < t0:
        raise ValueError(f"t_min = {t_min!r} is invalid for t0 = {t0!r}; expected a number from 0 to below t0")


def start(t0: float, channels: int | None, t_min: float = 0.0) -> Tensor:
    """The logarithm of t0 - t_min, as one number or for each channel."""
    check_t0(t0, t_min)
    return torch.full(() if channels is None else (channels,), math.log(t0 - t_min))


def hold(module: nn.Module, log_t: Tensor, trainable: bool) -> None:
    """Make `log_t` a parameter of the module, or a buffer where it is fixed."""
    if trainable:
        module.log_t = nn.Parameter(log_t)
    else:
        module.register_buffer("log_t", log_t)


def from_log(log_t: Tensor, t_min: float = 0.0) -> Tensor:
    """t_min + exp(log_t), of a half type in float32, and neither 0 nor infinite, where the gradient would be nan."""
    log_t = log_t.to(torch.promote_types(log_t.dtype, torch.float32))
    most = math.floor(math.log(torch.finfo(log_t.dtype).max))
    t = log_t.clamp(-most + 1, most).exp()
    return t + t_min if t_min else t


def describe(t: Tensor) -> str:
    """A temperature and its inverse, the sharpness r, as a module prints them."""
    t = t.detach()
    if t.is_meta:
        return "t without a value (device meta)"
    least, most = t.min(), t.max()
    if f"{least:.4g}" == f"{most:.4g}":
        shown = f"t={least:.4g}, r={1 / least:.4g}"
    else:
        shown = f"t={least:.4g}..{most:.4g}, r={1 / most:.4g}..{1 / least:.4g}"
    return shown + (f" ({len(t)} channels)" if t.dim() else "")
