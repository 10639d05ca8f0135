"""Where a sweep runs, as one setting: this process, this machine, a cluster that is up, or SLURM::

    inline                    one run after another in this process
    local, local(workers=2)   worker processes here, one per core or GPU
    local(per_gpu=2)          two for each GPU, which then share its memory
    tcp://host:8786           a Dask scheduler that is running
    path/to/scheduler.json    the same, found by its scheduler file
    slurm(jobs=8, gpus=1)     jobs on SLURM, through dask-jobqueue

A local worker has one thread per run. SLURM takes more: `slurm(jobs=8, gpus=1, queue=gpu, walltime=04:00:00)`.
Without one, `$LAE_WHERE` is used, else `local`.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lae_core.runs.files import UsageError

if TYPE_CHECKING:
    from distributed import Client

LOCAL = {
    "workers": "worker processes (default: GPUs, or cores if there are none)",
    "per_gpu": "worker processes for each GPU, in place of workers; small runs leave room on a large card (default 1)",
}
SLURM = {
    "jobs": "SLURM jobs to keep running (default 1)",
    "cores": "cores per job, and runs at a time in it (default 1)",
    "gpus": "GPUs per job (default 0); a job with GPUs runs one run at a time",
    "memory": "memory per job (default 8GB)",
    "walltime": "time limit of a job, HH:MM:SS; a run that it cuts short resumes in the next job (default 24:00:00)",
    "queue": "partition",
    "account": "account to charge",
    "extra": "further #SBATCH options, separated by blanks",
    "prologue": "shell command before the worker starts, such as `module load cuda`",
    "python": "Python of the workers (default: this one)",
    "interface": "network interface of scheduler and workers, such as ib0",
    "logs": "directory for the jobs' output (default: slurm-logs)",
}
_NUMBERS = ("workers", "per_gpu", "jobs", "cores", "gpus")
_CALL = re.compile(r"(?P<name>\w+)(?:\((?P<options>.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Where:
    """A parsed setting: `kind` is inline, local, address, file or slurm."""

    kind: str
    options: dict[str, str] = field(default_factory=dict)
    target: str = ""

    @classmethod
    def parse(cls, text: str | None = None) -> Where:
        text = (text or os.environ.get("LAE_WHERE") or "local").strip()
        if re.match(r"(tcp|tls|ucx|wss?)://.+", text):
            return cls("address", target=text)
        if text.endswith(".json"):
            if not Path(text).is_file():
                raise UsageError(f"where = {text!r} is invalid: there is no such scheduler file")
            return cls("file", target=text)
        match = _CALL.fullmatch(text)
        known = {"inline": {}, "local": LOCAL, "slurm": SLURM}
        if match is None or match["name"] not in known:
            raise UsageError(
                f"where = {text!r} is invalid; expected inline, local, slurm (with options in brackets), tcp://host:port, "
                "or a scheduler file ending in .json"
            )
        return cls(match["name"], _options(text, match["options"] or "", known[match["name"]]))

    def number(self, name: str, default: int) -> int:
        return int(self.options.get(name, default))


def _options(text: str, inside: str, known: dict[str, str]) -> dict[str, str]:
    options = {}
    for part in filter(None, (part.strip() for part in inside.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in known:
            allowed = ", ".join(known) or "none"
            raise UsageError(
                f"where = {text!r} is invalid: {part!r}; expected options name=value, with names: {allowed}"
            )
        if name in options:
            raise UsageError(f"where = {text!r} is invalid: {name} is given twice; expected each option once")
        if name in _NUMBERS and (not value.isdecimal() or (int(value) == 0 and name != "gpus")):
            raise UsageError(f"where: {name} = {value!r} is invalid; expected a whole number above 0")
        options[name] = value
    return options


@contextlib.contextmanager
def connect(where: Where) -> Iterator[Client]:
    """A client of the cluster; what was started for it ends with it."""
    from distributed import Client

    with contextlib.ExitStack() as stack:
        if where.kind in ("address", "file"):
            source = {"address": where.target} if where.kind == "address" else {"scheduler_file": where.target}
            try:
                yield stack.enter_context(Client(**source, timeout=20, set_as_default=False))
                return
            except OSError as error:
                raise ConnectionError(f"where = {where.target!r}: no Dask scheduler answers there ({error})") from error
        cluster = stack.enter_context(_local(where) if where.kind == "local" else _slurm(where))
        yield stack.enter_context(Client(cluster, set_as_default=False))


def local_workers(where: Where, gpus: int) -> int:
    """How many worker processes `local` starts on a machine with so many GPUs."""
    if "per_gpu" not in where.options:
        return where.number("workers", gpus or len(os.sched_getaffinity(0)))
    if "workers" in where.options:
        raise UsageError(
            f"where: per_gpu = {where.options['per_gpu']} is invalid beside workers = {where.options['workers']}; "
            "expected one of the two"
        )
    if not gpus:
        raise UsageError(
            f"where: per_gpu = {where.options['per_gpu']} is invalid: torch sees no GPU here; expected workers in its place"
        )
    return gpus * where.number("per_gpu", 1)


def gpu_count() -> int:
    import torch

    return torch.cuda.device_count()


@contextlib.contextmanager
def _environment_kept(names: Iterable[str]) -> Iterator[None]:
    """Nannies set the workers' variables in this process whenever they start one, and leave them here."""
    before = {name: os.environ.get(name) for name in (*names, "CUDA_VISIBLE_DEVICES")}
    try:
        yield
    finally:
        for name in before:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


@contextlib.contextmanager
def _local(where: Where) -> Iterator[Any]:
    import dask
    from distributed import Nanny, Scheduler, SpecCluster

    gpus = gpu_count()
    workers = local_workers(where, gpus)
    common = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(index) for index in range(gpus)]

    def spec(index: int) -> dict[str, Any]:
        mine = {"CUDA_VISIBLE_DEVICES": devices[index % gpus]} if gpus else {}
        # No memory limit: Dask would pause or kill a worker by its own estimate, where training knows its own needs.
        options = {"nthreads": 1, "memory_limit": 0, "env": common | mine, "dashboard_address": None}
        return {"cls": Nanny, "options": options | {"host": "127.0.0.1", "silence_logs": "CRITICAL"}}

    settings = {
        "distributed.worker.daemon": False,  # a data-parallel run starts processes of its own
        "distributed.scheduler.worker-saturation": 1.0,  # a run is given to a worker only when it can start
        "distributed.nanny.pre-spawn-environ": common,  # without Dask's malloc setting, which slows torch down
        "distributed.comm.timeouts.connect": "60s",
    }
    with dask.config.set(settings), _environment_kept(common):
        scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}}
        specs = {index: spec(index) for index in range(workers)}
        with SpecCluster(specs, scheduler=scheduler, silence_logs="CRITICAL", name=f"lae-{os.getpid()}") as cluster:
            yield cluster


def slurm_arguments(where: Where) -> dict[str, Any]:
    """The arguments of dask-jobqueue's `SLURMCluster`: one single-threaded worker per core, or one for a job's GPUs."""
    gpus, cores = where.number("gpus", 0), where.number("cores", 1)
    directives = where.options.get("extra", "").split() + ([f"--gres=gpu:{gpus}"] if gpus else [])
    prologue = ["export OMP_NUM_THREADS=1", "export DASK_DISTRIBUTED__WORKER__DAEMON=False"]
    prologue += [where.options["prologue"]] if "prologue" in where.options else []
    logs = Path(where.options.get("logs", "slurm-logs")).absolute()
    arguments: dict[str, Any] = {
        "cores": 1 if gpus else cores,
        "processes": 1 if gpus else cores,
        "job_cpu": cores,
        "memory": where.options.get("memory", "8GB"),
        "walltime": where.options.get("walltime", "24:00:00"),
        "python": where.options.get("python", sys.executable),
        "job_extra_directives": directives,
        "job_script_prologue": prologue,
        "job_name": "lae-sweep",
        "log_directory": str(logs),
        "worker_extra_args": ["--memory-limit", "0"],
    }
    arguments |= {name: where.options[name] for name in ("queue", "account", "interface") if name in where.options}
    return arguments


@contextlib.contextmanager
def _slurm(where: Where) -> Iterator[Any]:
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise ImportError("where = 'slurm' needs dask-jobqueue: install the extra `slurm` of this package") from error
    jobs = where.number("jobs", 1)
    with SLURMCluster(**slurm_arguments(where)) as cluster:
        _ask_slurm(cluster.job_script())
        # Keeping a number alive, rather than `scale`, also replaces jobs that were cancelled or ran out of time.
        cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)
        yield cluster


def _ask_slurm(script: str) -> None:
    """Have SLURM look at the job first: dask-jobqueue only logs a refusal, and the sweep would wait for ever."""
    try:
        answer = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConnectionError(f"where = 'slurm': cannot submit jobs from this machine ({error})") from error
    if answer.returncode:
        raise ConnectionError(f"where = 'slurm': SLURM refuses such a job: {answer.stderr.strip()}")
