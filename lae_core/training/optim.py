"""Optimisers, their parameter groups, and learning-rate schedules as pure functions of progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lae_core.pooling import weight_decay_groups
from lae_core.training.config import RunConfig
from lae_core.training.muon import Muon

Schedule = Callable[[float], float]


def ramp(progress: float, up: float) -> float:
    """0 → 1 over the first `up` of the run, then 1 → 0, both linear."""
    if progress < up:
        return progress / up
    return (1 - progress) / (1 - up) if up < 1 else 1.0


def step(progress: float, milestones: tuple[float, ...], factor: float) -> float:
    """`factor` to the power of the number of milestones passed."""
    return factor ** sum(progress >= m for m in milestones)


def flat_cosine(progress: float, flat: float) -> float:
    """1 over the first `flat` of the run, then half a cosine down to 0."""
    if progress < flat:
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (progress - flat) / (1 - flat))) if flat < 1 else 1.0


def schedule(config: RunConfig) -> Schedule:
    """The config's learning-rate factor as a function of progress in [0, 1)."""
    return {
        "constant": lambda progress: 1.0,
        "ramp": lambda progress: ramp(progress, config.ramp_up),
        "step": lambda progress: step(progress, config.milestones, config.lr_decay),
        "flat-cosine": lambda progress: flat_cosine(progress, config.flat),
    }[config.schedule]


def parameter_groups(model: nn.Module, config: RunConfig) -> list[dict[str, Any]]:
    """Groups with their weight decay and `lr_factor`.

    Pools never decay, and take the learning rate times `temperature_lr`. Normalisation weights, biases and the other
    vectors (PReLU's slopes, attention's γ) take it times `vector_lr` and decay only with `decay_norm`; the last linear
    layer's weights take it times `head_lr`. With muon, convolutions are a group of their own.
    """
    head = [m for m in model.modules() if isinstance(m, nn.Linear)][-1].weight
    groups: list[dict[str, Any]] = []
    for group in weight_decay_groups(model, config.weight_decay):
        if group["name"] != "decay":
            groups.append(group | {"lr_factor": config.temperature_lr})
            continue
        decay = config.weight_decay
        members = {
            "convolutions": (decay, 1.0, [p for p in group["params"] if p.ndim == 4]),
            "matrices": (decay, 1.0, [p for p in group["params"] if p.ndim in (2, 3) and p is not head]),
            "head": (decay, config.head_lr, [p for p in group["params"] if p is head]),
            "vectors": (
                decay if config.decay_norm else 0.0,
                config.vector_lr,
                [p for p in group["params"] if p.ndim <= 1],
            ),
        }
        for name, (decay, factor, params) in members.items():
            if params:
                groups.append({"params": params, "weight_decay": decay, "name": name, "lr_factor": factor})
    return groups


def optimiser(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """SGD with momentum; Muon for convolutions and SGD for the rest; or Ranger.

    Ranger is RAdam with decoupled weight decay, under Lookahead.
    """
    groups = parameter_groups(model, config)
    if config.decay_slopes:
        groups = _decay_slopes(model, groups, config.weight_decay)
    if config.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)
    if config.optimiser == "muon":
        for group in groups:
            if group["name"] == "convolutions":
                group |= {"orthogonal": True, "momentum": config.muon_momentum, "weight_decay": 0.0}
        return Muon(groups, lr=config.lr, momentum=config.momentum, nesterov=config.nesterov)
    from pytorch_optimizer import Lookahead

    inner = torch.optim.RAdam(
        groups,
        lr=config.lr,
        betas=(config.momentum, config.beta2),
        eps=config.eps,
        decoupled_weight_decay=True,
    )
    return Lookahead(inner, k=config.lookahead_steps, alpha=config.lookahead_alpha, pullback_momentum="none")


def _decay_slopes(model: nn.Module, groups: list[dict[str, Any]], weight_decay: float) -> list[dict[str, Any]]:
    """The groups with the slopes of PReLUs in one of their own, which decays."""
    slopes = [module.weight for module in model.modules() if isinstance(module, nn.PReLU)]
    found = {id(slope) for slope in slopes}
    rest = [group | {"params": [p for p in group["params"] if id(p) not in found]} for group in groups]
    source = next(group for group in groups if any(id(p) in found for p in group["params"]))
    return [*rest, source | {"params": slopes, "weight_decay": weight_decay, "name": "slopes"}]


def set_lr(optimiser: torch.optim.Optimizer, lr: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = lr * group["lr_factor"]
