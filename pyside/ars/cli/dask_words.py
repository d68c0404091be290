"""``--dask ADDRESS``: the words of a command that runs on a cluster."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ars.cli.options import UsageError, check_simulator, limits, open_simulator
from ars.errors import LaunchError

if TYPE_CHECKING:
    from distributed import Client

    from ars.simulator import Simulator

__all__ = ["add_dask", "check_place", "connected", "simulator_of"]

_CONNECT_WITHIN: Final = 15.0  # seconds
_TLS: Final = ("tls_ca", "tls_cert", "tls_key")


def add_dask(parser: argparse.ArgumentParser) -> None:
    """For ``simulator_of``."""
    group = parser.add_argument_group("a Dask cluster")
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of this scheduler, e.g. node1:8786 or tls://node1:8786; or a scheduler file (.json). "
        "--workers and limits hold for each Dask worker",
    )
    group.add_argument("--tls-ca", type=Path, metavar="FILE", help="certificate authority of a cluster with TLS")
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="our certificate")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key")


def check_place(arguments: argparse.Namespace) -> None:
    """Raises UsageError unless it is clear where the simulator runs."""
    if arguments.dask is None:
        for name in _TLS:
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --dask")
        check_simulator(arguments)
        return
    if getattr(arguments, "listen", None) is not None:
        raise UsageError("--dask or --listen, not both: the simulator runs on a cluster, or is started elsewhere")
    if not arguments.command_line:
        raise UsageError("give the simulator's command line, as the workers' machines have it")
    given = [name for name in _TLS if getattr(arguments, name) is not None]
    if given and len(given) < len(_TLS):
        raise UsageError("TLS needs all of --tls-ca, --tls-cert and --tls-key")


@contextlib.contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client of the cluster, for a while."""
    from distributed import Client
    from distributed.security import Security

    options: dict[str, Any] = {}
    if arguments.tls_ca is not None:
        options["security"] = Security(
            tls_ca_file=str(arguments.tls_ca),
            tls_client_cert=str(arguments.tls_cert),
            tls_client_key=str(arguments.tls_key),
            require_encryption=True,
        )
    address = arguments.dask
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        client = Client(**where, timeout=_CONNECT_WITHIN, **options)
    except (OSError, ValueError, TypeError) as error:
        raise LaunchError(
            f"--dask {address}: no scheduler answers there within {_CONNECT_WITHIN:g} s ({error}). Start one with "
            "dask scheduler, or give the address that it prints"
        ) from error
    with client:
        yield client


@contextlib.contextmanager
def simulator_of(arguments: argparse.Namespace) -> Iterator[Simulator]:
    """The simulator of the command line: on this machine, started elsewhere, or on the workers of a cluster."""
    check_place(arguments)
    if arguments.dask is None:
        with open_simulator(arguments) as here:
            yield here
        return
    import ars.cluster

    with (
        connected(arguments) as client,
        ars.cluster.simulator(client, arguments.command_line, workers=arguments.workers, **limits(arguments)) as there,
    ):
        yield there
