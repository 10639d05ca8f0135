"""A small project of its own for each test, and the `lae` command as a real process in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]

HEADER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

"""


@dataclass
class Project:
    """A small checkout; in its notebooks the first code cell holds the parameters."""

    root: Path

    def notebook(self, name: str, *cells: str) -> Path:
        text = f"{HEADER}# {name.split('/')[-1].title()}\n"
        for index, cell in enumerate(cells):
            tags = ":tags: [parameters]\n\n" if index == 0 else ""
            text += f"\n```{{code-cell}} ipython3\n{tags}{textwrap.dedent(cell).strip()}\n```\n"
        return self.write(f"notebooks/{name}.md", text + "\n## Summary\n\nDone.\n")

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text), encoding="utf-8")
        return target

    def start(self, *arguments: str, output: int = subprocess.PIPE, **settings: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "lae_core.cli", *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1", **settings},
            stdout=output,
            stderr=output,
            text=True,
            start_new_session=True,
            # a shell that starts the tests in the background has them, and their children, ignore interrupts
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def lae(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **settings)
        out, err = process.communicate(timeout=180)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("_toc.yml", "format: jb-book\nroot: book/intro\nchapters:\n- file: notebooks/part/one\n")
    made.write("book/intro.md", "# A small book\n\nIt has one chapter.\n")
    return made
