"""What the whole paper costs to run: every training that it reports, its searches included, in FLOPs and GPU-hours.

The FLOPs are counted on the networks themselves, as PyTorch dispatches one training step; how many runs there are is
read from the paper's tables. What the paper does not print is an argument here, and named on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from lae_core.paper import searches, tables
from lae_core.paper.lattice import locate_rows
from lae_core.paper.protocol import PYRAMIDNET, WRN, mxresnet, printed_pool
from lae_core.runs.records import Record
from lae_core.training import network
from lae_core.training.config import RunConfig
from lae_core.training.datasets import DATASETS

# What hours are counted on, unless a page says otherwise: the card that the paper names, and what it does not say.
CARD, CARD_TFLOPS, UTILISATION = "Titan Xp", 12.15, 0.35
TEMPERATURES, MXRESNET_RUNS = 11, 40

# One modern card, for the profile `gpu`: its peaks in 10^12 FLOP/s by its data sheet (in FP32 that of TF32), and the
# share of them that we assume, which nobody has measured for these networks.
MODERN, MODERN_TFLOPS, MODERN_UTILISATION = "A100", {"fp16": 312, "bf16": 312, "fp32": 156, "fp64": 19.5}, 0.15


@dataclass(frozen=True)
class Work:
    """`runs` equal trainings on a `share` of the training set; the rest of it, or the test set, validates."""

    experiment: str
    what: str
    config: RunConfig
    runs: int
    share: float = 1.0

    def flops(self) -> float:
        """FLOPs of one run."""
        return run_flops(self.config, self.share)


def run_flops(config: RunConfig, share: float = 1.0) -> float:
    """FLOPs of one run: all training steps, and a validation after each epoch."""
    step, forward = step_flops(config)
    sizes = DATASETS[config.data].sizes
    train = share * sizes["train"]
    valid = sizes["test"] if share == 1 else sizes["train"] - train
    return config.epochs * (train * step + valid * forward)


def modern_hours(config: RunConfig) -> float:
    """Hours of one run on the modern card, from its FLOPs."""
    flops = run_flops(config, share=1.0 if config.fold is None else 0.8)
    return flops / (MODERN_TFLOPS[config.precision] * 1e12 * MODERN_UTILISATION) / 3600


_SHAPE = ("network", "depth", "width", "pool", "squeeze", "squeeze_ratio", "squeeze_place", "last_activation", "tail",
          "survival", "attention", "stem_stride", "stem", "strides", "image_size")  # fmt: skip


def step_flops(config: RunConfig) -> tuple[float, float]:
    """FLOPs of one picture in a training step (forward and backward) and in a forward pass alone."""
    shape = {name: getattr(config, name) for name in _SHAPE} | {"pool": printed_pool(config.pool)}
    # The count depends on the number of classes and on the kind of pool, not on the pictures, t₀ or recipe.
    twin = {10: "cifar10", 100: "cifar100"}.get(DATASETS[config.data].classes, config.data)
    return _count(RunConfig(data=twin, **shape))


@cache
def _count(config: RunConfig) -> tuple[float, float]:
    # On the meta device only shapes are computed, which is all that the count needs. Two pictures, for BatchNorm.
    with torch.device("meta"):
        model = network.build(config)
        pictures = torch.zeros(2, 3, config.image_size, config.image_size)
    with FlopCounterMode(display=False) as forward:
        logits = model(pictures)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    return (forward.get_total_flops() + backward.get_total_flops()) / 2, forward.get_total_flops() / 2


def paper_work(*, temperatures: int, mxresnet_runs: int) -> Iterator[Work]:
    """Every training of the paper. E5 only evaluates networks of E4, and E1's curves are those of E2."""
    for row in tables()["pyramidnet_lr"].frame().itertuples():
        yield Work("E1, E2", "PyramidNet-110, both learning rates", PYRAMIDNET.replace(data=row.data), 5)
    tuned = tables()["pyramidnet"].frame()
    for row in tuned[tuned["hyperparameters"] == "re-tuned"].itertuples():
        yield Work("E2", "PyramidNet-110, re-tuned", PYRAMIDNET.replace(data=row.data), 5)
    for name, experiment, squeeze in (("wrn", "E3", None), ("se", "E9", "avg")):
        what = "WRN-18-6" + (" with SE" if squeeze else "")
        base = WRN.replace(squeeze=squeeze)
        for row in tables()[name].frame().itertuples():
            yield Work(experiment, what, base.replace(data=row.data), tables()[name].n or 0)
        lattice = searches()["lattice"]
        for row in locate_rows(f"hyper_{name}").itertuples():
            config = base.replace(data=row.data, epochs=lattice["epochs"])
            points = least_points(row.a, row.b, row.c, row.d)
            yield Work("N5", f"lattice search, {what}", config, points * lattice["folds"], share=0.8)
    for row in tables()["mxresnet"].frame().itertuples():
        yield Work("E4", "MXResNet-50", mxresnet("avg", row.data, int(row.size)), mxresnet_runs)
    random = searches()["random"]
    epochs = random["epochs"]
    last = (random["finalists"] + len(random["means"])) * random["folds"]
    for row in tables()["hyper_mxresnet"].frame().itertuples():
        runs = sum(random["samples"][row.data][int(row.size)]) + last
        yield Work(
            "N6", "random search, MXResNet-50", mxresnet("avg", row.data, int(row.size), epochs=epochs), runs, share=0.8
        )
    for data, size in ((data, size) for data, sizes in random["samples"].items() for size in sizes):
        config = mxresnet("avg", data, size, epochs=epochs)
        if size == 128:
            runs = 2 * temperatures * 10
            yield Work("E6", "final temperature, MXResNet-50", mxresnet("avg", data, size, epochs=25), runs, share=0.8)
        # three pools at their own and at average pooling's hyperparameters, which for average pooling are the same
        yield Work("E7", "initial temperature, MXResNet-50", config, (2 * 3 * temperatures + 1) * 10, share=0.8)
        yield Work("E8", "precision, MXResNet-50", config, (3 * temperatures + 1) * 10, share=0.8)


def least_points(*steps: int) -> int:
    """Points that a lattice search measures at least: the start, each step of its net way, and the six neighbours of
    its end, less the one that it came from."""
    way = sum(map(abs, steps))
    return 1 + way + (5 if way else 6)


def table(work: Iterator[Work], *, peak_tflops: float, utilisation: float) -> pd.DataFrame:
    """Runs, FLOPs and hours on one GPU of that peak, by experiment and network."""
    if not peak_tflops > 0:
        raise ValueError(f"peak_tflops = {peak_tflops} is invalid; expected a number above 0")
    if not 0 < utilisation <= 1:
        raise ValueError(f"utilisation = {utilisation} is invalid; expected a number above 0, at most 1")
    rows = [
        {"experiment": item.experiment, "what": item.what, "runs": item.runs, "flops": item.runs * item.flops()}
        for item in work
    ]
    frame = pd.DataFrame(rows).groupby(["experiment", "what"], as_index=False, sort=False).sum()
    frame["hours"] = frame["flops"] / (peak_tflops * 1e12 * utilisation) / 3600
    return frame


def bill(experiment: str) -> pd.DataFrame:
    """What one experiment of the paper costs, with the trainings that it shares with others."""
    everything = paper_work(temperatures=TEMPERATURES, mxresnet_runs=MXRESNET_RUNS)
    own = (work for work in everything if experiment in work.experiment.split(", "))
    frame = table(own, peak_tflops=CARD_TFLOPS, utilisation=UTILISATION)
    return frame.rename(columns={"hours": f"hours on one {CARD}"}).drop(columns=["experiment", "flops"])


def cpu_hours(configs: Iterable[RunConfig], like: Record) -> float:
    """CPU-hours of these trainings on one core, at the FLOPs per second of a recorded run."""
    pace = run_flops(RunConfig.from_dict(dict(like.config))) / sum(like.provenance["times"]["cpu"])
    return sum(map(run_flops, configs)) / pace / 3600


def built(config: RunConfig) -> dict[str, int]:
    """Parameters and pooled positions of a config's network, found without a picture."""
    with torch.device("meta"):
        model = network.build(config)
    facts = network.measure(model, config.image_size)
    return {name: facts[name] for name in ("parameters", "pooled_positions")}
