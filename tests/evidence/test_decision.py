"""What runs can bear: the gate, n, data sets, and the scale that follows from configs."""

from __future__ import annotations

import json

import pytest

from lae_core.evidence import gate, rules, scale
from lae_core.evidence.compare import Contrast, compare, table
from lae_core.evidence.decision import Built, Decision
from lae_core.paper import protocol
from lae_core.runs.records import Record
from lae_core.training.config import RunConfig


def run(config: RunConfig, accuracy: float) -> Record:
    return Record(config.key(), config.to_dict(), {"status": "done", "final": {"accuracy": accuracy / 100}})


def arm(config: RunConfig, accuracy: float, n: int = 10, over: str = "seed") -> list[Record]:
    """n runs about an accuracy, each a little different."""
    return [run(config.replace(**{over: k}), accuracy + 0.01 * k) for k in range(n)]


def e3(average: float, n: int = 10, gain: float = 1.0, data: tuple[str, ...] = ("cifar10", "cifar100"), **changes):
    """The decision on E3 where LAE with one trained temperature lies this much above average pooling."""
    contrasts, baseline = {}, {}
    for name in data:
        config = RunConfig(data=name, epochs=8, **changes)
        baseline[name] = arm(config, average, n)
        lae = [run(config.replace(pool=rules.ONE, seed=k), average + gain + 0.02 * k) for k in range(n)]
        contrasts[Contrast(name, rules.ONE, "avg")] = lae, baseline[name]
    return rules.e3(compare(contrasts, margin=rules.e3.margin, baseline=baseline))


def test_a_network_that_works_decides():
    decision = e3(90.0)
    assert (decision.word, decision.scale, decision.n, decision.because) == ("reproduced", "cpu", 10, "")
    assert all(regime.passed for regime in decision.regimes) and "reproduced" in decision.rule.lower()


def test_below_the_gate_nothing_is_decided():
    decision = e3(40.0)
    assert decision.word == "not testable here" and "below the gate" in decision.because
    assert "the gate is 85 %, not passed" in str(decision.regimes[0])


def test_a_place_below_the_gate_does_not_count():
    """70 % is enough on CIFAR-100 and not on CIFAR-10."""
    decision = e3(70.0)
    assert decision.word == "partly" and decision.because == "nothing was decided on cifar10"
    turned = e3(70.0, gain=-1.0)
    assert turned.word == "contradicted" and "not counted: cifar10 (below the gate)" in turned.because


def test_a_data_set_on_which_nothing_is_run_yet_does_not_count():
    config = RunConfig(data="cifar10", epochs=8)
    average = arm(config, 90.0)
    for gain, word, because in [
        (1.0, "partly", "nothing was decided on cifar100"),
        (-1.0, "contradicted", "not counted: cifar100 (not run)"),
    ]:
        lae = [run(config.replace(pool=rules.ONE, seed=k), 90 + gain + 0.02 * k) for k in range(10)]
        contrasts = {
            Contrast("cifar10", rules.ONE, "avg"): (lae, average),
            Contrast("cifar100", rules.ONE, "avg"): ([], []),
        }
        baseline = {"cifar10": average, "cifar100": []}
        decision = rules.e3(compare(contrasts, margin=rules.e3.margin, baseline=baseline))
        assert (decision.word, decision.because, decision.n) == (word, because, 10)


def test_the_gate_itself_is_enough_and_digits_never_are():
    assert e3(85.0).word == "reproduced"
    assert e3(84.9, data=("cifar10",)).word == "not testable here"
    assert e3(99.0, data=("digits",)).word == "not testable here"


def test_fewer_runs_than_the_rule_asks_for_leave_it_open():
    decision = e3(90.0, n=9)
    assert decision.word == "open" and decision.because.endswith(" has n = 9")
    assert e3(90.0, n=5, data=("cifar100",)).word == "partly"


def test_one_data_set_of_two_is_partly_at_best():
    assert e3(90.0, data=("cifar10",)).word == "partly"
    assert e3(90.0, gain=-1.0, data=("cifar10",)).word == "contradicted"


def test_a_sweep_has_a_lower_gate():
    average = arm(RunConfig(epochs=8), 80.0)
    key = Contrast("CIFAR-10", "x", "y")
    found = compare({key: (average, average)}, margin=1.0, baseline={"CIFAR-10": average})
    assert rules.e7(found).word == "open" and rules.e3(found).word == "not testable here"


def test_without_runs_a_claim_is_open():
    decision = rules.e3(compare({}, margin=1.0, baseline={}))
    assert (decision.word, decision.because) == ("open", "not run")


# The scale.


def printed(pool: str = rules.ONE, n: int = 30, **changes) -> list[Record]:
    return arm(protocol.wrn(pool, "cifar10").replace(**changes), 95.0, n)


def test_paper_needs_every_field_and_n():
    assert scale.scale_of(printed(), "wrn") == "paper"
    assert scale.scale_of(printed(n=29), "wrn") == "gpu"
    assert scale.scale_of([], "wrn") == "cpu"
    assert scale.scale_of([*printed(), *printed("avg", n=2)], "wrn") == "gpu"
    assert scale.scale_of(printed(device="cpu", input_sizes=[16], eval_every=2), "wrn") == "paper"


OTHER = {"depth": 26, "width": 4.0, "subset": 5000, "eval_subset": 2000, "epochs": 49, "batch": 128, "augment": "flip-crop",
         "lr": 0.1, "weight_decay": 1e-3, "momentum": 0.5, "label_smoothing": 0.1, "precision": "fp16",
         "fill": 0, "last_activation": "relu", "temperature_lr": 10.0, "decay_norm": True, "image_size": 40, "squeeze": "avg",
         "ramp_up": 0.2}  # fmt: skip


# fields that have no effect beside these, and are refused
ALONG = {"augment": {"fill": 0}, "last_activation": {"decay_slopes": False}, "decay_norm": {"decay_slopes": False}}


@pytest.mark.parametrize("name", OTHER)
def test_one_field_that_differs_is_not_the_paper_s_scale(name):
    assert scale.scale_of(printed(**{name: OTHER[name]}, **ALONG.get(name, {})), "wrn") == "cpu"


@pytest.mark.parametrize("changes", [{"epochs": 47}, {"precision": "bf16"}, {"epochs": 8, "precision": "bf16"}])
def test_fewer_epochs_and_bf16_are_the_scale_gpu(changes):
    assert scale.scale_of(printed(**changes), "wrn") == "gpu"
    assert scale.scale_of([*printed(**changes), *printed("avg")], "wrn") == "gpu"
    assert scale.scale_of([*printed(**changes), *printed("avg", width=4.0)], "wrn") == "cpu"
    assert scale.scale_of(printed(**changes), "mxresnet") == "cpu"


def test_a_claim_of_parts_has_the_weakest_scale():
    parts = [Decision("C11", "open", "", "paper"), Decision("C8a", "open", "", "gpu")]
    assert rules.e6(*parts).scale == "gpu"
    assert rules.e6(parts[0], parts[0]).scale == "paper"
    assert rules.e6(parts[1], Decision("C8a", "open", "", "cpu")).scale == "cpu"


def test_every_protocol_is_the_paper_s_scale_and_none_of_another():
    made = {
        "wrn": printed(),
        "squeeze": arm(protocol.squeeze_excite("avg", "lae", "cifar10"), 95.0, 30),
        "pyramidnet": arm(protocol.pyramidnet("lae", "cifar100"), 80.0, 5),
        "mxresnet": arm(protocol.mxresnet("lae(t0=4)", "imagewoof", 128), 75.0, 40),
        "input size": arm(protocol.mxresnet("lae", "imagewoof", 256).replace(input_sizes=[128]), 75.0, 28),
        "final temperature": arm(
            protocol.mxresnet("lae(t0=8, train=one)", "imagewoof", 128, epochs=25), 75.0, 10, "fold"
        ),
        "initial temperature": arm(
            protocol.mxresnet("lae", "imagenette", 256, epochs=6, tuned_for="avg"), 90.0, 10, "fold"
        ),
        "precision": arm(
            protocol.mxresnet("lae(dtype=float16)", "imagewoof", 128, epochs=6, tuned_for="avg"), 75.0, 10, "fold"
        ),
    }
    assert set(made) == set(scale.PROTOCOLS)
    assert {name: scale.scale_of(runs, name) for name, runs in made.items()} == dict.fromkeys(made, "paper")
    assert scale.scale_of(made["wrn"], "mxresnet") == scale.scale_of(made["mxresnet"], "wrn") == "cpu"
    assert scale.scale_of(made["mxresnet"], "final temperature") == "cpu"  # its repeats are no folds


def test_a_network_trained_by_the_printed_protocol_is_reproduced():
    assert rules.n2(Built(1, 1, printed())).word == "reproduced"
    assert rules.n2(Built(1, 1, printed(n=3))).word == "implemented"


# Ridge regression beside the regime.


def test_ridge_is_read_for_the_same_pictures_only(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "RIDGE", tmp_path / "ridge.json")
    records = arm(RunConfig(subset=5000, epochs=8), 40.0, 2)
    assert gate.regime("x", records, "table").ridge is None
    names = [gate.pictures(record.config) for record in records]
    gate.write_ridge({names[0]: 38.0, names[1]: 40.0})
    assert gate.regime("x", records, "table").ridge == 39.0
    assert gate.regime("x", arm(RunConfig(subset=5000), 40.0, 3), "table").ridge is None
    whole = gate.pictures(RunConfig(seed=3).to_dict())
    assert whole == gate.pictures(RunConfig(seed=4, lr=0.1).to_dict()) and json.loads(whole)["seed"] is None


def test_an_edited_ridge_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "ridge.json"
    monkeypatch.setattr(gate, "RIDGE", path)
    gate.write_ridge({"a": 40.0})
    content = path.read_text()
    for changed in (content.replace("40.0", "10.0"), content + " ", content.replace(" ", "", 1), "{}"):
        path.write_text(changed)
        with pytest.raises(ValueError, match=r"ridge.json"):
            gate.read_ridge()


def half_done(first: list[Record], second: list[Record], average: list[Record]):
    contrast = Contrast("CIFAR-10", rules.ONE, "avg")
    return compare({contrast: (first, second)}, margin=0.2, baseline={"CIFAR-10": average})[contrast]


def test_runs_are_paired_by_seed_whatever_their_order():
    """A missing seed shortens the comparison; it never pairs runs of different seeds."""
    average = arm(RunConfig(), 90)
    other = [run(RunConfig(pool=rules.ONE, seed=k), 91 + 0.01 * k + 0.1 * (k % 3)) for k in range(10)]
    whole = half_done(other, average, average)
    turned = half_done(other[::-1], average, average)
    assert (turned.difference, turned.pvalue) == pytest.approx((whole.difference, whole.pvalue))
    some = half_done([other[7], other[2], other[4]], average[1:], average)
    assert some.n == 3 and some.difference == pytest.approx(1 + 0.1 * (7 % 3 + 2 % 3 + 4 % 3) / 3)


def test_an_arm_without_runs_leaves_its_claim_open():
    average = arm(RunConfig(), 90)
    for runs in ([], arm(RunConfig(pool=rules.ONE), 91, n=1)):
        found = half_done(runs, average, average)
        assert found.outcome == "not run" and str(found).endswith("not run")
    contrasts = {
        Contrast("CIFAR-10", rules.ONE, "avg"): (arm(RunConfig(pool=rules.ONE), 95), average),
        Contrast("CIFAR-10", rules.ONE, "max"): (arm(RunConfig(pool=rules.ONE), 95), []),
    }
    comparisons = compare(contrasts, margin=0.2, baseline={"CIFAR-10": average})
    decision = rules.e3(comparisons)
    assert decision.word == "open" and "n = 0" in decision.because and "not run" in decision.evidence
    assert table(comparisons)["outcome"].tolist() == ["higher", "not run"]
    assert rules.e3(compare(contrasts, margin=0.2, baseline={"CIFAR-10": []})).word == "open"
