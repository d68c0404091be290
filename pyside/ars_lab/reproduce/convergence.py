"""Repeated runs of one observation: how the estimates converge, and what is left at the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ars import diagnostics
from ars.columns import Floats, Integers

__all__ = ["Curves", "Final", "curves", "final", "grid", "mean_and_error", "running_ess", "summarise"]


def grid(traces: int, points: int = 60) -> Integers:
    """Numbers of traces, evenly spaced on a logarithmic axis, the last one all of them."""
    first = min(10, traces)
    return np.unique(np.rint(np.geomspace(first, traces, points)).astype(np.int64))


def running_ess(log_weights: Floats, at: Integers) -> Floats:
    """ESS/N of the first n weights, for each n; 0 while all are 0."""
    largest = float(log_weights.max())
    scaled = np.exp(log_weights - largest) if largest > -math.inf else np.zeros(len(log_weights))
    total, squares = np.cumsum(scaled)[at - 1], np.cumsum(scaled**2)[at - 1]
    share: Floats = np.divide(total**2, squares * at, out=np.zeros(len(at)), where=squares > 0)
    return share


class Curves(NamedTuple):
    """One method: a row per run, a column per number of traces."""

    at: Integers
    log_evidence: Floats
    ess: Floats


def curves(runs: Sequence[Floats]) -> Curves:
    """From the log weights of every run, all of the same length."""
    at = grid(min(len(run) for run in runs))
    with np.errstate(divide="ignore"):
        evidence = np.stack([diagnostics.running_evidence(run, at)[0] for run in runs])
    return Curves(at, evidence, np.stack([running_ess(run, at) for run in runs]))


def mean_and_error(x: Floats) -> tuple[float, float]:
    """Of independent numbers; the error of a single one is NaN."""
    return float(np.mean(x)), float(np.std(x, ddof=1) / math.sqrt(len(x))) if len(x) > 1 else math.nan


class Final(NamedTuple):
    """One method after all traces of every run.

    ``bias`` is that of all runs together, of the evidence itself or of its log. Its error is the standard error of all
    weights, and the truth's own, if that is an estimate; ``spread`` is the standard deviation of the single runs.
    """

    log_evidence: float
    bias: float
    bias_error: float
    spread: float
    effective: float  # traces, of all runs together
    ess: float
    ess_error: float
    k_converge: list[int | None]  # per run; None: more than there are traces
    pareto_k: float  # of all weights together

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()


def final(
    runs: Sequence[Floats],
    truth: float,
    *,
    logarithmic: bool,
    truth_error: float = 0.0,
    epsilon: float = 0.01,
    orderings: int = 50,
    seed: int = 0,
) -> Final:
    """``truth`` is the log of the evidence, ``truth_error`` its standard error."""
    logs = np.array([diagnostics.log_evidence(run).log_estimate for run in runs])
    pooled = np.concatenate(list(runs))
    found = diagnostics.log_evidence(pooled)
    if logarithmic:
        estimates, bias = logs, found.log_estimate - truth
        error = math.hypot(found.relative_error, truth_error)
    else:
        estimates, bias = np.exp(logs), found.evidence - math.exp(truth)
        error = math.hypot(found.standard_error, truth_error * math.exp(truth))
    ess, ess_error = mean_and_error(np.array([diagnostics.normalised_ess(run) for run in runs]))
    k = [
        diagnostics.k_converge(run, epsilon, seed=seed + i, repeats=orderings) if np.isfinite(run).any() else None
        for i, run in enumerate(runs)
    ]
    return Final(
        log_evidence=found.log_estimate,
        bias=bias,
        bias_error=error,
        spread=float(np.std(estimates, ddof=1)) if len(runs) > 1 and np.isfinite(estimates).all() else math.nan,
        effective=diagnostics.ess(pooled),
        ess=ess,
        ess_error=ess_error,
        k_converge=k,
        pareto_k=float(diagnostics.pareto_k(pooled)),
    )


def summarise(runs: Mapping[str, Sequence[Floats]], truth: float, **options: Any) -> dict[str, Final]:
    """Every method."""
    return {method: final(weights, truth, **options) for method, weights in runs.items()}
