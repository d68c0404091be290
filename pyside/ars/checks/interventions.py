"""Which latents do the data depend on? Repeat a trace with one latent changed and everything else as it was.

The data of a trace of the prior are given back to it. Two runs then have the same trace numbers, hence the same
nuisance draws. One repeats the trace's latents, the other changes a single one of them to the value that it has in
another trace. If the likelihood changes, the data depend on that latent directly; if the prior density of another
latent changes, they depend on it through that one. Correlations over traces would miss many such latents: an angle that
is measured from a random direction is uncorrelated with everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ars._native import SiteKind
from ars.columns import Columns, Floats, Site, select, take, values_of
from ars.mcmc.moves import Plan
from ars.mcmc.proposer import PlannedProposer
from ars.mcmc.runner import Runner
from ars.mcmc.states import Key, State, states_of
from ars.runs import Runs

__all__ = ["Influence", "influences"]

_TRACES: Final = 200  # of the prior, from which values are taken
_BASES: Final = 8  # traces that are repeated
_PER_ADDRESS: Final = 3  # uses of one latent that are changed in each
_PER_TRACE: Final = 500


@dataclass(slots=True)
class Influence:
    """What changing one latent did.

    Attributes
    ----------
    changed : int
        Times that the likelihood of the data became another.
    same : int
        Times that it stayed the same, to the last bit.
    rejected : int
        Times that the other value was not possible: a loop rejected it, or its prior cannot draw it there.
    onto : set of str
        Addresses of latents whose prior density became another.
    matters : bool or None
        Whether the data depend on the latent, directly or through another; None if it could not be changed.
    """

    changed: int = 0
    same: int = 0
    rejected: int = 0
    onto: set[str] = field(default_factory=set)
    matters: bool | None = None

    def see(self, address: str, before: State, after: State) -> None:
        """Take in one change."""
        if not (before.possible and after.possible):
            self.rejected += 1
            return
        if before.log_likelihood == after.log_likelihood:
            self.same += 1
        else:
            self.changed += 1
        for i, key in enumerate(before.keys):
            there = after.place.get(key)
            if key[0] != address and there is not None and after.log_p[there] != before.log_p[i]:
                self.onto.add(key[0])


def influences(runs: Runs, seed: int) -> dict[str, Influence]:
    """Change the latents of a few traces, one at a time.

    Parameters
    ----------
    runs : Runs
        Of the simulator.
    seed : int
        Seed of all traces.

    Returns
    -------
    dict
        Address -> Influence, for the latents of the traces that were repeated.
    """
    columns, sites = runs.prior_chunk(seed, 0, _TRACES, on_failure="zero")
    columns = select(columns, columns.traces["failure"] == 0)
    states = states_of(columns, sites)
    found: dict[str, Influence] = {}
    for row in range(min(_BASES, len(states))):
        data = _data(take(columns, np.array([row], np.int64)), sites)
        for key, before, after in _repeated(runs, data, states[row], states, seed):
            found.setdefault(key[0], Influence()).see(key[0], before, after)
    _conclude(found)
    return found


def _conclude(found: Mapping[str, Influence]) -> None:
    """Follow the latents back from the data."""
    for influence in found.values():
        influence.matters = None if influence.changed + influence.same == 0 else influence.changed > 0
    waiting = [address for address, influence in found.items() if influence.matters]
    while waiting:
        towards = waiting.pop()
        for address, influence in found.items():
            if towards in influence.onto and not influence.matters:
                influence.matters = True
                waiting.append(address)


def _data(trace: Columns, sites: Sequence[Site]) -> dict[str, Floats]:
    """What one trace observed. Observations that it does not have are not given."""
    seen = set(trace.observes["site"].tolist())
    observed = (site for site in sites if site.kind is SiteKind.OBSERVE and site.id in seen)
    return {site.address: values_of(trace, (site,), site.address).reshape(-1) for site in observed}


def _repeated(
    runs: Runs, data: Mapping[str, Floats], base: State, others: Sequence[State], seed: int
) -> Iterator[tuple[Key, State, State]]:
    """For every latent of the base that is changed: the trace without and with the change."""
    kept = dict(zip(base.keys, base.values, strict=True))
    changes = list(_changes(base, others))
    if not changes or not data:
        return
    plans = [Plan(key, kept) for key, _ in changes]
    changed = [Plan(key, {**kept, key: value}) for key, value in changes]
    runner = Runner(runs, PlannedProposer(None), data, seed, on_failure="zero", lease=runs.lease())
    before = states_of(runner.run(plans, estimates=False, may_give_up=True), runner.sites)
    runner.traces = 0  # the same numbers again, so the same nuisance draws
    after = states_of(runner.run(changed, estimates=False, may_give_up=True), runner.sites)
    yield from zip((key for key, _ in changes), before, after, strict=True)


def _changes(base: State, others: Sequence[State]) -> Iterator[tuple[Key, float]]:
    """The latents to change, each with its value in another trace that has it."""
    used: dict[str, int] = {}
    count = 0
    for key, value in zip(base.keys, base.values, strict=True):
        if used.get(key[0], 0) == _PER_ADDRESS or count == _PER_TRACE:
            continue
        elsewhere = (each.values[each.place[key]] for each in others if key in each.place)
        other = next((each for each in elsewhere if each != value), None)
        if other is not None:
            used[key[0]] = used.get(key[0], 0) + 1
            count += 1
            yield key, other
