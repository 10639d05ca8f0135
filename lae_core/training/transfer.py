"""Small tensors from the CPU, where a step is planned, to the device that computes it."""

from __future__ import annotations

import torch
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A CPU tensor on `device`. To a GPU it goes from pinned memory, and nothing waits for its arrival."""
    if torch.device(device).type != "cuda":
        return tensor.to(device)
    pinned = tensor.pin_memory() if torch.cuda.is_available() else tensor  # without a GPU: a test with fake tensors
    return pinned.to(device, non_blocking=True)
