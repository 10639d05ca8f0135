"""`lae doctor`: what this machine can do, and what is missing for which purpose. Reports; changes nothing."""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import torch

from lae_core.book.notebooks import NotebookError, project_root
from lae_core.training.provenance import cpu, has_bf16

_NEEDED = (3, 11)
_ROOMY = 10e9  # bytes: the environment is 7 GB
_EXTRAS = {"models": ("torchvision",), "scale": ("distributed",), "book": ("jupyter-book", "papermill", "jupytext")}
_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

OK, NOTE, BAD = "ok", "--", "!!"
Line = tuple[str, str, str]  # mark, what, finding


def findings() -> Iterator[Line]:
    yield from _software()
    yield from _devices()
    yield from _data_sets()
    yield from _disk()
    yield from _browser()


def _software() -> Iterator[Line]:
    good = sys.version_info >= _NEEDED
    needs = "" if good else f", {'.'.join(map(str, _NEEDED))} or newer is needed"
    yield OK if good else BAD, "Python", platform.python_version() + needs
    yield _installed("torch")
    for extra, names in _EXTRAS.items():
        for name in names:
            try:
                yield _installed(name)
            except metadata.PackageNotFoundError:
                yield NOTE, name, f"not installed, the operator does not need it: pip install 'logavgexp[{extra}]'"


def _installed(name: str) -> Line:
    found = metadata.version(name)
    pinned = _pins().get(name, found)
    same = pinned == found.split("+")[0]
    return OK if same else NOTE, name, found if same else f"{found}, the book is made with {pinned}"


def _pins() -> dict[str, str]:
    try:
        lines = (project_root() / "constraints.txt").read_text(encoding="utf-8").splitlines()
    except (NotebookError, OSError):
        return {}
    return dict(line.split("==", 1) for line in lines if "==" in line)


def _devices() -> Iterator[Line]:
    yield OK, "CPU", f"{cpu()}, {os.cpu_count()} cores, {torch.get_num_threads()} torch threads"
    if not torch.cuda.is_available():
        yield NOTE, "GPU", "none that torch can use: `smoke` and `cpu` need none, `gpu` and `paper` do"
    yield OK, "training on this CPU", _fast_precision()
    devices = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    yield _kernel()
    for index, name in enumerate(devices[1:]):
        about = torch.cuda.get_device_properties(index)
        yield OK, name, f"{about.name}, {about.total_memory / 2**30:.0f} GiB"
    for name in devices:
        able = {str(dtype).removeprefix("torch."): _works(name, dtype) for dtype in _DTYPES}
        refused = [dtype for dtype, works in able.items() if not works]
        found = ", ".join(dtype for dtype, works in able.items() if works)
        yield (
            NOTE if refused else OK,
            f"precision on {name}",
            found + (f"; not {', '.join(refused)}" if refused else ""),
        )


def _fast_precision() -> str:
    """Which precision the recipes take here, with the time of a matrix product in it against the other's."""
    fast = "bf16" if has_bf16() else "fp32"
    a, b = torch.randn(2, 512, 512)
    halves = a.bfloat16(), b.bfloat16()
    seconds = dict.fromkeys(("fp32", "bf16"), math.inf)
    for _ in range(5):
        for name, (left, right) in (("fp32", (a, b)), ("bf16", halves)):
            began = time.perf_counter()
            left @ right
            seconds[name] = min(seconds[name], time.perf_counter() - began)
    ratio = seconds["fp32"] / seconds["bf16"]
    speed = f"{ratio:.1f} times as fast as" if ratio >= 1 else f"{1 / ratio:.1f} times slower than"
    return f"recipes take {fast} (measured: a product in bf16 is {speed} in fp32)"


def _kernel() -> Line:
    from lae_core.pooling import cpu

    if cpu.LIBRARY is not None:
        return OK, "operator on cpu", f"fused kernel, {cpu.FILE.name}"
    off = os.environ.get("LAE_KERNEL") == "off"
    why = "LAE_KERNEL is off" if off else "the kernel was not built; install a C compiler, then lae again"
    return NOTE, "operator on cpu", f"plain form, several times slower: {why}"


def _works(device: str, dtype: torch.dtype) -> bool:
    """Whether the operator really runs there, forwards and backwards."""
    from lae_core import logavgexp

    try:
        z = torch.linspace(-1, 1, 16, device=device).to(dtype).requires_grad_()
        logavgexp(z, 2.0).backward()
        return z.grad is not None and bool(torch.isfinite(z.grad).all())
    except RuntimeError:
        return False


def _data_sets() -> Iterator[Line]:
    try:
        from lae_core.training.data import data_root, load
        from lae_core.training.datasets import DATASETS
    except ModuleNotFoundError as error:
        yield NOTE, "data sets", f"not looked at, {error.name} is not installed: pip install 'logavgexp[models]'"
        return

    for name, spec in DATASETS.items():
        try:
            pictures = {split: load(name, split) for split in spec.sizes}  # checks every hash
        except FileNotFoundError:
            yield NOTE, f"data {name}", f"not in {data_root()}: `lae data {name}`"
        except (ValueError, OSError, KeyError) as error:
            yield BAD, f"data {name}", str(error)
        else:
            counts = ", ".join(f"{len(split)} {which}" for which, split in pictures.items())
            yield OK, f"data {name}", f"verified: {counts}"


def _disk() -> Iterator[Line]:
    free = shutil.disk_usage(Path.cwd()).free
    hint = "" if free > _ROOMY else ", the environment alone takes 7 GB"
    yield OK if free > _ROOMY else NOTE, "disk", f"{free / 1e9:.0f} GB free here{hint}"


class BrowserError(RuntimeError):
    """No browser, and no way to get one; the message says what to install."""


def find_browser() -> str | None:
    """Chromium or Chrome: `$LAE_BROWSER` if set, else the first of the usual names on the path."""
    chosen = os.environ.get("LAE_BROWSER")
    if chosen:
        if not shutil.which(chosen):
            raise BrowserError(f"LAE_BROWSER={chosen!r} is not a program; set it to a Chromium or Chrome, or unset it")
        return shutil.which(chosen)
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def _browser() -> Iterator[Line]:
    try:
        found = find_browser()
    except BrowserError as error:
        yield BAD, "browser", str(error)
        return
    if found:
        yield OK, "browser", found
    else:
        yield NOTE, "browser", "no Chromium or Chrome: `make test` needs one (it installs Debian's if it may)"


def main(args: argparse.Namespace) -> int:
    """Print the findings as they come; exit 1 if something is broken (missing but optional things are notes)."""
    broken = 0
    for mark, what, finding in findings():
        broken += mark == BAD
        print(f"{mark}  {what:<24} {finding}", flush=True)
    return 1 if broken else 0
