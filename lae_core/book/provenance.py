"""What a page says about where its numbers come from: commit of the whole checkout, versions, device."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from lae_core.training.provenance import cpu

# The packages whose version can change a number or a figure on a page.
PACKAGES = ("torch", "numpy", "scipy", "pandas", "sympy", "mpmath", "scikit-learn", "matplotlib", "seaborn", "plotly")


def commit(root: Path, digits: int = 12) -> str:
    """The commit of the checkout, `+` added if tracked files differ from it; "unknown" outside git."""
    try:
        git = functools.partial(subprocess.run, cwd=root, capture_output=True, text=True, check=True, timeout=30)
        head = git(["git", "rev-parse", f"--short={digits}", "HEAD"]).stdout.strip()
        changed = git(["git", "status", "--porcelain", "--untracked-files=no"]).stdout.strip()
    except (OSError, subprocess.SubprocessError):
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


def device(gpu: bool) -> str:
    """The hardware that a notebook ran on: the GPU's name if it asked for one, else the CPU's."""
    if gpu:
        import torch

        return torch.cuda.get_device_name()
    return cpu()
