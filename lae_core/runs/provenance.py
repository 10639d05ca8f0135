"""Where a record comes from: commit, versions, machine. Collected once a process, for it does not change."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = ("lae", "torch", "torchvision", "numpy", "pytorch_optimizer", "lightning-fabric")


@functools.cache
def commit() -> str | None:
    """The commit of the source that runs, with `+` when files of the package differ from it; none outside of git."""
    package = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(package), *arguments], capture_output=True, text=True, check=True, timeout=30
        ).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", ".") else "")
    except (OSError, subprocess.SubprocessError):
        return None


@functools.cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@functools.cache
def accelerator() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def provenance(device: str = "auto") -> dict[str, Any]:
    """What a record says of its origin; `device` is what the run was told to use."""
    import torch

    gpu = accelerator() if device != "cpu" else None
    return {
        "commit": commit(),
        "versions": versions(),
        "device": gpu or processor(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }
