"""A linear head with a pool on the frozen feature maps of a pretrained network: runs of seconds, from cached maps.

Two places for the pool: over *features*, then the head on the pooled vector, as networks have it; or over *scores*, the
head at every position first and the pool over the class scores that it gives there.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from lae_core.models.pretrained import IMAGENETTE, load_pretrained
from lae_core.pooling import PoolSpec, make_pool
from lae_core.training.base_config import BaseConfig, Count, DataName, Flag, Pool, Positive, name_of
from lae_core.training.canvases import Canvases, PictureSet, Portion, WholePictures
from lae_core.training.datasets import DATASETS
from lae_core.training.features import feature_maps
from lae_core.training.words import check_word

BATCH = 250  # pictures at a time where nothing is trained

NotNegative = Annotated[int, Field(ge=0, description="an integer of at least 0")]


class FrozenConfig(BaseConfig):
    """One run on frozen maps. `key()` names it: the sha256 of the fields that differ from their default.

    The training pictures are shuffled once and cut into parts. A run trains on `parts` of them: those from number `seed`
    on, or, with `among`, some that the seed draws among the first ones. It is tested on its own `eval_subset` of the test
    pictures. A run with a `fold`, for choosing rates, trains as that seed does and is tested on the last part of the
    training pictures, on which no run trains.
    """

    network: Literal["efficientnet-lite0", "efficientnet-lite1"] = "efficientnet-lite0"
    data: DataName = "cifar10"
    # pixels of the picture, or of the canvas that it lies on
    image_size: Annotated[int, Field(ge=32, description="an integer of at least 32")] = 160
    side: int | None = None  # pixels of the picture on the canvas; None: the picture is all there is
    clutter: float = 2.5  # how many times over distractors would cover the canvas
    distractors: DataName = "cifar100"
    subset: Annotated[int, Field(ge=2, description="an integer of at least 2")] = 2000  # training pictures of a run
    parts: Count = 1  # that these are made of
    among: int | None = None  # parts to draw from; None: no draw
    eval_subset: int | None = 500  # test pictures of a run; all by default
    draws: Count = 1  # canvases per test picture
    other_sizes: tuple[int, ...] = ()  # test at these image sizes as well, as dense with distractors
    pool: Pool = "avg"
    place: Literal["features", "scores"] = "features"
    activation: Literal["after", "before"] = "after"  # the pool comes after or before the last activation
    in_spreads: Flag = False  # t0 of the pool counts in spreads of the features over positions
    epochs: NotNegative = 20  # 0: the network's own head, without training
    batch: Count = 100
    lr: Positive = 0.001
    pool_lr: Positive = 0.01  # of a trained pool's own parameters
    # of the frozen network, and of the products over all positions
    precision: Literal["fp32", "bf16", "bf16-folded"] = "fp32"
    fold: int | None = None
    seed: NotNegative = 0
    recipe: Count = 1  # raised when a change in code could change results

    @model_validator(mode="after")
    def _check_all(self) -> Self:
        self.check("parts", self.subset % self.parts == 0, f"a divisor of subset = {self.subset}")
        self.check("among", self.among is None or self.among >= self.parts, "at least parts, or None")
        self.check("side", self.side is None or 0 < self.side <= self.image_size, "at most image_size, or None")
        own = self.epochs > 0 or (self.data.startswith("imagenette") and self.place == "features")
        self.check("epochs", own, "at least 1: the network's own head knows Imagenette's classes alone")
        fixed = re.fullmatch(r"lae(\(t0=[^,]+\))?", self.pool)
        self.check("in_spreads", not self.in_spreads or bool(fixed), "False but for LAE at a fixed temperature")
        return self

    def key(self) -> str:
        """16 hex digits that name the run."""
        return name_of(self.changed() | {"kind": "frozen", "recipe": self.recipe})

    def train_pictures(self) -> list[PictureSet]:
        """What the run trains on, part by part, so that runs share the cached maps of a part."""
        first, count = self.seed if self.fold is None else self.fold, self.subset // self.parts
        if self.among is None:
            numbers = range(first, first + self.parts)
        else:
            numbers = np.random.default_rng([4, first]).permutation(self.among)[: self.parts].tolist()
        last = DATASETS[self.data].sizes["train"] // count - 1
        self.check("seed", max(numbers) < last, f"no more than the {last} parts of {count} pictures to train on")
        return [self._picture_set(Portion(self.data, "train", number, count), 2 * number) for number in numbers]

    def test_pictures(self, size: int | None = None) -> PictureSet:
        """What the run is tested on, at another size if one is given."""
        if self.fold is not None:
            held_out = Portion(self.data, "train", -1, self.subset // self.parts)
            return self._picture_set(held_out, 2001 + 2 * self.fold, size, self.draws)
        number = 0 if self.eval_subset is None else self.seed
        return self._picture_set(
            Portion(self.data, "test", number, self.eval_subset), 2 * self.seed + 1, size, self.draws
        )

    def _picture_set(self, portion: Portion, seed: int, size: int | None = None, draws: int = 1) -> PictureSet:
        size = size or self.image_size
        if self.side is None:
            return WholePictures(portion, size)
        return Canvases(portion, size, self.distractors, self.side, self.clutter, draws, seed)


# Small objects in clutter, for the chapters on class scores.
SETTINGS = {
    "canvases": FrozenConfig(side=64, subset=8000, parts=4, among=12, draws=2, epochs=5),
    "smoke": FrozenConfig(
        data="digits",
        distractors="digits",
        image_size=96,
        side=32,
        subset=64,
        parts=2,
        among=4,
        eval_subset=20,
        epochs=1,
    ),
}


def setting(name: str, **changes: Any) -> FrozenConfig:
    """A named setting with some fields changed.

    Example:
        >>> setting("canvases", pool="lae", place="scores", seed=3)
    """
    check_word("setting", name, SETTINGS)
    return SETTINGS[name].replace(**changes)


class Head(nn.Module):
    """A linear head before (scores) or after (features) a pool; it starts at 0.

    `forward` takes maps (batch, positions, channels) and gives class scores (batch, classes). The products over all
    positions are in the maps' precision, everything else is in that of the weights.
    """

    def __init__(self, pool: str, channels: int, classes: int, place: str) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.place, self.spec = place, pool
        self.pool = make_pool(pool, classes if place == "scores" else channels)

    def forward(self, maps: Tensor) -> Tensor:
        if self.place == "features":
            return self.linear(self.pool(maps.to(self.linear.weight.dtype).transpose(1, 2)))
        weight, bias = self.linear.weight, self.linear.bias
        scores = F.linear(maps, weight.to(maps.dtype)).to(weight.dtype) + bias
        return self.pool(scores.transpose(1, 2))

    @property
    def pools_once(self) -> bool:
        """Whether the pool gives the same vector in every step: over features, with nothing to learn."""
        return self.place == "features" and not list(self.pool.parameters())


def run(config: FrozenConfig, checkpoint_dir: Path | None = None) -> dict[str, Any]:
    """Train the head of one run and test it; the same config gives the same result on the same machine.

    A run takes seconds, so nothing is kept to resume it; the feature maps are (`features.py`).
    """
    head, spread = _untrained_head(config)
    if config.epochs:
        _train(head, config)
    final = _test(head, config, config.image_size)
    others = {str(size): _test(head, config, size)["accuracy"] for size in config.other_sizes}
    t = getattr(head.pool, "temperature", None)
    temperature = None if t is None else _least_median_largest(t.detach().flatten())
    return {"status": "done", "final": final, "sizes": others, "spread": spread, "temperature": temperature}


def _least_median_largest(values: Tensor) -> list[float]:
    """A single value; or the least, the median and the largest of several."""
    return values.tolist() if len(values) == 1 else values.quantile(torch.tensor([0.0, 0.5, 1.0])).tolist()


def _untrained_head(config: FrozenConfig) -> tuple[Head, float]:
    """The head before training, and the features' spread: their deviation over positions, averaged over all maps."""
    shown = config.train_pictures()[0] if config.epochs else config.test_pictures()
    maps, _ = _maps(shown, config.network, config.precision)
    spread = (
        _at_the_pool(maps[:BATCH], config.precision, config.activation).float().std(1, unbiased=False).mean().item()
    )
    pool = PoolSpec.parse(config.pool)
    if config.in_spreads:
        pool = PoolSpec.parse(f"lae(t0={pool['t0'] * spread})")
    if config.epochs:
        return Head(str(pool), maps.shape[2], DATASETS[config.data].classes, config.place), spread
    head = Head(str(pool), maps.shape[2], len(IMAGENETTE), config.place)
    head.linear.load_state_dict(_imagenette_head(config.network))
    return head, spread


@functools.lru_cache(maxsize=1)
def _imagenette_head(network: str) -> dict[str, Tensor]:
    """The network's own classifier, for the ten classes of Imagenette."""
    own = load_pretrained(network).get_submodule("classifier").state_dict()
    return {name: values[list(IMAGENETTE)] for name, values in own.items()}


def _train(head: Head, config: FrozenConfig) -> None:
    """Adam with a rate that falls to 0."""
    parts = [_maps(part, config.network, config.precision) for part in config.train_pictures()]
    labels = torch.cat([labels for _, labels in parts])
    if head.pools_once:
        inputs = torch.cat([_pooled(part, head.spec, config) for part in config.train_pictures()])
    else:
        inputs = torch.cat([maps for maps, _ in parts])
    groups: list[dict[str, Any]] = [{"params": head.linear.parameters(), "lr": config.lr}]
    if own := list(head.pool.parameters()):
        groups.append({"params": own, "lr": config.pool_lr})
    optimiser = torch.optim.Adam(groups)
    steps = config.epochs * -(-len(labels) // config.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    order = torch.Generator().manual_seed(config.seed)
    for _ in range(config.epochs):
        for index in torch.randperm(len(labels), generator=order).split(config.batch):
            x = inputs[index]
            scores = head.linear(x) if head.pools_once else head(_at_the_pool(x, config.precision, config.activation))
            optimiser.zero_grad()
            F.cross_entropy(scores, labels[index]).backward()
            optimiser.step()
            schedule.step()


@torch.no_grad()
def _test(head: Head, config: FrozenConfig, size: int) -> dict[str, float]:
    shown = config.test_pictures(size)
    maps, labels = _maps(shown, config.network, config.precision)
    if head.pools_once:
        scores = torch.cat([head.linear(part) for part in _pooled(shown, head.spec, config).split(BATCH)])
    else:
        scores = torch.cat(
            [head(_at_the_pool(part, config.precision, config.activation)) for part in maps.split(BATCH)]
        )
    loss, right = F.cross_entropy(scores, labels).item(), (scores.argmax(1) == labels).double().mean().item()
    return {"accuracy": right, "loss": loss}


def _pooled(pictures: PictureSet, pool: str, config: FrozenConfig) -> Tensor:
    return _pooled_once(pictures, pool, config.network, config.precision, config.activation)


@functools.lru_cache(maxsize=40)
@torch.no_grad()
def _pooled_once(pictures: PictureSet, pool: str, network: str, precision: str, activation: str) -> Tensor:
    """(pictures, channels) of a pool with nothing to learn; kept for runs at another rate, and of another seed."""
    maps, _ = _maps(pictures, network, precision)
    pooling = make_pool(pool, maps.shape[2])
    parts = (_at_the_pool(part, precision, activation).float() for part in maps.split(BATCH))
    return torch.cat([pooling(part.transpose(1, 2)) for part in parts])


def _at_the_pool(maps: Tensor, precision: str, activation: str) -> Tensor:
    """Maps as the pool takes them: after the network's last activation, ReLU6, or before it."""
    maps = maps.float() if precision == "fp32" else maps
    return maps.clamp(0, 6) if activation == "after" else maps


@functools.lru_cache(maxsize=20)
def _maps(pictures: PictureSet, network: str, precision: str) -> tuple[Tensor, Tensor]:
    """Maps (pictures, positions, channels) and labels; kept for the next runs on the same pictures."""
    maps = feature_maps(pictures, network=network, precision=precision)
    return maps.flatten(2).transpose(1, 2).contiguous(), pictures.labels
