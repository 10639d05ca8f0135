"""Where and with what a result was made."""

from __future__ import annotations

import datetime
import functools
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from lae_core.training import execution

PACKAGES = ("torch", "torchvision", "numpy", "lightning-fabric", "pytorch_optimizer")


def provenance(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Commit, versions, machine, device and the time (UTC) as JSON can hold them."""
    device = torch.device(device)
    chosen = list(execution.settings(device))
    return {
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu(),
        "bf16": has_bf16(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        **({"execution": chosen} if chosen else {}),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@functools.cache
def commit() -> str | None:
    """The commit that this package runs from, with "+" if the package differs from it; None outside a checkout."""
    package = Path(__file__).resolve().parents[1]

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    if head is None or git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--", ".") else "")


@functools.cache
def cpu() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware; without, it is many times slower than float32."""
    capable = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(capable.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
