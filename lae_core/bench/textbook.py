"""A textbook training program: the yardstick for our loop's speed and accuracy.

Plain PyTorch as one finds it in tutorials: a residual network written out, pictures as PIL images through torchvision's
transforms and a DataLoader, torch's own optimiser and scheduler. It takes from `lae_core` the config, which names size and
recipe, the pictures and the learning-rate schedule.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from lae_core.training import data, optim
from lae_core.training.config import RunConfig


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.prelu = nn.PReLU()
        nn.init.zeros_(self.bn2.weight)

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.prelu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """CIFAR ResNet with average pooling, `blocks` blocks in each of three stages."""

    def __init__(self, blocks: int = 1, width: float = 1, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        layers, inputs = [], 16
        for stage in range(3):
            outputs = round(16 * 2**stage * width)
            for i in range(blocks):
                layers.append(BasicBlock(inputs, outputs, 2 if stage > 0 and i == 0 else 1))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(torch.relu(self.bn(self.conv(x))))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


class PILPictures(Dataset):
    """Pictures as PIL images, as torchvision's data sets give them."""

    def __init__(self, pictures: data.Pictures, index: Tensor, transform: Callable) -> None:
        assert pictures.uniform is not None
        self.images: np.ndarray = pictures.uniform[index].permute(0, 2, 3, 1).contiguous().numpy()
        self.labels, self.transform = pictures.labels[index].tolist(), transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


def train_transform(
    augment: str, mean: tuple[float, ...], std: tuple[float, ...], pad: int = 4, pad_mode: str = "zero"
) -> Callable:
    """Torchvision's pipeline, one picture at a time."""
    fill = "constant" if pad_mode == "zero" else pad_mode
    steps: list[Callable] = [transforms.RandomCrop(32, pad, padding_mode=fill), transforms.RandomHorizontalFlip()]
    if augment == "autoaugment":
        steps.append(transforms.AutoAugment(transforms.AutoAugmentPolicy.CIFAR10))
    return transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(mean, std)])


class Textbook:
    """The recipe of a config by SGD, for the textbook's own network or another one that `make` builds."""

    def __init__(self, config: RunConfig, split: data.Split, make: Callable[[], nn.Module] | None = None) -> None:
        torch.manual_seed(config.seed)
        self.config, self.split, self.mean, self.std = config, split, split.spec.mean, split.spec.std
        self.model = make() if make else ResNet((config.depth - 2) // 6, config.width)
        transform = train_transform(config.augment, self.mean, self.std, config.pad, config.pad_mode)
        self.train = PILPictures(split.train, split.train_index, transform)
        self.loader = DataLoader(self.train, config.batch, shuffle=True, drop_last=True)
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), config.lr, config.momentum, weight_decay=config.weight_decay
        )
        rate, steps = optim.schedule(config), config.epochs * len(self.loader)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimiser, lambda s: rate((s + 0.5) / steps))

    def epoch(self) -> None:
        self.model.train()
        for x, y in self.loader:
            self.optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bf16"):
                loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimiser.step()
            self.scheduler.step()

    def accuracy(self) -> float:
        plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(self.mean, self.std)])
        pictures = PILPictures(self.split.valid, self.split.valid_index, plain)
        self.model.eval()
        right = 0
        with torch.no_grad():
            for x, y in DataLoader(pictures, 250):
                right += int((self.model(x).argmax(1) == y).sum())
        return right / len(pictures)

    def run(self) -> float:
        for _ in range(self.config.epochs):
            self.epoch()
        return self.accuracy()
