"""A posterior with a budget that decides itself.

    first traces ──> pilot ──> plan ──┬── one phase: every trace is run with estimates
                                      └── two phases: all are run without, then those that matter again, with estimates

A trace is named by its number: run again, it draws the same. The plan may depend on accepted traces and on the pilot,
never on the number of tries that a main run took, nor on the estimates that it leads to: either would bias them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import warnings
from typing import NamedTuple, Protocol

import numpy as np

from ars.budget import AutoBudget, ChosenBudget, budget_to_json
from ars.columns import Columns, Floats, merge, select
from ars.errors import FewTracesWarning
from ars.inference.fixed import estimated_at_once, nothing_of
from ars.inference.job import Job
from ars.inference.pilot import WANTED, draws_per_trace, first_traces, pilot_loops, pilot_rows
from ars.inference.replayed import differing, known_tries, with_estimates
from ars.outside import outside
from ars.planning.choose import PilotLoop, choose
from ars.planning.entries import Entries, entries_of
from ars.planning.roulette import kept
from ars.posterior import Posterior
from ars.weights import log_weight_biased

__all__ = ["posterior_in_phases"]

_FEW = 50.0  # traces that a budget keeps, below which it does not suit the weights


class _Unrepeatable(Exception):
    """Traces that were run again were other traces."""

    def __init__(self, different: int, replayed: int) -> None:
        super().__init__(different, replayed)
        self.different, self.replayed = different, replayed


class _Traces(NamedTuple):
    """Traces without estimates, and what is to be estimated of them."""

    columns: Columns
    exact: frozenset[str]
    entries: Entries
    log_a: Floats  # uncorrected weights


def posterior_in_phases(job: Job, budget: AutoBudget | ChosenBudget) -> Posterior:
    """One posterior, by a plan that is made now or was made before."""
    total = job.asked.traces
    if isinstance(budget, ChosenBudget):
        if budget.phases == 1:
            return _in_one_phase(job, budget)
        return _in_two_phases(job, _first_phase(job, 0, total), _Given(budget))
    first = _first_phase(job, 0, first_traces(total))
    plan = _Plan(job, budget)
    try:
        plan.look_at(_seen(job, first))
    except _Unrepeatable as error:
        if budget.phases != 1:  # else a pilot is all that is run again, and its numbers enter no weight
            job.warn_of_difference(error.different, error.replayed)
        return _in_one_phase(job, plan.choose(_seen(job, first), phases=1))
    seen = _seen(job, first)
    if budget.phases == 1 or (len(seen.entries.rows) and plan.choose(seen).phases == 1):
        return _in_one_phase(job, plan.choose(seen, phases=1))
    rest = total - len(first.traces)
    return _in_two_phases(job, _first_phase(job, len(first.traces), rest) if rest else first, plan)


def _first_phase(job: Job, start: int, count: int) -> Columns:
    """More traces without estimates, counted from the first one of the job; all that there are now."""
    columns = job.step(job.config(first=job.asked.first_trace + start, count=count), folder="")
    job.base = columns if job.base is None else merge([job.base, columns])
    return job.base


def _seen(job: Job, columns: Columns) -> _Traces:
    exact = job.exact()
    return _Traces(columns, exact, entries_of(columns, job.sites, exact), log_weight_biased(columns))


# ---- the plan --------------------------------------------------------------------------------------------------------


class _Planner(Protocol):
    def choose(self, traces: _Traces, phases: int) -> ChosenBudget:
        """The budget for these traces, after a pilot of loops that are new if they can be run again."""


class _Given:
    """A budget that was chosen before."""

    def __init__(self, budget: ChosenBudget) -> None:
        self._budget = budget

    def choose(self, traces: _Traces, phases: int) -> ChosenBudget:
        if phases == 1:
            return dataclasses.replace(self._budget, phases=1, log_price=-math.inf)
        log_keep = self._budget.decide(traces.log_a, traces.entries).log_keep[np.unique(traces.entries.rows)]
        weighty, expected = int(np.count_nonzero(np.isfinite(log_keep))), float(np.exp(log_keep).sum())
        if expected < min(_FEW, 0.5 * weighty):
            warnings.warn(
                f"the given budget keeps only about {expected:.2g} of {weighty:,} traces that enter loops: it was "
                "planned for larger weights, perhaps for other data. The result is unbiased but noisy. "
                'Use budget="auto"',
                FewTracesWarning,
                stacklevel=outside(),
            )
        return self._budget


class _Plan:
    """Chooses budgets by pilots."""

    def __init__(self, job: Job, auto: AutoBudget) -> None:
        self._job = job
        self._auto = auto
        self._loops: dict[str, PilotLoop] = {}
        self._tried: set[str] = set()  # loops that a pilot has entered, or was to

    def look_at(self, traces: _Traces) -> None:
        """Runs a pilot of the loops that are new among these traces."""
        job, entries = self._job, traces.entries
        new = np.array([address not in self._tried for address in entries.addresses], np.bool_)
        self._tried.update(entries.addresses)
        here = new[entries.loop] if len(entries.loop) else np.zeros(0, np.bool_)
        rows = pilot_rows(traces.log_a, entries._replace(rows=entries.rows[here], loop=entries.loop[here]))
        if not len(rows):
            return
        listed = known_tries(traces.columns, rows)
        config = job.config(WANTED, nothing_of(traces.exact), listed=listed, pilot=True)
        again = job.step(config, on_failure="zero", hidden=True)
        job.count(pilot_traces=len(rows))
        complete = again.traces["failure"] == 0
        shown = pilot_loops(
            select(again, complete),
            job.sites,
            traces.log_a[rows[complete]],
            proposes=job.proposes,
            forks=job.forks,
        )
        self._loops = dict(sorted({**shown, **self._loops}.items()))  # by address: sums must not depend on site numbers
        _check(job, traces.columns, again)

    def choose(self, traces: _Traces, phases: int | None = None) -> ChosenBudget:
        """The best budget for these traces, as far as the pilots tell."""
        if phases == 2:
            self.look_at(traces)
        job = self._job
        draws, asked = draws_per_trace(traces.columns, job.sites, traces.entries, job.proposes, self._loops)
        return choose(
            self._loops,
            traces.log_a,
            traces.entries,
            trace_draws=draws,
            trace_asked=asked,
            network=job.asked.network is not None,
            total=job.asked.traces,
            auto=self._auto if phases is None else dataclasses.replace(self._auto, phases=phases),
        )


# ---- one phase -------------------------------------------------------------------------------------------------------


def _named(budget: ChosenBudget, exact: frozenset[str] = frozenset()) -> str:
    """A short name for a plan, for the folder that keeps its estimates."""
    return hashlib.sha256("\n".join([budget_to_json(budget), *sorted(exact)]).encode()).hexdigest()[:12]


def _in_one_phase(job: Job, budget: ChosenBudget) -> Posterior:
    """Every trace is run with estimates, those of the pilot again."""
    job.base = None
    job.budget = budget
    wanted, budgets = budget.wanted(0)
    columns, exact = estimated_at_once(job, wanted, budgets, folder=f"one-phase-{_named(budget)}")
    return job.finish(columns, budget, exact, phases=1)


# ---- two phases ------------------------------------------------------------------------------------------------------


def _in_two_phases(job: Job, columns: Columns, plan: _Planner) -> Posterior:
    """Estimates for the traces that matter. If a latent with a proposal turns up under a loop that was left out, the
    plan is made again with that loop."""
    while True:
        traces = _seen(job, columns)
        try:
            budget = plan.choose(traces, phases=2)
            estimated, replayed = _estimated(job, traces, budget)
        except _Unrepeatable as error:
            job.warn_of_difference(error.different, error.replayed)
            return _in_one_phase(job, plan.choose(traces, phases=1))
        if not traces.exact - job.exact():
            return job.finish(estimated, budget, traces.exact, phases=2, traces_replayed=replayed)


def _estimated(job: Job, traces: _Traces, budget: ChosenBudget) -> tuple[Columns, int]:
    """The traces with the estimates of those that the roulette keeps, and the number of these."""
    columns = traces.columns
    decision = budget.decide(traces.log_a, traces.entries)
    drawn = kept(job.seed, columns.traces["trace"].astype(np.uint64), decision.log_keep)
    drawn &= np.bincount(traces.entries.rows, minlength=len(columns.traces)) > 0
    name = f"estimates-{_named(budget, traces.exact)}"
    for level in np.unique(decision.level[drawn]).tolist():
        rows = np.flatnonzero(drawn & (decision.level == level))
        wanted, budgets = budget.wanted(level)
        most = [max(each) for each in zip(*[wanted, *budgets.values()], strict=True)]
        again = job.step(
            job.config(wanted, {**budgets, **nothing_of(traces.exact)}, listed=known_tries(traces.columns, rows)),
            folder=f"{name}-{level}",
            options=("--budget", f"M={most[0]},R={most[2]}"),  # all continuations that the trace had, and perhaps more
        )
        _check(job, traces.columns, again)
        columns = with_estimates(columns, again)
    return columns, int(np.count_nonzero(drawn))


def _check(job: Job, columns: Columns, again: Columns) -> None:
    """Raises _Unrepeatable if a trace was another one the second time."""
    different = differing(columns, again, rounded=job.asks)
    if different.any():
        raise _Unrepeatable(int(np.count_nonzero(different)), len(different))
