"""The Metropolis-Hastings ratio of a move between two traces of a simulator with rejection loops.

The chains' target, for a trace x with loop entries l at states s_l, is

    prod p(latents) * prod_l 1[accepted] T_l / M * NegativeBinomial(T_l; M, p(A | s_l)) * likelihood,

a distribution of x and of the numbers T_l of tries that M runs under the prior take. E[T_l / M] = 1 / p(A | s_l), so
its marginal over x is the posterior. docs/mcmc.md derives what follows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sized
from typing import NamedTuple

from ars import _native as native
from ars.mcmc.moves import Move, Plan
from ars.mcmc.states import Key, State, enclosing
from ars.wire import PRIOR

__all__ = ["Ratio", "log_ratio"]


class Ratio(NamedTuple):
    """The log of the ratio, -inf for a move that is refused, and what the next state carries if it is accepted."""

    log: float
    log_inverse: list[float]  # per loop entry, the estimate of log 1/p(A)


_REFUSED = Ratio(-math.inf, [])


def log_ratio(old: State, new: State, move: Move, plan: Plan, proposed: Collection[str] = ()) -> Ratio:
    """The ratio for going from one trace to another.

    Parameters
    ----------
    old, new : State
        The present state of the chain, and the trace that the plan has led to.
    move : Move
        The kind of move.
    plan : Plan
        What was offered on the way.
    proposed : collection of str
        Addresses of all known latents for which the network proposes (default: none).

    Returns
    -------
    Ratio
        Its log is -inf if the way back does not exist.
    """
    if not new.possible or new.log_likelihood == -math.inf:
        return _REFUSED
    there, back = move.targets(old), move.targets(new)
    if plan.target not in back:
        return _REFUSED
    offered_back = [key for key in new.keys if key not in move.redrawn(new, plan.target)]
    common = {key for key in new.keys if key in plan.offered}
    if common != {key for key in offered_back if key in old.place}:
        return _REFUSED
    by_base = enclosing((address, 0) for address in _drawn_by_base(plan, proposed))
    single_new = _tried_once(new, enclosing(plan.offered) | by_base)
    single_old = _tried_once(old, enclosing(offered_back) | by_base)
    # A loop in which something is kept has one try: had it been repeated, its draws would have another density.
    if any(new.entries[i].tries != 1 or not new.entries[i].runs for i in single_new):
        return _REFUSED
    log_inverse = [_log_inverse(new, i, i in single_new) for i in range(len(new.entries))]
    if any(math.isnan(old.log_inverse[i]) for i in single_old):
        return _REFUSED
    log = log_choices(there, back)
    log += new.log_likelihood - old.log_likelihood
    log += _log_drawn(new, common, plan, new.log_q) - _log_drawn(old, common, plan, None)
    log += loops_term(log_inverse, single_new) - loops_term(old.log_inverse, single_old)
    return _REFUSED if math.isnan(log) else Ratio(log, log_inverse)


def _tried_once(state: State, loops: Collection[str]) -> list[int]:
    """The entries of loops that get one try: those in which a value could be given, or the network could draw. Not only
    those in which it did: that would depend on the try. The tries of all others are repeated until one is accepted, as
    in the simulator itself."""
    return [i for i, entry in enumerate(state.entries) if entry.address in loops]


def _drawn_by_base(plan: Plan, proposed: Collection[str]) -> Collection[str]:
    """The addresses of the latents that the network may draw."""
    if not plan.from_base:
        return ()
    return proposed if plan.only is None else [address for address in (plan.only[0],) if address in proposed]


def _proposed(state: State, key: Key, plan: Plan) -> bool:
    """Whether anything but the prior draws this latent."""
    return plan.by_base(key) and state.proposed.get(key, PRIOR) != PRIOR


def _log_inverse(state: State, index: int, once: bool) -> float:
    """The estimate of log 1/p(A): T/M of a loop that was tried once; of one that was repeated until its L-th try was
    accepted, (T + L - 1)/M, which is distributed as the T/M that the target goes with."""
    entry = state.entries[index]
    if not entry.runs:
        return math.nan
    return math.log((entry.tries_p + (0 if once else entry.tries - 1)) / entry.runs)


def log_choices(there: Sized, back: Sized) -> float:
    """The factor of the choice of a target, among those of the one state and of the other."""
    return math.log(len(there)) - math.log(len(back))


def loops_term(log_inverse: list[float], entries: list[int]) -> float:
    """The factor of the loop entries whose draws are kept, or drawn in one try."""
    return sum(log_inverse[i] for i in entries)


def _log_drawn(state: State, common: Collection[Key], plan: Plan, log_q: list[float] | None) -> float:
    """The sum of log p of the latents that are kept and of log p - log q of those that the network draws; where the
    prior draws, that is 0. Without ``log_q`` it is found from what the network proposed on the way to the state."""
    total = 0.0
    for i, key in enumerate(state.keys):
        if key in common:
            total += state.log_p[i]
        elif _proposed(state, key, plan):
            total += state.log_p[i] - (log_q[i] if log_q is not None else _log_q(state, key, i))
    return total


def _log_q(state: State, key: Key, index: int) -> float:
    return float(native.log_density(state.proposed[key], [state.values[index]])[0])
