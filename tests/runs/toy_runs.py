"""A stand-in for `RunConfig` and run functions for the tests of `runs`: cheap, importable by worker processes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Toy:
    """`seed` names the run; the rest says how its run function behaves, and does not name it."""

    seed: int = 0
    seconds: float = field(default=0.0, compare=False)
    steps: int = field(default=1, compare=False)
    fail: str = field(default="", compare=False)
    log: str = field(default="", compare=False)

    def key(self) -> str:
        return hashlib.sha256(json.dumps({"seed": self.seed}).encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Toy:
        return cls(**values)


def run(config: Toy, *, checkpoint_dir: Path | None = None, progress: Any = None) -> dict[str, Any]:
    """Sum a few numbers in `steps` steps of `seconds`, keeping its place in the checkpoint directory.

    With `log`, each start appends seed, process and step (O_APPEND, so lines of several processes stay whole).
    """
    place = Path(checkpoint_dir) / "place.json" if checkpoint_dir else None
    state = {"step": 0, "total": config.seed}
    if place is not None and place.exists():
        state = json.loads(place.read_text())
    if config.log:
        with open(config.log, "a") as file:
            file.write(f"{config.seed} {os.getpid()} {state['step']}\n")
    if config.fail == "raise":
        raise ValueError(f"seed {config.seed} will not train")
    if config.fail == "kill":
        os.kill(os.getpid(), 9)
    while state["step"] < config.steps:
        time.sleep(config.seconds)
        state = {"step": state["step"] + 1, "total": state["total"] * 7 % 1009 + state["step"]}
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(state))
            temporary.replace(place)
            if config.fail == "kill after each step" and state["step"] < config.steps:
                os.kill(os.getpid(), 9)
    return {"total": state["total"], "curve": [float(config.seed), 0.1]}


def toys(runs: int, steps: int = 1, seconds: float = 0.0, log: str | Path = "") -> list[Toy]:
    return [Toy(seed=seed, steps=steps, seconds=seconds, log=str(log)) for seed in range(runs)]


@dataclass(frozen=True)
class Start:
    seed: int
    pid: int
    step: int


def started(log: Path) -> list[Start]:
    """The starts of runs, in their order; a run that was resumed has more than one."""
    return [Start(*map(int, line.split())) for line in log.read_text().splitlines()] if log.exists() else []


def seeds(log: Path) -> list[int]:
    return [start.seed for start in started(log)]


def describe(config: Toy, **_: Any) -> dict[str, Any]:
    """What a worker process is like."""
    import multiprocessing

    import torch

    variables = {name: os.environ.get(name) for name in ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS")}
    daemon = multiprocessing.current_process().daemon
    return {"threads": torch.get_num_threads(), "daemon": daemon, "variables": variables}


def until_the_limit(config: Toy, **_: Any) -> dict[str, Any]:
    """A run that would never end, and obeys the time limit."""
    from lae_core.training import deadline

    while not deadline.passed():
        time.sleep(0.05)
    raise deadline.TimeUp
