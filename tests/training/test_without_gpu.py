"""What a GPU would run, followed without one: the devices agree, and inside a step the CPU never waits for the GPU.

Every kind of run among the notebooks' profiles `gpu` and `paper` goes through a run's own session: pictures, augmentation,
forward pass, loss, optimiser, validation, other input sizes. Not tested here: values, gradients,
speed, autocast, and the loss scale of fp16, which reads one flag from the GPU in each step.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from fake_gpu import CUDA, FakeFabric, fake_gpu

from lae_core.book.plan import plan
from lae_core.training import augment, autoaugment, evaluate, loop
from lae_core.training.config import RunConfig
from lae_core.training.data import Pictures, Split
from lae_core.training.datasets import DATASETS

REPO = Path(__file__).resolve().parents[2]
SMALLER = {
    "wrn": {"depth": 8, "width": 0.5},
    "pyramidnet": {"depth": 8, "width": 12},
    "mxresnet": {"depth": 10, "width": 0.25},
}


@cache
def planned(full: bool) -> list[RunConfig]:
    """Of the runs of both profiles each network and each pool once, small; or each network once at full size, with each pool."""
    found: dict[tuple, RunConfig] = {}
    for config in (run for profile in ("gpu", "paper") for run in plan(REPO, profile).runs.values()):
        network = (config.network, config.squeeze is not None, config.last_activation, config.tail, config.image_size)
        pool = (full and config.network, re.sub(r"t0=[^,)]*(, )?", "", config.pool), config.squeeze)
        if network not in found:
            found[network] = found[pool] = config if full else config.replace(**SMALLER[config.network])
        elif pool not in found:
            found[pool] = config.replace(**SMALLER[config.network])
    return list(dict.fromkeys(found.values()))


def pictures(config: RunConfig, number: int) -> Pictures:
    """On the fake GPU; of different shapes where the set has such."""
    one = [[40, 50], [36, 36]] if config.augment == "resize-crop" else [[config.image_size] * 2]
    shapes = torch.tensor((one * number)[:number])
    pixels = torch.zeros(int(3 * shapes.prod(1).sum()), dtype=torch.uint8, device=CUDA)
    return Pictures(pixels, shapes, torch.zeros(number, dtype=torch.long, device=CUDA))


def session(config: RunConfig, steps: int, monkeypatch: pytest.MonkeyPatch) -> loop.Session:
    def split(config: RunConfig, device: torch.device) -> Split:
        train, valid = pictures(config, steps * config.batch), pictures(config, 3)
        return Split(train, torch.arange(len(train)), valid, torch.arange(3), DATASETS[config.data])

    monkeypatch.setattr(loop, "_split", split)
    monkeypatch.setattr(loop.network, "measure", lambda model, size: {})  # a pass on the CPU, tested elsewhere
    return loop.Session(config, FakeFabric())


def check(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps, a validation and another input size, on the fake GPU."""
    often = {"lookahead_steps": 2} if config.optimiser == "ranger" else {}  # so that two steps have one of its updates
    config = config.replace(batch=2, micro_batch=None, **often)
    waits: list[str] = []
    with fake_gpu() as gpu:
        made = session(config, 2, monkeypatch)
        gpu.waits.clear()
        made.epoch(0, keep=lambda part: waits.extend(gpu.waits))
        assert not waits, f"{config}: {sorted(set(waits))}"
        assert gpu.waits, "the totals of an epoch are read once, at its end"
        assert set(made.validate()) == {"valid_loss", "valid_error", "spread"}
        if config.input_sizes:
            evaluate.accuracy_by_input_size(made.model, config.replace(input_sizes=config.input_sizes[:1]), made.split)


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_planned_kind_of_run_keeps_to_one_device_and_never_waits(full, monkeypatch):
    assert {config.network for config in planned(full)} == set(SMALLER)
    for config in planned(full):
        check(config, monkeypatch)


SMALL = RunConfig(depth=8, width=0.5, data="cifar10", fill=0)


def test_a_wait_is_found(monkeypatch):
    """The same test on a loop that waits: by reading a value, by a blocking copy, by an index from the CPU."""
    check(SMALL, monkeypatch)
    send = augment.send
    for module, bad in (
        (augment, lambda tensor, device: tensor.to(device)),
        (augment, lambda tensor, device: tensor),
        (autoaugment, lambda tensor, device: send(tensor, device) + int(send(tensor, device).sum().item())),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(module, "send", bad)
            with pytest.raises((AssertionError, RuntimeError)):
                check(SMALL, monkeypatch)


def test_tensors_on_the_wrong_device_are_found(monkeypatch):
    monkeypatch.setattr(FakeFabric, "setup_module", lambda self, module: setattr(self, "model", module) or module)
    with pytest.raises(Exception, match=r"cpu|device"):
        check(SMALL, monkeypatch)
