"""`lae sweep` as a user meets it."""

import json

import pytest

from lae_core.cli import main
from lae_core.runs.export import read_export
from lae_core.runs.sweep import sweep as real_sweep

PLAN = """
base: {depth: 8, width: 0.25, data: digits, epochs: 1, batch: 64, subset: 64, eval_subset: 32, augment: none, lr: 0.1}
grid: {pool: [avg, max]}
"""


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.yml"
    path.write_text(PLAN)
    return path


def test_from_plan_to_text_file(plan, tmp_path, capsys):
    store, text = tmp_path / "runs", tmp_path / "toy.jsonl"
    arguments = ["sweep", str(plan), "--store", str(store), "--where", "inline", "--set", "seed=3"]
    assert main([*arguments, "--dry-run"]) == 0
    assert "2 runs in the plan, 0 recorded" in capsys.readouterr().out
    assert main([*arguments, "--export", str(text)]) == 0
    assert "2 run, 0 already recorded, 0 failed" in capsys.readouterr().out
    records = read_export(text)
    assert {record.config["pool"] for record in records} == {"avg", "max"}
    assert {record.config["seed"] for record in records} == {3}
    assert all(0 <= record.result["final"]["valid_error"] <= 1 for record in records)
    assert main(arguments) == 0
    assert "0 run, 2 already recorded" in capsys.readouterr().out


def test_an_export_keeps_what_it_has_and_is_not_run_again(plan, tmp_path, capsys):
    """As on another machine, where the store is empty."""
    text = tmp_path / "toy.jsonl"
    text.touch()  # an empty file is as good as none
    sweep = ["sweep", str(plan), "--where", "inline", "--export", str(text)]
    assert main([*sweep, "--store", str(tmp_path / "here"), "--set", "seed=1"]) == 0
    before = {record.key: record for record in read_export(text)}
    plan.write_text(PLAN.replace("{pool: [avg, max]}", "{pool: [avg, max], seed: 1..2}"))
    capsys.readouterr()
    assert main([*sweep, "--store", str(tmp_path / "there"), "--dry-run"]) == 0
    assert "2 of 4 runs are in" in (said := capsys.readouterr().out) and "2 runs in the plan, 0 recorded" in said
    assert main([*sweep, "--store", str(tmp_path / "there")]) == 0
    assert "2 run, 0 already recorded" in (said := capsys.readouterr().out) and "2 records added" in said
    after = {record.key: record for record in read_export(text)}
    assert len(after) == 4 and all(after[key] == record for key, record in before.items())


def test_what_others_add_to_the_export_during_a_sweep_is_kept(plan, tmp_path, monkeypatch):
    text, others = tmp_path / "toy.jsonl", tmp_path / "others.jsonl"
    plan.write_text(PLAN.replace("[avg, max]", "[avg]"))
    sweep = ["sweep", str(plan), "--store", str(tmp_path / "runs"), "--where", "inline"]
    assert main([*sweep, "--set", "seed=1", "--export", str(others)]) == 0

    def meanwhile(*arguments, **options):
        others.rename(text)
        return real_sweep(*arguments, **options)

    monkeypatch.setattr("lae_core.runs.sweep_command.sweep", meanwhile)
    assert main([*sweep, "--set", "seed=2", "--export", str(text)]) == 0
    assert [record.config["seed"] for record in read_export(text)] == [1, 2]


def test_one_seed_on_two_kinds_of_machine_is_not_put_into_one_file(plan, tmp_path, capsys, monkeypatch):
    text = tmp_path / "toy.jsonl"
    sweep = ["sweep", str(plan), "--store", str(tmp_path / "runs"), "--where", "inline", "--export", str(text)]
    assert main([*sweep, "--set", "seed=1"]) == 0
    before = text.read_bytes()
    monkeypatch.setattr("lae_core.training.provenance.cpu", lambda: "another one")
    assert main([*sweep, "--set", "seed=1", "--set", "lr=0.05"]) == 1
    assert "another one" in (said := capsys.readouterr().err) and "the store keeps the records" in said
    assert text.read_bytes() == before


def test_failures_are_listed_and_give_exit_code_1(plan, tmp_path, capsys):
    arguments = ["sweep", str(plan), "--store", str(tmp_path / "runs"), "--where", "inline", "--set", "batch=128"]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "2 failed" in error and "batch = 128 is invalid" in error and "'pool': 'max'" in error


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--set", "sead=1"], "did you mean 'seed'"),
        (["--where", "slurn"], "expected inline, local, slurm"),
        (["--where", "missing.json"], "no such scheduler file"),
    ],
)
def test_mistakes_give_one_line_and_exit_code_2(plan, tmp_path, capsys, extra, words):
    place = [] if "--where" in extra else ["--where", "inline"]
    assert main(["sweep", str(plan), "--store", str(tmp_path / "runs"), *place, *extra]) == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error


def test_a_plan_that_is_not_there(tmp_path, capsys):
    assert main(["sweep", str(tmp_path / "none.yml"), "--store", str(tmp_path / "runs")]) == 2
    assert "none.yml" in capsys.readouterr().err


@pytest.mark.long
def test_the_benchmark_reports(tmp_path):
    """That it measures, not what: the machine may be busy."""
    sizes = ["--runs", "2", "--rounds", "1"]
    assert main(["bench", "sweep", *sizes, "--json", str(tmp_path / "b.json")]) == 0
    found = json.loads((tmp_path / "b.json").read_text())
    assert found["records_equal"] and found["speedup"] > 0
