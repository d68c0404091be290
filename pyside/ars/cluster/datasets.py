"""Calibration on a cluster: every data set is a task, inferred by one worker from beginning to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ars.calibration.dataset import DataSet, Record, infer_dataset
from ars.cluster.errands import errands
from ars.cluster.sent import SentNetwork, packed
from ars.cluster.simulators import Answer, Refused, Simulators, on_worker
from ars.runtime.processes import Processes
from ars.simulator import Simulator

if TYPE_CHECKING:
    from ars.cluster.fleet import Fleet
    from ars.network.facade import Network

__all__ = ["infer_on_workers"]


@dataclass(frozen=True)
class _Task:
    """One data set, and all that a worker has to know about it."""

    plugin: str
    data: DataSet
    options: Mapping[str, Any]
    weighting: str | None
    network: str  # digest; "" if there is none
    executable: str


def infer_on_workers(
    fleet: Fleet, left: Sequence[DataSet], network: Network | None, options: Mapping[str, Any], weighting: str | None
) -> Iterator[Record]:
    """Records in the order in which workers finish them.

    Parameters
    ----------
    fleet : Fleet
        Ready.
    left : sequence of DataSet
    network : Network or None
    options : mapping
        Arguments of ``Simulator.posterior``.
    weighting : str or None

    Raises
    ------
    ArsError
        If a worker cannot run the simulator. The message names the worker.
    """
    sent = None if network is None else SentNetwork.of(network)
    digest = "" if sent is None else sent.digest
    tasks = [
        packed(_Task(fleet.name, data, dict(options), weighting, digest, fleet.executable), "the proposals")
        for data in left
    ]
    for _, record in errands(fleet, _run, tasks, sent, "a data set"):
        yield record


def _run(data: bytes, network: SentNetwork | None) -> Answer | Refused:
    def infer(task: _Task, plugin: Simulators, processes: Processes) -> Record:
        simulator = Simulator(processes.setup.command)
        simulator._use(processes)
        proposes = plugin.network(task.network, network) if task.network else None
        return infer_dataset(simulator, task.data, proposes, task.options, task.weighting)

    return on_worker(data, infer)
