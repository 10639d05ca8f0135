"""Put a pool into an existing model."""

from torch import nn


def swap_global_pool(model: nn.Module, spec) -> nn.Module:
    return model
