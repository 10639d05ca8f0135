"""One notebook, executed: jupytext reads the text, papermill runs it with the parameters, the result appears whole.

The kernel works in the checkout's root with one thread for each numerical library, so that a page does not depend on
how many notebooks ran beside it. Bars on stderr reach the terminal live and leave no trace in the executed notebook.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import execute_notebook
from traitlets.config import Config

from lae_core.book.notebooks import BookError, Notebook
from lae_core.book.outputs import verdicts_beside
from lae_core.book.progress import ANSI, Progress
from lae_core.training import provenance
from lae_core.training.scratch import scratch as scratch_directory

_STARTUP = Path(__file__).with_name("kernel_startup.py")


class CellError(BookError):
    """A cell raised; the message shows the cell and its error."""


class _Engine(Engine):
    """Papermill's own engine, but with a kernel of ours: how it is started, and through which sockets it talks."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: Any, kernel_name: str, progress: Progress, kernel_options: dict[str, Any], **_: Any
    ) -> NotebookNode:
        code = [index for index, cell in enumerate(nb_man.nb.cells) if cell.cell_type == "code"]

        def cell_started(cell: NotebookNode, cell_index: int) -> None:
            if cell_index in code:
                progress.cell(code.index(cell_index) + 1, len(code))

        with _socket_directory() as private:
            client = PapermillNotebookClient(
                nb_man,
                kernel_name=kernel_name,
                startup_timeout=180,
                timeout=None,
                stderr_file=progress,
                on_cell_start=cell_started,
                config=_kernel_manager_config(private),
            )
            return client.execute(**kernel_options)


def _kernel_manager_config(private: str) -> Config:
    """After Ctrl-C a cell has some seconds to stop its workers. On ports, two kernels that start at once can pick the same."""
    options: dict[str, Any] = {"shutdown_wait_time": 20.0}
    if os.name == "posix" and private:
        connection = os.path.join(private, "kernel.json")
        options |= {"transport": "ipc", "ip": os.path.join(private, "kernel"), "connection_file": connection}
    return Config(KernelManager=options)


@contextlib.contextmanager
def _socket_directory() -> Iterator[str]:
    """A private directory whose path is short enough for sockets in it; without one, an empty name."""
    longest = 104 - len("/lae-12345678-1234567-12345678/kernel-5")  # 104 bytes on macOS, 108 on Linux
    for place in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if len(os.fsencode(place)) <= longest and os.access(place, os.W_OK | os.X_OK):
            with scratch_directory(Path(place), "lae-") as private:
                yield str(private)
            return
    yield ""


papermill_engines.register("lae", _Engine)
# Papermill's messages about paths do not help the reader.
logging.getLogger("papermill").setLevel(logging.ERROR)


@dataclass(frozen=True)
class Executed:
    """An executed notebook, the verdicts that it wrote, and the project files that it read."""

    notebook: Path
    verdicts: Path
    reads: tuple[str, ...]

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(nbformat.read(self.notebook, as_version=4).metadata["lae"])


def uses_gpu(values: dict[str, Any]) -> bool:
    """Whether a notebook with these parameters runs on a GPU: it has a parameter `device` that says so."""
    wanted = str(values.get("device", "cpu"))
    if wanted != "auto":
        return wanted.startswith("cuda")
    import torch

    return torch.cuda.is_available()


def execute(notebook: Notebook, values: dict[str, Any], output: Path, progress: Progress) -> Executed:
    """Run `notebook` with `values`; `output` (and its `.verdicts` directory) appears only if all went well."""
    output = output.resolve()
    output.parent.mkdir(parents=True, exist_ok=True)
    gpu = uses_gpu(values)
    record: dict[str, Any] = {
        "notebook": f"notebooks/{notebook.name}.md",
        "parameters": values,
        "commit": provenance.short_commit(notebook.root),
        "versions": provenance.versions(provenance.PAGE_PACKAGES),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with contextlib.closing(progress), scratch_directory(output.parent, f".{output.stem}-") as scratch:
        begun = time.perf_counter()
        executed = _run_kernel(notebook, values, scratch, progress)
        record |= {"seconds": round(time.perf_counter() - begun, 2), "device": provenance.device_name(gpu)}
        record["verdicts"] = sorted(path.name for path in (scratch / "verdicts").iterdir())
        nbformat.write(_tidied(executed, record), scratch / "notebook.ipynb")
        verdicts = verdicts_beside(output)
        shutil.rmtree(verdicts, ignore_errors=True)
        (scratch / "verdicts").replace(verdicts)
        (scratch / "notebook.ipynb").replace(output)
        reads = tuple(sorted(set((scratch / "reads").read_text(encoding="utf-8").split("\n")) - {""}))
    return Executed(output, verdicts, reads)


def _run_kernel(notebook: Notebook, values: dict[str, Any], scratch: Path, progress: Progress) -> NotebookNode:
    """The notebook as its kernel leaves it; a failure is a `CellError`."""
    try:
        with (scratch / "kernel.log").open("w") as kernel_log:
            environment = _kernel_environment(notebook.root, scratch)
            return execute_notebook(
                _with_values(notebook, values),
                str(scratch / "notebook.ipynb"),
                engine_name="lae",
                kernel_name="python3",
                progress_bar=False,
                request_save_on_cell_execute=False,
                progress=progress,
                kernel_options={"cwd": str(notebook.root), "env": environment, "stderr": kernel_log},
            )
    except PapermillExecutionError as error:
        kept = notebook.root / "_build" / "failed" / f"{notebook.name}.ipynb"
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(scratch / "notebook.ipynb", kept)
        raise CellError(_describe(notebook, error, kept)) from None
    except DeadKernelError:
        said = (scratch / "kernel.log").read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        hint = "killed from outside, out of memory, or a crash in compiled code"
        raise CellError(f"notebooks/{notebook.name}.md: its kernel died ({hint})\n{said}") from None
    except RuntimeError as error:  # how nbclient says that a kernel did not come up in time
        raise CellError(f"notebooks/{notebook.name}.md: {error}") from None


def _kernel_environment(root: Path, scratch: Path) -> dict[str, str]:
    """The environment of a kernel; the directories that it names are made."""
    (scratch / "verdicts").mkdir()
    (scratch / "reads").touch()
    # One thread each, unless the user says otherwise: pages must not depend on what runs beside them.
    return {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | os.environ | {
        "LAE_VERDICTS": str(scratch / "verdicts"),
        "LAE_READS": str(scratch / "reads"),
        "LAE_READS_ROOT": str(root),
        "PYTHONSTARTUP": str(_STARTUP),
        "PLOTLY_RENDERER": "plotly_mimetype",
        "PYTHONHASHSEED": "0",
        # Libraries that ask tqdm for a bar of widgets get one of text, which is what we want.
        "PYTHONWARNINGS": ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore:IProgress not found"])),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }  # fmt: skip


def _with_values(notebook: Notebook, values: dict[str, Any]) -> NotebookNode:
    """The notebook with `values` in its parameters cell. Papermill would add a second cell, and a reader see both."""
    page = notebook.read()
    for cell in page.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = "\n".join(notebook.parameters[name].line(value) for name, value in values.items())
    return page


def _tidied(executed: NotebookNode, record: dict[str, Any]) -> NotebookNode:
    """The notebook as a reader should get it: no bars, no paths of this machine."""
    for cell in executed.cells:
        cell.metadata.pop("papermill", None)
        if cell.cell_type == "code":
            cell.outputs = _without_bars(cell.outputs)
    executed.metadata.pop("papermill", None)
    executed.metadata["lae"] = record
    return executed


def _without_bars(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join the pieces of each stream; drop from stderr what was drawn over itself with a carriage return.

    nbclient's `coalesce_streams` joins streams as well, but leaves the last frame of each bar.
    """
    joined: list[NotebookNode] = []
    for output in outputs:
        last = joined[-1] if joined else None
        if output.output_type == "stream" and last and last.output_type == "stream" and last.name == output.name:
            last.text += output.text
        else:
            joined.append(output)
    for output in joined:
        if output.output_type == "stream" and output.name == "stderr":
            lines = output.text.split("\n")
            output.text = "\n".join(line for line in lines if "\r" not in line).strip("\n")
    return [output for output in joined if output.output_type != "stream" or output.text]


def _describe(notebook: Notebook, error: PapermillExecutionError, kept: Path) -> str:
    """What failed: the kernel's traceback shows the cell's lines and ends with the error."""
    trace = ANSI.sub("", "\n".join(error.traceback)).strip().strip("-").strip()
    shown = os.path.relpath(kept)
    return f"notebooks/{notebook.name}.md failed in a cell:\n\n{trace}\n\nThe notebook as far as it got: {shown}"
