"""The one setting that says where a sweep runs."""

import os
import subprocess
import sys

import pytest

from lae_core.runs import where as module
from lae_core.runs.where import Where, slurm_arguments


@pytest.mark.parametrize(
    ("text", "kind", "options", "target"),
    [
        ("inline", "inline", {}, ""),
        (" local ", "local", {}, ""),
        ("local(workers=2)", "local", {"workers": "2"}, ""),
        ("local(per_gpu=2)", "local", {"per_gpu": "2"}, ""),
        ("tcp://10.0.0.1:8786", "address", {}, "tcp://10.0.0.1:8786"),
        ("slurm(jobs=8, walltime=04:00:00)", "slurm", {"jobs": "8", "walltime": "04:00:00"}, ""),
        ("slurm(extra=--gres=gpu:1 --nice=5)", "slurm", {"extra": "--gres=gpu:1 --nice=5"}, ""),
    ],
)
def test_settings(text, kind, options, target):
    assert Where.parse(text) == Where(kind, options, target)


def test_workers_per_gpu():
    assert module.local_workers(Where.parse("local(per_gpu=3)"), gpus=2) == 6
    assert module.local_workers(Where.parse("local"), gpus=2) == 2
    assert module.local_workers(Where.parse("local(workers=5)"), gpus=2) == 5
    with pytest.raises(ValueError, match="per_gpu = 3 is invalid: torch sees no GPU here"):
        module.local_workers(Where.parse("local(per_gpu=3)"), gpus=0)
    with pytest.raises(ValueError, match="per_gpu = 3 is invalid beside workers = 2"):
        module.local_workers(Where.parse("local(per_gpu=3, workers=2)"), gpus=2)


def test_without_a_setting_the_environment_decides(monkeypatch):
    monkeypatch.delenv("LAE_WHERE", raising=False)
    assert Where.parse().kind == "local"
    monkeypatch.setenv("LAE_WHERE", "tcp://host:1")
    assert Where.parse(None).target == "tcp://host:1"
    assert Where.parse("inline").kind == "inline"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("slurn", "expected inline, local, slurm"),
        ("local(jobs=2)", "names: workers"),
        ("local(workers)", "name=value"),
        ("inline(workers=2)", "names: none"),
        ("ftp://host", "expected inline"),
        ("missing/scheduler.json", "there is no such scheduler file"),
    ],
)
def test_mistakes_name_what_would_do(text, words):
    with pytest.raises(ValueError, match=words):
        Where.parse(text)


def test_numbers_are_checked():
    with pytest.raises(ValueError, match="workers = 'two'"):
        Where.parse("local(workers=two)")
    with pytest.raises(ValueError, match="jobs = '0'"):
        Where.parse("slurm(jobs=0)")


SCRIPT = """
import sys
from dask_jobqueue import SLURMCluster
from lae_core.runs.where import Where, slurm_arguments
if __name__ == "__main__":
    with SLURMCluster(**slurm_arguments(Where.parse(sys.argv[1]))) as cluster:
        print(cluster.job_script())
"""


def job_script(setting, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), setting]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": os.getcwd()}, cwd=tmp_path
    ).stdout


def test_the_job_script_asks_slurm_for_what_the_setting_says(tmp_path):
    script = job_script(
        "slurm(cores=2, memory=3GB, queue=short, account=lab, walltime=01:30:00, extra=--nice=5, "
        "prologue=module load cuda)",
        tmp_path,
    )
    for line in ("-p short", "-A lab", "--cpus-per-task=2", "--mem=3G", "-t 01:30:00", "--nice=5", "-J lae-sweep"):
        assert f"#SBATCH {line}\n" in script
    assert "module load cuda" in script and "DASK_DISTRIBUTED__WORKER__DAEMON=False" in script
    assert f"{sys.executable} -m distributed.cli.dask_worker" in script
    assert "--nthreads 1 " in script and "--nworkers 2 " in script  # one thread a run, as many runs as cores
    assert script.rstrip().endswith("--memory-limit 0")  # the last one counts: Dask is not to judge memory
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_a_job_with_gpus_runs_one_run_at_a_time():
    arguments = slurm_arguments(Where.parse("slurm(gpus=2, cores=8)"))
    assert arguments["job_extra_directives"] == ["--gres=gpu:2"]
    assert (arguments["cores"], arguments["processes"], arguments["job_cpu"]) == (1, 1, 8)


def test_a_job_that_slurm_refuses_is_an_error_at_once(tmp_path, monkeypatch):
    fake = tmp_path / "sbatch"
    fake.write_text("#!/bin/sh\necho 'no such partition' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ConnectionError, match="no such partition"):
        module._ask_slurm("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ConnectionError, match="cannot submit jobs"):
        module._ask_slurm("#!/bin/sh\n")


def test_one_worker_a_gpu(monkeypatch):
    """Without GPUs here, only what the workers would be told is checked."""
    told = []

    class Recorder:
        def __init__(self, specs, **_):
            told.extend(spec["options"]["env"]["CUDA_VISIBLE_DEVICES"] for spec in specs.values())

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr("distributed.SpecCluster", Recorder)
    monkeypatch.setattr(module, "gpu_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    with module._local(Where.parse("local")):
        pass
    assert told == ["4", "6"] and os.environ["CUDA_VISIBLE_DEVICES"] == "4,6"
