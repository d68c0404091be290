"""Workers from a Slurm allocation: jobs through dask-jobqueue, and a scheduler for them in this process.

The life of a cluster: ``open_slurm`` starts the scheduler, submits one job per node, and takes all of it down again,
whatever happens in between. Everything that it writes is in one folder, which goes as well.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shlex
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from distributed import Client, Status
from distributed.deploy.spec import ProcessInterface

from ars.arguments import integer
from ars.cluster.certificates import Certificates, make_certificates
from ars.cluster.slurm_queue import QueuedJob, SlurmQueue
from ars.errors import HostLostError, KeyFileError, LaunchError


@contextlib.contextmanager
def _ctrl_c_kept() -> Iterator[None]:
    """dask-jobqueue replaces the handler of Ctrl-C when it is imported: a run would then lose its finished traces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():  # elsewhere the import itself fails
            signal.signal(signal.SIGINT, before)


with _ctrl_c_kept():
    from dask_jobqueue import SLURMCluster
    from dask_jobqueue.slurm import SLURMJob

__all__ = ["Nodes", "SlurmOptions", "job_script", "open_slurm"]

Say = Callable[[str], None]

_LEAST_MEMORY: Final = 1 << 20  # bytes
_PLACEHOLDER: Final = "SCHEDULER:8786"  # in a script that is only shown
_TICK: Final = 0.25  # seconds between two looks at the workers
_ASK: Final = (1.0, 30.0)  # seconds between two questions to Slurm: at first, and at most
_SUBMITTED: Final = 120.0  # seconds more for sbatch and squeue to answer
_LOG_LINES: Final = 8


@dataclass(frozen=True)
class SlurmOptions:
    """What to ask Slurm for. Every node is a job of its own, so that a run can begin before all have come."""

    nodes: int
    cores: int  # of each node
    memory: int  # bytes of each node
    processes: int = 1  # Dask workers of each node
    walltime: str | None = None
    partition: str | None = None
    account: str | None = None
    interface: str | None = None
    directives: tuple[str, ...] = ()  # lines for #SBATCH
    setup: tuple[str, ...] = ()  # lines of the script before the worker is started
    python: str | None = None  # of the nodes (default: ours)
    local_directory: str | None = None  # a fast disk of the nodes
    logs: Path | None = None  # folder for the jobs' output, which stays
    shared: Path | None = None  # folder that all nodes see (default: the current one)
    host: str | None = None  # address of the scheduler
    port: int = 0
    tls: Certificates | None = None  # None: made for this cluster
    insecure: bool = False  # no TLS

    def __post_init__(self) -> None:
        for name in ("nodes", "cores", "processes"):
            integer(name, getattr(self, name), 1, 1_000_000)
        integer("port", self.port, 0, 65_535)
        if self.processes > self.cores:
            raise ValueError(f"processes={self.processes} is more than cores={self.cores}")
        if self.memory < _LEAST_MEMORY:
            raise ValueError(f"memory={self.memory} bytes is too little for a node: give a unit, as in 64G")
        if self.insecure and self.tls is not None:
            raise ValueError("TLS is either switched off, or has certificates")

    def job(self, name: str, logs: Path | None) -> dict[str, Any]:
        """As arguments of dask-jobqueue. One thread per worker: it runs one task at a time, with many processes."""
        return {
            "cores": self.processes,
            "processes": self.processes,
            "job_cpu": self.cores,
            "memory": self.memory,
            "walltime": self.walltime,
            "queue": self.partition,
            "account": self.account,
            "job_extra_directives": list(self.directives),
            "job_script_prologue": list(self.setup),
            "python": self.python,
            "local_directory": self.local_directory,
            "log_directory": None if logs is None else str(logs),
            "job_name": name,
        }


def job_script(options: SlurmOptions) -> str:
    """The script of one job, as it would be submitted; nothing is submitted or written.

    Parameters
    ----------
    options : SlurmOptions
        What to ask for.

    Returns
    -------
    str
        The script. Names that are made when the cluster starts are in capitals.
    """
    scheme = "tcp" if options.insecure else "tls"
    security = None
    if not options.insecure:
        security = (options.tls or Certificates(Path("CA.PEM"), Path("CERT.PEM"), Path("KEY.PEM"))).security()
    job = SLURMJob(
        f"{scheme}://{_PLACEHOLDER}",
        name="NAME",
        security=security,
        protocol=f"{scheme}://",
        interface=options.interface,
        **options.job("ars-NAME", None),
    )
    return str(job.job_script())


class Nodes:
    """A cluster of Slurm jobs. Use ``open_slurm`` to make one."""

    def __init__(self, options: SlurmOptions, folder: Path, name: str) -> None:
        self.options = options
        self.folder = folder
        self.queue = SlurmQueue(name)
        self.tls = None if options.insecure else (options.tls or make_certificates(folder / "tls")).checked()
        self._problems: list[str] = []
        self._logs = (options.logs or folder / "logs").absolute()
        self._logs.mkdir(parents=True, exist_ok=True)
        self._asked, self._pause = -math.inf, _ASK[0]
        self._jobs: list[QueuedJob] | None = None
        where = {"host": options.host} if options.host else {}
        self._cluster = SLURMCluster(
            job_cls=_reporting(self._problems),
            security=None if self.tls is None else self.tls.security(),
            protocol="tcp://" if self.tls is None else "tls://",
            interface=options.interface,
            scheduler_options={"port": options.port, "dashboard_address": ":0", **where},
            name=name,
            **options.job(name, self._logs),
        )
        self.address = str(self._cluster.scheduler_address)
        self.file = folder / "scheduler.json"

    def submit(self) -> None:
        """One job per node."""
        write_scheduler_file(self.file, self.address, self.tls)
        self._cluster.scale(jobs=self.options.nodes)

    def count(self) -> int:
        """Nodes whose workers are all there."""
        return len(self._cluster.scheduler.workers) // self.options.processes

    def client(self) -> Client:
        """Of this cluster."""
        return Client(self._cluster)

    def environment(self) -> dict[str, str]:
        """Variables for a process that is to use the cluster: ``ars`` commands and ``Client()`` find it by them."""
        found = {"ARS_DASK": str(self.file), "DASK_SCHEDULER_ADDRESS": self.address}
        return found if self.tls is None else found | self.tls.environment()

    def arrive(self, least: int, seconds: float, say: Say) -> None:
        """Waits for nodes.

        Parameters
        ----------
        least : int
            So many are enough.
        seconds : float
            Wait at most so long.
        say : callable
            Gets a line when something has changed.

        Raises
        ------
        LaunchError
            If a job cannot be submitted, all have ended, or the time is over.
        """
        begin, said = time.monotonic(), ""
        while (count := self.count()) < least:
            jobs = self._ask()
            if self._problems:
                raise LaunchError(f"sbatch refused a job: {self._problems[0]}")
            if (text := _described(jobs)) != said:
                said = text
                say(f"{count} of {self.options.nodes} nodes: {text}")
            if jobs is not None and not jobs and self.count() < least:
                raise LaunchError(f"all jobs have ended, and {count} of {least} nodes are ready.{self._last_lines()}")
            over = time.monotonic() - begin - seconds
            if over > (_SUBMITTED if jobs is None else 0.0):
                raise LaunchError(
                    f"{count} of {least} nodes after {seconds:g} s: {text}. The jobs are cancelled; wait longer with "
                    f"--wait{self._last_lines()}"
                )
            time.sleep(_TICK)

    def _ask(self) -> list[QueuedJob] | None:
        """What Slurm says of our jobs, which is asked less and less often; None if nothing is known."""
        now = time.monotonic()
        submitted = any(job.job_id for job in self._cluster.workers.values())
        if submitted and now - self._asked >= self._pause:
            if math.isfinite(self._asked):
                self._pause = min(2 * self._pause, _ASK[1])
            self._asked, self._jobs = now, self.queue.jobs()
        return self._jobs

    def check(self) -> None:
        """Raises HostLostError if all jobs have ended."""
        jobs = self._ask()
        if jobs is not None and not jobs and not self.count():
            raise HostLostError(f"all jobs have ended, e.g. at their time limit.{self._last_lines()}")

    def _last_lines(self) -> str:
        """Of the job that wrote last."""
        files = sorted(self._logs.glob("ars-*.err"), key=lambda path: path.stat().st_mtime)
        written = [path for path in files if path.stat().st_size]
        if not written:
            return ""
        lines = written[-1].read_text(errors="replace").rstrip().splitlines()[-_LOG_LINES:]
        return "\n".join([f" Last lines of {written[-1].name}:", *(f"  {line}" for line in lines)])

    def close(self) -> list[str]:
        """Ends all jobs and the scheduler. Returns what is left to the user, in words."""
        left = []
        try:
            self._cluster.close()
        except Exception as error:
            left.append(f"the scheduler did not close cleanly: {error!r}")
        finally:  # whatever it was, the jobs must end, also one that was being submitted just now
            if problem := self.queue.cancel():
                left.append(f"jobs may be left ({problem}): scancel --name={self._cluster.name}")
        return left


def _described(jobs: list[QueuedJob] | None) -> str:
    if jobs is None:
        return "submitting"
    if not jobs:
        return "no jobs in the queue"
    shown = ", ".join(map(str, jobs[:3]))
    return shown if len(jobs) <= 3 else f"{shown}, and {len(jobs) - 3} more"


def _reporting(problems: list[str]) -> type[SLURMJob]:
    """Jobs that say here that they could not be submitted. dask-jobqueue would leave it to a logger."""

    class ReportingJob(SLURMJob):  # type: ignore[misc]
        async def start(self) -> None:
            try:
                await super().start()
            except (OSError, RuntimeError, ValueError) as error:
                words = str(error).strip().splitlines()
                problems.append(words[-1] if words else repr(error))
                await ProcessInterface.start(self)  # it counts as started: there is nothing to wait for

        async def close(self) -> None:
            await super().close()
            self.status = Status.closed  # which the cluster expects, and dask-jobqueue leaves out

    return ReportingJob


def write_scheduler_file(path: Path, address: str, tls: Certificates | None) -> None:
    """A file for ``--dask``: like that of ``dask scheduler --scheduler-file``, and with the paths of the certificates.

    Parameters
    ----------
    path : path
        Is replaced if it exists.
    address : str
        Of the scheduler.
    tls : Certificates or None
        None: no TLS.
    """
    about: dict[str, Any] = {"type": "Scheduler", "address": address}
    if tls is not None:
        about["tls"] = {name: str(file) for name, file in tls._asdict().items()}
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(about, indent=1))
    draft.replace(path)


@contextlib.contextmanager
def open_slurm(options: SlurmOptions, say: Say) -> Iterator[Nodes]:
    """Jobs, submitted, for a while. In the end nothing of them is left.

    Parameters
    ----------
    options : SlurmOptions
        What to ask for.
    say : callable
        Gets lines for the user.

    Yields
    ------
    Nodes
        The cluster. Workers come when Slurm starts the jobs.

    Raises
    ------
    LaunchError
        If this machine has no Slurm, or the scheduler cannot be started.
    """
    name = f"ars-{secrets.token_hex(4)}"
    SlurmQueue(name).check()
    with contextlib.ExitStack() as stack:
        where = Path.cwd() if options.shared is None else options.shared.absolute()
        if shlex.quote(str(where)) != str(where):  # dask-jobqueue writes paths into the script as they are
            raise LaunchError(
                f"{where}: job scripts cannot name a folder with such a path; choose another one with --shared"
            )
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=".ars-slurm-", dir=where))
            nodes = Nodes(options, Path(folder), name)
        except KeyFileError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            raise LaunchError(f"the cluster's scheduler cannot be started: {error}") from error
        stack.callback(_close, nodes, say)
        nodes.submit()
        yield nodes


def _close(nodes: Nodes, say: Say) -> None:
    for text in nodes.close():
        say(text)
