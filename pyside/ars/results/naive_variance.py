"""How large Theorem 1's S_pq must at least be, from tries under q and runs under p.

S_pq = E_q[(p/q)^2 rejected] is the integral of p^2/q over what is rejected. Its plain estimate averages over tries
under q, which may never visit the part of the rejected region that makes it large, or infinite. The runs under p say
how much is rejected there: by the inequality of Cauchy and Schwarz, for every part R of the rejected region

    integral over R of p^2/q  >=  p(R)^2 / q(R),

and the right side can be estimated with light tails. R is the whole rejected region, or the part where p/q is above a
bound t, for which p(R) = p(rejected) - E_q[p/q; rejected, p/q <= t]: what the runs under p reject and the tries under q
do not account for. What lies below t adds its own E_q[(p/q)^2; p/q <= t].

It holds for every state at entry, and, because a^2/b is convex in a and b together, for averages over states: a mean
above 1 means states above 1. It needs a q that can draw all that p can, which Theorem 1 assumes as well.

A single rejected try's p/q is known where the main run had exactly one. That is so with probability q(A) (1 - q(A))
given the state, so averages over such entries weigh states by q(A); the others are weighed alike, by an unbiased
estimate of q(A) (``accepted_share``).

Only entries with runs under p count, on both sides: p(R) and q(R) must be averages over the same states. If entries
were chosen by their weights, these are the states of the chosen ones. That is allowed: the choice depends on what was
accepted, which is independent of the number of tries, of the rejected draws and of the continuations, given the state.

Limits are three standard errors from the mean, of means of bounded numbers; counts have limits of their own.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ars.columns import Array, Floats

__all__ = ["accepted_share", "lower_bound", "unseen_share"]

_SIGMAS: Final = 3.0
_BOUNDS: Final = tuple(2.0**i for i in range(-2, 11))  # t, for p/q: from 1/4 to 1024
_LEAST_ENTRIES: Final = 50


def _lower(x: Floats) -> float:
    """A lower limit of the mean of numbers that are at least 0."""
    return max(float(x.mean()) - _SIGMAS * float(x.std(ddof=1)) / math.sqrt(len(x)), 0.0)


def _upper(x: Floats, largest: float = 1.0) -> float:
    """An upper limit of the mean of numbers from 0 to ``largest``, also if all that were seen are 0 or rare.

    A sum of n such numbers with mean m has a variance of at most n m largest, so that the mean m that makes what was
    seen as unlikely as three standard deviations solves m - seen = 3 sqrt(m largest / n).
    """
    spread = _SIGMAS * math.sqrt(largest / len(x))
    root = 0.5 * (spread + math.sqrt(spread**2 + 4.0 * float(x.mean())))
    return min(root**2, largest)


def _rejected_under_p(loops: Array) -> Floats:
    """Per entry, an unbiased estimate of 1 - p(A) from the T tries of the runs under p."""
    runs, tries = loops["runs_p"].astype(np.float64), loops["tries_p"].astype(np.float64)
    several = np.divide(tries - runs, tries - 1.0, out=np.zeros(len(runs)), where=tries > 1.0)
    return np.where(runs > 1.0, several, tries > 1.0)


def accepted_share(loops: Array, *, until_accepted: bool = False) -> Floats:
    """Estimate q(A) without bias, from 0 to 1, for every entry.

    Parameters
    ----------
    loops : array of struct ars_wire_loop
        Loop entries.
    until_accepted : bool
        Whether the continuations under q ran until R were accepted (default: False, N tries were made).

    Returns
    -------
    array
        K/N; or R / (L + tries_q - 1), with the L tries of the main run. An entry without tries under q has its main
        run's first try: 1 if it was accepted, else 0.
    """
    accepted, tries = loops["accepted_q"].astype(np.float64), loops["tries_q"].astype(np.float64)
    if until_accepted:
        tries = tries + loops["tries"] - 1.0
    share: Floats = (loops["tries"] == 1).astype(np.float64)
    return np.divide(accepted, tries, out=share, where=loops["tries_q"] > 0)


def _usable(loops: Array) -> Array:
    """Entries whose runs under p lasted until they were accepted."""
    can_end = any(loops[name].any() for name in ("abandoned", "abandoned_p", "abandoned_q"))
    return loops[(loops["runs_p"] > 0) & (not can_end)]


def lower_bound(loops: Array, *, until_accepted: bool = False) -> float:
    """What S_pq is at least, in some states, if q covers p; 0 if the entries do not say."""
    loops = _usable(loops)
    if len(loops) < _LEAST_ENTRIES:
        return 0.0
    rejected_p = _rejected_under_p(loops)
    accepted_q = accepted_share(loops, until_accepted=until_accepted)
    bound = _lower(rejected_p) ** 2 / _upper(1.0 - accepted_q)
    # the same for parts of the rejected region, with states weighed by q(A)
    weighed_p = _lower(accepted_q * rejected_p)
    known, ratio = _single(loops)
    for t in _BOUNDS:
        small = known & (ratio <= t)
        below = np.where(small, np.minimum(ratio, t), 0.0)  # minimum: no inf times 0
        missing = weighed_p - min(_upper(below / t) * t, float(below.mean()) + _error(below))
        if missing > 0.0:
            inside = missing**2 / _upper((known & ~small).astype(np.float64))
            bound = max(bound, (_lower(np.square(below)) + inside) / _upper(accepted_q))
    return bound


def _error(x: Floats) -> float:
    """What the mean may be off, for numbers of which enough are not 0; else infinity."""
    if np.count_nonzero(x) < 30:
        return math.inf
    return _SIGMAS * float(x.std(ddof=1)) / math.sqrt(len(x))


def _single(loops: Array) -> tuple[Array, Floats]:
    """The entries whose main run had one rejected try, and its p/q (elsewhere 0)."""
    known = loops["tries"] == 2
    with np.errstate(over="ignore"):
        return known, np.where(known, np.exp(np.where(known, loops["log_ratio_rejected"], 0.0)), 0.0)


def unseen_share(loops: Array, *, until_accepted: bool = False) -> float:
    """A lower limit of the share of p that is rejected and that the tries under q do not account for; 0 if they may."""
    loops = _usable(loops)
    if len(loops) < _LEAST_ENTRIES:
        return 0.0
    accepted_q = accepted_share(loops, until_accepted=until_accepted)
    known, ratio = _single(loops)
    difference = accepted_q * _rejected_under_p(loops) - np.where(known, ratio, 0.0)
    if not np.isfinite(difference).all():
        return 0.0
    missing = float(difference.mean()) - _SIGMAS * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return max(missing, 0.0) / max(float(accepted_q.mean()), 1e-300)
