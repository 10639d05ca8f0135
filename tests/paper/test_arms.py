"""The configs of an experiment: by a recipe, or as printed; and those that were planned are those that are drawn."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from lae_core.book.notebooks import Notebook
from lae_core.paper import protocol
from lae_core.paper.arms import PAPER, SWAPS, arm, start_at, table_arm
from lae_core.runs.plan import expand, read_plan
from lae_core.training.recipes import recipe

REPO = Path(__file__).resolve().parents[2]


def test_a_recipe_gives_every_pool_the_same_hyperparameters():
    one = arm("E7", "lae", "cifar10", recipe="minute")
    assert one == arm("E7", "lae", "cifar10", recipe="minute", tuned_for="avg") == recipe("minute", pool="lae")


def test_the_paper_s_are_the_printed_ones():
    found = arm("E7", "lae(t0=4)", "imagewoof", recipe=PAPER, size=256, tuned_for="avg")
    assert found == protocol.mxresnet("lae(t0=4, dtype=float64)", "imagewoof", 256, epochs=6, tuned_for="avg")
    assert arm("E7", "avg", "imagewoof", recipe=PAPER).pool == "avg"
    assert arm("E3", "lae", "cifar100", recipe=PAPER) == protocol.wrn("lae", "cifar100")


@pytest.mark.parametrize("factor", [10, 100])
def test_a_larger_rate_of_the_temperature_is_a_plain_number(factor):
    assert arm("E6", "lae(train=one)", "cifar10", recipe="minute", temperature_rate=factor).temperature_lr in (
        0.22,
        2.2,
    )


def test_start_at_sets_the_temperature_alone():
    assert start_at("lae(train=channel, dtype=float64)", 0.25) == "lae(t0=0.25, train=channel, dtype=float64)"
    assert start_at("lae(t0=4)", 1) == "lae"


def planned(name):
    return expand(read_plan(REPO / "ci" / "plans" / f"{name}.yml"))


def test_the_learned_scale_of_the_average_has_its_own_rate():
    scaled = arm("E3", "avg(train=one)", "cifar10", recipe="minute")
    assert scaled.temperature_lr == 0.00022
    assert scaled.replace(fold=0).key() in {config.key() for config in planned("rates")}
    for pool in ("avg", "lae(train=one)"):
        assert arm("E3", pool, "cifar10", recipe="minute").temperature_lr == 0.022


def test_the_table_of_pools_draws_what_its_plan_trains():
    runs = planned("pools")
    drawn = {table_arm("E3", c.pool, c.data, recipe="ten", seed=c.seed, lr=c.lr, head_lr=c.head_lr).key() for c in runs}
    assert drawn == {config.key() for config in runs} and len(drawn) == 140


def test_the_chapter_on_swaps_draws_what_its_plan_trains():
    average = table_arm("E3", "avg", "cifar10", recipe="ten", swaps=SWAPS)
    arms = (average, table_arm("E3", "lae", "cifar10", recipe="ten"))
    drawn = {config.replace(seed=seed).key() for config, seed in product(arms, range(10))}
    assert drawn == {config.key() for config in planned("swap")}


def test_the_printed_protocol_has_no_other_sizes():
    assert table_arm("E3", "avg", "cifar10", recipe=PAPER) == arm("E3", "avg", "cifar10", recipe=PAPER)


@pytest.mark.parametrize(
    ("plan", "chapters"), [("temperatures", ["initial_temperature", "final_temperature"]), ("precision", ["precision"])]
)
def test_what_a_plan_trains_is_what_its_chapters_draw(plan, chapters):
    drawn = set()
    for name in chapters:
        notebook = Notebook(REPO, f"experiments/{name}")
        names = dict(notebook.values("cpu"))
        cell = next(c for c in notebook.read().cells if "arms" in c.metadata.get("tags", []))
        exec(compile(cell.source, name, "exec"), names)
        drawn |= {c.replace(seed=s).key() for c, s in product(names["arms"].values(), range(names["seeds"]))}
    assert drawn == {config.key() for config in planned(plan)}
