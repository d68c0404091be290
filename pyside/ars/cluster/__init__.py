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
    """A simulator whose traces are run by the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster. From the event loop of an asynchronous client, call this in another thread (``asyncio.to_thread``).
    command : str, path or sequence of str
        The executable and its arguments, as the workers' machines have them. All must have the same build.
    **options
        As of ``ars.Simulator``. ``workers`` and limits hold for every Dask worker by itself; ``startup_timeout`` is
        also how long to wait for the first Dask worker.

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
    """Weighted traces given data, run by the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as the workers' machines have them.
    observe : mapping
        Name -> a number or an array.
    traces : int
        Number of traces.
    network : Network or path, optional
        Network that makes the proposals (default: the prior). A path is read here, and sent to the workers.
    **options
        As of ``ars.Simulator`` and ``Simulator.posterior``: ``seed``, ``budget``, ``proposals``, ``refine``, ``adapt``,
        ``resume`` (a folder on this machine), ``on_failure``, ``progress``, ...

    Returns
    -------
    Posterior
        The same, bit for bit, as ``Simulator.posterior`` gives on one machine.

    Raises
    ------
    LaunchError
        If no worker comes, or one cannot start the simulator. The message names the worker.
    ArsError
        If a worker has another build of the executable, or of libars.
    HostLostError
        If workers are lost again and again. ``partial`` holds the finished traces.

    Examples
    --------
    >>> client = Client("scheduler:8786")  # doctest: +SKIP
    >>> ars.cluster.posterior(client, ["./decay"], {"signal": 1.2}, 1_000_000, seed=1)  # doctest: +SKIP
    """
    mine, rest = _split(options)
    with simulator(client, command, **mine) as over:
        return over.posterior(observe, traces, _loaded(network), **rest)


def prior(client: Client, command: Command, traces: int, seed: int | None = None, **options: Any) -> Traces:
    """Traces of the plain simulator, run by the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as the workers' machines have them.
    traces : int
        Number of traces.
    seed : int, optional
        Same seed, same traces (default: random).
    **options
        As of ``ars.Simulator`` and ``Simulator.prior``.

    Returns
    -------
    Traces
        The same, bit for bit, as ``Simulator.prior`` gives on one machine.

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
    """Prior traces on the client's disk, for training; run by the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as the workers' machines have them.
    directory : path
        Folder on this machine. One that holds traces of the same recording is continued.
    traces : int
        Traces that the folder is to hold in the end.
    **options
        As of ``ars.Simulator`` and ``Simulator.record``: ``seed``, ``max_rejected``, ``progress``, ...

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
    """A network specialised to one observation. Its rounds are drawn by the workers, and learnt by this process.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as the workers' machines have them.
    network : Network or path
        Where to start.
    observe : mapping
        Name -> a number or an array.
    **options
        As of ``ars.Simulator`` and ``Network.refine``.

    Returns
    -------
    Network
        As ``Network.refine`` gives.

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
    """Markov chains, in groups that each run on one worker.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    command : str, path or sequence of str
        The executable and its arguments, as the workers' machines have them.
    observe : mapping
        Name -> a number or an array.
    steps : int
        Draws that each chain records.
    chains : int, optional
        Chains in all (default: 16).
    network : Network or path, optional
        Adds moves that draw from its proposals.
    seed : int, optional
        The same seed and number of groups give the same draws (default: random).
    groups : int, optional
        Groups of chains, each a task (default: one per worker, with at least two chains each).
    **options
        As of ``ars.Simulator`` and ``Simulator.mcmc``.

    Returns
    -------
    Chains
        All chains together.

    Raises
    ------
    ArsError
        As ``posterior``, and ChainError as of ``Simulator.mcmc``. ``partial`` holds the chains of finished groups.
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
