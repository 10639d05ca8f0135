"""A real SLURM on this machine alone: munged, slurmctld and slurmd from Debian's packages, as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")

CONFIG = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.sock
CredType=cred/munge
SlurmctldPort={port_controller}
SlurmdPort={port_node}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=2
SchedulerParameters=sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def available() -> bool:
    return os.geteuid() == 0 and all(shutil.which(program) for program in PROGRAMS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(place: Path) -> Iterator[None]:
    """Daemons in the foreground, as children of ours, so that they end with us."""
    for directory in (place, *place.parents):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o755)  # munged wants its socket reachable
    (place / "state").mkdir()
    (place / "spool").mkdir()
    key = place / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    config = place / "slurm.conf"
    ports = {"port_controller": _free_port(), "port_node": _free_port()}
    config.write_text(CONFIG.format(host=socket.gethostname(), place=place, **ports))
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={place}/munge.sock"]
    munge += [f"--{kind}-file={place}/munged.{kind}" for kind in ("pid", "log", "seed")]
    commands = [munge, ["slurmctld", "-D", "-f", str(config)], ["slurmd", "-D", "-f", str(config)]]
    os.environ["SLURM_CONF"] = str(config)
    daemons = []
    try:
        for command in commands:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            daemons.append(subprocess.Popen(command, **quiet))
            time.sleep(1)
        deadline = time.monotonic() + 60
        while "idle" not in _call("sinfo", "--noheader", "--format=%T"):
            assert time.monotonic() < deadline, (place / "slurmctld.log").read_text()[-2000:]
            time.sleep(0.5)
        yield
    finally:
        _call("scancel", "--full", "--user=root")
        deadline = time.monotonic() + 20
        while jobs() and time.monotonic() < deadline:
            time.sleep(0.5)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(30)
        del os.environ["SLURM_CONF"]


def _call(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


def jobs() -> list[str]:
    return _call("squeue", "--noheader", "--states=running", "--format=%i").split()


def cancel(job: str) -> None:
    subprocess.run(["scancel", "--full", job], check=True)
