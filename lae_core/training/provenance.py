"""Where and with what a result was made: commit, versions, machine. For records of runs and for pages of the book."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Torch takes seconds to load. Pages and the workers that execute notebooks need only the commit and the versions.
if TYPE_CHECKING:
    import torch

PACKAGE = Path(__file__).resolve().parents[1]
# The packages whose version can change the numbers of a run, and those that can change a page of the book.
RUN_PACKAGES = ("torch", "torchvision", "numpy", "lightning-fabric", "pytorch_optimizer")
PAGE_PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "pandas",
    "sympy",
    "mpmath",
    "scikit-learn",
    "matplotlib",
    "seaborn",
    "plotly",
)


def provenance(device: torch.device | str = "cpu") -> dict[str, Any]:
    """Commit, versions, machine, device and the time (UTC) as JSON can hold them."""
    import torch

    from lae_core.training import execution

    device = torch.device(device)
    chosen = list(execution.settings(device))
    return {
        "commit": _commit_of_package(),
        "versions": versions(RUN_PACKAGES),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu(),
        "bf16": has_bf16(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        **({"execution": chosen} if chosen else {}),
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def commit(directory: Path) -> str | None:
    """The commit that `directory` is a checkout of, "+" added if files in it differ; None if git does not track it."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    if head is None or git("ls-files", "--error-unmatch", ".") is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--", ".") else "")


@functools.cache
def _commit_of_package() -> str | None:
    return commit(PACKAGE)


def short_commit(directory: Path, digits: int = 12) -> str:
    """`commit` for a page: so many digits and the "+", or "unknown"."""
    head, plus, _ = (commit(directory) or "unknown").partition("+")
    return head[:digits] + plus


@functools.cache
def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The versions of Python and of those of `packages` that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def device_name(gpu: bool) -> str:
    """The GPU's name if a notebook asked for one, else the processor's."""
    if not gpu:
        return cpu()
    import torch

    return str(torch.cuda.get_device_name())


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
    import torch

    capable = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return any(capable.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
