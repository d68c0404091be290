"""What came of a study, for the page, its figures and the tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ars.columns import Floats

__all__ = ["Check", "Estimate", "Loop", "Method", "Observation", "Result", "distance"]


@dataclass(frozen=True)
class Observation:
    """The data, and what made them.

    Parameters
    ----------
    data : mapping
        Observation name -> array.
    truth : mapping
        Value of every scalar latent and result of the trace that the data come from.
    """

    data: Mapping[str, Floats]
    truth: Mapping[str, float]


@dataclass(frozen=True)
class Estimate:
    """A posterior mean with its Monte Carlo standard error, and the posterior's standard deviation."""

    mean: float
    error: float
    std: float


@dataclass(frozen=True)
class Method:
    """One way to the posterior.

    ``log_evidence`` and ``error`` are NaN for Markov chains. ``ess`` is that of the weights; for chains the smallest of
    the quantities. ``quality`` is the Pareto k of the weights, for chains the largest R-hat. ``log_weights`` are 0 for
    chains. All draws are in recorded units, one per trace.
    """

    label: str
    traces: int
    failures: int
    log_evidence: float
    error: float
    ess: float
    quality: float
    seconds: float
    estimates: Mapping[str, Estimate]
    draws: Mapping[str, Floats]
    log_weights: Floats

    def weights(self) -> Floats:
        """Normalised."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weights / weights.sum(), np.float64)


@dataclass(frozen=True)
class Loop:
    """One marked loop, over all its entries in the run by ARS."""

    address: str
    entries: int
    mean_tries: float
    p_accept: float
    p_error: float
    q_accept: float
    q_error: float
    budget: str
    continuations: str  # "rewind", "fork", ...


@dataclass(frozen=True)
class Check:
    """A promise, whether it was kept, and the numbers that say so."""

    promise: str
    kept: bool
    numbers: str


@dataclass(frozen=True)
class Result:
    """A finished study of one generator."""

    observation: Observation
    prior: Mapping[str, Floats]  # draws of the quantities from the prior
    ars: Method
    prior_in_loops: Method
    chains: Method
    loops: Sequence[Loop]
    checks: Sequence[Check]
    about: Mapping[str, str]  # versions, machine
    train_seconds: float
    train_traces: int
    refine_seconds: float
    seconds: float  # of all stages, whenever they were made

    @property
    def methods(self) -> tuple[Method, Method, Method]:
        """All three."""
        return self.ars, self.prior_in_loops, self.chains

    @property
    def problems(self) -> list[str]:
        """The promises that were not kept."""
        return [f"{each.promise}: {each.numbers}" for each in self.checks if not each.kept]


def distance(a: float, a_error: float, b: float, b_error: float) -> float:
    """The difference of two independent estimates in standard errors.

    Parameters
    ----------
    a, b : float
        The estimates.
    a_error, b_error : float
        Their standard errors.

    Returns
    -------
    float
        ``(a - b) / hypot(a_error, b_error)``; infinite if the errors are 0 or not numbers.
    """
    error = math.hypot(a_error, b_error)
    return (a - b) / error if error > 0 and math.isfinite(error) else math.inf
