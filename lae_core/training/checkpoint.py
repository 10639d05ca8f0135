"""Checkpoints: everything a run needs to go on as if it had never stopped, as tensors and plain values only.

A checkpoint holds the weights, the optimiser's state, torch's random state, the epochs done and the record so far. The
order of the data and the draws of the augmentation need no state: they are functions of the seed and the epoch.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from lae_core.training.config import RunConfig
from lae_core.training.files import write_whole


def path_for(folder: Path, config: RunConfig) -> Path:
    return folder / f"{config.key()}.ckpt"


def save(folder: Path, config: RunConfig, state: dict[str, Any]) -> None:
    """Write beside the old checkpoint, then put in its place: a reader sees the old or the new one, never a part."""
    folder.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()  # torch ends the process if Ctrl-C reaches it while it writes to a file itself
    torch.save({"config": config.to_dict(), **state}, content)
    write_whole(path_for(folder, config), content.getbuffer())


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
