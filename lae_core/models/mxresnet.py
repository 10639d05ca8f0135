"""MXResNet (N4): XResNet with Mish and one simple self-attention layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from lae_core.pooling import PoolSpec, make_pool

# Blocks of each group, and by how much a block's output is wider than its inside.
LAYOUTS: dict[int, tuple[tuple[int, int, int, int], int]] = {
    10: ((1, 1, 1, 1), 1),
    18: ((2, 2, 2, 2), 1),
    34: ((3, 4, 6, 3), 1),
    50: ((3, 4, 6, 3), 4),
}


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, *, last: bool = False) -> nn.Sequential:
    """conv-BN-Mish; without Mish where it is the `last` of a block."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    norm = nn.BatchNorm2d(outputs)
    return nn.Sequential(conv, norm) if last else nn.Sequential(conv, norm, nn.Mish(inplace=True))


class SelfAttention(nn.Module):
    """x + γ · (x xᵀ) W x over the positions of x as a C×N matrix, γ starting at 0; W has spectral norm 1.

    The C×C product is formed first, so the cost is linear in the number of positions.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        conv = nn.Conv1d(channels, channels, 1, bias=False)
        nn.init.kaiming_normal_(conv.weight)
        self.conv = spectral_norm(conv)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(2)
        attended = (flat @ flat.transpose(1, 2)) @ self.conv(flat)
        return x + self.gamma * attended.view(x.shape)


class Block(nn.Module):
    """Two 3×3 convolutions, or a 1×1, 3×3, 1×1 bottleneck; the shortcut is average-pooled, then convolved 1×1."""

    def __init__(
        self,
        inputs: int,
        inside: int,
        outputs: int,
        stride: int,
        bottleneck: bool,
        attention: bool,
        zero_init: bool,
    ) -> None:
        super().__init__()
        if bottleneck:
            convs = [_conv(inputs, inside, 1), _conv(inside, inside, 3, stride), _conv(inside, outputs, 1, last=True)]
        else:
            convs = [_conv(inputs, inside, 3, stride), _conv(inside, outputs, 3, last=True)]
        last_norm = convs[-1][1]
        if zero_init and isinstance(last_norm, nn.BatchNorm2d):
            nn.init.zeros_(last_norm.weight)
        self.residual = nn.Sequential(*convs)
        if attention:
            self.residual.append(SelfAttention(outputs))
        self.shortcut = nn.Sequential()
        if stride != 1:
            self.shortcut.append(nn.AvgPool2d(2, ceil_mode=True))
        if inputs != outputs:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))
        self.activation = nn.Mish(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.residual(x) + self.shortcut(x))


class MXResNet(nn.Module):
    """A stem of 32-64-64 channels and four groups of 64, 128, 256 and 512 (×4 outside in the 50), all times `width`.

    The stem reduces by `stem_stride`: 4 with its max-pool, 2 without it. With 4, 128 px are pooled over 4×4 positions;
    with 2, 64 px are.
    """

    def __init__(
        self,
        depth: int = 50,
        width: float = 1,
        classes: int = 10,
        pool: PoolSpec | str = "avg",
        *,
        attention: bool = True,
        stem_stride: int = 4,
        zero_init: bool = True,
    ) -> None:
        super().__init__()
        blocks, expansion = LAYOUTS[depth]
        stem = [max(1, round(c * width)) for c in (32, 64, 64)]
        self.stem = nn.Sequential(_conv(3, stem[0], 3, 2), _conv(stem[0], stem[1], 3), _conv(stem[1], stem[2], 3))
        if stem_stride == 4:
            self.stem.append(nn.MaxPool2d(3, 2, 1))
        self.groups = nn.Sequential()
        channels = stem[2]
        for group, number in enumerate(blocks):
            inside = max(1, round(64 * 2**group * width))
            for i in range(number):
                stride = 2 if group > 0 and i == 0 else 1
                attends = attention and group == 0 and i == number - 1
                outputs = inside * expansion
                self.groups.append(Block(channels, inside, outputs, stride, expansion > 1, attends, zero_init))
                channels = outputs
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight)
        nn.init.zeros_(self.fc.bias)
        self.global_pool = make_pool(pool, channels)  # after the loop above: a pool starts its own weights

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.global_pool(self.groups(self.stem(x))))
