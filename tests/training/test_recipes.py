"""The named recipes: what they are by name, and that each of them learns."""

import pytest
import torch

from lae_core.training import loop, recipes
from lae_core.training.recipes import RECIPES, fast_precision, recipe


def test_a_recipe_takes_changes_and_the_machines_precision(monkeypatch):
    assert recipe("ten", pool="max", seed=3) == RECIPES["ten"].replace(
        pool="max", seed=3, precision=fast_precision(), device="cpu"
    )
    assert recipe("ten", precision="fp32").precision == "fp32"
    for capable, precision in (({"avx512_bf16": True}, "bf16"), ({"avx512_f": True}, "fp32"), ({}, "fp32")):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda capable=capable: capable)
        assert recipes.fast_precision() == precision


def test_a_hundred_classes_take_longer_steps_in_the_head():
    assert recipe("ten", data="cifar100").head_lr > recipe("ten").head_lr == RECIPES["ten"].head_lr
    assert recipe("ten", data="cifar100", head_lr=1.0).head_lr == 1.0
    assert recipe("quarter", data="cifar100").head_lr == 1.0  # its optimiser scales every step itself


def test_an_unknown_recipe_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'minutes' is invalid; expected one of minute, ten.*did you mean 'minute'"):
        recipe("minutes")


def test_a_recipe_learns():
    """On the digits, in seconds, far above chance (10 %): every part of the recipe fits the others."""
    small = {"width": 0.125, "epochs": 4, "batch": 128, "micro_batch": 64, "precision": "fp32", "eval_every": 4}
    names = [name for name in RECIPES if RECIPES[name].image_size == 32]
    for config in {recipe(name, data="digits", **small) for name in names}:  # recipes that differ in size are one here
        assert loop.run(config)["final"]["accuracy"] > 0.8, config


def test_the_recipe_for_larger_pictures_runs():
    config = recipe("quarter", data="digits", width=0.125, epochs=1, batch=16, subset=32, eval_subset=20)
    assert loop.run(config.replace(image_size=64, early_size=48))["status"] == "finished"


@pytest.mark.long
def test_the_shortest_recipe_reaches_its_accuracy_on_a_held_out_fold():
    from lae_core.training import fetch

    fetch.fetch("cifar10")
    assert loop.run(recipe("minute", fold=0))["final"]["accuracy"] > 0.8
