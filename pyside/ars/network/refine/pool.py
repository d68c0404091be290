"""The traces of all rounds, with weights for one target: the posterior of the one observation.

A trace of round r has the unbiased ARS weight w of its own run, in which the correction of every loop is estimated. The
traces of all rounds together get the weights

    w * N q_r(trace) / sum_s n_s q_s(trace),        N = sum_s n_s,

where q_s is the product of the densities that round s would have proposed the trace's draws with. This is the balance
heuristic. The factor is a partition of unity over the rounds, whatever q_s is, so the pooled weights are as unbiased as
those of each round. In particular q_s leaves out the acceptance probabilities q_s(A|x) of loops under other rounds'
proposals, which nobody has estimated: that costs some variance and no bias. The factor 1/p(A|x) of the target, which
depends on the state at the loop's entry, is in w.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ars.columns import Booleans, Columns, Floats, Integers, Site, concatenate, select, take
from ars.store.site_numbers import SiteNumbers, renumber

__all__ = ["Pool", "Round", "joined", "kept_round", "log_mean", "pooled_log_weights", "tempered"]

_HELD_OUT: Final = 5  # every fifth trace is never trained on
_LEAST_EXPONENT: Final = 1e-3
_RATIOS: Final = (math.log(0.25), math.log(1000.0))  # logs of ratios beyond which they count as these
_LEFT_OUT: Final = 1e-3  # of a round's weight, at most, in traces that are not kept


class Round(NamedTuple):
    """What one round drew: the traces that are kept, and how many there were."""

    columns: Columns
    sites: tuple[Site, ...]
    log_weights: Floats  # of the kept traces, unbiased within the round
    traces: int  # drawn, with those that were not kept


def log_mean(log_weights: Floats, n: int | None = None) -> float:
    """The log of the mean weight of ``n`` traces (default: of these); -inf if every weight is 0."""
    top = float(np.max(log_weights, initial=-np.inf))
    if not math.isfinite(top):
        return -math.inf
    return top + math.log(float(np.exp(log_weights - top).sum())) - math.log(len(log_weights) if n is None else n)


def _effective(log_weights: Floats) -> float:
    top = float(np.max(log_weights, initial=-np.inf))
    if not math.isfinite(top):
        return 0.0
    w = np.exp(log_weights - top)
    return float(w.sum() ** 2 / np.square(w).sum())


def tempered(log_weights: Floats, effective: float) -> tuple[float, Floats]:
    """The largest exponent up to 1 with which the weights have so many effective traces, and the weights that sum to 1.

    Weights of 0 stay 0, so there may be too few traces for any exponent: then it is the smallest one.
    """
    finite = np.isfinite(log_weights)
    if not finite.any():
        raise ValueError("every weight is 0")
    wanted = min(effective, 0.9 * float(np.count_nonzero(finite)))
    low, high = _LEAST_EXPONENT, 1.0
    if _effective(log_weights) < wanted:
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _effective(middle * log_weights) >= wanted else (low, middle)
    else:
        low = 1.0
    scaled = np.exp(low * (log_weights - log_weights[finite].max()))
    return low, scaled / scaled.sum()


def pooled_log_weights(log_weights: Floats, log_q: Floats, of: Integers, counts: Integers) -> Floats:
    """The weights of the traces of all rounds together.

    Parameters
    ----------
    log_weights : array
        One per trace, unbiased within its round.
    log_q : array
        Rounds x traces: the log density with which each round would have proposed the trace.
    of : array of int
        The round of each trace.
    counts : array of int
        The traces that each round drew.

    Returns
    -------
    array
        One per trace. Their sum over the sum of ``counts`` estimates the evidence.
    """
    share = np.log(counts / counts.sum())[:, None] + log_q
    top = share.max(axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    mixture = top + np.log(np.exp(share - top).sum(axis=0))
    own = log_q[of, np.arange(len(of))]
    with np.errstate(invalid="ignore"):
        pooled = log_weights + own - mixture
    return np.where(np.isfinite(log_weights) & np.isfinite(own), pooled, -np.inf)


class Pool:
    """All rounds so far. Parts of it are held out: their weighted loss shows when a training learns them by heart."""

    def __init__(self) -> None:
        self._numbers = SiteNumbers()
        self.columns: Columns = concatenate([])
        self.log_weights: Floats = np.zeros(0)
        self.of: Integers = np.zeros(0, np.int64)
        self.held_out: Booleans = np.zeros(0, np.bool_)
        self.counts: Integers = np.zeros(0, np.int64)
        self.log_q: Floats = np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self.of)

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._numbers.sites

    def add(self, drawn: Round) -> Integers:
        """Adds a round; the rows of its traces. ``log_q`` has to be given for all rounds and rows afterwards."""
        columns = renumber(drawn.columns, self._numbers.adopt(drawn.sites))
        first, n = len(self), len(drawn.log_weights)
        self.columns = concatenate([self.columns, columns])
        self.log_weights = np.concatenate([self.log_weights, drawn.log_weights])
        self.of = np.concatenate([self.of, np.full(n, len(self.counts), np.int64)])
        self.held_out = np.concatenate([self.held_out, np.arange(n) % _HELD_OUT == _HELD_OUT - 1])
        self.counts = np.append(self.counts, drawn.traces)
        wider = np.full((len(self.counts), len(self)), -np.inf)
        wider[: self.log_q.shape[0], :first] = self.log_q
        self.log_q = wider
        return np.arange(first, len(self))

    def pooled(self) -> Floats:
        """The log weights of all traces together."""
        return pooled_log_weights(self.log_weights, self.log_q, self.of, self.counts)

    def aimed(self, at: int, power: float) -> Floats:
        """The log weights of all traces, each times this power of the ratio r of the posterior to the proposal of round
        ``at``, whose network is trained next.

        A network that is trained with these weights is drawn to where it proposes too little: a few such places decide
        about the effective share, and hardly about the likelihood. With the posterior itself as proposal r is 1
        everywhere, so the best network is the same.
        """
        pooled = self.pooled()
        own = self.log_q[self.of, np.arange(len(self))]
        with np.errstate(invalid="ignore"):
            log_r = self.log_weights + own - self.log_q[at] - self.log_evidence()
        log_r = np.where(np.isfinite(log_r), np.clip(log_r, *_RATIOS), 0.0)
        return np.asarray(pooled + power * log_r, dtype=np.float64)

    def log_evidence(self) -> float:
        """By all rounds together."""
        return log_mean(self.pooled(), int(self.counts.sum()))

    def traces(self, rows: Integers) -> Columns:
        """These traces."""
        return take(self.columns, rows)


def kept_round(columns: Columns, sites: Sequence[Site], log_weights: Floats, traces: int, effective: float) -> Round:
    """The traces of a round that matter: all but a thousandth of the weight, by the exponent of a round alone.

    The weight of a trace in a pool is at most its own times the pool's size over the round's, so a trace that does not
    matter here will not matter there.
    """
    if not np.isfinite(log_weights).any():
        return Round(select(columns, np.zeros(len(log_weights), np.bool_)), tuple(sites), log_weights[:0], traces)
    _, weights = tempered(log_weights, effective)
    order = np.argsort(-weights, kind="stable")
    needed = int(np.searchsorted(np.cumsum(weights[order]), 1.0 - _LEFT_OUT)) + 1
    wanted = np.zeros(len(weights), np.bool_)
    wanted[order[:needed]] = True
    wanted &= np.isfinite(log_weights)
    return Round(select(columns, wanted), tuple(sites), log_weights[wanted], traces)


def joined(parts: Sequence[Round]) -> Round:
    """Several draws of one network as one round."""
    if len(parts) == 1:
        return parts[0]
    numbers = SiteNumbers()
    columns = [renumber(part.columns, numbers.adopt(part.sites)) for part in parts]
    return Round(
        concatenate(columns),
        numbers.sites,
        np.concatenate([part.log_weights for part in parts]),
        sum(part.traces for part in parts),
    )
