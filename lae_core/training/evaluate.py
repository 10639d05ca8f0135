"""Loss and error of a network on fixed pictures, at the training size and at others."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lae_core.pooling.modules import GlobalPool
from lae_core.training import augment
from lae_core.training.config import RunConfig
from lae_core.training.data import Split
from lae_core.training.network import pool_inputs

Prepare = Callable[[Tensor], Tensor]
BATCH = 250  # pictures at a time; small enough to stay in a CPU's cache


def views(config: RunConfig, split: Split, size: int, rows: Tensor) -> Tensor:
    """(N, 3, size, size) uint8: the validation pictures as the network is to see them."""
    if config.augment == "resize-crop":
        return augment.centre(split.valid, rows, size, config.valid_crop)
    return augment.whole(split.valid, rows, size)


@torch.no_grad()
def evaluate(model: nn.Module, images: Tensor, labels: Tensor, split: Split, prepare: Prepare | None = None) -> Tensor:
    """(3,) float64: summed loss, number of errors, number of pictures. `prepare` changes normalised pictures."""
    model.eval()
    totals = torch.zeros(3, dtype=torch.float64, device=images.device)
    for part, wanted in zip(images.split(BATCH), labels.split(BATCH), strict=True):
        x = augment.normalise(part, split.spec.mean, split.spec.std)
        logits = model(x if prepare is None else prepare(x)).float()
        totals[0] += F.cross_entropy(logits, wanted, reduction="sum")
        totals[1] += (logits.argmax(1) != wanted).sum()
        totals[2] += len(wanted)
    model.train()
    return totals


@torch.no_grad()
def pool_spread(model: nn.Module, network: nn.Module, images: Tensor, split: Split) -> float | None:
    """The standard deviation over positions of what the global pool sees, averaged over channels and pictures.

    A temperature says little by itself: what a pool does depends on t in units of this spread.
    """
    model.eval()
    with pool_inputs(network) as seen:
        model(augment.normalise(images[:BATCH], split.spec.mean, split.spec.std))
    model.train()
    return finite(seen[0].flatten(2).double().std(2, unbiased=False).mean().item())


def accuracy_by_input_size(model: nn.Module, config: RunConfig, split: Split) -> dict[str, dict[str, float]]:
    """Accuracy at each of `input_sizes`: pictures zoomed, cut or padded with zeros, cut or padded with noise (E5).

    Padding is done after normalisation, so zeros are the mean colour and the noise has the pictures' own spread.
    """
    labels = split.valid.labels[split.valid_index.to(split.valid.labels.device)]
    plain = views(config, split, config.image_size, split.valid_index)
    table: dict[str, dict[str, float]] = {view: {} for view in augment.VIEWS}
    for size in config.input_sizes:
        noise = torch.Generator().manual_seed(config.seed)
        shown: dict[str, tuple[Tensor, Prepare | None]] = {
            "zoom": (views(config, split, size, split.valid_index), None),
            "crop-zero": (plain, partial(augment.crop_or_pad, size=size)),
            "crop-noise": (plain, partial(augment.crop_or_pad, size=size, noise=noise)),
        }
        for view, (images, prepare) in shown.items():
            _, wrong, count = evaluate(model, images, labels, split, prepare).tolist()
            table[view][str(size)] = 1 - wrong / count
    return table


def finite(value: float) -> float | None:
    """None for what JSON cannot hold."""
    return value if math.isfinite(value) else None


def pool_state(model: nn.Module) -> dict[str, dict[str, list[float | None]]]:
    """The pools' temperatures and parameters by module: {"global_pool": {"temperature": […], "log_t": […]}}."""
    state: dict[str, dict[str, list[float | None]]] = {}
    for name, module in model.named_modules():
        if isinstance(module, GlobalPool):
            values: dict[str, Any] = dict(module.named_parameters(recurse=False))
            if hasattr(module, "temperature"):
                values["temperature"] = module.temperature
            state[name] = {n: [finite(x) for x in v.detach().double().flatten().tolist()] for n, v in values.items()}
    return state


def temperatures(model: nn.Module) -> dict[str, dict[str, float | None]]:
    """Lowest, highest and geometric mean temperature of each pool that has one."""
    summary = {}
    for name, module in model.named_modules():
        if isinstance(module, GlobalPool) and hasattr(module, "temperature"):
            t: Tensor = cast(Tensor, module.temperature).detach().double()
            statistics = {"mean": t.log().mean().exp(), "min": t.min(), "max": t.max()}
            summary[name] = {statistic: finite(value.item()) for statistic, value in statistics.items()}
    return summary
