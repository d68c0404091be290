"""Levels: for each price of work, the best number of continuations of every loop.

A loop minimises log(1 + relative variance) + price * cost. The two sides of an estimate, p(A) and q(A), add up in
both terms, so each is chosen on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ars.columns import Floats, Integers
from ars.costs import Costs
from ars.planning import variance

__all__ = ["CAUTIOUS", "LoopTable", "Menu", "PilotLoop", "loop_table", "menu"]

CAUTIOUS = 0.5  # p(A) and q(A) of a loop about which nothing is known
_STEPS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987)
_PRICES = np.logspace(-7.0, 3.0, 41)  # per cost of a loop's cheapest estimate
_HALF_A_TRY = 0.5  # so that a pilot without rejections does not claim certainty


class PilotLoop(NamedTuple):
    """One loop in the pilot's continuations, and what one of its tries needs."""

    runs_p: float  # weighted counts of continuations under p
    tries_p: float
    accepted_q: float  # and under q
    tries_q: float
    draws: float  # mean per accepted try, from accepted traces
    asked: float  # requests among them
    method: str  # "fork", "rewind" or "in place"
    outer: str | None  # address of the enclosing loop


class LoopTable(NamedTuple):
    """Per loop, and in the last row for all loops that are not known."""

    addresses: tuple[str, ...]
    p: Floats
    q: Floats
    run_p: Floats  # cost of one continuation under p until accepted
    run_q: Floats
    once: Floats  # cost per entry
    repeats: Floats  # entries per accepted entry: tries of the enclosing loops


class Menu(NamedTuple):
    """Levels of all loops of a table: arrays with a row per loop and a column per level."""

    M: Integers
    R: Integers
    log_factor: Floats
    cost: Floats

    def only(self, levels: Iterable[int]) -> Menu:
        columns = list(levels)
        return Menu(self.M[:, columns], self.R[:, columns], self.log_factor[:, columns], self.cost[:, columns])


def _acceptance(accepted: float, tries: float) -> float:
    return accepted / (tries + _HALF_A_TRY) if accepted > 0 else CAUTIOUS


def loop_table(pilot: Mapping[str, PilotLoop], *, request: float, trace_draws: float, costs: Costs) -> LoopTable:
    """Acceptance probabilities and costs of the pilot's loops."""
    overheads = {"fork": costs.fork, "rewind": costs.rewind, "in place": 0.0}
    if wrong := [address for address, loop in pilot.items() if loop.method not in overheads]:
        raise ValueError(f'loop "{wrong[0]}": method must be one of {list(overheads)}, not {pilot[wrong[0]].method!r}')
    q = {address: _acceptance(loop.accepted_q, loop.tries_q) for address, loop in pilot.items()}
    known = list(pilot.values())
    slowest = max((loop.method for loop in known), key=overheads.__getitem__, default="fork")
    draws = float(np.mean([loop.draws for loop in known])) if known else trace_draws
    asked = float(np.mean([loop.asked for loop in known])) if known else draws
    rows = [*known, PilotLoop(0.0, 0.0, 0.0, 0.0, draws, asked, slowest, None)]
    try_p = np.array([costs.attempt + loop.draws * costs.draw for loop in rows])
    try_q = try_p + np.array([loop.asked for loop in rows]) * request
    overhead = np.array([overheads[loop.method] for loop in rows])
    p_accepted = np.array([_acceptance(loop.runs_p, loop.tries_p) for loop in rows])
    q_accepted = np.array([*q.values(), CAUTIOUS])
    return LoopTable(
        addresses=tuple(pilot),
        p=p_accepted,
        q=q_accepted,
        run_p=overhead + try_p / p_accepted,
        run_q=overhead + try_q / q_accepted,
        once=np.where([loop.method == "fork" for loop in rows], costs.fork, 0.0),  # the snapshot
        repeats=np.array([_repeats(pilot, q, loop) for loop in rows]),
    )


def _repeats(pilot: Mapping[str, PilotLoop], q: Mapping[str, float], loop: PilotLoop) -> float:
    tries, seen = 1.0, set[str]()
    while loop.outer is not None and loop.outer in pilot and loop.outer not in seen:
        seen.add(loop.outer)
        tries /= q[loop.outer]
        loop = pilot[loop.outer]
    return tries


def menu(table: LoopTable, share: Floats) -> Menu:
    """The levels for a range of prices, without repetitions, the cheapest last.

    ``share`` scales the price for each loop: how much its entries are paid, relative to how much they matter.
    """
    steps_p, steps_q = np.array(_STEPS), np.array((0, *_STEPS))
    log_p = np.log1p(variance.of_runs(table.p[:, None], steps_p))
    log_q = np.log1p(np.stack([variance.of_accepted(table.q, R) for R in steps_q.tolist()], axis=1))
    log_q[-1, 0] = np.inf  # nothing is known: R = 0 might leave no weights at all
    cost_p, cost_q = table.run_p[:, None] * steps_p, table.run_q[:, None] * steps_q
    scale = share / float(np.mean(table.once + table.run_p))
    prices = scale[:, None, None] * _PRICES[:, None]
    at_p = np.argmin(log_p[:, None, :] + prices * cost_p[:, None, :], axis=2)
    at_q = np.argmin(log_q[:, None, :] + prices * cost_q[:, None, :], axis=2)
    _, first = np.unique(np.concatenate([at_p, at_q]), axis=1, return_index=True)
    distinct = np.sort(first)
    at_p, at_q = at_p[:, distinct], at_q[:, distinct]
    factor = np.take_along_axis(log_p, at_p, 1) + np.take_along_axis(log_q, at_q, 1)
    cost = np.take_along_axis(cost_p, at_p, 1) + np.take_along_axis(cost_q, at_q, 1)
    return Menu(steps_p[at_p], steps_q[at_q], factor, table.once[:, None] + cost)
