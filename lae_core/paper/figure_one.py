"""The paper's figure 1 as data: what it printed under each panel, and the same panel from the pools of `lae_core`."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files

import torch
import yaml

from lae_core.pooling import make_pool


@dataclass(frozen=True)
class Panel:
    """One panel: `printed` is the paper's text, `value` and `gradient` (2×2) are ours."""

    pool: str
    matrix: str
    printed: str
    value: float
    gradient: torch.Tensor

    @property
    def distance(self) -> float:
        """How far the printed number lies from ours, in units of its last digit: a right rounding is at most 0.5."""
        digits = -int(Decimal(self.printed).as_tuple().exponent)
        return abs(float(self.printed) - self.value) * 10**digits


def pool_matrix(pool: str, matrix: list[list[float]]) -> tuple[float, torch.Tensor]:
    """Value and gradient of a pool over one small matrix, in float64."""
    x = torch.tensor(matrix, dtype=torch.float64)[None, None].requires_grad_()
    value = make_pool(pool, channels=1)(x)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    return value.item(), gradient[0, 0]


def matrices() -> dict[str, list[list[float]]]:
    """The figure's matrices by name."""
    return _source()["matrices"]


def panels() -> list[Panel]:
    """Every panel of the figure, the commented ones last, in the order in which the paper has them."""
    found = []
    for name, matrix in matrices().items():
        for pool, printed in _source()["values"].items():
            found.append(Panel(pool, name, printed[name], *pool_matrix(pool, matrix)))
    return found


def _source() -> dict:
    return yaml.safe_load((files("lae_core.paper") / "printed" / "figure_1.yml").read_text(encoding="utf-8"))
