"""Runs on the workers of a Dask cluster: the functions of ``ars.Simulator``, with a client as the first argument.

Work is a set of trace numbers under a seed, so a result is bit for bit that of one machine, however many workers there
are, and whichever of them are lost on the way. Needs the extra ``cluster`` (dask, distributed).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ars.posterior import Posterior, Traces
from ars.progress import make_progress
from ars.simulator import Simulator
from ars.store.shards import Recording

try:
    from distributed import Client

    from ars.cluster.fleet import Fleet
    from ars.cluster.runs import ClusterRuns
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("cloudpickle", "dask", "distributed"):
        raise
    raise ImportError(f"ars.cluster needs {error.name}: pip install 'libars[cluster]'", name=error.name) from error

if TYPE_CHECKING:
    from ars.mcmc.chains import Chains
    from ars.network.facade import Network

__all__ = ["mcmc", "posterior", "prior", "record", "refine", "simulator"]

Command = Sequence[str] | str | os.PathLike[str]


def simulator(client: Client, command: Command, **options: Any) -> Simulator:
    """Start a simulator whose traces run on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster. From the event loop of an asynchronous client, call this in another thread (``asyncio.to_thread``).
    command : str, path or sequence of str
        The executable and its arguments, as on the workers' machines. All must have the same build.
    **options
        Options of ``ars.Simulator``. ``workers`` and the limits apply to each Dask worker separately.
        ``startup_timeout`` is also the time, in seconds, to wait for the first Dask worker.

    Returns
    -------
    Simulator
        With ``prior``, ``posterior``, ``record`` and ``train``; close it to end the simulators on the workers.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used. The message names it.
    """
    _check_client(client)
    made = Simulator(command, **options)
    fleet = Fleet(client, made._processes.setup)
    made._use(fleet, ClusterRuns(fleet))
    return made


def _check_client(client: object) -> None:
    """What a client must be for calls that return results."""
    if not isinstance(client, Client):
        raise TypeError(f"client must be a distributed.Client, such as Client('scheduler:8786'), not {client!r}")
    if client.asynchronous:
        raise ValueError(
            "the client is asynchronous, and this is its event loop: call ars.cluster from another thread, as in "
            "await asyncio.to_thread(ars.cluster.posterior, client, ...)"
        )
    if client.status != "running":
        raise ValueError(f"the client is {client.status}: make a new one")


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the simulator, and of the run."""
    names = set(inspect.signature(Simulator.__init__).parameters) - {"self", "command"}
    mine = {name: value for name, value in options.items() if name in names}
    return mine, {name: value for name, value in options.items() if name not in names}


def posterior(
    client: Client,
    command: Command,
    observe: Mapping[str, npt.ArrayLike],
    traces: int,
    network: Network | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Posterior:
    """Run a simulator backwards on the workers of a cluster, for weighted traces given data.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as on the workers' machines.
    observe : mapping
        Name -> a number or an array.
    traces : int
        Number of traces.
    network : Network or path, optional
        Network that makes the proposals (default: the prior). A file is read on the client and sent to the workers.
    **options
        Options of ``ars.Simulator`` and ``Simulator.posterior``: ``seed``, ``budget``, ``proposals``, ``refine``,
        ``adapt``, ``resume`` (a folder on this machine), ``on_failure``, ``progress``, ...

    Returns
    -------
    Posterior
        Equal, bit for bit, to the result of ``Simulator.posterior`` on one machine.

    Raises
    ------
    LaunchError
        If no worker connects, or one cannot start the simulator. The message names the worker.
    ArsError
        If a worker has a different build of the executable, or of libars.
    HostLostError
        If workers are lost repeatedly. ``partial`` holds the finished traces.

    Examples
    --------
    >>> client = Client("scheduler:8786")  # doctest: +SKIP
    >>> ars.cluster.posterior(client, ["./decay"], {"signal": 1.2}, 1_000_000, seed=1)  # doctest: +SKIP
    """
    mine, rest = _split(options)
    with simulator(client, command, **mine) as over:
        return over.posterior(observe, traces, _loaded(network), **rest)


def prior(client: Client, command: Command, traces: int, seed: int | None = None, **options: Any) -> Traces:
    """Run a simulator forwards on the workers of a cluster, for prior traces.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as on the workers' machines.
    traces : int
        Number of traces.
    seed : int, optional
        Random seed; the same seed gives the same traces (default: random).
    **options
        Options of ``ars.Simulator`` and ``Simulator.prior``.

    Returns
    -------
    Traces
        Equal, bit for bit, to the result of ``Simulator.prior`` on one machine.

    Raises
    ------
    ArsError
        As ``posterior``.
    """
    mine, rest = _split(options)
    with simulator(client, command, **mine) as over:
        return over.prior(traces, seed, **rest)


def record(
    client: Client, command: Command, directory: str | os.PathLike[str], traces: int, **options: Any
) -> Recording:
    """Run a simulator on the workers of a cluster, and record prior traces on the client's disk for training.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as on the workers' machines.
    directory : path
        Folder on the client's machine. An existing recording is continued.
    traces : int
        Total number of traces in the folder at the end.
    **options
        Options of ``ars.Simulator`` and ``Simulator.record``: ``seed``, ``max_rejected``, ``progress``, ...

    Returns
    -------
    Recording
        The folder, for ``train(data=...)``.

    Raises
    ------
    ArsError
        As ``posterior``; StorageError if the folder cannot be written.
    """
    mine, rest = _split(options)
    with simulator(client, command, **mine) as over:
        return over.record(traces, directory, **rest)


def refine(
    client: Client,
    command: Command,
    network: Network | str | os.PathLike[str],
    observe: Mapping[str, npt.ArrayLike],
    **options: Any,
) -> Network:
    """Specialise a network to one observation. The workers draw the traces of each round; this process trains.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as on the workers' machines.
    network : Network or path
        The network to start from.
    observe : mapping
        Name -> a number or an array.
    **options
        Options of ``ars.Simulator`` and ``Network.refine``.

    Returns
    -------
    Network
        The refined network, as from ``Network.refine``.

    Raises
    ------
    ArsError
        As ``posterior``.
    """
    mine, rest = _split(options)
    start = _loaded(network)
    assert start is not None
    with simulator(client, command, **mine) as over:
        return start.refine(over, observe, **rest)


def mcmc(
    client: Client,
    command: Command,
    observe: Mapping[str, npt.ArrayLike],
    steps: int,
    chains: int | None = None,
    network: Network | str | os.PathLike[str] | None = None,
    seed: int | None = None,
    *,
    groups: int | None = None,
    **options: Any,
) -> Chains:
    """Run Markov chains in groups, each on one worker.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as on the workers' machines.
    observe : mapping
        Name -> a number or an array.
    steps : int
        Draws that each chain records.
    chains : int, optional
        Total number of chains (default: 16).
    network : Network or path, optional
        Adds moves that draw from its proposals.
    seed : int, optional
        The same seed and number of groups give the same draws (default: random).
    groups : int, optional
        Number of groups, each one task (default: one per worker, with at least two chains each).
    **options
        Options of ``ars.Simulator`` and ``Simulator.mcmc``.

    Returns
    -------
    Chains
        All chains together.

    Raises
    ------
    ArsError
        As ``posterior``, and ChainError as for ``Simulator.mcmc``. ``partial`` holds the chains of finished groups.
    RunInterrupted
        On Ctrl-C, with the same ``partial``.
    """
    from ars.cluster.groups import chains_in_groups

    mine, rest = _split(options)
    shown = make_progress(rest.pop("progress", None))
    with simulator(client, command, **mine) as over:
        return chains_in_groups(over, observe, steps, chains, _loaded(network), seed, groups, rest, shown)


def _loaded(network: Network | str | os.PathLike[str] | None) -> Network | None:
    if network is None or not isinstance(network, str | os.PathLike):
        return network
    from ars.network.facade import Network

    return Network.load(network)
