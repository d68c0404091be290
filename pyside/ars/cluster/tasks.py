"""The work that a Dask worker does for a run: a range of traces, run by the simulator that it keeps."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

from ars.cluster.sent import SentNetwork
from ars.cluster.simulators import Answer, Refused, Simulators, on_worker
from ars.columns import Columns, Site
from ars.extras import one_torch_thread
from ars.failures import Failure
from ars.inference.options import PosteriorOptions
from ars.progress import NoProgress
from ars.proposers import PriorProposer, Proposer
from ars.proposers.remembering import RememberingProposer
from ars.runs import Runs
from ars.runtime.processes import Processes
from ars.runtime.recorder import Recorder
from ars.runtime.run_summary import RunSummary
from ars.wire import RunConfig

__all__ = ["Outcome", "Recipe", "Task", "run_task"]


@dataclass(frozen=True)
class Recipe:
    """Who proposes, in a form that can be sent: the options of a posterior, whose network travels by itself."""

    asked: PosteriorOptions
    network: str  # digest of the network's bytes; "" if there is none


@dataclass(frozen=True)
class Task:
    """A range of traces, and all that a worker has to know about it."""

    plugin: str  # the name of the plugin that keeps the simulator
    config: RunConfig
    recipe: Recipe | None  # None: the prior proposes
    executable: str  # digest of the executable that must be there; "": any


class Outcome(NamedTuple):
    """What a task brings back."""

    columns: Columns
    sites: tuple[Site, ...]
    asked: frozenset[str]  # addresses of the latents that were proposed
    summary: RunSummary | None
    stderr: dict[int, str]
    incidents: list[Failure]
    seconds: float


def run_task(data: bytes, network: SentNetwork | None) -> Answer | Refused:
    """Run a range of traces on this worker.

    Parameters
    ----------
    data : bytes
        The Task, packed.
    network : SentNetwork or None
        The network that proposes.

    Returns
    -------
    Answer or Refused
        An Outcome: the traces, failed ones among them; or why this machine cannot run them.
    """
    return on_worker(data, lambda task, plugin, processes: _run(task, network, plugin, processes))


def _run(task: Task, network: SentNetwork | None, plugin: Simulators, processes: Processes) -> Outcome:
    begin = time.monotonic()
    runs = Runs(processes)
    config = task.config
    with contextlib.ExitStack() as stack:
        proposer = RememberingProposer(_proposer(task.recipe, network, plugin, runs, stack))
        recorder = Recorder(config.n_traces, "zero", NoProgress(), first=config.first_trace, seed=config.seed)
        runs.work(config, proposer, recorder, None)
    return Outcome(
        recorder.columns(),
        recorder.sites,
        frozenset(proposer.addresses),
        recorder.summary,
        dict(recorder.stderr),
        list(recorder.incidents),
        time.monotonic() - begin,
    )


def _proposer(
    recipe: Recipe | None, network: SentNetwork | None, plugin: Simulators, runs: Runs, stack: contextlib.ExitStack
) -> Proposer:
    if recipe is None:
        return PriorProposer()
    asked = recipe.asked
    if recipe.network:
        asked = replace(asked, network=plugin.network(recipe.network, network))
        stack.enter_context(one_torch_thread())
    proposer = runs.proposer(asked, runs.lease())
    stack.callback(proposer.close)
    return proposer
