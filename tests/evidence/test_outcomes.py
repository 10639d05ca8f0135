"""What is read off records, above all off those of runs that diverged: they count as guessing, and none is left out."""

import numpy as np
import pytest

from lae_core.evidence import outcomes
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig
from lae_core.training.frozen import FrozenConfig


def row(epoch, valid_error=None, **more):
    validated = {} if valid_error is None else {"valid_error": valid_error, "valid_loss": 1.0}
    return {"epoch": epoch, "train_error": 0.5, "train_loss": 1.0, **validated, **more}


def record(errors, seed=0, diverged=False, pools=None, sizes=None, swaps=None, **config):
    """A run whose validation errors after each epoch are these; one that diverged ends with an epoch without."""
    made = RunConfig(seed=seed, subset=100, epochs=3, **config)
    rows = [row(k + 1, error) for k, error in enumerate(errors)]
    if diverged:
        rows.append(row(len(rows) + 1) | {"train_loss": None})
    final = {} if diverged else {"accuracy": 1 - errors[-1], "valid_error": errors[-1]}
    result = {
        "status": "diverged" if diverged else "finished",
        "epochs": rows,
        "final": final,
        "pools": {"global_pool": pools or {}},
        "input_sizes": sizes or {},
        "swaps": swaps or {},
        "network": {"parameters": 1234, "pooled_positions": 64},
    }
    return Record(made.key(), made.to_dict(), result, {"cpu": "a processor"})


@pytest.mark.parametrize(("data", "guess"), [("cifar10", 10.0), ("cifar100", 1.0), ("imagewoof2-128", 10.0)])
def test_a_run_that_diverged_counts_as_guessing(data, guess):
    runs = [record([0.5, 0.25], data=data), record([0.5], seed=1, data=data, diverged=True)]
    assert outcomes.accuracies(runs) == [75.0, guess]
    assert outcomes.errors(runs) == [25.0, 100 - guess]
    assert outcomes.diverged(runs) == 1


def test_curves_have_every_run_and_stay_at_guessing_after_a_divergence():
    runs = [record([0.5], diverged=True), record([0.8, 0.6, 0.4], seed=1), record([], seed=2, diverged=True)]
    epochs, values = outcomes.curves(runs)
    assert epochs == [1, 2, 3]
    assert np.allclose(values, [[50, 90, 90], [80, 60, 40], [90, 90, 90]])


def test_curves_leave_out_epochs_that_were_not_validated():
    sparse = record([0.9, None, 0.3])
    epochs, values = outcomes.curves([sparse, sparse])
    assert epochs == [1, 3] and np.allclose(values, [[90, 30], [90, 30]])
    assert outcomes.curves([sparse], "train_error")[0] == [1, 2, 3]


def test_final_temperatures_are_one_or_one_a_channel_and_nan_where_there_is_none():
    runs = [record([0.5], pools={"temperature": [2.0]}), record([0.5], pools={"temperature": [1.0, None, 3.0]})]
    one, channels = outcomes.final_temperatures(runs)
    assert one.tolist() == [2.0]
    assert channels[0] == 1.0 and np.isnan(channels[1]) and channels[2] == 3.0


def test_accuracy_over_sizes_has_a_row_a_run_also_for_those_that_diverged():
    sizes = {"zoom": {"40": 0.5, "24": 0.25}}
    runs = [record([0.4], sizes=sizes, input_sizes=(40, 24)), record([], seed=1, diverged=True, input_sizes=(40, 24))]
    for order in (runs, runs[::-1]):
        found, values = outcomes.over_sizes(order, "zoom")
        assert found == sorted(found) and {24, 40} <= set(found)
        by_run = dict(zip((r.result["status"] for r in order), values.tolist(), strict=True))
        seen = dict(zip(found, by_run["finished"], strict=True))
        assert (seen[24], seen[40]) == (25.0, 50.0)
        assert by_run["diverged"] == [10.0] * len(found)


def test_the_setting_names_all_that_a_reader_must_know():
    runs = [record([0.5], seed=seed) for seed in range(3)]
    text = outcomes.setting(runs)
    for part in ("CIFAR-10 at 32 px", "100 training pictures", "3 epochs", "batch 256", "WRN-18", "1,234", "64"):
        assert part in text
    assert "n = 3" in text and "a processor" in text
    whole = Record("", runs[0].config | {"subset": None, "data": "imagewoof2-128"}, runs[0].result, {})
    assert "all training pictures" in outcomes.setting([whole])
    assert "Imagewoof" in outcomes.setting([whole]) and "unknown hardware" in outcomes.setting([whole])


def test_by_how_much_a_gap_is_narrower():
    def arm(*gaps):
        runs = [record([0.3], seed=seed) for seed in range(len(gaps))]
        for run, gap in zip(runs, gaps, strict=True):
            run.result["final"]["train_error"] = 0.3 - gap
        return runs

    assert outcomes.gap_narrowed([arm(0.1, 0.2), arm(0.2, 0.1)]) == pytest.approx([50.0, -100.0])


def test_the_setting_of_frozen_heads_names_their_network():
    config = FrozenConfig(data="cifar100", image_size=128, subset=4000, epochs=20, seed=1)
    text = outcomes.setting(
        [Record(config.key(), config.to_dict(), {"final": {"accuracy": 0.5}}, {"cpu": "a processor"})]
    )
    for part in ("CIFAR-100 at 128 px", "4,000 training pictures", "20 epochs", "EfficientNet-lite0, frozen; n = 1"):
        assert part in text


def test_after_a_swap_or_without_one():
    swaps = {"avg": {"accuracy_before": 0.75, "accuracy": 0.8}, "lae(t0=2)": {"accuracy_before": 0.5, "accuracy": 0.7}}
    runs = [record([0.25], swaps=swaps), record([0.5], seed=1, diverged=True)]
    assert outcomes.swapped(runs, "lae(t0=2)", "accuracy_before") == [50.0, 10.0]
    assert outcomes.after_swap([["lae(t0=2)"], [runs]]) == [70.0, 10.0]
    assert outcomes.after_swap([["avg"], [runs]]) == [80.0, 10.0]
    assert outcomes.after_swap([[outcomes.NO_SWAP], [runs]]) == [75.0, 10.0]
