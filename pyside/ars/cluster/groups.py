"""Markov chains on a cluster: groups of chains, each run by one worker from beginning to end.

A chain needs an answer per move, and a message to a worker costs more than a move. So a group stays on its worker, with
a seed of its own.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from distributed import get_worker

from ars.arguments import integer, observed_arrays, seed_or_random
from ars.cluster.errands import errands
from ars.cluster.fleet import Fleet
from ars.cluster.sent import SentNetwork, packed
from ars.cluster.simulators import Answer, Refused, Simulators, on_worker
from ars.errors import ArsError, RunInterrupted
from ars.failures import Failures
from ars.mcmc.chains import Acceptance, Chains
from ars.mcmc.options import CHAINS, ChainOptions
from ars.mcmc.sampler import run_chains
from ars.progress import Progress
from ars.runs import Runs
from ars.runtime.processes import Processes

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.simulator import Simulator

__all__ = ["chains_in_groups", "joined"]

_LEAST_CHAINS: Final = 2  # of a group
_TELL: Final = 1.0  # seconds between two reports of a group's progress


@dataclass(frozen=True)
class _Group:
    """One task: the chains of one group."""

    plugin: str
    asked: ChainOptions
    network: str  # digest; "" if there is none
    seed: int
    executable: str
    topic: str  # of the cluster's events: the group's progress is told there
    number: int


def chains_in_groups(
    over: Simulator,
    observe: Mapping[str, npt.ArrayLike],
    steps: int,
    chains: int | None,
    network: Network | None,
    seed: int | None,
    groups: int | None,
    options: Mapping[str, Any],
    progress: Progress,
) -> Chains:
    """See ``ars.cluster.mcmc``."""
    fleet = over._processes
    assert isinstance(fleet, Fleet)
    if unknown := options.keys() - ChainOptions.__dataclass_fields__.keys():
        raise TypeError(f"ars.cluster.mcmc() got an unexpected keyword argument {min(unknown)!r}")
    asked = ChainOptions(observed_arrays(observe), steps, CHAINS if chains is None else chains, network, **options)
    with contextlib.closing(progress), fleet.exclusively(fleet.lease()):
        fleet.ready()
        most = max(asked.chains // _LEAST_CHAINS, 1)
        count = min(fleet.size()[1], most) if groups is None else integer("groups", groups, 1, asked.chains)
        sizes = [len(part) for part in np.array_split(np.arange(asked.chains), count)]
        seeds = np.random.SeedSequence(seed_or_random(seed)).generate_state(count, np.uint64).tolist()
        sent = None if network is None else SentNetwork.of(network)
        topic = f"{fleet.name}-chains-{secrets.token_hex(4)}"
        tasks = [
            packed(
                _Group(
                    fleet.name,
                    replace(asked, chains=size, network=None),
                    "" if sent is None else sent.digest,
                    seed_of_group,
                    fleet.executable,
                    topic,
                    i,
                ),
                "the proposals",
            )
            for i, (size, seed_of_group) in enumerate(zip(sizes, seeds, strict=True))
        ]
        return joined(_all_groups(fleet, tasks, sent, topic, progress, asked))


def _all_groups(
    fleet: Fleet, tasks: Sequence[bytes], sent: SentNetwork | None, topic: str, progress: Progress, asked: ChainOptions
) -> list[Chains]:
    """What the groups gave, in their order. Whatever ends it early carries those that were done as ``partial``."""
    steps = asked.warmup_steps + asked.steps
    total = steps * asked.chains
    done: dict[int, int] = {}  # group -> steps of all its chains
    found: dict[int, Chains] = {}
    try:
        with fleet.told(topic, lambda told: done.update({told[0]: max(told[1], done.get(told[0], 0))})):
            tick = lambda: progress.update(sum(done.values()), total)  # noqa: E731
            for i, chains in errands(fleet, _run_group, tasks, sent, "a group of chains", tick):
                found[i] = chains
                done[i] = steps * chains.shape[0]
        progress.update(total, total)
    except (ArsError, KeyboardInterrupt) as error:
        partial = joined([found[i] for i in sorted(found)]) if found else None
        if isinstance(error, ArsError | RunInterrupted):
            error.partial = partial
            raise
        interrupted = RunInterrupted("interrupted; .partial holds the chains of the groups that were done")
        interrupted.partial = partial
        raise interrupted from error
    return [found[i] for i in range(len(tasks))]


class _Told:
    """The progress of a group, told to the client now and then."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._next = 0.0

    def update(self, done: int, total: int) -> None:
        del total
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _TELL
            self._tell(done)

    def close(self) -> None:
        """The result says that it is over."""


def _run_group(data: bytes, network: SentNetwork | None) -> Answer | Refused:
    """Run a group of chains on this worker."""

    def run(task: _Group, plugin: Simulators, processes: Processes) -> Chains:
        asked = replace(task.asked, network=plugin.network(task.network, network)) if task.network else task.asked
        runs = Runs(processes)
        told = _Told(lambda done: get_worker().log_event(task.topic, (task.number, done)))
        return run_chains(runs, asked, task.seed, runs.lease(), told)

    return on_worker(data, run)


def joined(parts: Sequence[Chains]) -> Chains:
    """The chains of all groups, one after another.

    Parameters
    ----------
    parts : sequence of Chains
        Groups with the same number of draws.

    Returns
    -------
    Chains
        Without ``columns``: the groups number their traces alike.
    """
    named: dict[str, set[str]] = {}  # address -> the names that groups have for it
    for part in parts:
        for name in part:
            named.setdefault(part.address(name), set()).add(name)
    names = {address: found.pop() if len(found) == 1 else address for address, found in named.items()}
    values = {name: _stacked([_of(part, address) for part in parts], parts) for address, name in names.items()}
    acceptance: dict[tuple[str, str], Acceptance] = {}
    for part in parts:
        for key, (made, accepted) in part.acceptance_by_latent.items():
            before = acceptance.get(key, Acceptance(0, 0))
            acceptance[key] = Acceptance(before.made + made, before.accepted + accepted)
    about = {**parts[0].about, "traces": sum(int(part.about["traces"]) for part in parts)}
    about["thin"] = max(int(part.about["thin"]) for part in parts)
    return Chains(
        values,
        {name: address for address, name in names.items()},
        observed=parts[0].observed,
        acceptance=acceptance,
        failures=_all_failures([part.failures for part in parts]),
        about={**about, "groups": len(parts)},
        trace_numbers=np.concatenate([part.trace_numbers for part in parts]),
    )


def _all_failures(parts: Sequence[Failures]) -> Failures:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(dict(part))
    examples = [each for part in parts for each in part.examples]
    return Failures.counted(counts, examples, [each for part in parts for each in part.incidents])


def _of(part: Chains, address: str) -> npt.NDArray[np.float64] | None:
    try:
        return part[address]
    except KeyError:  # no chain of this group met it
        return None


def _stacked(found: Sequence[npt.NDArray[np.float64] | None], parts: Sequence[Chains]) -> npt.NDArray[np.float64]:
    """Values of all groups, with NaN where a group has fewer instances or elements, or none."""
    shape = max((each.shape[2:] for each in found if each is not None), key=lambda rest: (len(rest), rest))
    out = []
    for each, part in zip(found, parts, strict=True):
        wide = np.full((*part.shape, *shape), np.nan)
        if each is not None:
            filled = each.reshape(*each.shape, *(1 for _ in range(len(shape) - (each.ndim - 2))))
            wide[tuple(slice(0, size) for size in filled.shape)] = filled
        out.append(wide)
    return np.concatenate(out)
