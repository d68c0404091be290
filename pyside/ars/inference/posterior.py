"""A posterior, as it was asked for: without estimates, with a fixed budget, or with one that decides itself."""

from __future__ import annotations

import contextlib

from ars.arguments import seed_or_random
from ars.budget import AutoBudget, Budget
from ars.errors import RunInterrupted
from ars.extras import one_torch_thread
from ars.inference.fixed import posterior_at_once
from ars.inference.job import Job, resumed_seed
from ars.inference.options import PosteriorOptions
from ars.inference.phases import posterior_in_phases
from ars.inference.stopping import posterior_to_target
from ars.posterior import Posterior
from ars.progress import Progress
from ars.runs import Runs

__all__ = ["infer"]


def infer(
    runs: Runs,
    asked: PosteriorOptions,
    seed: int | None,
    lease: int,
    progress: Progress,
    *,
    estimates_the_prior: bool = False,
    quiet: bool = False,
) -> Posterior:
    """Runs what was asked for. Without a seed: that of the folder to resume, or a random one. ``quiet``: the result
    is one step of something else, which warns in its own words."""
    if seed is None and asked.resume is not None:
        seed = resumed_seed(asked.resume)
    with contextlib.ExitStack() as stack:
        stack.callback(progress.close)
        proposer = runs.proposer(asked, lease)
        stack.callback(proposer.close)
        if asked.network is not None:
            stack.enter_context(one_torch_thread())
        job = Job(
            runs,
            asked,
            proposer,
            seed_or_random(seed),
            estimates_the_prior=estimates_the_prior,
            progress=progress,
            lease=lease,
            stack=stack,
            quiet=quiet,
        )
        return posterior_of(job)


def posterior_of(job: Job) -> Posterior:
    """Runs the job."""
    asked = job.asked.budget
    if isinstance(asked, AutoBudget) and (asked.error is not None or asked.seconds is not None):
        return posterior_to_target(job, asked, _once)
    return _once(job)


def _once(job: Job) -> Posterior:
    """As many traces as the job has. A Ctrl-C between two of its steps is like one in a step."""
    try:
        return _all_steps(job)
    except RunInterrupted:
        raise
    except KeyboardInterrupt as error:
        interrupted = RunInterrupted("interrupted")
        interrupted.partial = job.so_far()
        raise interrupted from error


def _all_steps(job: Job) -> Posterior:
    budget = job.asked.estimate(job.proposed)
    if budget is None:
        columns = job.step(job.config(), folder="")
        return job.finish(columns, None, job.exact() if job.asked.in_loops == "proposal" else frozenset())
    return posterior_at_once(job, budget) if isinstance(budget, Budget) else posterior_in_phases(job, budget)
