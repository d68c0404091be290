"""Markov chains on a cluster: groups of chains, each run by one worker from beginning to end.

A chain needs an answer per move, and a message to a worker costs more than a move. So a group stays on its worker, with
a seed of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from distributed import get_worker

from ars.arguments import integer, observed_arrays, seed_or_random
from ars.cluster.fleet import Fleet
from ars.cluster.tasks import Refused, SentNetwork, Simulators, ended, worker_name
from ars.errors import ArsError, RunInterrupted
from ars.failures import Failures
from ars.mcmc.chains import Acceptance, Chains
from ars.mcmc.options import CHAINS, ChainOptions
from ars.mcmc.sampler import run_chains
from ars.progress import NoProgress
from ars.runs import Runs

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.simulator import Simulator

__all__ = ["chains_in_groups", "joined"]


@dataclass(frozen=True)
class _Group:
    """One task: the chains of one group."""

    plugin: str
    asked: ChainOptions
    network: str  # digest; "" if there is none
    seed: int
    executable: str


def chains_in_groups(
    over: Simulator,
    observe: Mapping[str, npt.ArrayLike],
    steps: int,
    chains: int | None,
    network: Network | None,
    seed: int | None,
    groups: int | None,
    options: Mapping[str, Any],
) -> Chains:
    """See ``ars.cluster.mcmc``."""
    fleet = over._processes
    assert isinstance(fleet, Fleet)
    asked = ChainOptions(observed_arrays(observe), steps, CHAINS if chains is None else chains, None, **options)
    fleet.ready()
    most = max(asked.chains // _LEAST_CHAINS, 1)
    count = min(fleet.size()[1], most) if groups is None else integer("groups", groups, 1, asked.chains)
    sizes = [len(part) for part in np.array_split(np.arange(asked.chains), count)]
    seeds = np.random.SeedSequence(seed_or_random(seed)).generate_state(count, np.uint64).tolist()
    sent = None if network is None else SentNetwork.of(network)
    there = None if sent is None else fleet.send(sent)
    tasks = [
        _Group(
            fleet.name,
            ChainOptions(asked.data, steps, size, None, **options),
            "" if sent is None else sent.digest,
            seed_of_group,
            fleet.executable,
        )
        for size, seed_of_group in zip(sizes, seeds, strict=True)
    ]
    found = fleet.gather(_run_group, tasks, there)
    for each in found:
        if isinstance(each, Refused):
            raise each.named()
    return joined(found)


_LEAST_CHAINS: Final = 2  # of a group


def _run_group(task: _Group, network: SentNetwork | None) -> Chains | Refused:
    """Run a group of chains on this worker."""
    worker = get_worker()
    plugin: Simulators = worker.plugins[task.plugin]
    if (refused := plugin.unfit(worker_name(worker), task.executable)) is not None:
        return refused
    with plugin.exclusively() as processes:
        try:
            asked = task.asked
            if task.network:
                options = {name: getattr(asked, name) for name in ChainOptions.__dataclass_fields__}
                asked = ChainOptions(**{**options, "network": plugin.network(task.network, network)})
            runs = Runs(processes)
            return run_chains(runs, asked, task.seed, runs.lease(), NoProgress())
        except ArsError as error:
            error.partial = None
            return Refused(worker_name(worker), error)
        except RunInterrupted as interrupt:
            return Refused(worker_name(worker), ended(interrupt))


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
