"""Build a config's network; count its parameters and FLOPs."""

from __future__ import annotations

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


def measure(model: nn.Module, image_size: int) -> dict[str, int]:
    """Parameters, positions that the global pool sees, and the FLOPs of one picture's forward pass."""
    positions: list[int] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        positions.append(inputs[0].shape[2:].numel())

    training = model.training
    hook = model.get_submodule("global_pool").register_forward_pre_hook(note)
    parameter = next(model.parameters())
    picture = torch.zeros(1, 3, image_size, image_size, dtype=parameter.dtype, device=parameter.device)
    model.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(picture)
    hook.remove()
    model.train(training)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "pooled_positions": positions[0],
        "flops": counter.get_total_flops(),
    }
