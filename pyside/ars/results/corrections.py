"""What the corrections of a run's loops cost, and how much noise they add to the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.budget import Budget, ChosenBudget, budget_from_json
from ars.columns import Array, Booleans, Columns, Floats
from ars.errors import WeightError
from ars.planning.entries import entries_of
from ars.results.assessment import zero_share
from ars.results.run_info import RunInfo
from ars.weights import log_weight_biased

if TYPE_CHECKING:
    from ars.loops import Loops
    from ars.posterior import Posterior

__all__ = ["budget_of", "corrections_line", "noise", "noise_share", "squared_factors", "until_accepted"]

_MOST_LOOPS: Final = 3  # whose budgets are written out


def budget_of(run: RunInfo) -> Budget | ChosenBudget | None:
    """The budget that a run had. Files of earlier versions have its M and N alone."""
    if not run.budget and run.runs_p is not None and run.tries_q is not None:
        return Budget(M=run.runs_p, N=run.tries_q)
    return budget_from_json(run.budget)


def until_accepted(run: RunInfo) -> bool:
    """Whether continuations under q ran until R were accepted; else N tries were made."""
    budget = budget_of(run)
    return budget is not None and budget.estimator == "accepted"


# ---- noise -----------------------------------------------------------------------------------------------------------


def squared_factors(loops: Array, *, until_accepted: bool) -> Floats:
    """Estimate (q(A)/p(A))^2 without bias, for every loop entry with runs under p.

    Parameters
    ----------
    loops : array of struct ars_wire_loop
        Loop entries with ``runs_p`` of at least 1.
    until_accepted : bool
        Whether continuations under q ran until R were accepted; else N tries were made.

    Returns
    -------
    array
        T (T + 1) / (M (M + 1)) for 1/p(A)^2, with T tries in M runs. For q(A)^2 the probability that two given tries
        were accepted, given the counts: of the N tries and the main run's first one; or of S tries until R + 1 were
        accepted, those of the main run included. With R = 0 it is 1 for one try, -1 for two, else 0.
    """
    runs, total = loops["runs_p"].astype(np.float64), loops["tries_p"].astype(np.float64)
    accepted, tries = loops["accepted_q"].astype(np.float64), loops["tries_q"].astype(np.float64)
    main = loops["tries"].astype(np.float64)
    under_p = total * (total + 1.0) / (runs * (runs + 1.0))
    if not until_accepted:
        accepted, tries = accepted + (main == 1.0), tries + 1.0
        return np.asarray(under_p * accepted * (accepted - 1.0) / (tries * (tries - 1.0)))
    tries = tries + main
    pairs = np.maximum((tries - 1.0) * (tries - 2.0), 1.0)
    under_q = np.where(accepted >= 2.0, accepted * (accepted - 1.0) / pairs, tries == 2.0)
    under_q = np.where(accepted == 0.0, (main == 1.0) * 1.0 - (main == 2.0), under_q)
    return np.asarray(under_p * under_q)


def noise(post: Posterior) -> dict[str, float]:
    """The statistics that take weights; see ``Posterior.stats``."""
    try:
        log_weights = post.log_weights()
    except WeightError:
        return {}
    if not len(log_weights):
        return {}
    found = {"zero_weights": zero_share(log_weights)}
    if not np.isneginf(log_weights).all():
        found["correction_variance"] = noise_share(post, log_weights) if post.method == "ars" else 0.0
    return found


def noise_share(post: Posterior, log_weights: Floats) -> float:
    """Estimate the share of the weights' second moment that is due to noise of the corrections.

    Given its draws, a trace has the weight a C, where a is known and C estimates the product c of its loops' q(A)/p(A);
    in two phases it is a C / r with probability r, else 0. Without noise its square would be (a c)^2, of which there is
    an unbiased estimate from the same counts. Roulette and estimates count as noise.

    Parameters
    ----------
    post : Posterior
        A run with "ars" weights.
    log_weights : array
        These weights. At least one of them is not 0.

    Returns
    -------
    float
        From 0 to 1. Without this noise there would be 1 / (1 - share) times as many effective traces.
    """
    columns = post.columns
    rows = np.repeat(np.arange(len(columns.traces)), columns.traces["n_loops"])
    needed = _needed(post)
    lacking = np.zeros(len(columns.traces), np.bool_)
    lacking[rows[needed & (columns.loops["runs_p"] == 0)]] = True
    used = needed & ~lacking[rows]
    squares = np.ones(len(columns.traces))
    factors = squared_factors(columns.loops[used], until_accepted=until_accepted(post.run))
    np.multiply.at(squares, rows[used], factors)
    log_a = np.where(lacking, -np.inf, log_weight_biased(columns)) - 0.5 * _log_keep(post, lacking)
    largest = max(float(log_a.max()), float(log_weights.max()))
    noisy = float(np.exp(2.0 * (log_weights - largest)).sum())
    exact = float((squares * np.exp(2.0 * (log_a - largest))).sum())
    return min(max(1.0 - exact / noisy, 0.0), 1.0)


def _needed(post: Posterior) -> Booleans:
    """The loop entries whose correction is not exactly 1."""
    exact = [site.id for site in post.sites if site.address in post.run.exact]
    loops = post.columns.loops
    return np.asarray(post.run.proposed & ~np.isin(loops["site"], exact) & (loops["abandoned"] == 0))


def _log_keep(post: Posterior, lacking: Booleans) -> Floats:
    """The log probability with which the roulette kept a trace; 0 where it was not kept."""
    if not isinstance(post.budget, ChosenBudget) or post.budget.phases == 1:
        return np.zeros(len(post.columns.traces))
    entries = entries_of(post.columns, post.sites, post.run.exact)
    log_keep = post.budget.decide(log_weight_biased(post.columns), entries).log_keep
    return np.where(lacking | (log_keep == -np.inf), 0.0, log_keep)


# ---- in words --------------------------------------------------------------------------------------------------------


def corrections_line(stats: Mapping[str, float], loops: Loops, columns: Columns) -> str:
    """A line for a run's summary: which loops were estimated, at what cost, with how much noise; "" without loops."""
    if not loops:
        return ""
    estimated = {loop.address: loop.budget for loop in loops.values() if loop.estimated}
    if not estimated:
        proposed = any(loop.note != "nothing was proposed" for loop in loops.values())
        return "corrections: none was estimated" if proposed else "corrections: exactly 1 in every loop"
    listed = [f"{address}: {budget}" for address, budget in list(estimated.items())[:_MOST_LOOPS]]
    if len(estimated) > _MOST_LOOPS:
        listed.append(f"{len(estimated) - _MOST_LOOPS:,} more")
    parts = [f"{len(estimated):,} of {len(loops):,} loops estimated ({'; '.join(listed)})"]
    if replayed := int(stats.get("traces_replayed", 0)):
        parts.append(f"{replayed:,} of {len(columns.traces):,} traces replayed")
    if "zero_weights" in stats:
        parts.append(f"{stats['zero_weights']:.1%} zero weights")
    if "correction_variance" in stats:
        parts.append(f"{stats['correction_variance']:.0%} of the weights' second moment is noise of corrections")
    return f"corrections: {', '.join(parts)}"
