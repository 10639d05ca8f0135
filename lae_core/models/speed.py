"""A plain convolutional network that learns CIFAR in CPU-minutes: the network of the recipes `minute` and `ten`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lae_core.models.squeeze_excite import SqueezeExcite
from lae_core.pooling import PoolSpec, make_pool

STEM = 24  # both signs of the 12 principal components of a 2×2 patch in three colours
WIDTHS = (64, 256, 256)


class Norm(nn.BatchNorm2d):
    """Batch normalisation with a trained bias, no trained scale, and statistics that follow within a few steps."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, momentum=0.4)
        self.weight.requires_grad_(False)


class SpeedNet(nn.Module):
    """A 2×2 convolution and three groups of conv-maxpool-norm-GELU-conv-norm-GELU, 64, 256 and 256 channels times `width`.

    The design follows Keller Jordan's airbench. Convolutions start as the identity where they can, and logits are
    divided by the number of channels, so that the head may take long steps. `strides` are those of the max-pools: with
    (2, 2, 2) a 32 px picture is pooled over 3×3 positions, with (2, 2, 1) over 7×7.
    """

    def __init__(
        self,
        depth: int = 8,
        width: float = 1,
        classes: int = 10,
        pool: PoolSpec | str = "avg",
        *,
        strides: tuple[int, ...] = (),
        squeeze: PoolSpec | str | None = None,
        squeeze_ratio: int = 16,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, STEM, 2), nn.GELU())
        self.groups = nn.Sequential()
        channels = STEM
        for full, stride in zip(WIDTHS, strides or (2, 2, 2), strict=True):
            outputs = round(full * width)
            group = nn.Sequential(
                _conv(channels, outputs),
                nn.MaxPool2d(stride) if stride > 1 else nn.Identity(),
                Norm(outputs),
                nn.GELU(),
                _conv(outputs, outputs),
                Norm(outputs),
                nn.GELU(),
            )
            if squeeze is not None:
                group.append(SqueezeExcite(outputs, squeeze, squeeze_ratio))
            self.groups.append(group)
            channels = outputs
        self.global_pool = make_pool(pool, channels)
        self.fc = nn.Linear(channels, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        features = self.groups(self.stem(x))
        if features.requires_grad:
            # The gradient of a mean is channels-first, and in that order the last norm and GELU take five times as long.
            features.register_hook(lambda gradient: gradient.contiguous(memory_format=torch.channels_last))
        pooled = self.global_pool(features)
        return self.fc(pooled) / self.fc.in_features


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    """A 3×3 convolution whose first filters pass one channel each through."""
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight.data[: min(inputs, outputs)])
    return conv
