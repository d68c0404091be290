"""Calibration on a cluster: every data set is a task, inferred by one worker from beginning to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client, Future, as_completed, get_worker

from ars.calibration.dataset import DataSet, Record, infer_dataset
from ars.cluster.tasks import Refused, SentNetwork, Simulators, ended, worker_name
from ars.errors import ArsError, RunInterrupted
from ars.simulator import Simulator

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
    client: Client,
    plugin: str,
    executable: str,
    left: Sequence[DataSet],
    sent: SentNetwork | None,
    there: Future | None,
    options: Mapping[str, Any],
    weighting: str | None,
) -> Iterator[Record]:
    """Records in the order in which workers finish them.

    Parameters
    ----------
    client : distributed.Client
    plugin, executable : str
        Name of the plugin that keeps the simulators, and the digest of the executable that workers must have.
    left : sequence of DataSet
    sent, there : SentNetwork or None, Future or None
        The network, and where it is in the cluster's memory.
    options : mapping
        Arguments of ``Simulator.posterior``.
    weighting : str or None

    Raises
    ------
    ArsError
        If a worker cannot run the simulator. The message names the worker.
    """
    digest = "" if sent is None else sent.digest
    tasks = [_Task(plugin, data, options, weighting, digest, executable) for data in left]
    futures = [client.submit(_run, task, there, pure=False) for task in tasks]
    try:
        for done in as_completed(futures):
            found = done.result()
            if isinstance(found, Refused):
                raise found.named()
            yield found
    finally:
        client.cancel([each for each in futures if not each.done()])


def _run(task: _Task, network: SentNetwork | None) -> Record | Refused:
    worker = get_worker()
    plugin: Simulators = worker.plugins[task.plugin]
    if (refused := plugin.unfit(worker_name(worker), task.executable)) is not None:
        return refused
    with plugin.exclusively() as processes:
        try:
            simulator = Simulator(processes.setup.command)
            simulator._use(processes)
            proposes = plugin.network(task.network, network) if task.network else None
            return infer_dataset(simulator, task.data, proposes, task.options, task.weighting)
        except ArsError as error:
            error.partial = None
            return Refused(worker_name(worker), error)
        except RunInterrupted as interrupt:
            return Refused(worker_name(worker), ended(interrupt))
