"""``ars cluster``: workers from a batch system, and certificates for clusters with TLS."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ars.cli.dask_words import add_tls, tls_files
from ars.cli.options import Help, UsageError, at_least, number_of_bytes, positive

if TYPE_CHECKING:
    from ars.cluster.slurm import Nodes, SlurmOptions

HELP: Final = "Start Dask workers in a Slurm allocation, or make certificates for a cluster."
_SLURM: Final = "Submit one Slurm job per node, each with Dask workers, and run a command with them."
_EPILOG: Final = """\
With a command after --, the jobs end when the command ends. The command finds the cluster automatically: ars infer, ars
record and ars mcmc need no --dask, and distributed.Client() in your scripts needs no address.

  ars cluster slurm --nodes 4 --cores 32 --memory 64G --walltime 02:00:00 \\
      -- ars infer ./decay --observe signal=1.2

Without a command, the cluster runs until Ctrl-C. Other commands use it with --dask FILE; FILE is printed at the start.
Your configuration of dask-jobqueue (~/.config/dask/jobqueue.yaml) sets the defaults."""
_WAIT: Final = 3600.0  # seconds
_TICK: Final = 0.25
_PATIENCE: Final = 60.0  # seconds for a command to end after a signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    slurm = kinds.add_parser("slurm", help=_SLURM, description=_SLURM, epilog=_EPILOG, formatter_class=Help)
    _add_slurm(slurm)
    _add_place(slurm)
    slurm.set_defaults(what=_slurm)
    text = "Make an authority and a certificate for a cluster with TLS (needs openssl)."
    certificates = kinds.add_parser("certificates", help=text, description=text)
    certificates.add_argument("directory", metavar="DIR", type=Path, help="folder for ca.pem, cert.pem and key.pem")
    certificates.add_argument(
        "--days", type=at_least(1, 36_500), default=365, metavar="N", help="validity in days (default: 365)"
    )
    certificates.set_defaults(what=_certificates)


def _add_slurm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "command_line",
        nargs="*",
        metavar="COMMAND",
        help="command to run with the cluster, after -- (default: wait for Ctrl-C)",
    )
    node = parser.add_argument_group("nodes")
    node.add_argument(
        "--nodes", type=at_least(1), required=True, metavar="N", help="number of jobs to submit, one per node"
    )
    node.add_argument("--cores", type=at_least(1), required=True, metavar="N", help="cores per node")
    node.add_argument(
        "--memory", type=number_of_bytes, required=True, metavar="BYTES", help="memory per node, e.g. 64G"
    )
    node.add_argument(
        "--processes",
        type=at_least(1),
        default=1,
        metavar="N",
        help="Dask workers per node; each starts a simulator with --workers processes (default: 1)",
    )
    job = parser.add_argument_group("jobs")
    job.add_argument("--walltime", metavar="TIME", help="time limit of a job, e.g. 02:00:00 (default: 00:30:00)")
    job.add_argument("--partition", "--queue", metavar="NAME", help="partition (default: Slurm's default)")
    job.add_argument("--account", metavar="NAME", help="account to charge (default: Slurm's default)")
    job.add_argument(
        "--extra-directive",
        action="append",
        default=[],
        metavar="TEXT",
        help="an additional #SBATCH line, e.g. --extra-directive=--constraint=haswell; can be repeated",
    )
    job.add_argument(
        "--setup",
        action="append",
        default=[],
        metavar="LINE",
        help="a shell command to run before the worker starts, e.g. 'module load gcc'; can be repeated",
    )
    job.add_argument(
        "--python", metavar="PATH", help="Python interpreter on the nodes (default: the one that runs this command)"
    )
    job.add_argument(
        "--local-directory", metavar="DIR", help="folder on a fast disk of the nodes, for Dask's temporary files"
    )
    job.add_argument(
        "--log-directory",
        type=Path,
        metavar="DIR",
        help="folder in which to keep the jobs' output (default: removed at the end)",
    )
    job.add_argument(
        "--shared",
        type=Path,
        metavar="DIR",
        help="folder that all nodes can access, for certificates and logs (default: the current one)",
    )


def _add_place(parser: argparse.ArgumentParser) -> None:
    net = parser.add_argument_group("network")
    net.add_argument("--interface", metavar="NAME", help="network interface of scheduler and workers, e.g. ib0")
    net.add_argument(
        "--host", metavar="ADDRESS", help="address at which nodes can reach the scheduler (default: detected)"
    )
    net.add_argument(
        "--port", type=at_least(0, 65_535), default=0, metavar="N", help="port of the scheduler (default: a free one)"
    )
    net.add_argument(
        "--scheduler-file", type=Path, metavar="FILE", help="also write the address to this file, for --dask FILE"
    )
    net.add_argument(
        "--no-tls",
        action="store_true",
        help="use no encryption; anyone who can reach the scheduler can then run code as you",
    )
    add_tls(net, "(default: made for this cluster)")
    life = parser.add_argument_group("waiting")
    life.add_argument(
        "--wait",
        type=positive,
        default=_WAIT,
        metavar="S",
        help=f"seconds to wait for nodes (default: {_WAIT:g})",
    )
    life.add_argument(
        "--at-least",
        type=at_least(1),
        default=1,
        metavar="N",
        help="number of nodes to wait for before the command starts (default: 1)",
    )
    life.add_argument("--dry-run", action="store_true", help="print the job script and submit nothing")


def run(arguments: argparse.Namespace) -> int:
    return int(arguments.what(arguments))


def _certificates(arguments: argparse.Namespace) -> int:
    from ars.cluster.certificates import make_certificates

    made = make_certificates(arguments.directory, days=arguments.days)
    words = f"--tls-ca {made.ca} --tls-cert {made.cert} --tls-key {made.key}"
    print(
        f"{made.key} is secret: anyone who has it can use the cluster. Scheduler, workers and clients need all three "
        "files:"
    )
    print(f"  dask scheduler --protocol tls {words.replace('--tls-ca ', '--tls-ca-file ')}")
    print(f"  dask worker tls://SCHEDULER:8786 {words.replace('--tls-ca ', '--tls-ca-file ')}")
    print(f"  ars infer ./sim --dask tls://SCHEDULER:8786 {words}")
    return 0


def _options(arguments: argparse.Namespace) -> SlurmOptions:
    from ars.cluster.certificates import Certificates
    from ars.cluster.slurm import SlurmOptions

    if arguments.at_least > arguments.nodes:
        raise UsageError(f"--at-least {arguments.at_least} is more than --nodes {arguments.nodes}")
    if arguments.scheduler_file is not None and not arguments.scheduler_file.absolute().parent.is_dir():
        raise UsageError(f"--scheduler-file {arguments.scheduler_file}: its folder does not exist")
    files = tls_files(arguments)
    if files is not None and arguments.no_tls:
        raise UsageError("--no-tls or certificates, not both")
    same = ("nodes", "cores", "memory", "processes", "walltime", "partition", "account", "interface", "python")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in (*same, "local_directory", "host", "port")}
    try:
        return SlurmOptions(
            **given,
            directives=tuple(arguments.extra_directive),
            setup=tuple(arguments.setup),
            logs=arguments.log_directory,
            shared=arguments.shared,
            tls=None if files is None else Certificates(*files).checked(),
            insecure=arguments.no_tls,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def _say(text: str) -> None:
    print(f"ars: {text}", file=sys.stderr, flush=True)


def _slurm(arguments: argparse.Namespace) -> int:
    from ars.cluster.slurm import job_script, open_slurm

    options = _options(arguments)
    if arguments.dry_run:
        print(job_script(options), end="")
        return 0
    with _told_to_end(), _published(arguments.scheduler_file) as publish, open_slurm(options, _say) as nodes:
        try:
            publish(nodes)
            place = f"scheduler {nodes.address}; use it with --dask {arguments.scheduler_file or nodes.file}"
            print(place, file=sys.stderr if arguments.command_line else sys.stdout, flush=True)  # stdout: the command's
            nodes.arrive(arguments.at_least, arguments.wait, _say)
            _say(f"{nodes.count()} of {options.nodes} nodes: ready")
            if arguments.command_line:
                return _command(arguments.command_line, nodes)
            return _until_interrupted(nodes)
        except _Ended as ended:
            _say(f"{signal.Signals(ended.signal).name}: the jobs are cancelled")
            return 128 + ended.signal


# ---- how it ends -----------------------------------------------------------------------------------------------------


class _Ended(BaseException):
    """A signal that asks us to end. Everything is taken down on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextlib.contextmanager
def _told_to_end() -> Iterator[None]:
    """Signals become an exception, once: a second one must not leave jobs behind."""

    def end(number: int, _: FrameType | None) -> None:
        for each in kinds:
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(number)

    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, end) for each in kinds}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextlib.contextmanager
def _published(file: Path | None) -> Iterator[Any]:
    """Writes the user's own scheduler file, and removes it in the end."""
    from ars.cluster.slurm import write_scheduler_file

    def publish(nodes: Nodes) -> None:
        if file is not None:
            write_scheduler_file(file, nodes.address, nodes.tls)

    try:
        yield publish
    finally:
        if file is not None:
            file.unlink(missing_ok=True)


def _until_interrupted(nodes: Nodes) -> int:
    """Stays until Ctrl-C, which is how this is meant to end, or until there are no jobs."""
    seen = nodes.count()
    try:
        while True:
            time.sleep(_TICK)
            nodes.check()
            seen = _changed(nodes, seen)
    except _Ended as ended:
        if ended.signal != signal.SIGINT:
            raise
    return 0


def _changed(nodes: Nodes, seen: int) -> int:
    now = nodes.count()
    if now != seen:
        _say(f"{now} of {nodes.options.nodes} nodes")
    return now


def _command(words: Sequence[str], nodes: Nodes) -> int:
    """Runs a command with the cluster. Returns its exit code."""
    # On a terminal, Ctrl-C reaches the command as well. Elsewhere it has a group of its own, and we pass signals on.
    alone = not sys.stdin.isatty()
    try:
        child = subprocess.Popen(words, env={**os.environ, **nodes.environment()}, process_group=0 if alone else None)
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be run: {error.strerror}") from error
    seen = nodes.count()
    try:
        while child.poll() is None:
            time.sleep(_TICK)
            seen = _changed(nodes, seen)
    except BaseException as error:
        number = error.signal if isinstance(error, _Ended) else signal.SIGTERM
        if alone or number != signal.SIGINT:
            child.send_signal(number)
        try:
            child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    return child.returncode if child.returncode >= 0 else 128 - child.returncode
