"""Checkpoints: everything a run needs to go on as if it had never stopped, as tensors and plain values only.

A checkpoint holds the weights, the optimiser's state, torch's random state, the epochs done and the record so far. The
order of the data and the draws of the augmentation need no state: they are functions of the seed and the epoch.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from lae_core.training.config import RunConfig


def path_for(folder: Path, config: RunConfig) -> Path:
    return folder / f"{config.key()}.ckpt"


def save(folder: Path, config: RunConfig, state: dict[str, Any]) -> None:
    """Write beside the old checkpoint, then put in its place: a reader sees the old or the new one, never a part."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_for(folder, config)
    scratch = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with scratch.open("wb") as stream:
            torch.save({"config": config.to_dict(), **state}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def load(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """The run's checkpoint, or None if it has none. Reading it executes nothing."""
    path = path_for(folder, config)
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        same = RunConfig.from_dict(state["config"]).key() == config.key()
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint of this program; move it away to start anew") from error
    if not same:
        raise ValueError(f"{path} belongs to another run; move it away to start anew")
    return state


def remove(folder: Path, config: RunConfig) -> None:
    """Forget a run's checkpoint, once its record is safe; also what a killed writer left behind."""
    for path in folder.glob(f"{config.key()}.ckpt*"):
        path.unlink(missing_ok=True)
