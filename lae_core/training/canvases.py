"""Pictures by number, for cached feature maps: a data set's own, or its pictures as small objects in clutter.

Each set says in plain values what it is (`describe`), so that whatever is computed from it can be named, and gives any
range of its pictures alone (`batch`): the same pictures whatever was asked for before.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from lae_core.training.data import Pictures, load
from lae_core.training.datasets import DATASETS


@dataclass(frozen=True)
class Portion:
    """Part `number` of a split that was shuffled once and cut into parts of `count` pictures; all of it without one.

    A negative number counts from the last whole part, -1.
    """

    data: str
    split: str
    number: int = 0
    count: int | None = None

    @cached_property
    def index(self) -> Tensor:
        total = DATASETS[self.data].sizes[self.split]
        if self.count is None:
            return torch.arange(total)
        parts = total // self.count
        if not -parts <= self.number < parts:
            raise ValueError(
                f"part {self.number} of {self.count} pictures is invalid; expected one of the {parts} parts that the "
                f"{total:,} pictures of {self.data} ({self.split}) have"
            )
        order = torch.from_numpy(np.random.default_rng([3]).permutation(total))
        return order[self.number % parts * self.count :][: self.count]

    @cached_property
    def pictures(self) -> Pictures:
        return load(self.data, self.split)

    @property
    def labels(self) -> Tensor:
        return self.pictures.labels[self.index]


@dataclass(frozen=True)
class WholePictures:
    """The pictures of a portion, each resized so that its shorter side has `size` pixels and cut to its middle."""

    portion: Portion
    size: int

    def __len__(self) -> int:
        return len(self.portion.index)

    @property
    def labels(self) -> Tensor:
        return self.portion.labels

    def describe(self) -> dict[str, Any]:
        return {"kind": "whole"} | asdict(self)

    def batch(self, start: int, stop: int) -> Tensor:
        """(stop − start, 3, size, size) uint8."""
        found = [self.portion.pictures.one(int(i)) for i in self.portion.index[start:stop]]
        return torch.stack([_middle(picture, self.size) for picture in found])


@dataclass(frozen=True)
class Canvases:
    """Each picture of a portion, at `side` pixels, anywhere on a canvas of `size` pixels over pictures of another set.

    `clutter` says how many times over the areas of these distractors would cover the canvas, 0 for none; each lies
    anywhere on the canvas, and the object lies on top. What is left free is grey. A picture comes on `draws` canvases.
    Everything about canvas i is drawn from (seed, i).
    """

    portion: Portion
    size: int
    distractors: str = "cifar100"
    side: int = 64
    clutter: float = 2.5
    draws: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.side <= self.size:
            raise ValueError(f"side = {self.side} is invalid; expected 1 to size = {self.size} pixels")
        if self.clutter < 0:
            raise ValueError(f"clutter = {self.clutter} is invalid; expected a number of at least 0")

    def __len__(self) -> int:
        return self.draws * len(self.portion.index)

    @property
    def labels(self) -> Tensor:
        return self.portion.labels.repeat_interleave(self.draws)

    @property
    def number(self) -> int:
        """Distractors on a canvas."""
        return round(self.clutter * (self.size / self.side) ** 2)

    def describe(self) -> dict[str, Any]:
        return {"kind": "canvases"} | asdict(self)

    def batch(self, start: int, stop: int) -> Tensor:
        """(stop − start, 3, size, size) uint8."""
        others = load(self.distractors, self.portion.split)
        canvases = torch.full((stop - start, 3, self.size, self.size), 127, dtype=torch.uint8)
        for i, canvas in zip(range(start, stop), canvases, strict=True):
            chosen, corners = self._layout(i, len(others))
            own = self.portion.pictures.one(int(self.portion.index[i // self.draws]))
            stack = torch.stack([_middle(others.one(int(k)), own.shape[-1]) for k in chosen] + [own])
            for picture, (top, left) in zip(_resize(stack, self.side), corners, strict=True):
                canvas[:, top : top + self.side, left : left + self.side] = picture
        return canvases

    def corner(self, i: int) -> tuple[int, int]:
        """The row and column where the object of canvas i begins."""
        _, corners = self._layout(i, len(load(self.distractors, self.portion.split)))
        return int(corners[-1, 0]), int(corners[-1, 1])

    def _layout(self, i: int, others: int) -> tuple[Any, Any]:
        """Which of the other pictures lie on canvas i, and the corners of all, the object last."""
        draw = np.random.default_rng([self.seed, i])
        chosen = draw.integers(others, size=self.number)
        return chosen, draw.integers(self.size - self.side + 1, size=(self.number + 1, 2))


PictureSet = WholePictures | Canvases


def _middle(picture: Tensor, size: int) -> Tensor:
    """(3, size, size): the shorter side resized, the middle of the longer one."""
    height, width = picture.shape[1:]
    if (height, width) == (size, size):
        return picture
    share = size / min(height, width)
    resized = _resize(picture[None], (max(size, round(share * height)), max(size, round(share * width))))[0]
    top, left = (resized.shape[1] - size) // 2, (resized.shape[2] - size) // 2
    return resized[:, top : top + size, left : left + size]


def _resize(pictures: Tensor, size: int | tuple[int, int]) -> Tensor:
    """uint8 pictures of another size; torch has a fast path for bytes whose channels come last."""
    shape = (size, size) if isinstance(size, int) else size
    last = pictures.contiguous(memory_format=torch.channels_last)
    return F.interpolate(last, shape, mode="bilinear", antialias=True, align_corners=False)
