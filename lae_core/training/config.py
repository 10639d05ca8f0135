"""`RunConfig`: everything that decides the outcome of one training run, and nothing else. It names the run."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import math
import numbers
from dataclasses import dataclass
from functools import cache
from typing import Any, get_type_hints

from lae_core.pooling import PoolSpec
from lae_core.training.datasets import DATASETS

# Raised whenever a change in code could change results: records of another recipe are other runs.
RECIPE = 1

# Allowed words of each field that holds a word.
WORDS: dict[str, tuple[str, ...]] = {
    "network": ("wrn", "pyramidnet", "mxresnet", "speed"),
    "stem": ("conv", "patch"),
    "squeeze_place": ("residual", "shortcut"),
    "last_activation": ("prelu", "relu"),
    "tail": ("bn-relu-pool", "bn-pool-bn-relu"),
    "data": tuple(DATASETS),
    "augment": ("none", "flip-crop", "autoaugment", "resize-crop"),
    "pad_mode": ("zero", "reflect"),
    "flip": ("random", "alternate"),
    "loss": ("mean", "sum"),
    "optimiser": ("sgd", "ranger", "muon"),
    "schedule": ("constant", "ramp", "step", "flat-cosine"),
    "precision": ("fp32", "fp64", "bf16", "fp16"),
    "device": ("auto", "cpu", "cuda"),
}

# A field that acts only beside certain values of another one. Setting it elsewhere would give one run two names.
_ACTS_ONLY_WITH: dict[str, tuple[str, tuple[Any, ...]]] = {
    "squeeze": ("network", ("wrn", "speed")),
    "squeeze_place": ("network", ("wrn",)),
    "stem": ("network", ("wrn",)),
    "strides": ("network", ("wrn", "speed")),
    "zero_init": ("network", ("wrn", "mxresnet")),
    "last_activation": ("network", ("wrn", "pyramidnet")),
    "tail": ("network", ("pyramidnet",)),
    "survival": ("network", ("pyramidnet",)),
    "attention": ("network", ("mxresnet",)),
    "stem_stride": ("network", ("mxresnet",)),
    "valid_crop": ("augment", ("resize-crop",)),
    "fill": ("augment", ("autoaugment",)),
    "cutout": ("augment", ("flip-crop", "autoaugment")),
    "crop_scale": ("augment", ("resize-crop",)),
    "pad": ("augment", ("flip-crop", "autoaugment")),
    "pad_mode": ("augment", ("flip-crop", "autoaugment")),
    "flip": ("augment", ("flip-crop", "autoaugment", "resize-crop")),
    "ramp_up": ("schedule", ("ramp",)),
    "milestones": ("schedule", ("step",)),
    "lr_decay": ("schedule", ("step",)),
    "flat": ("schedule", ("flat-cosine",)),
    "beta2": ("optimiser", ("ranger",)),
    "lookahead_steps": ("optimiser", ("ranger",)),
    "lookahead_alpha": ("optimiser", ("ranger",)),
    "eps": ("optimiser", ("ranger",)),
    "nesterov": ("optimiser", ("sgd", "muon")),
    "muon_momentum": ("optimiser", ("muon",)),
}


@dataclass(frozen=True)
class RunConfig:
    """One training run. The defaults are the paper's WRN-18-6 on CIFAR-10 (N2), from where its search started.

    `key()` names the run in a store. It leaves out fields at their default, so a field added later changes no old
    name; hence a default, once published, is never changed (raise `RECIPE` instead).
    """

    # network
    network: str = "wrn"  # wrn, pyramidnet, mxresnet, speed
    depth: int = 18  # wrn: (depth-2)//6 blocks per stage; pyramidnet: 6n+2; mxresnet: 10, 18, 34, 50; speed: 8
    width: float = 6.0  # wrn: stages of 16, 32, 64 times this; pyramidnet: alpha; mxresnet, speed: 1 is full width
    pool: str = "avg"  # global pool, as `PoolSpec` text
    squeeze: str | None = None  # pool of the squeeze-and-excitation blocks, none without them (wrn)
    squeeze_ratio: int = 16
    squeeze_place: str = "residual"  # residual, or shortcut as in the paper's cited code
    last_activation: str = "prelu"  # of each wrn block, of pyramidnet's tail: prelu, relu
    tail: str = "bn-relu-pool"  # pyramidnet: bn-relu-pool, bn-pool-bn-relu
    survival: float = 0.5  # ShakeDrop's probability of keeping the last block (pyramidnet); 1 turns it off
    attention: bool = True  # self-attention in the first group (mxresnet)
    stem_stride: int = 4  # mxresnet: 4, or 2 without the stem's max-pool so that 64 px leave 16 positions
    stem: str = "conv"  # wrn: conv (3×3), or patch (4×4 with stride 2)
    strides: tuple[int, ...] = ()  # of the three stages (wrn) or groups (speed); empty for 1, 2, 2 and 2, 2, 2
    zero_init: bool = True  # the last normalisation of a residual branch starts at 0 (wrn, mxresnet)
    whiten: bool = False  # the first convolution whitens patches of the training pictures, and is not trained
    # data
    data: str = "cifar10"  # digits, cifar10, cifar100, imagenette, imagewoof
    image_size: int = 32
    subset: int | None = None  # train on this many images, drawn by `seed`; all by default
    fold: int | None = (
        None  # train on 80 % of the training set and validate on the rest, part fold%5 of shuffle fold//5
    )
    eval_subset: int | None = None  # validate on this many images, the same in every run; all by default
    eval_every: int = 1  # epochs between validations; the last epoch is always validated
    input_sizes: tuple[int, ...] = ()  # at the end, accuracy at these sizes: zoom, crop + zero pad, crop + noise pad
    swaps: tuple[str, ...] = ()  # at the end, one more epoch with each of these pools, from the same trained weights
    valid_crop: float = 0.875  # share of the shorter side that is validated on, in the middle (resize-crop)
    fill: int = 0  # grey value of what AutoAugment moves in from outside of the picture
    cutout: int = 0  # side of a square of mean colour put at random over each training picture; 0 for none
    augment: str = "autoaugment"  # none, flip-crop, autoaugment (with flip-crop), resize-crop (with flip)
    crop_scale: float = 0.35  # smallest share of the picture in a resize-crop
    pad: int = 4  # pixels around a picture before its random crop (flip-crop, autoaugment)
    pad_mode: str = "zero"  # zero, reflect
    flip: str = "random"  # random, or alternate: at random in the first epoch, then mirrored every other epoch
    early_size: int | None = None  # pixels of the pictures in the first `early_share` of the run; image_size if None
    early_share: float = 0.5
    label_smoothing: float = 0.0
    # optimisation
    epochs: int = 48
    batch: int = 256  # over all processes together
    micro_batch: int | None = None  # pictures per pass; a batch is the sum of its passes. The whole batch if None
    loss: str = "mean"  # over the batch: mean, sum
    optimiser: str = "sgd"  # sgd, ranger, muon (convolutions; sgd for the rest)
    lr: float = 0.4
    schedule: str = "ramp"  # constant, ramp (up, then down to 0), step, flat-cosine
    ramp_up: float = 0.125  # share of the run that the ramp goes up
    milestones: tuple[float, ...] = (0.5, 0.75)  # shares of the run at which a step schedule falls
    lr_decay: float = 0.1  # factor of each step
    flat: float = 0.72  # share of the run before the cosine
    momentum: float = 0.9  # ranger: beta1
    nesterov: bool = False  # Nesterov momentum (sgd, muon)
    muon_momentum: float = 0.6  # of the convolutions, where muon trains them
    beta2: float = 0.99  # ranger; the paper's "alpha"
    eps: float = 1e-6  # ranger
    lookahead_steps: int = 6  # ranger: steps between two updates of the slow weights
    lookahead_alpha: float = 0.5  # ranger: how far the slow weights go towards the fast ones
    weight_decay: float = 4e-4
    decay_norm: bool = False  # decay normalisation weights and biases too; temperatures and mixing never decay
    decay_slopes: bool = False  # decay the slopes of PReLUs, where decay_norm does not
    temperature_lr: float = 1.0  # learning-rate factor of the pools' own parameters
    vector_lr: float = 1.0  # learning-rate factor of normalisation weights, biases and other vectors
    head_lr: float = 1.0  # learning-rate factor of the last linear layer's weights
    # execution
    seed: int = 0
    precision: str = "fp32"  # of the network: fp32, fp64, bf16 or fp16 mixed; the pool's own dtype is in its spec
    processes: int = 1  # data parallel
    device: str = "auto"  # where it runs is provenance, not part of the run's name
    recipe: int = RECIPE

    def __post_init__(self) -> None:
        for name, kind in _hints().items():
            object.__setattr__(self, name, _typed(name, getattr(self, name), kind))
        for name in ("pool", "squeeze"):
            text = getattr(self, name)
            if text is not None:
                object.__setattr__(self, name, _canonical_pool(name, text))
        object.__setattr__(self, "swaps", tuple(_canonical_pool("swaps", text) for text in self.swaps))
        for name, words in WORDS.items():
            if getattr(self, name) not in words:
                near = difflib.get_close_matches(getattr(self, name), words, 1)
                raise _error(name, getattr(self, name), f"one of {', '.join(words)}", near)
        self._check_ranges()
        self._check_network()
        for name, (other, values) in _ACTS_ONLY_WITH.items():
            if getattr(self, other) not in values and getattr(self, name) != _DEFAULTS[name]:
                where = " or ".join(map(repr, values))
                raise _error(
                    name,
                    getattr(self, name),
                    f"its default, for it acts only with {other} = {where}, not {getattr(self, other)!r}",
                )
        if self.early_size is None and self.early_share != _DEFAULTS["early_share"]:
            raise _error("early_share", self.early_share, "its default without an early_size")
        if self.squeeze is None and (self.squeeze_ratio, self.squeeze_place) != (16, "residual"):
            raise _error(
                "squeeze_ratio, squeeze_place",
                (self.squeeze_ratio, self.squeeze_place),
                "their defaults without a squeeze",
            )

    def _check_ranges(self) -> None:
        def check(name: str, good: bool, wanted: str) -> None:
            if not good:
                raise _error(name, getattr(self, name), wanted)

        for name in ("squeeze_ratio", "eval_every", "epochs", "batch", "processes", "recipe"):
            check(name, getattr(self, name) >= 1, "an integer of at least 1")
        for name in ("subset", "eval_subset", "micro_batch"):
            check(
                name,
                getattr(self, name) is None or getattr(self, name) >= 1,
                "an integer of at least 1, or None for all",
            )
        check("fold", self.fold is None or self.fold >= 0, "an integer of at least 0, or None for the official split")
        check("fill", 0 <= self.fill <= 255, "a grey value from 0 to 255")
        check("cutout", 0 <= self.cutout <= self.image_size, "a side from 0 to image_size pixels")
        check("lookahead_steps", self.lookahead_steps >= 1, "an integer of at least 1")
        for name in ("valid_crop", "lookahead_alpha"):
            check(name, 0 < getattr(self, name) <= 1, "a number above 0, at most 1")
        slopes = self.network in ("wrn", "pyramidnet") and self.last_activation == "prelu" and not self.decay_norm
        check("decay_slopes", not self.decay_slopes or slopes, "False without PReLUs, and where decay_norm decays them")
        check("seed", 0 <= self.seed < 2**32, "an integer from 0 to 2**32 - 1")
        check("image_size", self.image_size >= 8, "at least 8 pixels")
        size = self.early_size
        check(
            "early_size",
            size is None or 8 <= size < self.image_size,
            f"at least 8 pixels and less than image_size = {self.image_size}, or None",
        )
        check("pad", 0 <= self.pad < self.image_size, "from 0 pixels up to, not including, image_size")
        check("input_sizes", all(s >= 8 for s in self.input_sizes), "sizes of at least 8 pixels")
        for name in ("width", "lr", "eps"):
            check(name, 0 < getattr(self, name) < math.inf, "a finite number above 0")
        for name in ("weight_decay", "temperature_lr", "vector_lr", "head_lr"):
            check(name, 0 <= getattr(self, name) < math.inf, "a finite number of at least 0")
        for name in ("momentum", "muon_momentum", "beta2", "label_smoothing"):
            check(name, 0 <= getattr(self, name) < 1, "a number from 0 up to, not including, 1")
        for name in ("survival", "crop_scale", "lr_decay"):
            check(name, 0 < getattr(self, name) <= 1, "a number above 0, at most 1")
        for name in ("ramp_up", "flat", "early_share"):
            check(name, 0 <= getattr(self, name) <= 1, "a share of the run from 0 to 1")
        rising = all(a < b for a, b in zip(self.milestones, self.milestones[1:], strict=False))
        check(
            "milestones", rising and all(0 < m < 1 for m in self.milestones), "rising shares of the run between 0 and 1"
        )
        check("batch", self.batch % self.processes == 0, f"a multiple of processes = {self.processes}")
        share = self.batch // self.processes
        check(
            "micro_batch",
            self.micro_batch is None or (self.micro_batch < share and share % self.micro_batch == 0),
            f"a divisor of the {share} pictures that a process takes per step, less than all of them, or None",
        )
        check(
            "strides",
            not self.strides or (len(self.strides) == 3 and all(s in (1, 2) for s in self.strides)),
            "three numbers, each 1 or 2, or none for the network's own",
        )
        check(
            "nesterov",
            not self.nesterov or self.momentum > 0,
            "False where momentum is 0, which leaves nothing to look ahead by",
        )

    def _check_network(self) -> None:
        if self.network == "wrn" and self.depth < 8:
            raise _error("depth", self.depth, "at least 8 for wrn, which has (depth - 2) // 6 blocks a stage")
        if self.network == "pyramidnet" and (self.depth < 8 or self.depth % 6 != 2):
            raise _error("depth", self.depth, "6n + 2 for pyramidnet: 8, 14, 20, …, 110")
        if self.network == "mxresnet" and self.depth not in (10, 18, 34, 50):
            raise _error("depth", self.depth, "10, 18, 34 or 50 for mxresnet")
        if self.network == "speed" and self.depth != 8:
            raise _error("depth", self.depth, "8 for speed, whose shape is fixed")
        if self.stem_stride not in (2, 4):
            raise _error("stem_stride", self.stem_stride, "4, or 2 for small pictures")
        first_width = {"wrn": 16, "speed": 64}.get(self.network)  # channels at width 1, where fewest
        if first_width and round(first_width * self.width) < 1:
            raise _error("width", self.width, f"more than {0.5 / first_width:g} for {self.network}, to have a channel")
        self._check_picture_sizes()

    def _check_picture_sizes(self) -> None:
        """Sizes that the network can take: those of training and those that it sees in the end."""
        for name, sizes in (
            ("image_size", (self.image_size,)),
            ("early_size", (self.early_size,) if self.early_size else ()),
            ("input_sizes", self.input_sizes),
        ):
            value = getattr(self, name)
            if self.network == "pyramidnet" and any(size % 4 for size in sizes):
                raise _error(name, value, "a multiple of 4 for pyramidnet, which halves pictures twice")
            smallest = 1 + math.prod(self.strides or (2, 2, 2))
            if self.network == "speed" and any(size < smallest for size in sizes):
                raise _error(name, value, f"at least {smallest} pixels for speed, whose pools leave nothing of less")

    def replace(self, **changes: Any) -> RunConfig:
        """The same run with some fields changed, checked again."""
        unknown = sorted(set(changes) - set(_DEFAULTS))
        if unknown:
            raise _unknown(unknown[0])
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON can hold them."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The config that `to_dict` gave; fields that it does not name take their defaults."""
        for name in values:
            if name not in _DEFAULTS:
                raise _unknown(name)
        return cls(**values)

    def key(self) -> str:
        """A stable name for the run: 16 hex digits of the sha256 of the fields that differ from their default."""
        named = {n: v for n, v in self.to_dict().items() if v != _plain(_DEFAULTS[n]) and n != "device"}
        text = json.dumps(named | {"recipe": self.recipe}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(RunConfig)


_DEFAULTS: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(RunConfig)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _error(name: str, value: Any, wanted: str, near: list[str] | None = None) -> ValueError:
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return ValueError(f"RunConfig: {name} = {value!r} is invalid; expected {wanted}{hint}")


def _unknown(name: str) -> ValueError:
    near = difflib.get_close_matches(name, _DEFAULTS, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_DEFAULTS)}"
    return ValueError(f"RunConfig: no field {name!r}: {hint}")


def _typed(name: str, value: Any, kind: Any) -> Any:
    """`value` as the field's type, without guessing: a whole float for an int and an int for a float are taken."""
    text = str(kind)
    if value is None and "None" in text:
        return None
    if "tuple" in text:
        inner = str if "str" in text else int if "int" in text else float
        if not isinstance(value, list | tuple):
            raise _error(name, value, f"a list of {'pools' if inner is str else f'{inner.__name__}s'}")
        return tuple(_typed(name, v, inner) for v in value)
    if kind is bool or kind is str or text.startswith("str"):
        wanted = bool if kind is bool else str
        if not isinstance(value, wanted):
            raise _error(name, value, "True or False" if wanted is bool else "a string")
        return value
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if "int" in text:
        if not number or value != value or value in (math.inf, -math.inf) or int(value) != value:
            raise _error(name, value, "an integer" + (" or None" if "None" in text else ""))
        return int(value)
    if not number or not math.isfinite(value):
        raise _error(name, value, "a finite number")
    return float(value)


def _canonical_pool(name: str, text: str) -> str:
    try:
        return str(PoolSpec.parse(text))
    except ValueError as error:
        raise ValueError(f"RunConfig: {name} = {text!r} is invalid: {error}") from None
