"""A posterior with a budget that is given: one run, in which every loop that needs it is estimated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ars.budget import Budget
from ars.columns import Columns, merge
from ars.inference.job import Job
from ars.inference.replayed import differing, known_tries, with_estimates, without_estimates
from ars.posterior import Posterior
from ars.weights import log_weight_biased
from ars.wire import Wanted

__all__ = ["estimated_at_once", "nothing_of", "posterior_at_once"]


def posterior_at_once(job: Job, budget: Budget) -> Posterior:
    """Every trace is estimated while it runs."""
    job.budget = budget
    columns, exact = estimated_at_once(job, budget.wanted, {}, folder="")
    return job.finish(columns, budget, exact)


def estimated_at_once(
    job: Job, wanted: Wanted, budgets: Mapping[str, Wanted], *, folder: str
) -> tuple[Columns, frozenset[str]]:
    """All traces of the job, with estimates of every loop under which something is proposed.

    Parameters
    ----------
    job : Job
        Whose traces are run.
    wanted, budgets : Wanted, mapping
        The budget of loops, and that of single ones by address.
    folder : str
        Where in the folder of ``resume`` the traces are kept.

    Returns
    -------
    columns, exact
        The traces, and the loops whose factor is exactly 1.
    """
    first, total = job.asked.first_trace, job.asked.traces
    spared: frozenset[str] = frozenset()
    if total > 1 and not job.all_proposed:  # the first trace shows which loops need no estimates
        known = nothing_of(job.known_exact())
        shown = job.step(job.config(wanted, {**budgets, **known}, count=1), folder=folder)
        job.before = [shown]
        spared = job.exact() & {job.sites[i].address for i in np.unique(shown.loops["site"]).tolist()}
    done = len(job.before)
    config = job.config(wanted, {**budgets, **nothing_of(spared)}, first=first + done, count=total - done)
    rest = job.step(config, folder=folder)
    columns = merge([*job.before, rest])
    job.before = [columns]  # for a Ctrl-C from now on
    while True:
        # A latent with a proposal may have turned up under a loop that was left out: in this run, in the one that it
        # resumes, or in the continuations that complete it.
        exact = job.exact()
        columns = _completed(job, columns, wanted, budgets, exact)
        if exact <= job.exact():
            return without_estimates(columns, job.sites, exact), exact


def nothing_of(loops: frozenset[str]) -> dict[str, Wanted]:
    """The budget of loops that are not estimated."""
    return dict.fromkeys(sorted(loops), Wanted())


def _completed(
    job: Job, columns: Columns, wanted: Wanted, budgets: Mapping[str, Wanted], exact: frozenset[str]
) -> Columns:
    """The traces with estimates that are missing, which a second run of them makes: a latent with a proposal has turned
    up under a loop that was left out."""
    estimated = columns.loops["runs_p"] > 0
    needed = ~np.isin(columns.loops["site"], [site.id for site in job.sites if site.address in exact])
    missing = np.zeros(len(columns.traces), np.bool_)
    owner = np.repeat(np.arange(len(columns.traces)), columns.traces["n_loops"])
    missing[owner[needed & ~estimated]] = True
    rows = np.flatnonzero(missing & (log_weight_biased(columns) > -np.inf))
    if not len(rows):
        return columns
    job.base = columns
    budgets = {**budgets, **nothing_of(exact)}
    again = job.step(job.config(wanted, budgets, listed=known_tries(columns, rows)))
    different = differing(columns, again, rounded=job.asks)
    if different.any():
        job.warn_of_difference(int(np.count_nonzero(different)), len(different))
        job.base, job.before = None, []
        return job.step(job.config(wanted, budgets))
    return with_estimates(columns, again)
