"""Workflows are valid, and the scripts that they call exist, parse, and refuse a runner without a GPU."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import matplotlib
import pytest
import yaml

REPO = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((REPO / ".github" / "workflows").glob("*.yml"))
SCRIPTS = [*sorted((REPO / "ci").glob("*.sh")), REPO / ".ci" / "run"]


def test_workflows_fit_the_schema(tmp_path):
    schema = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*schema, *map(str, WORKFLOWS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("on: push\njobs:\n  a:\n    runs-on: x\n    stepz: []\n")
    assert subprocess.run([*schema, str(wrong)], capture_output=True).returncode != 0


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_only_call_make_and_our_scripts(workflow):
    """So that any other CI can do the same. Expressions reach a shell by the environment alone."""
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        for step in job["steps"]:
            command = step.get("run", "make")
            assert "${{" not in command
            program = command.split()[0]
            assert program == "make" or os.access(REPO / program, os.X_OK), command


def test_ci_tries_the_lowest_and_the_newest_versions_that_the_project_promises():
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    classifiers = [line.removeprefix("Programming Language :: Python :: ") for line in project["classifiers"]]
    lowest = project["requires-python"].removeprefix(">=")
    assert classifiers[0] == lowest
    jobs = yaml.safe_load((REPO / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    first, last = jobs["versions"]["strategy"]["matrix"]["include"]
    assert (first["python"], last["python"]) == (lowest, classifiers[-1])
    (torch,) = project["dependencies"]
    assert first["torch"] == torch.replace(">=", "==") + ".*" and last["torch"] == "torch"


def test_the_book_is_published_only_after_the_tests_passed():
    workflow = yaml.safe_load((REPO / ".github" / "workflows" / "pages.yml").read_text())
    tests = yaml.safe_load((REPO / ".github" / "workflows" / "tests.yml").read_text())
    assert workflow[True] == {  # YAML reads the key `on` as true
        "workflow_run": {"workflows": [tests["name"]], "types": ["completed"], "branches": ["main"]}
    }
    assert "workflow_run.conclusion == 'success'" in workflow["jobs"]["build"]["if"]
    assert workflow["jobs"]["deploy"]["needs"] == "build"


def test_gpu_workflow_asks_for_a_gpu_by_label_and_asserts_it():
    job = yaml.safe_load((REPO / ".github" / "workflows" / "gpu.yml").read_text())["jobs"]["notebooks"]
    assert {"self-hosted", "gpu"} <= set(job["runs-on"])
    assert "ci/require_cuda.py" in (REPO / "ci" / "gpu.sh").read_text()
    # the job's own limit, which keeps nothing, is later than the script's by the time of all other steps
    assert (
        job["timeout-minutes"] == "${{ fromJSON(inputs.minutes) }}" and job["env"]["MINUTES"] == "${{ inputs.minutes }}"
    )
    assert any('--minutes "$((MINUTES - 30))"' in step.get("run", "") for step in job["steps"])
    kept = [step["with"]["path"] for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    assert any("_build/gpu/records" in path for path in kept)


def test_gpu_is_the_default_of_the_workflow_and_of_its_script():
    workflow = yaml.safe_load((REPO / ".github" / "workflows" / "gpu.yml").read_text())
    inputs = workflow[True]["workflow_dispatch"]["inputs"]  # YAML reads `on` as a truth value
    assert inputs["profile"]["default"] == "gpu" and "gpu" in inputs["profile"]["options"]
    script = (REPO / "ci" / "gpu.sh").read_text()
    assert "profile=${words[0]:-gpu}" in script
    order = [
        script.index(part)
        for part in ("lae book --profile", "require_cuda.py", "tests/pooling/test_cuda.py", "lae data --for")
    ]
    assert order == sorted(order), "the plan needs no GPU, and nothing rests on kernels that were not tested"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plam"], "--plam is invalid; expected --plan or --minutes M"),
        (["--minutes"], "needs a number"),
        (["--minutes", "7.5"], "--minutes = '7.5' is invalid; expected a whole number of at least 1"),
        (["--minutes", "0"], "--minutes = '0' is invalid"),
        (["gpux"], "PROFILE = 'gpux' is invalid; expected gpu, paper, smoke or cpu"),
        (["gpu", "here", "there"], "'there' is invalid; expected at most PROFILE and DIRECTORY"),
    ],
)
def test_gpu_script_refuses_what_it_does_not_know(words, said):
    done = subprocess.run([str(REPO / "ci" / "gpu.sh"), *words], capture_output=True, text=True)
    assert done.returncode != 0 and said in done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_stop_at_the_first_error(script):
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    assert "set -euo pipefail" in script.read_text()


def test_runner_without_a_gpu_is_refused():
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(REPO)}
    done = subprocess.run([sys.executable, "ci/require_cuda.py"], cwd=REPO, env=hidden, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no CUDA GPU" in done.stderr


def test_the_script_of_the_readme_picture_draws_one(tmp_path):
    with matplotlib.rc_context():
        runpy.run_path(str(REPO / "ci" / "picture.py"))["draw"](tmp_path / "lae.svg")
    assert "<svg" in (tmp_path / "lae.svg").read_text()
    assert "book/_static/lae.svg" in (REPO / "README.md").read_text()


def test_readme_snippet_runs():
    """The Python of the README, executed; the shapes are those that its comments state."""
    text = (REPO / "README.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(snippet, names)
    assert names["logavgexp"](names["z"], t=1.0, dim=(-2, -1)).shape == (8, 64)
    assert names["pool"](names["z"]).shape == (8, 64)
    assert names["pool"].temperature.shape == (64,)


def test_readme_commands_are_real():
    """Each `lae` command and script that the README shows is one that parses."""
    from lae_core.cli import parser

    text = (REPO / "README.md").read_text()
    commands = re.findall(r"\.venv/bin/lae ([^`\n]*?)(?:\s+#.*|`.*)?$", text, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        if command != "--help":  # which would print and leave
            parser().parse_args(command.split())
    for path in re.findall(r"`?((?:ci|\.github)/[\w./]+)`?", text):
        assert (REPO / path).exists(), path
