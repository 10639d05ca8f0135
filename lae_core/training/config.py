"""`RunConfig`: everything that decides the outcome of one training run, and nothing else. It names the run."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lae_core.training.base_config import BaseConfig, Count, DataName, Flag, Pool, Positive, name_of

# Raised whenever a change in code could change results: records of another recipe are other runs.
RECIPE = 1

NotNegative = Annotated[float, Field(ge=0, description="a finite number of at least 0")]
BelowOne = Annotated[float, Field(ge=0, lt=1, description="a number from 0 up to, not including, 1")]
UpToOne = Annotated[float, Field(gt=0, le=1, description="a number above 0, at most 1")]
Share = Annotated[float, Field(ge=0, le=1, description="a share of the run from 0 to 1")]
CountOrAll = Annotated[int | None, Field(ge=1, description="an integer of at least 1, or None for all")]
Fold = Annotated[int | None, Field(ge=0, description="an integer of at least 0, or None for the official split")]
Side = Annotated[int, Field(ge=8, description="at least 8 pixels")]
Sides = Annotated[tuple[Side, ...], Field(description="a list of ints, sizes of at least 8 pixels")]
Floats = Annotated[tuple[float, ...], Field(description="a list of floats")]
Pools = Annotated[tuple[Pool, ...], Field(description="a list of pools")]
Grey = Annotated[int, Field(ge=0, le=255, description="a grey value from 0 to 255")]
Precision = Literal["fp32", "fp64", "bf16", "fp16"]
Stride = Literal[1, 2]
StemStride = Annotated[Literal[2, 4], Field(description="4, or 2 for small pictures")]
Strides = Annotated[
    tuple[()] | tuple[Stride, Stride, Stride],
    Field(description="three numbers, each 1 or 2, or none for the network's own"),
]


def only(default: Any, **where: Any) -> Any:
    """A field that acts only where other fields have certain values (`...`: any but None).

    Setting it elsewhere is refused, since it would give one run two names.
    """
    return Field(default, json_schema_extra={"only": where})


class RunConfig(BaseConfig):
    """One training run. The defaults are the paper's WRN-18-6 on CIFAR-10 (N2), from where its search started.

    `key()` names the run in a store. A default, once published, is never changed: raise `RECIPE` instead.
    """

    # network
    network: Literal["wrn", "pyramidnet", "mxresnet", "speed"] = "wrn"
    depth: int = 18  # wrn: (depth-2)//6 blocks per stage; pyramidnet: 6n+2; mxresnet: 10, 18, 34, 50; speed: 8
    width: Positive = 6.0  # wrn: stages of 16, 32, 64 times this; pyramidnet: alpha; mxresnet, speed: 1 is full width
    pool: Pool = "avg"  # global pool
    squeeze: Pool | None = only(None, network=("wrn", "speed"))  # of squeeze-and-excitation blocks, none without them
    squeeze_ratio: Count = only(16, squeeze=...)
    squeeze_place: Literal["residual", "shortcut"] = only("residual", network=("wrn",), squeeze=...)
    # of each wrn block, of pyramidnet's tail
    last_activation: Literal["prelu", "relu"] = only("prelu", network=("wrn", "pyramidnet"))
    tail: Literal["bn-relu-pool", "bn-pool-bn-relu"] = only("bn-relu-pool", network=("pyramidnet",))
    survival: UpToOne = only(0.5, network=("pyramidnet",))  # ShakeDrop keeps the last block as often; 1 turns it off
    attention: Flag = only(True, network=("mxresnet",))  # self-attention in the first group
    stem_stride: StemStride = only(4, network=("mxresnet",))  # 2: without max-pool, so that 64 px leave 16 positions
    stem: Literal["conv", "patch"] = only("conv", network=("wrn",))  # conv (3×3), or patch (4×4 with stride 2)
    # of the three stages (wrn) or groups (speed); empty for 1, 2, 2 and 2, 2, 2
    strides: Strides = only((), network=("wrn", "speed"))
    zero_init: Flag = only(True, network=("wrn", "mxresnet"))  # the last normalisation of a residual branch starts at 0
    whiten: Flag = False  # the first convolution whitens patches of the training pictures, and is not trained
    # data
    data: DataName = "cifar10"
    image_size: Side = 32
    subset: CountOrAll = None  # train on this many images, drawn by `seed`
    fold: Fold = None  # train on 80 % of the training set and validate on the rest, part fold%5 of shuffle fold//5
    eval_subset: CountOrAll = None  # validate on this many images, the same in every run
    eval_every: Count = 1  # epochs between validations; the last epoch is always validated
    input_sizes: Sides = ()  # at the end, accuracy at these sizes: zoom, crop + zero pad, crop + noise pad
    swaps: Pools = ()  # at the end, one more epoch with each of these pools, from the same trained weights
    valid_crop: UpToOne = only(0.875, augment=("resize-crop",))  # share of the shorter side that is validated on
    fill: Grey = only(0, augment=("autoaugment",))  # of what AutoAugment moves in from outside of the picture
    cutout: int = only(0, augment=("flip-crop", "autoaugment"))  # side of a square of mean colour on each picture
    # autoaugment comes with flip-crop, resize-crop with flip
    augment: Literal["none", "flip-crop", "autoaugment", "resize-crop"] = "autoaugment"
    crop_scale: UpToOne = only(0.35, augment=("resize-crop",))  # smallest share of the picture in a crop
    pad: int = only(4, augment=("flip-crop", "autoaugment"))  # pixels around a picture before its random crop
    pad_mode: Literal["zero", "reflect"] = only("zero", augment=("flip-crop", "autoaugment"))
    # random, or alternate: at random in the first epoch, then mirrored every other epoch
    flip: Literal["random", "alternate"] = only("random", augment=("flip-crop", "autoaugment", "resize-crop"))
    early_size: int | None = None  # pixels of the pictures in the first `early_share` of the run; image_size if None
    early_share: Share = only(0.5, early_size=...)
    label_smoothing: BelowOne = 0.0
    # optimisation
    epochs: Count = 48
    batch: Count = 256  # over all processes together
    micro_batch: CountOrAll = None  # pictures per pass; a batch is the sum of its passes
    loss: Literal["mean", "sum"] = "mean"  # over the batch
    optimiser: Literal["sgd", "ranger", "muon"] = "sgd"  # muon: for convolutions; sgd for the rest
    lr: Positive = 0.4
    schedule: Literal["constant", "ramp", "step", "flat-cosine"] = "ramp"  # ramp: up, then down to 0
    ramp_up: Share = only(0.125, schedule=("ramp",))  # share of the run that the ramp goes up
    milestones: Floats = only((0.5, 0.75), schedule=("step",))  # shares of the run at which the rate falls
    lr_decay: UpToOne = only(0.1, schedule=("step",))  # factor of each step
    flat: Share = only(0.72, schedule=("flat-cosine",))  # share of the run before the cosine
    momentum: BelowOne = 0.9  # ranger: beta1
    nesterov: Flag = only(False, optimiser=("sgd", "muon"))  # Nesterov momentum
    muon_momentum: BelowOne = only(0.6, optimiser=("muon",))  # of the convolutions
    beta2: BelowOne = only(0.99, optimiser=("ranger",))  # the paper's "alpha"
    eps: Positive = only(1e-6, optimiser=("ranger",))
    lookahead_steps: Count = only(6, optimiser=("ranger",))  # between two updates of the slow weights
    lookahead_alpha: UpToOne = only(0.5, optimiser=("ranger",))  # how far the slow weights go towards the fast ones
    weight_decay: NotNegative = 4e-4
    decay_norm: Flag = False  # decay normalisation weights and biases too; temperatures and mixing never decay
    decay_slopes: Flag = False  # decay the slopes of PReLUs, where decay_norm does not
    temperature_lr: NotNegative = 1.0  # learning-rate factor of the pools' own parameters
    vector_lr: NotNegative = 1.0  # learning-rate factor of normalisation weights, biases and other vectors
    head_lr: NotNegative = 1.0  # learning-rate factor of the last linear layer's weights
    # execution
    seed: Annotated[int, Field(ge=0, lt=2**32, description="an integer from 0 to 2**32 - 1")] = 0
    # of the network: bf16 and fp16 are mixed; the pool's own dtype is in its spec
    precision: Precision = "fp32"
    processes: Count = 1  # data parallel
    device: Literal["auto", "cpu", "cuda"] = "auto"  # where it runs is provenance, not part of the run's name
    recipe: Count = RECIPE

    @model_validator(mode="after")
    def _check_all(self) -> Self:
        self._check_data()
        self._check_optimisation()
        self._check_network()
        self._check_picture_sizes()
        for name, field in type(self).model_fields.items():
            extra: Any = field.json_schema_extra
            if extra and getattr(self, name) != field.default:
                for other, values in extra["only"].items():
                    self._check_acts(name, other, values)
        return self

    def _check_acts(self, name: str, other: str, values: Any) -> None:
        value = getattr(self, other)
        if values is ...:
            self.check(name, value is not None, f"its default without {other}")
        else:
            where = " or ".join(map(repr, values))
            self.check(name, value in values, f"its default, for it acts only with {other} = {where}, not {value!r}")

    def _check_data(self) -> None:
        size = self.image_size
        self.check("cutout", 0 <= self.cutout <= size, "a side from 0 to image_size pixels")
        self.check("pad", 0 <= self.pad < size, "from 0 pixels up to, not including, image_size")
        self.check(
            "early_size",
            self.early_size is None or 8 <= self.early_size < size,
            f"at least 8 pixels and less than image_size = {size}, or None",
        )
        self.check("batch", self.batch % self.processes == 0, f"a multiple of processes = {self.processes}")
        share = self.batch // self.processes
        self.check(
            "micro_batch",
            self.micro_batch is None or (self.micro_batch < share and share % self.micro_batch == 0),
            f"a divisor of the {share} pictures that a process takes per step, less than all of them, or None",
        )

    def _check_optimisation(self) -> None:
        rising = list(self.milestones) == sorted(set(self.milestones))
        inside = all(0 < share < 1 for share in self.milestones)
        self.check("milestones", rising and inside, "rising shares of the run between 0 and 1")
        slopes = self.network in ("wrn", "pyramidnet") and self.last_activation == "prelu" and not self.decay_norm
        self.check(
            "decay_slopes", not self.decay_slopes or slopes, "False without PReLUs, and where decay_norm decays them"
        )
        self.check(
            "nesterov",
            not self.nesterov or self.momentum > 0,
            "False where momentum is 0, which leaves nothing to look ahead by",
        )

    def _check_network(self) -> None:
        good, expected = {
            "wrn": (self.depth >= 8, "at least 8 for wrn, which has (depth - 2) // 6 blocks per stage"),
            "pyramidnet": (self.depth >= 8 and self.depth % 6 == 2, "6n + 2 for pyramidnet: 8, 14, 20, …, 110"),
            "mxresnet": (self.depth in (10, 18, 34, 50), "10, 18, 34 or 50 for mxresnet"),
            "speed": (self.depth == 8, "8 for speed, whose shape is fixed"),
        }[self.network]
        self.check("depth", good, expected)
        first_width = {"wrn": 16, "speed": 64}.get(self.network)  # channels at width 1, where fewest
        if first_width:
            least = 0.5 / first_width
            self.check(
                "width",
                round(first_width * self.width) >= 1,
                f"more than {least:g} for {self.network}, to have a channel",
            )

    def _check_picture_sizes(self) -> None:
        """Sizes that the network can take: those of training and those that it sees in the end."""
        early = (self.early_size,) if self.early_size else ()
        smallest = 1 + math.prod(self.strides or (2, 2, 2))
        for name, sizes in (
            ("image_size", (self.image_size,)),
            ("early_size", early),
            ("input_sizes", self.input_sizes),
        ):
            if self.network == "pyramidnet":
                good = not any(size % 4 for size in sizes)
                self.check(name, good, "a multiple of 4 for pyramidnet, which halves pictures twice")
            if self.network == "speed":
                good = all(size >= smallest for size in sizes)
                self.check(name, good, f"at least {smallest} pixels for speed, whose pools leave nothing of less")

    def key(self) -> str:
        """A stable name for the run: 16 hex digits of the sha256 of the fields that differ from their default."""
        fields = self.changed() | {"recipe": self.recipe}
        fields.pop("device", None)
        return name_of(fields, separators=(",", ":"))
