"""`lae sweep` as a user meets it."""

import json

import pytest

from lae_core.cli import main
from lae_core.runs.export import read_export

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


def test_failures_are_listed_and_give_exit_code_1(plan, tmp_path, capsys):
    arguments = ["sweep", str(plan), "--store", str(tmp_path / "runs"), "--where", "inline", "--set", "batch=128"]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert "2 failed" in error and "batch = 128 is invalid" in error and "'pool': 'max'" in error


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--set", "seed"], "FIELD=VALUE"),
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
