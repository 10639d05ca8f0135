"""A run killed with SIGKILL, at any point and as often as one likes, ends in the record of an undisturbed one."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

CONFIGS = {
    # momentum and a trained temperature; PyramidNet's ShakeDrop, whose gates need torch's random state, under Ranger
    "wrn-sgd": {"depth": 8, "width": 0.5, "pool": "lae(t0=4, train=channel)", "augment": "autoaugment"},
    "pyramidnet-ranger": {
        "network": "pyramidnet", "depth": 8, "width": 9, "pool": "mixed", "optimiser": "ranger", "lr": 0.01,
        "augment": "flip-crop",
    },
}  # fmt: skip
COMMON = {"data": "digits", "epochs": 4, "batch": 32, "subset": 128, "eval_subset": 60, "seed": 3}

# Forks a process for each line it reads, tells its number and then its end: torch is imported once, not for every kill.
SERVER = """
import json, os, signal, sys
import pytorch_optimizer, sklearn.datasets, torch
torch.set_num_threads(1)
from lae_core.training import loop
from lae_core.training.config import RunConfig

def run(order):
    written = 0
    def fsync(descriptor, real=os.fsync):
        nonlocal written
        written += 1
        if written == order["die_at"]:  # the new checkpoint is whole but not yet in its place
            os.kill(os.getpid(), signal.SIGKILL)
        real(descriptor)
    os.fsync = fsync
    record = loop.run(RunConfig(**order["fields"]), checkpoint_dir=order["folder"])
    with open(order["out"], "w") as out:
        json.dump({k: v for k, v in record.items() if k not in ("times", "provenance")}, out, sort_keys=True)

print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run(json.loads(line))
            code = 0
        finally:
            os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """Runs in processes of their own, which can be killed."""

    def __init__(self, folder) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        self.server = subprocess.Popen([sys.executable, "-c", SERVER], **pipes)
        self.out = folder / "record.json"
        assert self.server.stdout.readline() == "ready\n"

    def start(self, fields: dict, folder=None, die_at: int = 0) -> int:
        folder = None if folder is None else str(folder)
        order = {"fields": COMMON | fields, "folder": folder, "die_at": die_at, "out": str(self.out)}
        print(json.dumps(order), file=self.server.stdin, flush=True)
        return int(self.server.stdout.readline())

    def wait(self) -> int:
        return int(self.server.stdout.readline())

    def record(self, fields: dict, folder=None) -> str:
        self.start(fields, folder)
        assert self.wait() == 0
        return self.out.read_text()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    server = Runs(tmp_path_factory.mktemp("runs"))
    yield server
    server.server.stdin.close()
    server.server.wait(60)
    server.server.stdout.close()


def kill_at_random(runs: Runs, folder, fields: dict, rounds: int, seed: int) -> int:
    """Start, kill after a random part of the run's length, and again; then let it finish. How many were killed."""
    began = time.perf_counter()
    expected = runs.record(fields)
    length = time.perf_counter() - began
    draw, killed = random.Random(seed), 0
    for _ in range(rounds):
        child = runs.start(fields, folder)
        time.sleep(draw.uniform(0.2, 0.8) * length)
        with contextlib.suppress(ProcessLookupError):  # it was quicker than we
            os.kill(child, signal.SIGKILL)
        killed += runs.wait() == -signal.SIGKILL
    assert runs.record(fields, folder) == expected
    return killed


def test_killed_at_random_moments(runs, tmp_path):
    assert kill_at_random(runs, tmp_path / "checkpoints", CONFIGS["pyramidnet-ranger"], rounds=3, seed=0) > 0


def test_killed_while_a_checkpoint_is_written(runs, tmp_path):
    fields, folder = CONFIGS["wrn-sgd"], tmp_path / "checkpoints"
    expected = runs.record(fields)
    runs.start(fields, folder, die_at=3)
    assert runs.wait() == -signal.SIGKILL
    begun, kept = sorted(path.name for path in folder.iterdir())  # a piece of the third, and the second
    assert begun.startswith(f".{kept}.") and kept.endswith(".ckpt")
    assert runs.record(fields, folder) == expected


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_kill_matrix(runs, tmp_path, name, seed):
    assert kill_at_random(runs, tmp_path / "checkpoints", CONFIGS[name], rounds=6, seed=seed) > 0
