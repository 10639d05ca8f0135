"""Every experiment at its profiles, without training it: the arms build, and at `paper` they are the printed ones.

The long test takes one real step of each full network on the CPU.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from lae_core.book.notebooks import Notebook, all_notebooks
from lae_core.evidence.scale import PROTOCOLS, is_printed
from lae_core.paper import protocol, tables
from lae_core.paper.protocol import PARAMETERS, printed_pool
from lae_core.pooling import PoolSpec, make_pool
from lae_core.training import loop, network
from lae_core.training.config import RunConfig
from lae_core.training.data import Pictures, Split
from lae_core.training.datasets import DATASETS

REPO = Path(__file__).resolve().parents[2]


def _tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


# A chapter on runs that the paper prints tags the cell of its arms. The others, such as that on swaps, have no printed size.
EXPERIMENTS = [
    notebook
    for notebook in all_notebooks(REPO)
    if notebook.name.startswith("experiments/") and any("arms" in _tags(cell) for cell in notebook.read().cells)
]
each_experiment = pytest.mark.parametrize("notebook", EXPERIMENTS, ids=lambda notebook: notebook.name)

# What the paper prints for each experiment: epochs, runs an arm, and the parameter that holds these. Table 2 has its n in
# a comment of the source, and the figures over input size say 18 to 28.
PRINTED = {
    "wrn": (48, 30, "seeds"),
    "squeeze_excite": (48, 30, "seeds"),
    "mxresnet": (5, 40, "seeds"),
    "pyramidnet": (300, 5, "seeds"),
    "training_curves": (300, 5, "seeds"),
    "input_size": (5, 28, "mx_seeds"),
    "initial_temperature": (6, 10, "seeds"),
    "final_temperature": (25, 10, "seeds"),
    "precision": (6, 10, "seeds"),
}
BATCH = {"wrn": 256, "pyramidnet": 128, "mxresnet": 64}
CHANNELS = {"wrn": 384, "pyramidnet": 216, "mxresnet": 2048}  # that the global pool sees
WRN_BLOCKS = (96, 96, 192, 192, 384, 384)


@cache
def defined(notebook: Notebook, profile: str, tag: str = "arms") -> dict[str, Any]:
    """The names that the notebook's cells up to the one with that tag leave, with the profile's parameters."""
    names: dict[str, Any] = {}
    for cell in notebook.read().cells:
        if cell.cell_type != "code":
            continue
        if "parameters" in _tags(cell):
            names |= notebook.values(profile)
            continue
        exec(compile(cell.source, f"{notebook.name}, {profile}", "exec"), names)
        if tag in _tags(cell):
            break
    return names


def arms(notebook: Notebook, profile: str) -> dict[Any, RunConfig]:
    return defined(notebook, profile)["arms"]


def described(config: RunConfig) -> tuple[Any, ...]:
    """What decides the size of a config's network, and nothing else."""
    kind = (config.network, config.depth, config.width, config.stem_stride, config.attention, config.survival)
    ends = (config.tail, config.last_activation, config.squeeze, config.squeeze_ratio, config.squeeze_place)
    return (*kind, *ends, printed_pool(config.pool), DATASETS[config.data].classes)


_counted: dict[tuple[Any, ...], int] = {}


def parameters(config: RunConfig) -> int:
    """Of the config's network. Many arms share one, which is built once, and without memory for its weights."""
    if described(config) not in _counted:
        with torch.device("meta"):
            _counted[described(config)] = sum(p.numel() for p in network.build(config).parameters())
    return _counted[described(config)]


def known_parameters(config: RunConfig) -> int:
    """From the count known with average pooling and ten classes: classes, pool, tail and squeeze counted by hand."""
    channels = CHANNELS[config.network]
    count = PARAMETERS[config.network] + (DATASETS[config.data].classes - 10) * (channels + 1)
    count += sum(p.numel() for p in make_pool(PoolSpec.parse(config.pool), channels).parameters())
    if config.network == "pyramidnet":
        count += 2 * channels * (config.tail == "bn-pool-bn-relu") + (config.last_activation == "prelu")
    if config.squeeze:
        for c in WRN_BLOCKS:
            count += 2 * c * (c // 16) + c // 16 + c  # two layers with biases
            count += sum(p.numel() for p in make_pool(PoolSpec.parse(config.squeeze), c).parameters())
    return count


def test_there_are_experiments_with_arms():
    assert {"experiments/wrn", "experiments/mxresnet", "experiments/pyramidnet"} <= {n.name for n in EXPERIMENTS}


@pytest.mark.parametrize("profile", ["smoke", "cpu", "gpu", "paper"])
@each_experiment
def test_arms_build(notebook: Notebook, profile: str):
    found = arms(notebook, profile)
    assert isinstance(found, dict) and found
    for name, config in found.items():
        assert isinstance(config, RunConfig), name
        assert parameters(config) > 0


@each_experiment
def test_arms_of_the_paper_are_different_runs_on_all_pictures(notebook: Notebook):
    found = arms(notebook, "paper")
    assert len({config.key() for config in found.values()}) == len(found)
    for name, config in found.items():
        assert (config.subset, config.eval_subset) == (None, None), name


@each_experiment
def test_networks_of_the_paper_have_the_known_sizes(notebook: Notebook):
    for name, config in arms(notebook, "paper").items():
        assert parameters(config) == known_parameters(config), name


@each_experiment
def test_epochs_batch_and_seeds_of_the_paper_are_the_printed_ones(notebook: Notebook):
    epochs, seeds, parameter = PRINTED[notebook.name.removeprefix("experiments/")]
    for name, config in arms(notebook, "paper").items():
        assert (config.epochs, config.batch) == (epochs, BATCH[config.network]), name
    assert notebook.values("paper")[parameter] == seeds


@pytest.mark.parametrize("profile", ["smoke", "cpu", "gpu", "paper"])
def test_searches_of_the_paper_are_the_printed_ones(profile: str):
    found = defined(Notebook(REPO, "experiments/searches"), profile, "searches")
    if profile == "paper":
        assert found["walks"] == protocol.lattice_searches() and found["draws"] == protocol.random_searches()
        assert found["record"] == "" and found["study"]
    else:
        assert set(found["walks"]) == set(found["draws"]) == {"digits"}
    for search in (*found["walks"].values(), *found["draws"].values()):
        assert parameters(search.config) > 0


def test_the_dropped_sections_arms_are_in_the_paper_profile():
    """C14, C18: a first learning rate of 0.5, and a temperature from its context at both rates."""
    found = arms(Notebook(REPO, "experiments/pyramidnet"), "paper")
    printed = tables()["pyramidnet_lr"].frame()
    rates = {0.1: "first", 0.5: "lr 0.5"}
    for row in printed.itertuples():
        config = found[row.data, rates[row.lr], row.pool]
        assert config == protocol.pyramidnet(row.pool, row.data, lr=row.lr, device="cuda")


# The printed protocol that the verdicts of each experiment are held against.
PROTOCOL = {
    "wrn": "wrn",
    "squeeze_excite": "squeeze",
    "mxresnet": "mxresnet",
    "pyramidnet": "pyramidnet",
    "training_curves": "pyramidnet",
    "input_size": "input size",
    "initial_temperature": "initial temperature",
    "final_temperature": "final temperature",
    "precision": "precision",
}


@each_experiment
def test_what_the_profile_paper_runs_is_of_the_paper_s_scale_and_nothing_else_is(notebook: Notebook):
    _, seeds, _ = PRINTED[notebook.name.removeprefix("experiments/")]
    experiment = PROTOCOL[notebook.name.removeprefix("experiments/")]
    over = PROTOCOLS[experiment].over
    for name, config in arms(notebook, "paper").items():
        assert is_printed(config.replace(**{over: 0}), experiment), name
    assert seeds >= PROTOCOLS[experiment].n
    for profile in ("cpu", "smoke"):
        assert not any(is_printed(c.replace(**{over: 0}), experiment) for c in arms(notebook, profile).values())


def _full_networks() -> dict[tuple[Any, ...], RunConfig]:
    """One config of each network, squeeze, data set and size among all arms of the paper."""
    found: dict[tuple[Any, ...], RunConfig] = {}
    for notebook in EXPERIMENTS:
        for config in arms(notebook, "paper").values():
            place = (config.network, config.data, config.image_size, config.squeeze is not None)
            # rather one whose pool has something to train
            if place not in found or ("train" in config.pool and "train" not in found[place].pool):
                found[place] = config
    return found


def random_pictures(config: RunConfig, device: torch.device) -> Split:
    spec, side, number = DATASETS[config.data], config.image_size, config.batch
    pixels = torch.randint(0, 256, (number * 3 * side * side,), dtype=torch.uint8)
    labels = torch.randint(0, spec.classes, (number,))
    pictures = Pictures(pixels, torch.tensor([[side, side]] * number), labels)
    return Split(pictures, torch.arange(number), pictures, torch.arange(number), spec)


@pytest.mark.long
def test_every_full_network_takes_a_real_step(monkeypatch):
    """The run's own session and epoch, with augmentation, optimiser and schedule; only batch, device and pictures differ."""
    monkeypatch.setattr(loop, "_split", random_pictures)
    for place, config in _full_networks().items():
        # half precision with a scaled loss needs a GPU; tests/training/test_loop.py has it on a small network
        session = loop.Session(config.replace(batch=2, device="cpu", precision="fp32"))
        before = {name: p.detach().clone() for name, p in session.network.named_parameters()}
        row = session.epoch(0)
        assert row["train_loss"] is not None and math.isfinite(row["train_loss"]), place
        after = dict(session.network.named_parameters())
        assert all(p.isfinite().all() for p in after.values()), place
        changed = {name for name, p in after.items() if not torch.equal(p, before[name])}
        assert "fc.weight" in changed and len(changed) > len(before) / 2, place
        if "train" in config.pool:
            assert any(name.startswith("global_pool") for name in changed), place
