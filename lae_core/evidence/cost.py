"""What the whole paper costs to run: every training that it reports, its searches included, in FLOPs and GPU-hours.

The FLOPs are counted on the networks themselves, as PyTorch dispatches one training step; how many runs there are is
read from the paper's tables. What the paper does not print is an argument here, and named on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from lae_core.evidence.lattice import placed
from lae_core.evidence.paper import searches, tables
from lae_core.training import network
from lae_core.training.config import RunConfig
from lae_core.training.datasets import DATASETS

# Each size of picture is cut from the archive that the benchmark provides for it.
ARCHIVE = {128: 160, 256: 320}
# Draws of the three stages of the random search, per data set and size (main text, section on MXResNet).
DRAWS = {
    ("imagewoof", 128): (200, 100, 100),
    ("imagenette", 128): (100, 100, 100),
    ("imagewoof", 256): (40, 50, 50),
    ("imagenette", 256): (40, 50, 50),
}
FINALISTS = 7  # five samples and two means, each on five folds


@dataclass(frozen=True)
class Work:
    """`runs` alike trainings on a `share` of the training set; the rest of it, or the test set, validates."""

    experiment: str
    what: str
    config: RunConfig
    runs: int
    share: float = 1.0

    def flops(self) -> float:
        """Of one run: all training steps, and a validation after each epoch."""
        step, forward = step_flops(self.config)
        sizes = DATASETS[self.config.data].sizes
        train = self.share * sizes["train"]
        valid = sizes["test"] if self.share == 1 else sizes["train"] - train
        return self.config.epochs * (train * step + valid * forward)


def step_flops(config: RunConfig) -> tuple[float, float]:
    """FLOPs of one picture in a training step (forward and backward) and in a forward pass alone."""
    return _count(config.replace(epochs=1))


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


WRN = RunConfig()
PYRAMIDNET = RunConfig(
    network="pyramidnet", depth=110, width=200, last_activation="relu", batch=128, epochs=300, schedule="step", lr=0.1
)


def mxresnet(data: str, size: int, epochs: int = 5) -> RunConfig:
    return RunConfig(
        network="mxresnet", depth=50, width=1, data=f"{data}-{ARCHIVE[size]}", image_size=size, augment="resize-crop",
        optimiser="ranger", schedule="flat-cosine", lr=0.004, momentum=0.95, weight_decay=0.02, batch=64, epochs=epochs,
    )  # fmt: skip


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
        for row in placed(f"hyper_{name}").itertuples():
            config = base.replace(data=row.data, epochs=lattice["epochs"])
            points = least_points(row.a, row.b, row.c, row.d)
            yield Work("N5", f"lattice search, {what}", config, points * lattice["folds"], share=0.8)
    for row in tables()["mxresnet"].frame().itertuples():
        yield Work("E4", "MXResNet-50", mxresnet(row.data, int(row.size)), mxresnet_runs)
    epochs = searches()["random"]["epochs"]
    for row in tables()["hyper_mxresnet"].frame().itertuples():
        runs = sum(DRAWS[row.data, int(row.size)]) + FINALISTS * 5
        yield Work("N6", "random search, MXResNet-50", mxresnet(row.data, int(row.size), epochs), runs, share=0.8)
    for data, size in DRAWS:
        config = mxresnet(data, size, epochs)
        if size == 128:
            runs = 2 * temperatures * 10
            yield Work("E6", "final temperature, MXResNet-50", mxresnet(data, size, 25), runs, share=0.8)
        yield Work("E7", "initial temperature, MXResNet-50", config, 2 * (3 * temperatures + 1) * 10, share=0.8)
        yield Work("E8", "precision, MXResNet-50", config, (3 * temperatures + 1) * 10, share=0.8)


def least_points(*steps: int) -> int:
    """Points that a lattice search measures at least: the start, each step of its net way, and the six neighbours of
    its end, less the one that it came from."""
    way = sum(map(abs, steps))
    return 1 + way + (5 if way else 6)


def table(work: Iterator[Work], *, peak_tflops: float, utilisation: float) -> pd.DataFrame:
    """Runs, FLOPs and hours on one GPU of that peak, by experiment and network."""
    if not (peak_tflops > 0 and 0 < utilisation <= 1):
        raise ValueError(f"peak_tflops={peak_tflops}, utilisation={utilisation}: expected above 0, and at most 1")
    rows = [
        {"experiment": item.experiment, "what": item.what, "runs": item.runs, "flops": item.runs * item.flops()}
        for item in work
    ]
    frame = pd.DataFrame(rows).groupby(["experiment", "what"], as_index=False, sort=False).sum()
    frame["hours"] = frame["flops"] / (peak_tflops * 1e12 * utilisation) / 3600
    return frame
