"""Plans: which runs a file names."""

from pathlib import Path

import pytest

from lae_core.runs.plan import expand, read_plan
from lae_core.training.config import RunConfig
from lae_core.training.recipes import recipe


def test_every_combination_once():
    plan = {"base": {"data": "digits"}, "grid": {"pool": ["avg", "max"], "seed": "0..2"}}
    configs = expand(plan)
    assert {(config.pool, config.seed) for config in configs} == {(p, s) for p in ("avg", "max") for s in range(3)}
    assert len(configs) == 6 and {config.data for config in configs} == {"digits"}


def test_several_grids_overlap_and_the_base_can_be_changed():
    plan = {"grid": [{"seed": [0, 1]}, {"seed": [1], "lr": [0.4, 0.5]}]}
    configs = expand(plan, {"epochs": 3})
    assert len(configs) == 3 and {config.epochs for config in configs} == {3}
    assert expand({}) == [RunConfig()]


def test_a_plan_starts_from_named_recipes():
    plan = {"base": {"from": "minute", "epochs": 2}, "grid": {"seed": [0, 1]}}
    assert expand(plan) == [recipe("minute", epochs=2, seed=s) for s in (0, 1)]
    several = {"grid": {"from": ["minute", "ten"], "pool": ["max"]}}
    assert expand(several) == [recipe(n, pool="max") for n in ("minute", "ten")]
    with pytest.raises(ValueError, match="recipe = 'minutes' is invalid"):
        expand({"base": {"from": "minutes"}})


def test_the_plan_of_the_recipes_can_be_read():
    root = Path(__file__).parents[2]
    configs = expand(read_plan(root / "ci/plans/recipes.yml"))
    assert {config.network for config in configs} == {"speed", "mxresnet", "wrn"}


@pytest.mark.parametrize(
    ("plan", "changes", "words"),
    [
        ({"grid": {"seed": 3}}, {}, "seed = 3 is invalid"),
        ({"grid": {"seed": [1]}}, {"seed": 2}, "the plan.s grid varies it"),
        ({"base": {"sead": 1}}, {}, "did you mean 'seed'"),
    ],
)
def test_mistakes_are_named(plan, changes, words):
    with pytest.raises(ValueError, match=words):
        expand(plan, changes)


@pytest.mark.parametrize("text", ["[1, 2]", "grids: {}", "a: ["])
def test_a_file_that_is_no_plan(tmp_path, text):
    (tmp_path / "plan.yml").write_text(text)
    with pytest.raises(ValueError, match=r"plan\.yml"):
        read_plan(tmp_path / "plan.yml")


def test_the_plan_on_the_page_is_in_the_tree():
    root = Path(__file__).parents[2]
    assert "lae sweep ci/plans/digits.yml --dry-run" in (root / "notebooks/experiments/scaling_out.md").read_text()
    assert len(expand(read_plan(root / "ci/plans/digits.yml"))) == 8
