"""Which parameters of a model weight decay must leave alone."""

from __future__ import annotations

from typing import Any

from torch import nn

from lae_core.pooling.modules import GlobalPool
from lae_core.pooling.windows import LogAvgExpPool


def weight_decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser, with weight decay on everything but the pools.

    Decay would pull a log-temperature to t = 1, and a mixing factor to plain averaging, whatever the data say. The pools'
    parameters come as a group of their own, named "temperature" if they are temperatures and "no_decay" otherwise, so that they
    can also be given a learning rate of their own. Groups without parameters are left out.

    Example:
        >>> optimiser = torch.optim.SGD(weight_decay_groups(model, 5e-4), lr=0.1)
    """
    names: dict[int, str] = {}
    for module in model.modules():
        if isinstance(module, GlobalPool | LogAvgExpPool):
            for parameter in module.parameters(recurse=False):
                names[id(parameter)] = "temperature" if hasattr(module, "log_t") else "no_decay"
    groups = []
    for group, decay in (("decay", weight_decay), ("no_decay", 0.0), ("temperature", 0.0)):
        params = [p for p in model.parameters() if p.requires_grad and names.get(id(p), "decay") == group]
        if params:
            groups.append({"params": params, "weight_decay": decay, "name": group})
    return groups
