"""What a page says about where its numbers come from: commit, versions, device."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path

# The packages whose version can change a number or a figure on a page.
PACKAGES = ("torch", "numpy", "scipy", "pandas", "sympy", "mpmath", "scikit-learn", "matplotlib", "seaborn", "plotly")


def commit(root: Path) -> str:
    """The short commit of the checkout, `+` added if tracked files differ from it; "unknown" outside git."""
    try:
        run = functools.partial(subprocess.run, cwd=root, capture_output=True, text=True, check=True)
        head = run(["git", "rev-parse", "--short=10", "HEAD"]).stdout.strip()
        changed = run(["git", "status", "--porcelain", "--untracked-files=no"]).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


@functools.cache
def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def processor() -> str:
    """The CPU's own name where the system tells it, its architecture elsewhere."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def device(gpu: bool) -> str:
    """The hardware that a notebook ran on: the GPU's name if it asked for one, else the CPU's."""
    if gpu:
        import torch

        return torch.cuda.get_device_name(0)
    return processor()
