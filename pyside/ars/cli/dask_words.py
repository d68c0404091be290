"""``--dask ADDRESS``: the words of a command that runs on a cluster."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ars.cli.options import UsageError, check_simulator, limits, open_simulator
from ars.errors import LaunchError

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security

    from ars.simulator import Simulator

__all__ = ["add_dask", "add_tls", "check_place", "connected", "on_cluster", "simulator_of", "tls_files"]

_CONNECT_WITHIN: Final = 15.0  # seconds
_GREET_WITHIN: Final = 5.0  # seconds more for the first words of a scheduler
_VARIABLE: Final = "ARS_DASK"
_TLS: Final = ("tls_ca", "tls_cert", "tls_key")


def add_dask(parser: argparse.ArgumentParser) -> None:
    """For ``simulator_of``."""
    group = parser.add_argument_group("a Dask cluster")
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of this scheduler, e.g. node1:8786 or tls://node1:8786; or a scheduler file. "
        f"--workers and limits apply to each Dask worker (default: ${_VARIABLE}, which ars cluster slurm sets)",
    )
    add_tls(group, "of a cluster with TLS")


def add_tls(group: argparse._ArgumentGroup, whose: str) -> None:
    """For ``tls_files``."""
    group.add_argument("--tls-ca", type=Path, metavar="FILE", help=f"certificate authority {whose}")
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of this client")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")


def tls_files(arguments: argparse.Namespace) -> tuple[Path, Path, Path] | None:
    """Authority, certificate and key, all or none of them."""
    given = [getattr(arguments, name) for name in _TLS]
    if all(path is None for path in given):
        return None
    if any(path is None for path in given):
        raise UsageError("TLS needs all of --tls-ca, --tls-cert and --tls-key")
    return given[0], given[1], given[2]


def _scheduler(arguments: argparse.Namespace) -> str | None:
    """Where the scheduler is; None: there is none. ``--listen`` is about a simulator without a cluster."""
    if arguments.dask is not None or getattr(arguments, "listen", None) is not None:
        return str(arguments.dask) if arguments.dask is not None else None
    return os.environ.get(_VARIABLE) or None


def on_cluster(arguments: argparse.Namespace) -> bool:
    """Whether the simulator runs on a cluster."""
    return _scheduler(arguments) is not None


def check_place(arguments: argparse.Namespace) -> None:
    """Raises UsageError unless it is clear where the simulator runs."""
    if not on_cluster(arguments):
        for name in _TLS:
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --dask")
        check_simulator(arguments)
        return
    if getattr(arguments, "listen", None) is not None:
        raise UsageError("--dask or --listen, not both: the simulator runs on a cluster, or is started elsewhere")
    if not arguments.command_line:
        raise UsageError("give the simulator's command line, as on the workers' machines")
    tls_files(arguments)


def _from_file(path: Path) -> tuple[str, tuple[Path, Path, Path] | None]:
    """The address in a scheduler file, and the certificates that ``ars cluster slurm`` names there."""
    try:
        about = json.loads(path.read_text())
        tls = about.get("tls")
        return str(about["address"]), None if tls is None else (Path(tls["ca"]), Path(tls["cert"]), Path(tls["key"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LaunchError(f"--dask {path}: this is not a scheduler file ({error!r})") from error


def _greet(address: str, security: Security) -> None:
    """Raises an OSError unless a Dask scheduler answers in time. ``Client`` would wait forever for a mute server."""
    from distributed.comm import connect

    async def greet() -> None:
        comm = await connect(address, timeout=_CONNECT_WITHIN, **security.get_connection_args("client"))
        comm.abort()

    async def greet_in_time() -> None:
        try:
            await asyncio.wait_for(greet(), _CONNECT_WITHIN + _GREET_WITHIN)
        except TimeoutError as error:
            raise OSError("something listens there, but it does not answer like a Dask scheduler") from error

    asyncio.run(greet_in_time())


@contextlib.contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client of the cluster, for a while."""
    from distributed import Client
    from distributed.security import Security

    from ars.cluster.certificates import Certificates

    given = _scheduler(arguments)
    assert given is not None
    address, files = given, tls_files(arguments)
    if given.endswith(".json") or os.path.isfile(given):
        address, named = _from_file(Path(given))
        files = files or named
    security = Security() if files is None else Certificates(*files).checked().security()
    try:
        _greet(address, security)
        client = Client(address, timeout=_CONNECT_WITHIN, security=security)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise LaunchError(
            f"--dask {given}: no scheduler answers there, or it refuses the connection ({error}). Give the address "
            "that dask scheduler prints, and for a cluster with TLS its --tls-ca, --tls-cert and --tls-key"
        ) from error
    with client:
        yield client


@contextlib.contextmanager
def simulator_of(arguments: argparse.Namespace) -> Iterator[Simulator]:
    """The simulator of the command line: on this machine, started elsewhere, or on the workers of a cluster."""
    check_place(arguments)
    if not on_cluster(arguments):
        with open_simulator(arguments) as here:
            yield here
        return
    import ars.cluster

    with (
        connected(arguments) as client,
        ars.cluster.simulator(client, arguments.command_line, workers=arguments.workers, **limits(arguments)) as there,
    ):
        yield there
