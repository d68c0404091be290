"""The plan of a run: levels of continuations per loop, in one phase or two, at the least work for a given error.

The work that a given error takes is proportional to (sum of squared weights) x (cost of all traces).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ars.budget import AutoBudget, ChosenBudget, Level
from ars.columns import Floats, Integers
from ars.planning.decide import best_level, entered, sum_per_trace
from ars.planning.entries import Entries
from ars.planning.levels import LoopTable, Menu, PilotLoop, loop_table, menu

__all__ = ["PilotLoop", "choose"]

_KEEP_AT_LEAST = 400  # traces in expectation, so that a few huge weights do not starve the rest
_MOST_LEVELS = 4  # every level in use is a run of its own
_WORTH_A_LEVEL = 0.005  # relative gain below which another level is not added
_EXACT, _THINNED = 2048, 2048  # traces that a plan looks at: the heaviest, and some of the others
_DEEPEST = 60.0  # log of the ratio of prices that are tried; lighter traces add nothing


class _Traces(NamedTuple):
    """Traces of positive weight: the heaviest, and a systematic sample of the others."""

    log_a: Floats  # relative to the heaviest
    log_times: Floats  # log of how many traces each stands for
    entries: Entries
    to_keep: float  # traces with entries to keep at least, in expectation
    log_scale: float  # log weight of the heaviest


class _Plan(NamedTuple):
    log_work: float
    chosen: ChosenBudget


def choose(
    pilot: Mapping[str, PilotLoop],
    log_a: Floats,
    entries: Entries,
    *,
    trace_draws: float,
    trace_asked: float,
    network: bool,
    auto: AutoBudget,
    total: int | None = None,
) -> ChosenBudget:
    """The budget that takes the least work.

    Parameters
    ----------
    pilot
        Pilot continuations by address of loop.
    log_a
        The logarithm of each trace's uncorrected weight.
    entries
        The loop entries of these traces that need estimates.
    trace_draws
        Mean number of latents drawn per trace, rejected ones included.
    trace_asked
        Mean number of proposals requested per trace.
    network
        Whether a network makes the proposals.
    auto
        The costs, and the number of phases if the user sets it.
    total
        Number of traces of the whole run, if these are only its first (default: these are all).

    Returns
    -------
    ChosenBudget
        The plan. Equal arguments give equal plans.
    """
    costs = auto.costs
    request = costs.request_network if network else costs.request_hand
    table = loop_table(pilot, request=request, trace_draws=trace_draws, costs=costs)
    trace = costs.trace + trace_draws * costs.draw + trace_asked * request
    traces = _thinned(np.asarray(log_a, dtype=np.float64), entries, total or entries.n_traces)
    if not len(entries.rows) or not len(traces.entries.rows):
        return _without_weight(table, trace, auto)
    counts = np.bincount(_loops(table, entries), minlength=len(table.p)).astype(np.float64)
    plans = []
    if auto.phases != 2:
        plans.append(_one_phase(table, traces, counts, trace * entries.n_traces, trace))
    if auto.phases != 1:
        plans.append(_two_phases(table, traces, trace * entries.n_traces, trace))
    return min(plans, key=lambda plan: plan.log_work).chosen


def _loops(table: LoopTable, entries: Entries) -> Integers:
    """The row of the table of each entry; the last row is that of loops that the pilot did not meet."""
    index = {address: i for i, address in enumerate(table.addresses)}
    rows = np.array([index.get(address, len(index)) for address in entries.addresses], dtype=np.int64)
    return rows[entries.loop]


def _thinned(log_a: Floats, entries: Entries, total: int) -> _Traces:
    order = np.flatnonzero(np.isfinite(log_a))
    order = order[np.argsort(-log_a[order], kind="stable")]
    rest = order[_EXACT:]
    every = max(1, -(-len(rest) // _THINNED))
    taken = np.concatenate([order[:_EXACT], rest[every // 2 :: every]])
    times = np.ones(len(taken))
    times[_EXACT:] = len(rest) / max(1, len(taken) - _EXACT)
    place = np.full(entries.n_traces, -1, dtype=np.int64)
    place[taken] = np.arange(len(taken))
    rows = place[entries.rows]
    found = rows >= 0
    sampled = Entries(rows[found], entries.loop[found], entries.addresses, len(taken))
    positive = int(np.count_nonzero(entered(entries)[order]))
    keep = min(_KEEP_AT_LEAST * min(1.0, entries.n_traces / max(total, 1)), positive)
    scale = float(log_a[order[0]]) if len(order) else 0.0
    return _Traces(log_a[taken] - scale, np.log(times), sampled, keep, scale)


def _log_sum(terms: Floats) -> float:
    return float(np.logaddexp.reduce(terms))


def _chosen(
    table: LoopTable, levels: Menu, phases: int, trace: float, log_price: float, log_more: float
) -> ChosenBudget:
    by_loop = [
        tuple(
            Level(int(M), int(R), float(log_factor), float(cost)) for M, R, log_factor, cost in zip(*row, strict=True)
        )
        for row in zip(*levels, strict=True)
    ]
    known = dict(zip(table.addresses, by_loop[:-1], strict=True))
    return ChosenBudget(phases, known, by_loop[-1], trace, log_price, log_more)


def _without_weight(table: LoopTable, trace: float, auto: AutoBudget) -> ChosenBudget:
    """No trace of positive weight has entries: a cautious budget for all that may follow. It keeps every such trace."""
    levels = menu(table, np.ones(len(table.p)))
    log_work = [
        _log_sum(levels.log_factor[:, k]) + np.log(trace + levels.cost[:, k].mean()) for k in range(levels.M.shape[1])
    ]
    best = levels.only([int(np.argmin(log_work))])
    return _chosen(table, best, auto.phases or 2, trace, -np.inf, 0.0)


# ---- one phase -------------------------------------------------------------------------------------------------------


def _one_phase(table: LoopTable, traces: _Traces, counts: Floats, fixed: float, trace: float) -> _Plan:
    """Every trace at the same level. Entries inside rejected tries of an outer loop are paid as well.

    The second menu knows from the first choice how much each loop's entries matter: it spends less on loops that
    mostly light traces enter.
    """
    loops = traces.entries._replace(loop=_loops(table, traces.entries))
    paid = counts * table.repeats
    best: tuple[float, Menu] | None = None
    share = table.repeats
    for _ in range(2):
        levels = menu(table, share)
        factors = sum_per_trace(loops, levels.log_factor)
        squares = 2 * traces.log_a[:, None] + factors + traces.log_times[:, None]
        log_work = np.logaddexp.reduce(squares, axis=0) + np.log(fixed + paid @ levels.cost)
        k = int(np.argmin(log_work))
        if best is None or log_work[k] < best[0]:
            best = float(log_work[k]), levels.only([k])
        matters = np.exp(squares[:, k] - _log_sum(squares[:, k]))
        weight = np.bincount(loops.loop, weights=matters[loops.rows], minlength=len(counts))
        share = (paid / paid.sum() + 1e-9) / (weight / max(weight.sum(), 1e-300) + 1e-9)
    assert best is not None
    return _Plan(best[0], _chosen(table, best[1], 1, trace, 0.0, 0.0))


# ---- two phases ------------------------------------------------------------------------------------------------------


class _Replays:
    """Traces with entries, as two phases see them: what each level adds to the second moment and to the work."""

    def __init__(self, table: LoopTable, traces: _Traces, fixed: float, trace: float) -> None:
        loops = traces.entries._replace(loop=_loops(table, traces.entries))
        self._loops, self._has = loops, entered(loops)
        self._all, self._fixed, self._trace = traces, fixed, trace
        self.log_a = traces.log_a[self._has]
        self.log_times = traces.log_times[self._has]
        without = ~self._has
        self._untouched = 2 * traces.log_a[without] + traces.log_times[without]  # squares that no estimate changes

    def costs(self, levels: Menu) -> tuple[Floats, Floats]:
        """log factor and cost of every trace at every level."""
        log_factor = sum_per_trace(self._loops, levels.log_factor)[self._has]
        return log_factor, self._trace + sum_per_trace(self._loops, levels.cost)[self._has]

    def log_work(self, log_factor: Floats, cost: Floats, log_price: float, log_more: float = 0.0) -> float:
        level, free = best_level(self.log_a, log_factor, cost, log_price)
        log_keep = np.minimum(free + log_more, 0.0)
        taken = np.arange(len(level)), level
        squares = 2 * self.log_a + log_factor[taken] - log_keep + self.log_times
        work = self._fixed + float(np.sum(np.exp(self.log_times + log_keep) * cost[taken]))
        return float(np.logaddexp(_log_sum(squares), _log_sum(self._untouched))) + float(np.log(work))

    def best_price(self, log_factor: Floats, cost: Floats, points: int, rounds: int) -> float:
        """The log price of the least work, on a grid that is refined around its best point."""
        high = float(np.max(2 * self.log_a[:, None] + log_factor - np.log(cost)))
        low = high - _DEEPEST
        for _ in range(rounds):
            grid = np.linspace(low, high, points)
            k = int(np.argmin([self.log_work(log_factor, cost, float(price)) for price in grid]))
            low, high = float(grid[max(k - 1, 0)]), float(grid[min(k + 1, points - 1)])
        return float(grid[k])

    def few_levels(self, log_factor: Floats, cost: Floats, log_price: float) -> list[int]:
        """The levels that serve almost as well as all of them at this price. The first is the best one on its own."""
        log_a, log_cost = self.log_a[:, None], np.log(cost)
        log_keep = np.minimum(log_a + 0.5 * (log_factor - log_price - log_cost), 0.0)
        spent = np.logaddexp(2 * log_a + log_factor - log_keep, log_price + log_cost + log_keep)
        spent = np.exp(spent + self.log_times[:, None] - spent.max())
        levels: list[int] = []
        least = np.full(len(spent), np.inf)
        while len(levels) < _MOST_LEVELS:
            totals = np.minimum(spent, least[:, None]).sum(axis=0)
            k = int(np.argmin(totals))
            if levels and totals[k] > (1.0 - _WORTH_A_LEVEL) * least.sum():
                break
            levels.append(k)
            least = np.minimum(least, spent[:, k])
        return levels

    def more(self, log_factor: Floats, cost: Floats, log_price: float) -> float:
        """How much all probabilities have to grow for enough traces to be kept, as a logarithm."""
        free = best_level(self.log_a, log_factor, cost, log_price).log_keep
        times = np.exp(self.log_times)
        wanted = min(self._all.to_keep, float(times.sum())) * (1 - 1e-9)

        def kept(log_more: float) -> float:
            return float(np.sum(times * np.exp(np.minimum(free + log_more, 0.0))))

        if kept(0.0) >= wanted:
            return 0.0
        low, high = 0.0, max(0.0, -float(free.min())) + 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if kept(middle) >= wanted else (middle, high)
        return high


def _two_phases(table: LoopTable, traces: _Traces, fixed: float, trace: float) -> _Plan:
    """All traces without estimates, then replays of those that matter, each at the level that suits its weight."""
    replays = _Replays(table, traces, fixed, trace)
    every = menu(table, np.ones(len(table.p)))
    log_factor, cost = replays.costs(every)
    rough = replays.best_price(log_factor, cost, points=16, rounds=2)
    few = replays.few_levels(log_factor, cost, rough)
    levels, log_factor, cost = every.only(few), log_factor[:, few], cost[:, few]
    log_price = replays.best_price(log_factor, cost, points=16, rounds=4)
    log_more = replays.more(log_factor, cost, log_price)
    log_work = replays.log_work(log_factor, cost, log_price, log_more)
    return _Plan(log_work, _chosen(table, levels, 2, trace, log_price + 2 * traces.log_scale, log_more))
