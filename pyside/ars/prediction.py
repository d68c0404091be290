"""Posterior predictive draws: data that the simulator produces with latents from the posterior.

Latents are drawn from the posterior by their weights and given to the simulator, which draws the observations, and
everything that it does not record as a latent, anew. A loop whose acceptance also depends on such draws can reject the
given latents. That trace is repeated with other random numbers until it is accepted, so that no latents are favoured.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ars._native import SiteKind
from ars.arguments import ON_FAILURE, OnFailure, check_on_failure, integer
from ars.columns import Columns, Integers, Site, concatenate, select, take
from ars.errors import BiasWarning
from ars.mcmc.moves import Plan
from ars.mcmc.proposer import PlannedProposer
from ars.mcmc.runner import Runner
from ars.mcmc.states import Key, State, states_of
from ars.posterior import Posterior, Traces
from ars.progress import Progress
from ars.results.run_info import RunInfo
from ars.runs import Runs

__all__ = ["Prediction", "predict"]

_ROUNDS: Final = 200  # of repeating traces whose latents were rejected
_MOST: Final = 10_000_000


class Prediction(Traces):
    """Posterior predictive draws, from ``Simulator.predict``: equally weighted traces.

    ``predicted.observations["y"]`` has the simulated data, a row per draw, in the shape of the simulator's
    observations. Latents and results are there as in ``Traces``, and ``observed`` has the data of the posterior.

    Attributes
    ----------
    rows : array
        The row of the posterior that each draw took its latents from.
    """

    def __init__(self, columns: Columns, sites: Sequence[Site], *, rows: Integers, **more: Any) -> None:
        super().__init__(columns, sites, **more)
        self.rows = rows


def predict(
    runs: Runs,
    post: Posterior,
    n: int,
    seed: int,
    *,
    lease: int,
    progress: Progress,
    on_failure: OnFailure = ON_FAILURE,
    method: str | None = None,
) -> Prediction:
    """``Simulator.predict``."""
    count = integer("n", n, 1, _MOST)
    check_on_failure(on_failure)
    if not len(post) or not np.any(post.log_weights(method) > -np.inf):
        raise ValueError("no trace of the posterior has weight: there is nothing to base predictions on")
    rows = post.resample(count, method, seed=seed)
    needed, index = np.unique(rows, return_inverse=True)
    states = states_of(take(post.columns, needed), post.sites)
    runner = Runner(runs, PlannedProposer(None), None, seed, on_failure=on_failure, lease=lease)
    parts: list[Columns] = []
    sources: list[Integers] = []
    waiting = np.arange(count)
    for _ in range(_ROUNDS):
        plans = [_plan(states[i]) for i in index[waiting].tolist()]
        columns = runner.run(plans, estimates=False, may_give_up=True)
        made = np.array([
            _repeated(states[i], state)
            for i, state in zip(index[waiting].tolist(), states_of(columns, runner.sites), strict=True)
        ])  # fmt: skip
        parts.append(select(columns, made))
        sources.append(rows[waiting[made]])
        waiting = waiting[~made]
        progress.update(count - len(waiting), count)
        if not len(waiting):
            break
    progress.close()
    _check_names(post.sites, runner.sites)
    if len(waiting):
        _warn_of_left_out(len(waiting), count)
    found = Prediction(
        concatenate(parts),
        runner.sites,
        rows=np.concatenate(sources),
        run=RunInfo(seed, None, None, "prior", on_failure, runs.command, proposed=False, build=runs.build),
        stats={},
        observed=post.observed,
    )
    found.failures = runner.failures
    return found


def _given_up(state: State) -> set[int]:
    return {i for i, entry in enumerate(state.entries) if entry.abandoned}


def _plan(state: State) -> Plan:
    """All latents of a trace, but those of loops that it gave up: no try of these can be accepted."""
    inside = _given_up(state)
    for i, entry in enumerate(state.entries):  # a loop is entered after those around it
        if entry.parent in inside:
            inside.add(i)
    kept: dict[Key, float] = {
        key: value for key, value, loop in zip(state.keys, state.values, state.loop, strict=True) if loop not in inside
    }
    return Plan(None, kept)


def _repeated(before: State, after: State) -> bool:
    """Whether the trace took all its latents, and gave up the same loops."""

    def lost(state: State) -> set[Key]:
        return {(state.entries[i].address, state.entries[i].instance) for i in _given_up(state)}

    return after.possible and lost(before) == lost(after)


def _check_names(theirs: Sequence[Site], ours: Sequence[Site]) -> None:
    """Another simulator may have other observations, but not only other latents."""
    known = {site.address for site in ours if site.kind is SiteKind.SAMPLE}
    latents = [site.address for site in theirs if site.kind is SiteKind.SAMPLE]
    if latents and not any(address in known for address in latents):
        raise ValueError(
            f"the posterior has latents that this simulator does not draw: {', '.join(latents[:3])}. Use the simulator "
            "that made the posterior"
        )


def _warn_of_left_out(left: int, count: int) -> None:
    warnings.warn(
        f"{left:,} of {count:,} draws are omitted: in {_ROUNDS} runs each, a loop rejected their latents or gave up "
        "otherwise. The others are biased towards latents that are accepted more often",
        BiasWarning,
        stacklevel=4,
    )
