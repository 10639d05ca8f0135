"""After training, another pool for one more epoch: what the record says of it."""

from __future__ import annotations

import pytest
import torch
from same_record import outcome

from lae_core.training import deadline, loop
from lae_core.training.recipes import recipe


@pytest.fixture(scope="module")
def record():
    torch.set_num_threads(1)  # the module's fixture comes before the one of each test
    return loop.run(recipe("smoke", epochs=2, swaps=("avg", "max", "lae(t0=2)", "lae(t0=1e6)", "lae(train=one)")))


def test_the_same_pool_again_computes_what_the_trained_network_did(record):
    assert record["swaps"]["avg"]["accuracy_before"] == record["final"]["accuracy"]
    assert record["swaps"]["lae(t0=1000000)"]["accuracy_before"] == record["final"]["accuracy"]


def test_temperatures_are_in_units_of_the_trained_features_spread(record):
    spread = record["epochs"][-1]["spread"]
    assert record["swaps"]["lae(t0=2)"]["temperatures"]["global_pool"]["mean"] == pytest.approx(2 * spread, rel=1e-5)
    assert record["swaps"]["lae(train=one)"]["temperatures"]["global_pool"]["mean"] != pytest.approx(spread, rel=1e-5)


def test_the_run_itself_is_what_it_is_without_swaps(record):
    alone = loop.run(recipe("smoke", epochs=2))
    assert alone["epochs"] == record["epochs"] and alone["final"] == record["final"]
    assert "swaps" not in alone and alone["key"] != record["key"]


def test_a_run_stopped_between_swaps_goes_on_with_the_next(tmp_path, monkeypatch):
    """Stopped by a time limit that passes in the first swap, then killed in the second, then undisturbed."""
    config = recipe("smoke", swaps=("avg", "max", "lae"))
    undisturbed = loop.run(config)
    made: list[str] = []
    whole = loop.after_swap

    def watch(session, pool, spread):
        made.append(pool)
        return whole(session, pool, spread)

    monkeypatch.setattr(loop, "after_swap", watch)
    with monkeypatch.context() as patch:
        patch.setattr(deadline, "passed", lambda: bool(made))
        with pytest.raises(deadline.TimeUp, match="1 of 3 swaps done"):
            loop.run(config, checkpoint_dir=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "after_swap", lambda *_: pytest.fail("killed", pytrace=False))
        with pytest.raises(pytest.fail.Exception):
            loop.run(config, checkpoint_dir=tmp_path)
    resumed = loop.run(config, checkpoint_dir=tmp_path)
    assert made == ["avg", "max", "lae"]  # each once, however often the run was stopped
    assert outcome(resumed) == outcome(undisturbed)


def test_a_pool_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="swaps = 'median' is invalid"):
        recipe("smoke", swaps=("median",))
    with pytest.raises(ValueError, match="swaps = 'avg' is invalid; expected a list of pools"):
        recipe("smoke", swaps="avg")
