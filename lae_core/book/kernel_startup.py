"""Runs at the start of every kernel of ours (as PYTHONSTARTUP): notes which of our data files the notebook opens, and
which directories of them it lists (their names end in a slash).

A cached execution is trusted only while these files stay as they were. Stands alone, so that a kernel starts fast, and
leaves no name behind in the notebook.
"""


def _watch() -> None:
    import os
    import sys

    root = os.path.join(os.path.realpath(os.environ["LAE_READS_ROOT"]), "")
    log = os.open(os.environ["LAE_READS"], os.O_WRONLY | os.O_APPEND)
    # Recorded results, the ledger, the paper's numbers. Code is followed by its imports instead (see cache.py).
    watched = (root + "book" + os.sep, root + "lae_core" + os.sep)
    seen: set[str] = set()

    def note(event: str, args: tuple) -> None:
        if event not in ("open", "os.listdir", "os.scandir") or not isinstance(args[0], str | os.PathLike):
            return
        path = os.path.realpath(args[0])
        if event != "open":  # imports list the package's directories
            path = os.path.join(path, "") if os.path.join(path, "").startswith(watched[0]) else ""
        if path in seen or not path.startswith(watched) or path.endswith((".py", ".pyc")):
            return
        seen.add(path)
        os.write(log, (path[len(root) :].replace(os.sep, "/") + "\n").encode())

    sys.addaudithook(note)


_watch()
del _watch
