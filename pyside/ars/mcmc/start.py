"""Where chains begin: draws of the prior, or of the network, that could have given the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ars import diagnostics
from ars.columns import Columns, Floats, Integers, Site, concatenate
from ars.errors import ChainError
from ars.mcmc.moves import Plan
from ars.mcmc.runner import Runner
from ars.mcmc.states import State, states_of
from ars.results.zero_likelihood import impossible_observations
from ars.weights import log_weight_biased
from ars.wire import Wanted

__all__ = ["runs_per_entry", "start_states"]

_ROUNDS: Final = 10  # of draws, until enough of them could have given the data
_AGAIN: Final = 100  # attempts to begin a chain
_NOISE: Final = 0.25  # variance of the log of a trace's estimates to aim at
_FEWEST_RUNS, _MOST_RUNS = 2, 50


def pool_size(chains: int, moves: int) -> int:
    """How many draws chains are chosen from: few where a trace is dear, which moves are as well."""
    return min(max(chains * moves // 20, 8 * chains), 2000)


def start_states(
    runner: Runner, chains: int, size: int, M: int | None, rng: np.random.Generator, *, from_base: bool
) -> tuple[list[State], Columns, Columns]:
    """One state per chain, spread out.

    Parameters
    ----------
    runner : Runner
        Whose ``wanted`` is set here.
    chains : int
        How many.
    size : int
        Draws per round; there are up to ten rounds.
    M : int or None
        Runs under the prior per loop entry; None: chosen.
    rng : Generator
        Chooses among the draws.
    from_base : bool
        Whether the network draws, instead of the prior.

    Returns
    -------
    states, columns, pool
        The states, their traces, and the draws that they were chosen from.

    Raises
    ------
    ChainError
        If no draw could have given the data.
    """
    pool, log_weights = _pool(runner, chains, size, from_base)
    runner.wanted = Wanted(runs_per_entry(pool, log_weights) if M is None else M)
    found = states_of(pool, runner.sites)
    chosen = _spread(log_weights, chains, rng)
    begun: dict[int, State] = {}
    parts = []
    for attempt in range(_AGAIN):
        waiting = [chain for chain in range(chains) if chain not in begun]
        if not waiting:
            break
        rows = chosen if not attempt else _spread(log_weights, chains, rng)
        plans = [Plan(None, dict(zip(found[r].keys, found[r].values, strict=True))) for r in rows[waiting].tolist()]
        columns = runner.run(plans)
        parts.append(columns)
        for chain, plan, state in zip(waiting, plans, states_of(columns, runner.sites), strict=True):
            if state.possible and state.log_likelihood > -math.inf:
                state.log_inverse = [math.log(e.tries_p / e.runs) if e.runs else math.nan for e in state.entries]
                state.proposed = plan.proposed
                begun[chain] = state
    else:
        raise ChainError(
            f"{chains - len(begun)} of {chains} chains found no starting point in {_AGAIN} attempts: with the same "
            "latents, the simulator repeatedly gave the data likelihood 0. This probably depends on its other random "
            "draws (ars_draw, or a generator outside libars); make them latents with ars_sample"
        )
    return [begun[chain] for chain in range(chains)], concatenate(parts), pool


def _pool(runner: Runner, chains: int, size: int, from_base: bool) -> tuple[Columns, Floats]:
    """Draws, and their log weights."""
    parts: list[Columns] = []
    for _ in range(_ROUNDS):
        plans = [Plan(None, {}, from_base) for _ in range(size)]
        parts.append(runner.run(plans, asks=from_base, estimates=False))
        pool = concatenate(parts)
        log_weights = np.asarray(log_weight_biased(pool))
        if np.count_nonzero(log_weights > -np.inf) >= chains:
            break
    if not (log_weights > -np.inf).any():
        raise ChainError(_no_start(pool, runner.sites))
    return pool, log_weights


def _no_start(pool: Columns, sites: Sequence[Site]) -> str:
    names = ", ".join(f'"{name}"' for name in impossible_observations(pool, sites))
    what = f"the likelihood of {names}" if names else "the likelihood"
    failed = int(np.count_nonzero(pool.traces["failure"]))
    also = f" ({failed:,} of them failed)" if failed else ""
    return (
        f"no chain can begin: {what} is 0 in all {len(pool.traces):,} draws{also}. The simulator cannot produce the "
        "values given with any of the latents that were drawn. Check the data and their units; if they are rare, give "
        "a network= or proposals= that finds them"
    )


def _spread(log_weights: Floats, n: int, rng: np.random.Generator) -> Integers:
    """Rows in proportion to weights that are flattened until there are twice as many effective ones as chains, so that
    chains begin farther apart than the posterior is wide."""
    enough = min(2 * n, int(np.count_nonzero(log_weights > -np.inf)))
    low, high = 0.0, 1.0
    possible = np.where(log_weights > -np.inf, log_weights, 0.0)

    def flattened(power: float) -> Floats:
        return np.where(log_weights > -np.inf, power * possible, -np.inf)

    if diagnostics.ess(flattened(1.0)) < enough:
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if diagnostics.ess(flattened(middle)) >= enough else (low, middle)
        high = low
    rows = diagnostics.resample(flattened(high), n, rng)
    return np.asarray(rows[rng.permutation(n)])


def runs_per_entry(pool: Columns, log_weights: Floats) -> int:
    """M, so that the estimates of a trace have little noise together: the sum of (1 - p(A)) / M over its loop entries.

    Parameters
    ----------
    pool : Columns
        Draws of the simulator; the tries that they took show p(A).
    log_weights : array
        One per draw; draws of weight 0 do not count if there are others.

    Returns
    -------
    int
        From 2 to 50.
    """
    owner = np.repeat(np.arange(len(pool.traces)), pool.traces["n_loops"])
    counts = (log_weights > -np.inf)[owner]
    if not counts.any():
        return _FEWEST_RUNS
    site, tries = pool.loops["site"][counts].astype(np.int64), pool.loops["tries"][counts].astype(np.float64)
    entries = np.bincount(site)
    mean_tries = np.bincount(site, weights=tries) / np.maximum(entries, 1)
    rejected = 1.0 - 1.0 / np.maximum(mean_tries, 1.0)
    noise = float(np.sum(entries * rejected)) / int(np.count_nonzero(log_weights > -np.inf))
    return int(min(max(math.ceil(noise / _NOISE), _FEWEST_RUNS), _MOST_RUNS))
