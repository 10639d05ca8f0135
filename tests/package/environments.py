"""Processes, what an installed distribution consists of, and a new environment that has torch and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def run(*command: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """The distributions that an installed one requires, itself included, on this machine."""
    found, todo = set(), [(name, extras)]
    while todo:
        name, extras = todo.pop()
        if canonical(name) in found and not extras:
            continue
        found.add(canonical(name))
        for line in metadata.requires(name) or []:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                todo.append((need.name, frozenset(need.extras)))
    return found


def modules(name: str) -> set[str]:
    """What a distribution put at the top of site-packages: modules, packages, and its metadata."""
    return {file.parts[0].removesuffix(".py") for file in metadata.files(name) or [] if file.parts[0] != ".."}


def environment_with_torch(home: Path) -> Path:
    """The bin folder of a new environment under `home` with pip, torch and what torch requires.

    Torch is lent by links to the files of this environment: a second copy of it would be 5 GB to download.
    """
    site = Path(metadata.distribution("torch").locate_file(""))
    lent = home / "lent"
    lent.mkdir()
    for name in closure("torch"):
        for top in {file.parts[0] for file in metadata.files(name) or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (lent / top).exists():
                (lent / top).symlink_to(site / top)
    venv.create(home / "env", with_pip=True)
    (packages,) = (home / "env" / "lib").glob("python*/site-packages")
    for old in packages.glob("setuptools*"):  # Python 3.11 puts one there that is too old for torch
        shutil.rmtree(old)
    (packages / "lent.pth").write_text(f"{lent}\n")
    return home / "env" / "bin"
