"""What a posterior shows about itself, as plain numbers: the grounds for advice on what to do next."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ars._native import SiteKind
from ars.budget import Budget, ChosenBudget
from ars.columns import Columns, Floats, Integers
from ars.diagnostics import ParetoK, ess, pareto_k
from ars.results.assessment import zero_share
from ars.results.unexplained import Noise, log_likelihood_noise
from ars.results.zero_likelihood import impossible_observations
from ars.weights import log_weight_biased

if TYPE_CHECKING:
    from ars.posterior import Posterior

__all__ = ["LoopSeen", "Proposer", "Seen", "predicted_ess", "seen_of", "spread_shares", "tempered"]

Proposer: TypeAlias = Literal["network", "hand", "prior"]

_MOST_SITES: Final = 64  # latents whose part in the spread of the weights is computed
_LEAST_INNER: Final = 10.0  # effective traces, below which their own tail cannot be fitted
_MOST_CELLS: Final = 20_000_000  # numbers that this may take


class LoopSeen(NamedTuple):
    """A loop whose correction was estimated."""

    address: str
    p_accept: float
    q_accept: float


@dataclass(frozen=True)
class Seen:
    """What a run shows about itself.

    Attributes
    ----------
    traces : int
        Number of traces with a weight, 0 included.
    ess : float
        Effective traces of the default weights.
    pareto_k : ParetoK
        Shape of their tail.
    inner_k : ParetoK
        Shape of the tail of the largest weights alone, as many as are effective; NaN for fewer than 10.
    proposer : {"network", "hand", "prior"}
        Who proposed. "hand" also stands for a run that does not say.
    zero_share : float
        Share of the traces with weight 0, whatever the reason: failures, likelihood 0, roulette or corrections.
    failed_share, excluded_share : float
        Share of the traces that failed, and share whose likelihood is 0.
    impossible : tuple of str
        Observations whose likelihood is 0 in every trace.
    uncorrected_ess : float
        Effective traces before corrections.
    uncorrected_k : ParetoK
        Shape of the tail before corrections.
    correction_noise : float
        Share of the weights' second moment that is noise of corrections.
    budget : Budget, ChosenBudget or None
        The budget of the run.
    loops : tuple of LoopSeen
        Loops that were estimated, that with the smallest q(A) first.
    gives_up : bool
        Whether a loop was given up (``ars_loop_abandon``), which Markov chains do not support.
    ess_prior_in_loops, ess_prior : float
        Effective traces to expect, by these weights, if the prior proposed inside loops, or everything. NaN: the
        question does not arise.
    ess_without : mapping
        The same if the prior proposed one latent outside loops, by name, for latents with a proposal.
    spread : mapping
        Shares of the variance of the log weights, which add up to 1: of each latent's log p/q by name, of
        "log likelihood" and of "corrections".
    left_to_prior : tuple of str
        Latents that the prior proposed although others have proposals.
    proposed_draws : float
        Mean number of accepted draws per trace that something other than the prior proposed.
    defensive : float
        Share of the prior in each proposal of the network; 0: no network.
    noise : Noise
        Variance of the log likelihood that the recorded latents do not explain.
    in_loops : {"proposal", "prior"}
        Who proposed inside loops.
    refined : bool
        Whether the network was refined for one observation, or adapting kept the prior.
    """

    traces: int
    ess: float
    pareto_k: ParetoK
    inner_k: ParetoK = ParetoK(math.nan)  # noqa: RUF009  # a number
    proposer: Proposer = "hand"
    zero_share: float = 0.0
    failed_share: float = 0.0
    excluded_share: float = 0.0
    impossible: tuple[str, ...] = ()
    uncorrected_ess: float = math.nan
    uncorrected_k: ParetoK = ParetoK(math.nan)  # noqa: RUF009  # a number
    correction_noise: float = 0.0
    budget: Budget | ChosenBudget | None = None
    loops: tuple[LoopSeen, ...] = ()
    gives_up: bool = False
    ess_prior_in_loops: float = math.nan
    ess_prior: float = math.nan
    ess_without: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    left_to_prior: tuple[str, ...] = ()
    proposed_draws: float = 0.0
    defensive: float = 0.0
    noise: Noise = field(default_factory=Noise)
    in_loops: str = "proposal"
    refined: bool = False


# ---- functions of weights --------------------------------------------------------------------------------------------


def tempered(log_weights: Floats, effective: float) -> Floats:
    """Flatten weights until this many are effective, or all that are not 0.

    Parameters
    ----------
    log_weights : array
        At least one of them is not -inf.
    effective : float
        Effective traces to reach.

    Returns
    -------
    array
        Shares that add up to 1, proportional to a power of the weights between 0 and 1.
    """
    positive = log_weights > -np.inf
    scaled = np.where(positive, log_weights - log_weights.max(), 0.0)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        enough = ess(np.where(positive, middle * scaled, -np.inf)) >= effective
        low, high = (middle, high) if enough else (low, middle)
    power = 1.0 if ess(log_weights) >= effective else low
    shares = np.where(positive, np.exp(power * scaled), 0.0)
    return np.asarray(shares / shares.sum())


def spread_shares(terms: Mapping[str, Floats], shares: Floats) -> dict[str, float]:
    """Attribute the variance of log weights to the terms that they are sums of.

    Parameters
    ----------
    terms : mapping
        Names to terms, one number per trace, finite where ``shares`` is not 0.
    shares : array
        How much each trace counts.

    Returns
    -------
    dict
        Per term its covariance with the sum, relative to the sum's variance. They add up to 1; a term that others
        cancel has a share near 0. Empty if the sum does not vary.
    """
    used = shares > 0.0
    weights = shares[used] / shares[used].sum()
    columns = {name: term[used] - weights @ term[used] for name, term in terms.items()}
    total = np.sum(list(columns.values()), axis=0) if columns else np.zeros(len(weights))
    variance = float(weights @ np.square(total))
    if not variance > 0.0:
        return {}
    return {name: float(weights @ (column * total)) / variance for name, column in columns.items()}


def predicted_ess(log_weights: Floats, log_other: Floats) -> float:
    """Estimate the effective traces of a run with other proposals, from the weights of this one.

    With target density g, the weights are w = g/q here and v = g/r there. The second moment of v under r is the
    integral of g v, and so the mean of w v under q.

    Parameters
    ----------
    log_weights, log_other : array
        Logs of w and of v, for the traces of this run.

    Returns
    -------
    float
        For as many traces as there are, at most that many. 0 if every weight is 0.
    """
    if not (log_weights > -np.inf).any():
        return 0.0
    both = np.where(log_weights > -np.inf, log_weights + log_other, -np.inf)
    largest = float(both.max())
    if largest == -np.inf:
        return 0.0
    log_sum = np.log(np.exp(log_weights - log_weights.max()).sum()) + log_weights.max()
    log_product = np.log(np.exp(both - largest).sum()) + largest
    return float(min(math.exp(min(2.0 * log_sum - log_product, 700.0)), len(log_weights)))


# ---- a run -----------------------------------------------------------------------------------------------------------


def _proposer(post: Posterior) -> Proposer:
    if not post.run.proposed:
        return "prior"
    try:
        told = json.loads(post.run.proposals or "{}")
    except ValueError:
        told = {}
    return "network" if told.get("network") else "hand"


class _Ratios(NamedTuple):
    """Log p/q of the draws that count, summed per trace, for latents that have proposals."""

    by_site: dict[str, Floats]
    rest: Floats  # of all latents that are not in by_site, and all draws of loops that were given up
    inside: Floats  # of all draws inside loops
    outside: frozenset[str]  # of by_site, the latents that no loop encloses
    left_to_prior: tuple[str, ...]
    draws: float


def _summed(rows: Integers, terms: Floats, n: int) -> Floats:
    return np.bincount(rows, weights=terms, minlength=n).astype(np.float64, copy=False)


def _per_site(rows: Integers, site: Integers, terms: Floats, chosen: Sequence[int], n: int) -> Floats:
    """Sums per trace of the terms of these sites, a row per site."""
    place = np.full(int(site.max(initial=0)) + 1, len(chosen), np.int64)
    place[list(chosen)] = np.arange(len(chosen))
    width = len(chosen) + 1
    return np.ascontiguousarray(_summed(rows * width + place[site], terms, n * width).reshape(n, width)[:, :-1].T)


def _given_up(columns: Columns) -> Floats:
    """Log p/q of all draws of loops that were given up, which are not among the samples."""
    loops, n = columns.loops, len(columns.traces)
    rows: Integers = np.repeat(np.arange(n, dtype=np.int64), columns.traces["n_loops"])
    chosen = (loops["abandoned"] > 0) & np.isfinite(loops["log_ratio_rejected"])
    return _summed(rows[chosen], loops["log_ratio_rejected"][chosen], n)


def _ratios(post: Posterior) -> _Ratios:
    columns: Columns = post.columns
    samples, n = columns.samples, len(columns.traces)
    rows: Integers = np.repeat(np.arange(n, dtype=np.int64), columns.traces["n_samples"])
    known = np.isfinite(samples["log_p"]) & np.isfinite(samples["log_q"])
    ratio = np.subtract(samples["log_p"], samples["log_q"], out=np.zeros(len(samples)), where=known)
    site = samples["site"].astype(np.int64)
    size = max((each.id for each in post.sites), default=-1) + 1
    proposed = np.bincount(site[ratio != 0.0], minlength=size) > 0
    drawn = np.bincount(site, minlength=size) > 0
    weight = np.bincount(site, np.square(ratio), minlength=size)
    latents = [each for each in post.sites if each.kind == SiteKind.SAMPLE]
    names = dict(zip((each.id for each in latents), post.latents, strict=True))
    largest = sorted((i for i in names if proposed[i]), key=lambda i: -weight[i])
    largest = largest[: min(_MOST_SITES, max(_MOST_CELLS // max(n, 1) - 1, 1))]
    by_site = {}
    for i, column in zip(largest, _per_site(rows, site, ratio, largest, n), strict=True):
        by_site[names[i]] = column
    given_up = _given_up(columns)
    total = _summed(rows, ratio, n) + given_up
    inside = samples["loop"] >= 0
    enclosed = np.bincount(site[inside], minlength=size) > 0
    return _Ratios(
        by_site,
        np.asarray(total - np.sum(list(by_site.values()), axis=0)) if by_site else total,
        _summed(rows[inside], ratio[inside], n) + given_up,
        frozenset(names[i] for i in largest if not enclosed[i]),
        tuple(name for i, name in names.items() if drawn[i] and not proposed[i]) if proposed.any() else (),
        float(np.count_nonzero(proposed[site])) / n if n else 0.0,
    )


def seen_of(post: Posterior) -> Seen:
    """Collect what a posterior shows about itself, with its default weights.

    Parameters
    ----------
    post : Posterior
        A run with at least one trace.

    Returns
    -------
    Seen

    Raises
    ------
    WeightError
        If the run has no default weights.
    """
    log_weights, uncorrected = post.log_weights(), log_weight_biased(post.columns)
    proposer, effective, tail = _proposer(post), ess(log_weights), pareto_k(log_weights)
    failed, complete = post.failures.total, post.columns.traces["failure"] == 0
    seen = Seen(
        traces=len(post),
        ess=effective,
        pareto_k=tail,
        inner_k=_inner_k(log_weights, effective, tail),
        proposer=proposer,
        zero_share=zero_share(log_weights),
        failed_share=failed / max(failed + int(np.count_nonzero(complete)), 1),
        excluded_share=float(np.mean(complete & (uncorrected == -np.inf))),
        impossible=tuple(impossible_observations(post.columns, post.sites)),
        uncorrected_ess=ess(uncorrected),
        uncorrected_k=pareto_k(uncorrected),
        correction_noise=post.stats.get("correction_variance", 0.0),
        budget=post.budget,
        loops=_loops(post),
        gives_up=bool(post.columns.loops["abandoned"].any() or post.columns.loops["abandoned_p"].any()),
        defensive=post.run.defensive if proposer == "network" else 0.0,
        in_loops=post.run.in_loops,
        refined=post.run.refined,
    )
    return seen if seen.ess == 0.0 else _more(post, seen, log_weights, uncorrected)


def _inner_k(log_weights: Floats, effective: float, tail: ParetoK) -> ParetoK:
    if effective < _LEAST_INNER or tail.tail < _LEAST_INNER:
        return ParetoK(math.nan)
    return pareto_k(log_weights, tail_share=min(effective / tail.tail, 1.0))


def _loops(post: Posterior) -> tuple[LoopSeen, ...]:
    found = [LoopSeen(each.address, each.p_accept, each.q_accept) for each in post.loops.values() if each.estimated]
    return tuple(sorted(found, key=lambda loop: loop.q_accept))


def _more(post: Posterior, seen: Seen, log_weights: Floats, uncorrected: Floats) -> Seen:
    """What takes weights that are not all 0: where their spread comes from, and how other proposals would do."""
    positive = log_weights > -np.inf
    shares = tempered(log_weights, 0.5 * np.count_nonzero(positive))
    ratios = _ratios(post)
    log_likelihood = np.where(positive, post.columns.traces["log_likelihood"], 0.0)
    terms = {**ratios.by_site, "log likelihood": log_likelihood}
    if ratios.rest.any():
        terms["other latents"] = ratios.rest
    if post.method == "ars":
        terms["corrections"] = np.subtract(log_weights, uncorrected, out=np.zeros(len(log_weights)), where=positive)
    proposed = seen.proposer != "prior" and bool(ratios.by_site)
    plain = post.columns.traces["log_likelihood"]
    in_loops = proposed and post.method == "ars" and ratios.inside.any()
    return replace(
        seen,
        spread=spread_shares(terms, shares),
        ess_prior_in_loops=predicted_ess(log_weights, uncorrected - ratios.inside) if in_loops else math.nan,
        ess_prior=predicted_ess(log_weights, plain) if proposed else math.nan,
        ess_without={
            name: predicted_ess(log_weights, log_weights - ratios.by_site[name])
            for name in ratios.by_site
            if proposed and name in ratios.outside
        },
        left_to_prior=ratios.left_to_prior,
        proposed_draws=ratios.draws,
        noise=log_likelihood_noise(post.columns, shares),
    )
