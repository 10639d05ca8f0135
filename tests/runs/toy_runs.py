"""A stand-in for `RunConfig` and run functions for the tests of this room: cheap, importable by worker processes."""

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

    With `log`, each start appends a line (O_APPEND, so lines of several processes stay whole).
    """
    if config.log:
        with open(config.log, "a") as file:
            file.write(f"{config.seed} {os.getpid()}\n")
    if config.fail == "raise":
        raise ValueError(f"seed {config.seed} will not train")
    if config.fail == "kill":
        os.kill(os.getpid(), 9)
    place = Path(checkpoint_dir) / "place.json" if checkpoint_dir else None
    state = {"step": 0, "total": config.seed}
    if place is not None and place.exists():
        state = json.loads(place.read_text())
    while state["step"] < config.steps:
        time.sleep(config.seconds)
        state = {"step": state["step"] + 1, "total": state["total"] * 7 % 1009 + state["step"]}
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            temporary = place.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(state))
            temporary.replace(place)
    return {"total": state["total"], "curve": [float(config.seed), 0.1]}
