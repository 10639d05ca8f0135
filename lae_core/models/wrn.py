"""The CIFAR residual network that the paper calls WRN-18-6 (N2), with Squeeze-and-Excitation on request (N3)."""

from __future__ import annotations

from torch import Tensor, nn

from lae_core.models.prelu import PReLU
from lae_core.models.squeeze_excite import SqueezeExcite
from lae_core.pooling import PoolSpec, make_pool

STEM = 16


class Block(nn.Module):
    """conv-BN-ReLU-conv-BN plus the shortcut, then the last activation. With `zero_init` the second BN starts at 0."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        last_activation: str,
        squeeze: PoolSpec | str | None,
        squeeze_ratio: int,
        squeeze_place: str,
        zero_init: bool,
    ) -> None:
        super().__init__()
        last_norm = nn.BatchNorm2d(outputs)
        if zero_init:
            nn.init.zeros_(last_norm.weight)
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            last_norm,
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            if inputs < 8 and stride != 1:
                # Backwards, torch's strided 1×1 convolution of so few channels, laid out channels-last, writes outside
                # its memory on a CPU (seen with 2.15). To leave out positions first is the same function.
                self.shortcut.append(nn.AvgPool2d(1, stride))
                stride = 1
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))
        if squeeze is not None:
            branch = self.residual if squeeze_place == "residual" else self.shortcut
            branch.append(SqueezeExcite(outputs, squeeze, squeeze_ratio))
        self.activation = PReLU() if last_activation == "prelu" else nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.residual(x) + self.shortcut(x))


class WRN(nn.Module):
    """Three stages of (depth − 2) // 6 blocks, 16, 32 and 64 channels times `width`, with the given `strides`.

    Depth 18 and width 6 give the paper's WRN-18-6: two blocks per stage, 96, 192 and 384 channels, which are 14 weight
    layers and not 18, as in the code that it cites. With the strides 1, 2, 2 a 32 px picture is pooled over 8×8
    positions. The stem "conv" is a 3×3 convolution to 16 channels, "patch" a 4×4 one with stride 2 to those of the
    first stage.
    """

    def __init__(
        self,
        depth: int = 18,
        width: float = 6,
        classes: int = 10,
        pool: PoolSpec | str = "avg",
        *,
        last_activation: str = "prelu",
        squeeze: PoolSpec | str | None = None,
        squeeze_ratio: int = 16,
        squeeze_place: str = "residual",
        stem: str = "conv",
        strides: tuple[int, ...] = (),
        zero_init: bool = True,
    ) -> None:
        super().__init__()
        blocks = (depth - 2) // 6
        if stem == "patch":
            channels = round(STEM * width)
            first = nn.Conv2d(3, channels, 4, 2, 1, bias=False)
        else:
            channels = STEM
            first = nn.Conv2d(3, channels, 3, 1, 1, bias=False)
        self.stem = nn.Sequential(first, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.stages = nn.Sequential()
        for stage, stage_stride in enumerate(strides or (1, 2, 2)):
            outputs = round(STEM * 2**stage * width)
            for i in range(blocks):
                stride = stage_stride if i == 0 else 1
                block = Block(
                    channels, outputs, stride, last_activation, squeeze, squeeze_ratio, squeeze_place, zero_init
                )
                self.stages.append(block)
                channels = outputs
        self.global_pool = make_pool(pool, channels)
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.global_pool(self.stages(self.stem(x))))
