"""Build a config's network; count its parameters and FLOPs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lae_core.models import WRN, MXResNet, PyramidNet, SpeedNet
from lae_core.training.config import RunConfig
from lae_core.training.datasets import DATASETS

_OPTIONS = {
    "wrn": (WRN, ("last_activation", "squeeze", "squeeze_ratio", "squeeze_place", "stem", "strides", "zero_init")),
    "pyramidnet": (PyramidNet, ("survival", "tail", "last_activation")),
    "mxresnet": (MXResNet, ("attention", "stem_stride", "zero_init")),
    "speed": (SpeedNet, ("strides", "squeeze", "squeeze_ratio")),
}


def build(config: RunConfig) -> nn.Module:
    """The config's network, freshly initialised from torch's random state."""
    kind, options = _OPTIONS[config.network]
    classes = DATASETS[config.data].classes
    given = {name: getattr(config, name) for name in options}
    return kind(config.depth, config.width, classes, config.pool, **given)


@contextmanager
def pool_inputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """What the global pool takes while the model runs, one tensor per pass."""
    seen: list[Tensor] = []
    hook = model.get_submodule("global_pool").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        yield seen
    finally:
        hook.remove()


def measure(model: nn.Module, image_size: int) -> dict[str, int]:
    """Parameters, positions that the global pool sees, and the FLOPs of one picture's forward pass."""
    training = model.training
    parameter = next(model.parameters())
    picture = torch.zeros(1, 3, image_size, image_size, dtype=parameter.dtype, device=parameter.device)
    model.eval()
    with torch.no_grad(), pool_inputs(model) as seen, FlopCounterMode(display=False) as counter:
        model(picture)
    model.train(training)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "pooled_positions": seen[0].shape[2:].numel(),
        "flops": counter.get_total_flops(),
    }
