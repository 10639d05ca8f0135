"""A textbook training program: the yardstick for our loop's speed and accuracy.

Plain PyTorch as one finds it in tutorials, and none of `lae_core`: a residual network written out, pictures as PIL
images through torchvision's transforms and a DataLoader, torch's own optimiser and scheduler. Same size, same recipe.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


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
    """Pictures as PIL images, as torchvision's data sets hand them out."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, transform: Callable) -> None:
        self.images, self.labels, self.transform = images.transpose(0, 2, 3, 1), labels, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def train_transform(
    augment: str, mean: tuple[float, ...], std: tuple[float, ...], pad: int = 4, pad_mode: str = "zero"
) -> Callable:
    """Torchvision's pipeline, one picture at a time."""
    fill = "constant" if pad_mode == "zero" else pad_mode
    steps: list[Callable] = [transforms.RandomCrop(32, pad, padding_mode=fill), transforms.RandomHorizontalFlip()]
    if augment == "autoaugment":
        steps.append(transforms.AutoAugment(transforms.AutoAugmentPolicy.CIFAR10))
    return transforms.Compose([*steps, transforms.ToTensor(), transforms.Normalize(mean, std)])


@dataclass
class Textbook:
    """The recipe of a run of ours, in the textbook's way: of a network that `make` builds, by SGD."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augment: str
    batch: int
    epochs: int
    lr: float
    momentum: float
    weight_decay: float
    rate: Callable[[float], float]
    make: Callable[[], nn.Module]
    seed: int
    precision: str = "fp32"
    pad: int = 4
    pad_mode: str = "zero"

    def start(self) -> None:
        torch.manual_seed(self.seed)
        self.model = self.make()
        transform = train_transform(self.augment, self.mean, self.std, self.pad, self.pad_mode)
        data = PILPictures(*self.train, transform)
        self.loader = DataLoader(data, self.batch, shuffle=True, drop_last=True)
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), self.lr, self.momentum, weight_decay=self.weight_decay
        )
        steps = self.epochs * len(self.loader)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimiser, lambda s: self.rate((s + 0.5) / steps))

    def epoch(self) -> float:
        """Seconds of CPU time for one epoch."""
        began = time.process_time()
        self.model.train()
        for x, y in self.loader:
            self.optimiser.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
                loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimiser.step()
            self.scheduler.step()
        return time.process_time() - began

    def accuracy(self) -> float:
        plain = transforms.Compose([transforms.ToTensor(), transforms.Normalize(self.mean, self.std)])
        self.model.eval()
        right = 0
        with torch.no_grad():
            for x, y in DataLoader(PILPictures(*self.test, plain), 250):
                right += int((self.model(x).argmax(1) == y).sum())
        return right / len(self.test[1])

    def run(self) -> float:
        self.start()
        for _ in range(self.epochs):
            self.epoch()
        return self.accuracy()
