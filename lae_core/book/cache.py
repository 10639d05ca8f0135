"""Executed notebooks, kept for as long as nothing that they depend on has changed.

An execution depends on, and is found again only if all of these are as they were:

- the notebook's text and the effective value of each parameter (not the profile's name: two profiles that give the same
  values share one execution);
- the source of every `lae_core` module that the notebook's imports reach, imports inside functions included;
- every data file under `book/` and `lae_core/` that its kernel opened, and the names in every directory under `book/` that
  it listed, as seen by the kernel itself;
- which of the files in `book/results/` that the notebook, its parameters or a module that it reaches name are there: a
  notebook that found no records must run again when they arrive;
- the pinned versions (`constraints.txt`) and the versions installed.

Modules imported by a computed name are not seen; nothing here does that. A damaged entry is ignored.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from filelock import FileLock

from lae_core.book.execute import Executed, execute
from lae_core.book.notebooks import Notebook
from lae_core.book.outputs import verdicts_beside
from lae_core.book.progress import Progress
from lae_core.training import provenance
from lae_core.training.scratch import scratch

KEPT = 6  # executions of one notebook: a few profiles, and what they were before the last edit
_NEW = ".new-"  # executions that are not finished
_FORMAT = "3"  # raise when execute.py changes what an executed notebook looks like


@dataclass(frozen=True)
class Cache:
    """The executions under `<root>/_build/executed/`."""

    root: Path

    @property
    def directory(self) -> Path:
        return self.root / "_build" / "executed"

    def find(self, notebook: Notebook, values: dict[str, Any]) -> Executed | None:
        """The kept execution of `notebook` with `values`, if everything that it depends on is unchanged."""
        wanted = self.static_parts(notebook, values)
        for entry in self._entries(notebook):
            if entry["static"] == wanted and entry["reads"] == self._digests(entry["reads"]):
                return self._executed(notebook, entry["id"], tuple(entry["reads"]))
        return None

    def run(self, notebook: Notebook, values: dict[str, Any], progress: Progress, force: bool = False) -> Executed:
        """`find`, else execute and keep. Two processes that want the same execution share one."""
        home = self.directory / notebook.name
        home.mkdir(parents=True, exist_ok=True)
        identity = _sha(json.dumps(values, sort_keys=True))[:12]
        with FileLock(home / f".{identity}.lock"):
            found = None if force else self.find(notebook, values)
            if found is not None:
                progress.close()
                return found
            # Taken before the kernel starts: an edit made while it runs must count as a change.
            static = self.static_parts(notebook, values)
            with scratch(home, _NEW) as new:
                done = execute(notebook, values, new / "notebook.ipynb", progress)
                entry = {"static": static, "reads": self._digests(done.reads)}
                name = _sha(json.dumps(entry, sort_keys=True))[:16]
                content = json.dumps(entry | {"files": _files(new)}, indent=1)
                (new / "entry.json").write_text(content, encoding="utf-8")
                shutil.rmtree(home / name, ignore_errors=True)
                new.replace(home / name)
        self._prune(home)
        return self._executed(notebook, name, done.reads)

    def why_stale(self, notebook: Notebook, values: dict[str, Any]) -> str:
        """In a few words, what has changed since the newest kept execution with the same parameters."""
        wanted = self.static_parts(notebook, values)
        for entry in self._entries(notebook):
            if entry["static"]["parameters"] == wanted["parameters"]:
                static = entry["static"]
                changed = [part for part in {**static, **wanted} if static.get(part) != wanted.get(part)]
                now = self._digests(entry["reads"])
                changed += [path for path in now if now[path] != entry["reads"][path]]
                return "changed: " + ", ".join(changed[:4]) + (" and more" if len(changed) > 4 else "")
        return "not executed with these parameters yet"

    def static_parts(self, notebook: Notebook, values: dict[str, Any]) -> dict[str, str]:
        """What is known before the kernel starts, by name, so that a change can be named."""
        text = notebook.text
        sources = {path: self._sources[path] for path in self._reached(_imported(_code(notebook)))}
        parts = {"notebook": _sha(text), "parameters": _sha(json.dumps(values, sort_keys=True)), "format": _FORMAT}
        parts |= {path: _sha(source) for path, source in sources.items()}
        pins = self.root / "constraints.txt"
        installed = provenance.versions(provenance.PAGE_PACKAGES)
        parts["versions"] = _sha(pins.read_text(encoding="utf-8") if pins.is_file() else "", *installed.items())
        mentions = "\n".join([text, json.dumps(values), *sources.values()])
        present = [path.name for path in (self.root / "book/results").rglob("*") if path.name in mentions]
        parts["names in book/results"] = _sha(*sorted(present))
        return parts

    @cached_property
    def _sources(self) -> dict[str, str]:
        """The text of every module of the package, by its path."""
        home = provenance.PACKAGE
        return {path.relative_to(home.parent).as_posix(): path.read_text("utf-8") for path in home.rglob("*.py")}

    def _reached(self, names: Iterable[str]) -> list[str]:
        """The files of all modules that importing `names` can end up executing, those of packages on the way included.

        grimp finds them as well, but a Ctrl-C while it reads the package becomes a panic of its Rust code.
        """
        waiting, seen, found = list(names), set(), set()
        while waiting:
            name = waiting.pop()
            if not name or name in seen:
                continue
            seen.add(name)
            above, stem = name.rpartition(".")[0], name.replace(".", "/")
            waiting.append(above)
            for path, package in ((f"{stem}.py", above), (f"{stem}/__init__.py", name)):
                if path in self._sources:
                    found.add(path)
                    waiting += _imported(self._sources[path], package)
        return sorted(found)

    def _digests(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: self._digest(path) for path in paths}

    def _digest(self, path: str) -> str:
        file = self.root / path
        if path.endswith("/"):
            return _sha(*sorted(os.listdir(file))) if file.is_dir() else "gone"
        return _sha(file.read_bytes()) if file.is_file() else "gone"

    def _entries(self, notebook: Notebook) -> Iterator[dict[str, Any]]:
        """The kept executions, newest first."""
        for file in sorted((self.directory / notebook.name).glob("*/entry.json"), key=os.path.getmtime, reverse=True):
            try:
                entry = json.loads(file.read_text(encoding="utf-8"))
                whole = entry["files"] == _files(file.parent) and {"parameters"} <= set(entry["static"])
                entry["reads"].items()
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                whole = False
            if whole:
                yield {**entry, "id": file.parent.name}

    def _executed(self, notebook: Notebook, name: str, reads: tuple[str, ...]) -> Executed:
        path = self.directory / notebook.name / name / "notebook.ipynb"
        return Executed(path, verdicts_beside(path), reads)

    @staticmethod
    def _prune(home: Path) -> None:
        for old in sorted(home.glob("*/entry.json"), key=os.path.getmtime, reverse=True)[KEPT:]:
            shutil.rmtree(old.parent, ignore_errors=True)


@functools.cache
def _imported(code: str, package: str = "") -> list[str]:
    """Every dotted name that an import statement anywhere in `code` brings in; relative ones start from `package`."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def _code(notebook: Notebook) -> str:
    """The notebook's code cells as one module; lines for IPython itself (%, !) import nothing of ours."""
    lines = "\n".join(cell.source for cell in notebook.read().cells if cell.cell_type == "code").splitlines()
    return "\n".join("pass" if line.startswith(("%", "!")) else line for line in lines)


def _files(directory: Path) -> dict[str, str]:
    """The digests of all files of an entry but its own description."""
    paths = [path for path in sorted(directory.rglob("*")) if path.is_file() and path != directory / "entry.json"]
    return {path.relative_to(directory).as_posix(): _sha(path.read_bytes()) for path in paths}


def _sha(*parts: object) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]
