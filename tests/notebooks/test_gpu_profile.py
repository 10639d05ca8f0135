"""The profile `gpu`: the printed networks, in an afternoon on one modern card.

Whether a network passes the gate of the verdicts is checked on its records, and nobody can know it before. What is tested
here is an argument that it could: MXResNet has at least the epochs after which the paper prints an accuracy above the
gate; on CIFAR the printed accuracy is above it, and a smaller network of ours passed it, on record, in no more epochs. For
PyramidNet, which ShakeDrop slows down, this is the weakest.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from lae_core.book.notebooks import all_notebooks
from lae_core.book.plan import Plan, gigabytes, hours, plan, report
from lae_core.evidence import rules
from lae_core.evidence.gate import GATES, family
from lae_core.evidence.scale import is_printed
from lae_core.paper import tables
from lae_core.paper.cost import step_flops
from lae_core.runs.export import read_export
from lae_core.runs.records import RunStore
from lae_core.training.config import RunConfig

REPO = Path(__file__).resolve().parents[2]
AFTERNOON = 8.0  # hours

# The protocol of each chapter, the rules that its runs decide, and whether its epochs are shortened.
CHAPTERS = {
    "wrn": ("wrn", ("E3", "C1", "C3"), True),
    "squeeze_excite": ("squeeze", ("E9", "C4", "C5"), True),
    "pyramidnet": ("pyramidnet", ("E2",), True),
    "training_curves": ("pyramidnet", ("E1", "C7"), True),
    "mxresnet": ("mxresnet", ("E4",), False),
    "input_size": ("input size", ("E5", "C13", "C13a", "C13c", "C23"), False),
    "initial_temperature": ("initial temperature", ("E7", "C12", "C9", "C21", "C22"), False),
    "final_temperature": ("final temperature", ("C11", "C8a", "C8"), True),
    "precision": ("precision", ("E8", "C6", "C10"), False),
}


@cache
def gpu() -> Plan:
    return plan(REPO, "gpu")


def chapters() -> dict[str, tuple[RunConfig, ...]]:
    return {part.notebook.removeprefix("experiments/"): part.configs for part in gpu().chapters}


def test_every_experiment_with_arms_is_in_the_profile():
    texts = {notebook.name.removeprefix("experiments/"): notebook.text for notebook in all_notebooks(REPO)}
    with_arms = {name for name, text in texts.items() if "tags: [arms" in text}
    assert set(chapters()) == with_arms == set(CHAPTERS)


def test_all_notebooks_together_fit_into_an_afternoon():
    assert 0.5 * AFTERNOON < hours(gpu().runs.values()) <= AFTERNOON


@pytest.mark.parametrize("name", CHAPTERS)
def test_runs_are_printed_but_for_epochs_seeds_and_bf16(name):
    experiment, _, shortened = CHAPTERS[name]
    for config in chapters()[name]:
        assert is_printed(config, experiment, shortened=True), config
        assert is_printed(config, experiment) is not shortened, config
        assert (config.subset, config.eval_subset, config.device) == (None, None, "cuda")
        assert config.image_size == (128 if config.network == "mxresnet" else 32)


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_arm_has_as_many_runs_as_its_rules_ask_for(name):
    arms: dict[RunConfig, int] = {}
    for config in chapters()[name]:
        arm = config.replace(seed=0, fold=None)
        arms[arm] = arms.get(arm, 0) + 1
    for config, n in arms.items():
        wanted = [rules.RULES[claim].n for claim in CHAPTERS[name][1]]
        assert n >= max(each.get(family(config.data), each["other"]) for each in wanted), config


def printed_accuracy(config: RunConfig) -> float:
    """Of average pooling in the paper's tables, in %."""
    rows = tables()[config.network].frame()
    rows = rows[(rows["pool"] == "avg") & (rows["data"] == family(config.data))]
    if config.network == "mxresnet":
        return float(rows[rows["size"].astype(int) == config.image_size]["mean"].iloc[0])
    return 100 - float(rows["mean"].max())


def smaller_network_passed(config: RunConfig, gate: float) -> bool:
    """Whether a recorded network with fewer FLOPs passed the gate on the same pictures in no more epochs."""
    for record in read_export(REPO / "book" / "results" / "recipes.jsonl"):
        other = RunConfig.from_dict(record.config)
        alike = other.data == config.data and other.subset is None and other.pool == "avg"
        good = alike and other.epochs <= config.epochs and 100 * record.result["final"]["accuracy"] >= gate
        if good and step_flops(other)[1] < step_flops(config)[1]:
            return True
    return False


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_baseline_could_pass_the_gate(name):
    baselines = {c.replace(seed=0, fold=None): c for c in chapters()[name] if c.pool == "avg" and c.squeeze is None}
    assert {family(c.data) for c in baselines} == {family(c.data) for c in chapters()[name]}
    kind = rules.RULES[CHAPTERS[name][1][0]].gate
    for config in baselines:
        gate = GATES[kind][family(config.data)]
        assert printed_accuracy(config) > gate
        if config.network == "mxresnet":
            assert config.epochs >= 5, "the paper's accuracies are those after 5 epochs"
        else:
            assert smaller_network_passed(config, gate), config


def test_the_plan_counts_what_is_recorded_and_starts_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LAE_DATA", str(tmp_path / "data"))
    first = next(iter(gpu().runs.values()))
    store = RunStore(tmp_path / "runs")
    store.put(first, {"final": {}})
    planned = Plan("gpu", gpu().chapters, frozenset(key for key in gpu().runs if key in store))
    assert len(planned.left) == len(gpu().runs) - 1
    text = report(planned, store.root)
    assert (
        "nothing was started" in text
        and "data set imagewoof-full: about" in text
        and "missing: lae data cifar10" in text
    )
    together = next(line for line in text.splitlines() if "together" in line).split()
    assert [int(number) for number in together[1:4]] == [len(gpu().runs), 1, len(gpu().runs) - 1]
    assert float(together[4]) == pytest.approx(hours(planned.left), abs=0.01)
    assert len(store) == 1 and not (tmp_path / "data").exists()


def test_data_sets_of_the_profile():
    assert gpu().data_sets == ["cifar10", "cifar100", "imagenette-full", "imagewoof-full"]
    assert gigabytes("cifar10") == pytest.approx(60000 * 3072 / 1e9)
