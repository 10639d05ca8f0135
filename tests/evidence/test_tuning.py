"""Rates of frozen heads: the best on held-out pictures, arm by arm."""

from __future__ import annotations

import pytest

from lae_core.evidence.tuning import learns, with_own_rates
from lae_core.training.frozen import FrozenConfig

TINY = FrozenConfig(data="digits", image_size=32, subset=64, eval_subset=20, epochs=1, precision="fp32")
ARMS = {pool: TINY.replace(pool=pool) for pool in ("avg", "max", "lae(train=one)")}
BEST = {"avg": 0.001, "max": 0.01, "lae(train=one)": 0.0001}  # of the head
RATES, POOL_RATES = [0.0001, 0.001, 0.01], [0.003, 0.03]


def score(config, checkpoint_dir=None):
    """A run whose held-out accuracy tells which rate is best. One fold alone would mislead about `avg`."""
    assert config.fold is not None, "rates were chosen on test pictures"
    accuracy = 0.6 if config.lr == BEST[config.pool] else 0.4
    accuracy += 0.1 if config.pool_lr == 0.03 else 0.0
    if config.pool == "avg" and config.lr == 0.01:
        accuracy = (0.7, 0.3)[config.fold]
    return {"status": "done", "final": {"accuracy": accuracy}}


@pytest.fixture
def how(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_RUNS", str(tmp_path / "runs"))
    return {"record": "", "save": str(tmp_path / "kept.jsonl"), "run": score, "where": "inline"}


def test_each_arm_gets_the_rates_that_were_best_on_the_mean_of_the_folds(how):
    chosen, search = with_own_rates(ARMS, rates=RATES, pool_rates=POOL_RATES, folds=2, **how)
    assert {pool: config.lr for pool, config in chosen.items()} == BEST
    assert {pool: config.pool_lr for pool, config in chosen.items()} == {
        "avg": 0.01,
        "max": 0.01,
        "lae(train=one)": 0.03,
    }
    assert all(config.fold is None for config in chosen.values())
    assert len(search) == 3 * 3 * 2 + 2 * 2


def test_a_single_rate_is_taken_without_a_search():
    chosen, search = with_own_rates(ARMS, rates=[0.5], pool_rates=[0.25], folds=2, record="none.jsonl")
    assert search == [] and {config.lr for config in chosen.values()} == {0.5}
    assert [config.pool_lr for config in chosen.values()] == [0.01, 0.01, 0.25]


def test_an_arm_whose_search_is_not_recorded_is_left_out(how):
    with_own_rates({"avg": ARMS["avg"]}, rates=RATES, folds=2, **how)
    with_own_rates({"max": ARMS["max"]}, rates=RATES[:2], folds=2, **how)
    again = {"record": how["save"], "partial": True}
    chosen, search = with_own_rates(ARMS, rates=RATES, pool_rates=POOL_RATES, folds=2, **again)
    assert {pool: config.lr for pool, config in chosen.items()} == {"avg": 0.001}
    assert len(search) == 3 * 2 + 2 * 2
    with pytest.raises(LookupError, match="runs are not recorded"):
        with_own_rates(ARMS, rates=RATES, folds=2, record=how["save"])


def test_which_pools_learn():
    pools = ("avg", "max", "lse", "lae(t0=4)", "lae(train=channel)", "mixed", "gem", "gem(train=no)")
    assert [pool for pool in pools if learns(pool)] == ["lae(train=channel)", "mixed", "gem"]
