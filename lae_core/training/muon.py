"""Muon for convolutions: steps with orthogonal rows, on weights of constant norm. SGD for everything else.

torch's own Muon takes matrices only and neither keeps the norm nor orthogonalises in so few iterations, so this is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# The odd polynomial a·x + b·x³ + c·x⁵ of the Newton-Schulz iteration. It is steep at 0, so a few iterations bring all
# singular values near 1; how near does not matter to training.
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 3


def orthogonalise(matrix: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Roughly U Vᵀ of the singular value decomposition U S Vᵀ."""
    a, b, c = QUINTIC
    x = matrix / (matrix.norm() + 1e-7)  # singular values of at most 1, where the iteration converges
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Groups with `orthogonal=True` take Muon's step, the others that of SGD; both with Nesterov momentum on request.

    An orthogonal group's weights (out, in, height, width) are scaled to norm √out before each step, so it takes no
    weight decay.
    """

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.9, nesterov: bool = False) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._step(weight, weight.grad, group)

    def _step(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        orthogonal, momentum = group.get("orthogonal", False), group["momentum"]
        if not orthogonal and group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * weight
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        average = state["momentum_buffer"].mul_(momentum).add_(gradient)
        direction = gradient + momentum * average if group["nesterov"] else average
        if orthogonal:
            weight.mul_(len(weight) ** 0.5 / weight.norm())
            direction = orthogonalise(direction.reshape(len(weight), -1)).view(weight.shape)
        weight.add_(direction, alpha=-group["lr"])
