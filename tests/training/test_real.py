"""The paper's networks, whole, on real pictures."""

import pytest
import torch

from lae_core.training import data, fetch, loop, network
from lae_core.training.config import RunConfig
from lae_core.training.datasets import DATASETS


@pytest.fixture(scope="module")
def cifar10():
    """The true CIFAR-10, fetched if it is not there yet."""
    fetch.fetch("cifar10")
    torch.set_num_threads(1)


STEP = {"data": "cifar10", "subset": 4, "batch": 2, "epochs": 1, "eval_subset": 2}
PAPER = {
    "WRN-18-6": ({}, 6_173_472, 64),
    "WRN-18-6 with SE": ({"squeeze": "lae(train=one)"}, None, 64),
    "PyramidNet-110": (
        {"network": "pyramidnet", "depth": 110, "width": 200, "schedule": "step", "lr": 0.1, "last_activation": "relu"},
        16_676_730,
        64,
    ),
    "MXResNet-50": (
        {"network": "mxresnet", "depth": 50, "width": 1, "image_size": 128, "augment": "resize-crop", "lr": 0.004,
         "optimiser": "ranger", "schedule": "flat-cosine", "label_smoothing": 0.1},
        23_641_003,
        16,
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("pool", ["avg", "lae(t0=4, train=channel)"])
def test_the_untouched_network_takes_real_steps_on_real_pictures(cifar10, name, pool):
    fields, parameters, positions = PAPER[name]
    config = RunConfig(pool=pool, **(STEP | fields))
    record = loop.run(config)
    assert record["status"] == "finished" and len(record["epochs"]) == 1
    assert record["network"]["pooled_positions"] == positions
    if pool == "avg" and parameters is not None:
        assert record["network"]["parameters"] == parameters
    assert 0 < record["epochs"][0]["train_loss"] < 20 and record["epochs"][0]["gradient_norm"] > 0


@pytest.mark.long
def test_the_hashes_and_the_normalisation_are_cifar10s(cifar10):
    train, spec = data.load("cifar10", "train"), DATASETS["cifar10"]
    assert data.sha256(train.uniform.numpy()) == spec.pixels["train"]
    scaled = train.uniform.double() / 255
    assert scaled.mean((0, 2, 3)).tolist() == pytest.approx(spec.mean, abs=1e-4)
    assert scaled.std((0, 2, 3)).tolist() == pytest.approx(spec.std, abs=1e-3)
    assert torch.equal(train.labels.bincount(), torch.full((10,), 5000))


@pytest.mark.long
def test_the_small_network_learns_real_pictures(cifar10):
    config = RunConfig(
        depth=8, width=1, pool="lae(t0=1)", subset=10_000, eval_subset=2_000, epochs=2, batch=128, augment="flip-crop"
    )
    record = loop.run(config)
    assert record["final"]["accuracy"] > 0.4
    assert network.measure(network.build(config), 32)["pooled_positions"] == 64
