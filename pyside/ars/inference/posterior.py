"""A posterior, as it was asked for: without estimates, with a fixed budget, or with one that decides itself."""

from __future__ import annotations

from ars.budget import AutoBudget, Budget
from ars.inference.fixed import posterior_at_once
from ars.inference.job import Job
from ars.inference.phases import posterior_in_phases
from ars.inference.stopping import posterior_to_target
from ars.posterior import Posterior

__all__ = ["posterior_of"]


def posterior_of(job: Job) -> Posterior:
    """Runs the job."""
    budget = job.asked.estimate(job.proposed)
    if budget is None:
        columns = job.step(job.config(), folder="")
        return job.finish(columns, None, job.exact() if job.asked.in_loops == "proposal" else frozenset())
    if isinstance(budget, Budget):
        return posterior_at_once(job, budget)
    if isinstance(budget, AutoBudget) and (budget.error is not None or budget.seconds is not None):
        return posterior_to_target(job, budget)
    return posterior_in_phases(job, budget)
