"""Live progress of a notebook in the terminal: which cell, how long, and the bar that runs inside it."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time

ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Progress:
    """On a terminal one line that rewrites itself; in a log one line per cell and, while a cell runs, one from time to time.

    `brief` is for notebooks that run beside each other: only the line from time to time. This is also the file that
    papermill copies the kernel's stderr to, which is where bars are drawn. Papermill's own bar counts cells alone, and tqdm
    fills a log with frames.
    """

    def __init__(self, name: str, every: float = 10.0, brief: bool = False):
        self._name, self._stream, self._every, self._brief = name, sys.stderr, every, brief
        self._live = self._stream.isatty() and not brief
        self._start = self._said = time.monotonic()
        self._where, self._tail = "starting the kernel", ""
        self._done = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def cell(self, number: int, count: int) -> None:
        """Cell `number` of `count` starts."""
        self._where, self._tail = f"cell {number}/{count}", ""
        self._show(force=not self._brief)

    def write(self, text: str) -> None:
        """The kernel's stderr: show the last thing drawn; a plain line is passed on whole."""
        pieces = [piece.strip() for piece in ANSI.sub("", text).replace("\r", "\n").split("\n")]
        drawn = [piece for piece in pieces if piece]
        if drawn:
            self._tail = drawn[-1]
            if "\r" not in text and not self._live and not self._brief:
                self._stream.write("".join(f"{self._name}: {piece}\n" for piece in drawn))
            self._show()

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self._done.is_set():
            self._done.set()
            self._ticker.join()
            if self._live:
                self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _tick(self) -> None:
        while not self._done.wait(0.5 if self._live else self._every):
            self._show()

    def _show(self, force: bool = False) -> None:
        now = time.monotonic()
        line = f"{self._name}  {self._where}  {now - self._start:.0f} s  {self._tail}".rstrip()
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r\x1b[K" + line[:width])
        elif force or now - self._said >= self._every:
            self._said = now
            self._stream.write(line + "\n")
        self._stream.flush()
