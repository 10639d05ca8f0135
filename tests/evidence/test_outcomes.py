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


def test_final_temperatures_are_one_or_one_a_channel_and_nan_where_there_is_none():
    runs = [record([0.5], pools={"temperature": [2.0]}), record([0.5], pools={"temperature": [1.0, None, 3.0]})]
    one, channels = outcomes.final_temperatures(runs)
    assert one.tolist() == [2.0]
    assert channels[0] == 1.0 and np.isnan(channels[1]) and channels[2] == 3.0


def test_the_setting_names_all_that_a_reader_must_know():
    runs = [record([0.5], seed=seed) for seed in range(3)]
    text = outcomes.describe_runs(runs)
    for part in ("CIFAR-10 at 32 px", "100 training pictures", "3 epochs", "batch 256", "WRN-18", "1,234", "64"):
        assert part in text
    assert "n = 3" in text and "a processor" in text
    whole = Record("", runs[0].config | {"subset": None, "data": "imagewoof2-128"}, runs[0].result, {})
    assert "all training pictures" in outcomes.describe_runs([whole])
    assert "Imagewoof" in outcomes.describe_runs([whole]) and "unknown hardware" in outcomes.describe_runs([whole])


def test_the_hardware_is_that_which_trained():
    run = record([0.5])
    on_gpu = Record("", run.config, run.result, {"device": "NVIDIA A100", "cpu": "a processor"})
    assert outcomes.describe_runs([on_gpu]).endswith("NVIDIA A100.")
    on_cpu = Record("", run.config, run.result, {"device": "cpu", "cpu": "a processor"})
    assert outcomes.describe_runs([on_cpu]).endswith("a processor.")


def test_by_how_much_a_gap_is_narrower():
    def arm(*gaps):
        runs = [record([0.3], seed=seed) for seed in range(len(gaps))]
        for run, gap in zip(runs, gaps, strict=True):
            run.result["final"]["train_error"] = 0.3 - gap
        return runs

    assert outcomes.gap_narrowed([arm(0.1, 0.2), arm(0.2, 0.1)]) == pytest.approx([50.0, -100.0])


def test_the_setting_of_frozen_heads_names_their_network():
    config = FrozenConfig(data="cifar100", image_size=128, subset=4000, epochs=20, seed=1)
    text = outcomes.describe_runs(
        [Record(config.key(), config.to_dict(), {"final": {"accuracy": 0.5}}, {"cpu": "a processor"})]
    )
    for part in ("CIFAR-100 at 128 px", "4,000 training pictures", "20 epochs", "EfficientNet-lite0, frozen; n = 1"):
        assert part in text


def test_after_a_swap_or_without_one():
    swaps = {"avg": {"accuracy_before": 0.75, "accuracy": 0.8}, "lae(t0=2)": {"accuracy_before": 0.5, "accuracy": 0.7}}
    runs = [record([0.25], swaps=swaps), record([0.5], seed=1, diverged=True)]
    assert outcomes.swap_accuracies(runs, "lae(t0=2)", "accuracy_before") == [50.0, 10.0]
    assert outcomes.swap_measure([["lae(t0=2)"], [runs]]) == [70.0, 10.0]
    assert outcomes.swap_measure([["avg"], [runs]]) == [80.0, 10.0]
    assert outcomes.swap_measure([[outcomes.NO_SWAP], [runs]]) == [75.0, 10.0]


def sized(accuracy: float | None, **views: dict[str, float]) -> Record:
    """A run with this accuracy at 32 px, and at 24 and 40 px as given; None for one that diverged."""
    found = {"zoom": views.get("zoom"), "crop-zero": views.get("zero"), "crop-noise": views.get("noise")}
    if accuracy is None:
        return record([], diverged=True, input_sizes=(40, 24))
    return record([1 - accuracy], sizes=found, input_sizes=(40, 24))


GOOD = sized(0.6, zoom={"40": 0.4, "24": 0.5}, zero={"40": 0.3, "24": 0.2}, noise={"40": 0.25, "24": 0.2})
LOST = sized(None)


def test_the_training_size_stands_among_the_others():
    sizes, values = outcomes.accuracy_by_size([GOOD, LOST], "zoom")
    assert sizes == [24, 32, 40]
    assert values == pytest.approx(np.array([[50, 60, 40], [10, 10, 10]]))
    assert outcomes.accuracy_by_size([LOST, GOOD], "zoom")[1] == pytest.approx(values[::-1])


def test_the_measure_is_the_mean_over_other_sizes_less_the_accuracy_at_that_of_training():
    assert outcomes.gain_at_other_sizes([GOOD, LOST], "zoom") == pytest.approx([45 - 60, 0])
    assert outcomes.gain_at_other_sizes([GOOD], "crop-noise") == pytest.approx([22.5 - 60])


def test_smaller_sizes_have_one_crop():
    found = outcomes.accuracy_at_two_thirds_and_four_thirds([GOOD, LOST])
    assert {name: values[0] for name, values in found.items()} == pytest.approx(
        {
            ("smaller", "zoom to 24 px"): 50,
            ("smaller", "crop to 24 px"): 20,
            ("larger", "zoom to 40 px"): 40,
            ("larger", "zero pad to 40 px"): 30,
            ("larger", "noise pad to 40 px"): 25,
        }
    )


def early(errors: list[float | None], norms: list[float | None] | None = None, **config) -> Record:
    """A run of five epochs with these validation errors and gradient norms; None is where it diverged."""
    given = RunConfig(epochs=5, **config)
    rows = [row(k, error) for k, error in enumerate(errors, start=1)]
    for each, norm in zip(rows, norms or [], strict=bool(norms)):
        each["gradient_norm"] = norm
    return Record(given.key(), given.to_dict(), {"epochs": rows}, {})


def test_the_first_half_decides_and_the_rest_does_not():
    run, later = early([0.9, 0.7, 0.5, 0.4, 0.3]), early([0.9, 0.7, 0.1, 0.1, 0.1])
    assert outcomes.first_half(run.config["epochs"]) == 2
    assert outcomes.early_accuracies([run, later]) == pytest.approx([20.0, 20.0])


def test_a_run_that_diverged_early_guesses_from_then_on():
    assert outcomes.early_accuracies([early([0.5, None])]) == pytest.approx([(50 + 10) / 2])
    assert outcomes.early_accuracies([early([None])]) == pytest.approx([10.0])
    assert outcomes.early_accuracies([early([None], data="cifar100")]) == pytest.approx([1.0])


def test_epochs_that_were_not_validated_do_not_count():
    assert outcomes.early_accuracies([early([None, 0.7, None, 0.5, 0.4], eval_every=2)]) == pytest.approx([30.0])


def test_gradients_are_compared_seed_by_seed_as_far_as_all_runs_went():
    pool = [early([0.5] * 3, [2.0, 3.0, 4.0]), early([0.5] * 3, [1.0, 1.0, None])]
    base = [early([0.5] * 3, [1.0, 2.0, 4.0]), early([0.5] * 3, [2.0, 1.0, 1.0])]
    epochs, ratio = outcomes.gradient_ratio(pool, base)
    assert epochs == [1, 2]
    assert ratio == pytest.approx(np.array([[2.0, 1.5], [0.5, 1.0]]))


def tempered(pool: str, final: list[float | None], means: list[float | None]) -> Record:
    rows = [{"epoch": k + 1, "temperatures": {"global_pool": {"mean": m}}} for k, m in enumerate(means)]
    return Record("k", {"pool": pool}, {"pools": {"global_pool": {"temperature": final}}, "epochs": rows})


def test_doublings_are_the_mean_over_channels():
    channel = tempered("lae(t0=4, train=channel)", [2.0, 16.0, 8.0], [4.0])
    assert outcomes.doublings([channel]) == pytest.approx([2 / 3])
    assert outcomes.doublings([tempered("lae(train=one)", [2.0], [2.0])]) == [1.0]


def test_a_diverged_run_did_not_move():
    gone = tempered("lae(t0=4, train=one)", [None], [8.0, None])
    assert outcomes.doublings([gone]) == [0.0]
    epochs, course = outcomes.temperature_course([gone, tempered("lae(t0=4, train=one)", [16.0], [4.0, 8.0, 16.0])])
    assert epochs == [0, 1, 2, 3]
    assert course.tolist() == [[0, 1, 1, 1], [0, 0, 1, 2]]


@pytest.mark.parametrize("slope", [1.0, 0.3, 0.0])
def test_memory_is_a_slope_run_by_run(slope):
    starts = [[tempered(f"lae(t0={t}, train=one)", [t**slope * 2**shift], []) for shift in (0, 1)] for t in (1, 4, 16)]
    assert outcomes.memory_slopes(starts) == pytest.approx([slope, slope])
