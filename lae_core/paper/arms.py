"""The configs that an experiment compares, by a named recipe or as the paper prints them.

A chapter names its recipe: one of `training/recipes.py`, whose hyperparameters all pools share, or `paper`, the printed
network and protocol with the printed hyperparameters of each pool; or `gpu`, the same in fewer epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lae_core.paper import protocol
from lae_core.pooling import PoolSpec
from lae_core.training.config import RunConfig
from lae_core.training.recipes import recipe as named_recipe

PAPER, GPU = "paper", "gpu"
PRINTED = (PAPER, GPU)  # recipes with the printed networks and hyperparameters

# Epochs of the recipe `gpu`: as many as an afternoon on one card has time for. Other experiments keep the printed ones.
GPU_EPOCHS = {"E1": 16, "E3": 8, "E6": 10, "E9": 8}

SHARES = (0.5, 0.667, 1.333, 1.5)  # other input sizes that trained networks see, as shares of that of training
SWAPS = ("avg", "lae(t0=0.5)", "lae(t0=2)", "lae(t0=16)")  # pools put into trained networks; t₀ in units of σ
_SIZED = (
    "avg",
    "max",
    "mixed(train=channel)",
    "lae",
    "lae(train=one)",
    "lae(train=channel)",
)  # pools that see other sizes

# The learning rate of the average's learned scale, as a multiple of the temperatures': chosen on held-out folds
# (`ci/plans/rates.yml`). At theirs the scale falls to nothing in the first steps, and the network with it.
SCALE_RATE = 0.01

# The printed config of a pool on a data set at a picture size, with the hyperparameters of `tuned_for` or its own.
_PROTOCOLS: dict[str, Callable[[str, str, int, str | None], RunConfig]] = {
    "E1": lambda pool, data, size, tuned_for: protocol.pyramidnet(pool, data),
    "E9": lambda pool, data, size, tuned_for: protocol.wrn(pool, data),
    "E3": lambda pool, data, size, tuned_for: protocol.wrn(pool, data, tuned_for=tuned_for),
    "E4": lambda pool, data, size, tuned_for: protocol.mxresnet(pool, data, size),
    "E6": lambda pool, data, size, tuned_for: protocol.mxresnet(pool, data, size, epochs=25),
    "E7": lambda pool, data, size, tuned_for: protocol.mxresnet(
        _in_float64(pool), data, size, epochs=6, tuned_for=tuned_for
    ),
    "E8": lambda pool, data, size, tuned_for: protocol.mxresnet(pool, data, size, epochs=6, tuned_for="avg"),
}


def arm(
    experiment: str,
    pool: str,
    data: str,
    *,
    recipe: str,
    size: int | None = None,
    tuned_for: str | None = None,
    temperature_rate: float = 1.0,
    squeeze: str | None = None,
    shares: Sequence[float] = (),
    **changes: Any,
) -> RunConfig:
    """The config of one arm of an experiment.

    `size` is that of the pictures, by default the recipe's, and 128 px in the paper's MXResNet. `tuned_for` names the
    pool whose printed hyperparameters are taken; a named recipe has the same for all. `temperature_rate` multiplies the
    temperature's learning rate. `squeeze` is the pool of Squeeze-and-Excitation blocks, none without them.
    `shares` are other input sizes to look at in the end, as shares of that of training. Further fields of the
    config can be changed.

    Example:
        >>> arm("E7", "lae(t0=4)", "cifar10", recipe="minute", seed=3)
    """
    if recipe in PRINTED and squeeze is not None:
        config = protocol.squeeze_excite(pool, squeeze, data)
    elif recipe in PRINTED:
        config = _PROTOCOLS[experiment](pool, data, size or 128, tuned_for)
    else:
        config = named_recipe(recipe, pool=pool, data=data, squeeze=squeeze, **({"image_size": size} if size else {}))
        if (spec := PoolSpec.parse(pool)).name == "avg" and spec["train"] != "no":
            temperature_rate *= SCALE_RATE
    if recipe == GPU:
        # The schedules are shares of the run, so they shrink with it. What is printed in FP32 runs in bf16.
        precision = "bf16" if config.precision == "fp32" else config.precision
        config = config.replace(epochs=GPU_EPOCHS.get(experiment, config.epochs), precision=precision)
    rate = float(f"{config.temperature_lr * temperature_rate:.6g}")  # as a plan writes it: 0.22, not 0.21999…
    sizes = [round(share * config.image_size) for share in shares]
    return config.replace(temperature_lr=rate, input_sizes=sizes, **changes)


def table_arm(
    experiment: str,
    pool: str,
    data: str,
    *,
    recipe: str,
    lr: float | None = None,
    head_lr: float | None = None,
    shares: Sequence[float] = SHARES,
    **changes: Any,
) -> RunConfig:
    """An arm of the table of pools (`ci/plans/pools.yml`), whose runs serve several chapters.

    `lr` and `head_lr` are the pool's own learning rates, by default the recipe's. At the recipe's rates, the pools of
    the chapter on input size see pictures of other sizes in the end, which the printed protocol has not.
    """
    config = arm(experiment, pool, data, recipe=recipe, **changes)
    own = config.replace(lr=lr or config.lr, head_lr=head_lr or config.head_lr)
    if own != config:
        return own
    if recipe in PRINTED or pool not in _SIZED:
        return config
    return arm(experiment, pool, data, recipe=recipe, shares=shares, **changes)


def start_at(pool: str, t0: float) -> str:
    """The same LAE pool from another initial temperature.

    >>> start_at("lae(train=one)", 4)
    'lae(t0=4, train=one)'
    """
    return str(PoolSpec.parse(pool).replace(t0=t0))


def _in_float64(pool: str) -> str:
    """LAE in double precision, as the supplement says; other pools as they are."""
    spec = PoolSpec.parse(pool)
    return str(spec.replace(dtype="float64")) if spec.name == "lae" else pool
