"""A posterior that stops at an error, or when its time is up.

To stop when a running estimate looks good would bias it: weights are skewed, and before the first large one has come,
both the evidence and its error look small. So the decision and the answer use different traces. Stages of growing size
show how many traces the answer needs. Then so many fresh ones are run, and only these are reported. Their number was
fixed before the first of them ran.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ars.budget import AutoBudget
from ars.errors import FewTracesWarning
from ars.inference.job import Job
from ars.outside import outside
from ars.posterior import Posterior

__all__ = ["posterior_to_target"]

_FIRST: Final = 1000  # traces of the first stage
_FIRST_TIMED: Final = 16  # the same where time is short: a trace may take seconds
_GROWTH: Final = 4
_MOST: Final = 0.5  # of all traces, that stages may take: the answer is made of the others
_ENOUGH: Final = 200.0  # effective traces, for an error to be extrapolated from
_MARGIN: Final = 1.4  # more traces than the error asks for: it is itself an estimate
_SHARE: Final = 0.1  # of the time, that stages take at least before speed is extrapolated from
_USED: Final = 0.9  # of the time that is left, for the traces that are reported


class _Stage(NamedTuple):
    """What a stage has shown."""

    traces: int
    effective: float
    error: float  # relative
    seconds: float


def posterior_to_target(
    job: Job, auto: AutoBudget, once: Callable[[Job], Posterior], clock: Callable[[], float] = time.monotonic
) -> Posterior:
    """Runs as many traces as the error asks for, or the time allows; at most those of the job, all stages included."""
    if auto.seconds is not None and job.asked.resume is not None:
        raise ValueError(
            "seconds= cannot be combined with resume=: the number of traces that fit into a time is not reproducible"
        )
    began = clock()
    total, used = job.asked.traces, 0
    size = min(_FIRST if auto.seconds is None else _FIRST_TIMED, max(total // 4, 1))
    stage: _Stage | None = None
    while used + size <= _MOST * total and not _enough(stage, auto, clock() - began):
        start = clock()
        post = once(job.stage(used, size, final=False))
        stage = _Stage(size, post.ess(), _relative_error(post, auto.of), clock() - start)
        used += size
        size *= _GROWTH
    wanted = _traces_needed(stage, auto, total - used, clock() - began)
    post = once(job.stage(used, wanted, final=True))
    reached = _relative_error(post, auto.of)
    post.stats.update(stage_traces=used, error_reached=reached)
    if auto.error is not None and not reached <= auto.error:
        of = "the evidence" if auto.of is None else f'the mean of "{auto.of}"'
        warnings.warn(
            f"{of} has a relative error of {reached:.2g}, more than the requested {auto.error:g}. "
            + _why(auto, wanted, total - used),
            FewTracesWarning,
            stacklevel=outside(),
        )
    return post


def _why(auto: AutoBudget, ran: int, room: int) -> str:
    if ran >= room:
        return "The maximum number of traces was reached: increase traces="
    if auto.seconds is not None:
        return f"The time limit of {auto.seconds:g} s was reached: increase seconds="
    return "The first traces predicted a smaller error: run again with a smaller error=, or with more traces"


def _enough(stage: _Stage | None, auto: AutoBudget, elapsed: float) -> bool:
    """Whether the number of traces can be told from what has been seen, or there is no time to see more."""
    if stage is None:
        return False
    if auto.seconds is not None and elapsed >= _SHARE * auto.seconds:
        return True
    return auto.error is not None and stage.effective >= _ENOUGH


def _traces_needed(stage: _Stage | None, auto: AutoBudget, room: int, elapsed: float) -> int:
    if stage is None:
        return room
    limits: list[float] = [room]
    if auto.error is not None and stage.effective >= _ENOUGH and math.isfinite(stage.error):
        limits.append(math.ceil(_MARGIN * stage.traces * (stage.error / auto.error) ** 2))
    if auto.seconds is not None:
        left = max(auto.seconds - elapsed, 0.0)
        limits.append(_USED * left * stage.traces / max(stage.seconds, 1e-9))
    least = 100 if auto.seconds is None else _FIRST_TIMED
    return max(int(min(limits)), min(room, least))


def _relative_error(post: Posterior, of: str | None) -> float:
    """Of the evidence, or of a mean: the largest of its elements."""
    if of is None:
        error = post.log_evidence().relative_error
        return math.inf if math.isnan(error) else float(error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewTracesWarning)
        errors, mean = np.asarray(post.mean_error(of)), np.asarray(post.mean(of))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = errors / np.abs(mean)
    return float(np.max(np.where(np.isnan(relative), np.inf, relative)))
