"""Whether the numbers of a run can be trusted: all estimates with their errors and diagnostics, and warnings in words.

``Posterior.diagnostics`` gives them as data, ``to_dict`` as JSON; ``Posterior.summary`` and ``ars infer`` print them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ars.diagnostics import (
    Floats,
    ParetoK,
    ess,
    log_evidence,
    pareto_k,
    shown_ess,
    too_few,
    weighted_mean,
    weighted_mean_error,
    weighted_quantile,
)
from ars.results.smoothing import smooth, smoothing_matters
from ars.results.specific import specific_ess, specific_pareto_k, there, weighted_quantile_errors

__all__ = [
    "QuantileEstimate",
    "RunDiagnostics",
    "ValueDiagnostics",
    "WeightingDiagnostics",
    "assess_value",
    "assess_weighting",
    "elements",
    "warnings_of",
    "zero_share",
]

_FEW = 10.0  # effective traces, below which a standard error is a rough guess


# ---- data ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuantileEstimate:
    """A posterior quantile.

    Attributes
    ----------
    level : float
        From 0 to 1.
    value, error : float
        The quantile and its standard error; NaN where there is none.
    error_reason : str or None
        Why ``error`` is NaN.
    """

    level: float
    value: float
    error: float
    error_reason: str | None


@dataclass(frozen=True)
class ValueDiagnostics:
    """One number per trace: a result, a latent, or one element of them.

    Attributes
    ----------
    name : str
        Name, with the index for an element of several: ``"momentum[1]"``.
    kind : str
        ``"result"`` or ``"latent"``.
    traces : int
        Number of traces that have the value. All other attributes are about those.
    mean, mean_error : float
        Posterior mean and its standard error; NaN where there is none.
    error_reason : str or None
        Why ``mean_error`` is NaN.
    quantiles : tuple of QuantileEstimate
    ess, specific_ess : float
        Effective number of traces, by the weights w and by abs(h - mean) w for this value h.
    pareto_k, specific_pareto_k : float
        Shape of the tail of the same two. NaN: unknown; -inf: there is no tail.
    warnings : tuple of str
        Why not to trust the mean or its error; empty if nothing speaks against them.
    smoothed_mean : float
        Posterior mean with Pareto-smoothed weights: slightly biased, with less variance.
    """

    name: str
    kind: str
    traces: int
    mean: float
    mean_error: float
    error_reason: str | None
    quantiles: tuple[QuantileEstimate, ...]
    ess: float
    specific_ess: float
    pareto_k: float
    specific_pareto_k: float
    warnings: tuple[str, ...]
    smoothed_mean: float = math.nan


@dataclass(frozen=True)
class WeightingDiagnostics:
    """One weighting of a run.

    Attributes
    ----------
    method : str
        Name of the weighting, such as ``"ars"``.
    log_evidence, log_evidence_error : float
        Natural log of the evidence and its standard error, at full resolution; the error is NaN where there is none.
    evidence, evidence_error : float
        The evidence itself; NaN where a double cannot hold it.
    error_reason : str or None
        Why there is no standard error.
    ess : float
        Effective number of traces.
    zero_share : float
        Share of the traces that have weight 0.
    pareto_k, pareto_k_threshold : float
        Shape of the weights' tail, and the limit below which it can be trusted. NaN: unknown; -inf: there is no tail.
    pareto_k_reason : str or None
        Why there is no number.
    note : str or None
        What to know about the weighting itself.
    warnings : tuple of str
        Why not to trust the evidence or its error; empty if nothing speaks against them.
    values : tuple of ValueDiagnostics
        Results first, then latents, in the order of the simulator.
    smoothed_log_evidence, smoothed_log_evidence_error, smoothed_ess : float
        The same with Pareto-smoothed weights: slightly biased, with less variance. Equal to the plain numbers where
        there is no tail to smooth.
    """

    method: str
    log_evidence: float
    log_evidence_error: float
    evidence: float
    evidence_error: float
    error_reason: str | None
    ess: float
    zero_share: float
    pareto_k: float
    pareto_k_threshold: float
    pareto_k_reason: str | None
    note: str | None
    warnings: tuple[str, ...]
    values: tuple[ValueDiagnostics, ...] = ()
    smoothed_log_evidence: float = math.nan
    smoothed_log_evidence_error: float = math.nan
    smoothed_ess: float = math.nan

    @property
    def smoothing_matters(self) -> bool:
        """Whether the tail is so heavy that smoothed estimates are worth a look beside the plain ones."""
        return smoothing_matters(self.pareto_k)

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against the evidence."""
        return not self.warnings

    def line(self) -> str:
        """Evidence, effective traces and tail on one line."""
        error = "unknown" if math.isnan(self.log_evidence_error) else f"{self.log_evidence_error:.2g}"
        power = _power(self.log_evidence + math.log(self.log_evidence_error), 2) if self.log_evidence_error > 0 else "0"
        tail = f"Pareto k {self.pareto_k:.2f}" if self.pareto_k_reason is None else self.pareto_k_reason
        if math.isnan(self.pareto_k):
            tail = "Pareto k unknown"
        return (
            f"{self.method:>7}: evidence {_power(self.log_evidence, 6)}, "
            f"s.e. {'unknown' if error == 'unknown' else power} "
            f"(log {_resolved(self.log_evidence, self.log_evidence_error)}, s.e. {error}); "
            f"{shown_ess(self.ess)} effective traces, {self.zero_share:.1%} of weights are 0; {tail}"
            + (f" [{self.note}]" if self.note else "")
        )

    def smoothed_line(self) -> str:
        """The same with Pareto-smoothed weights, labelled as such."""
        log, error = self.smoothed_log_evidence, self.smoothed_log_evidence_error
        return (
            f"Pareto-smoothed (slightly biased, less variance): evidence {_power(log, 6)} "
            f"(log {_resolved(log, error)}, s.e. {'unknown' if math.isnan(error) else f'{error:.2g}'}), "
            f"{shown_ess(self.smoothed_ess)} effective traces"
        )


@dataclass(frozen=True)
class RunDiagnostics:
    """Everything that ``Posterior.diagnostics`` says about a run.

    Attributes
    ----------
    simulator : tuple of str
        The executable and its arguments.
    seed : int
    traces : int
        Number of traces with a weight, 0 included.
    failures : mapping of str to int
        Failed traces by kind.
    method : str
        The default weighting.
    weightings : tuple of WeightingDiagnostics
        The default one first; empty if there is no trace.
    """

    simulator: tuple[str, ...]
    seed: int
    traces: int
    failures: Mapping[str, int]
    method: str
    weightings: tuple[WeightingDiagnostics, ...]

    def __getitem__(self, method: str) -> WeightingDiagnostics:
        for weighting in self.weightings:
            if weighting.method == method:
                return weighting
        raise KeyError(f'"{method}" is not assessed here; these are: {", ".join(w.method for w in self.weightings)}')

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain lists, dictionaries, text and numbers for ``json.dumps``; NaN and infinity become None."""
        found: dict[str, Any] = _plain(dataclasses.asdict(self))
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


# ---- text ---------------------------------------------------------------------------------------------------------


def _power(log: float, digits: int) -> str:
    """exp(log), also where a double cannot hold it."""
    if log == -math.inf or abs(log) < 700.0:
        return f"{math.exp(log):.{digits}g}"
    exponent = math.floor(log / math.log(10.0))
    return f"{math.exp(log - exponent * math.log(10.0)):.{digits}g}e{exponent:+d}"


def _resolved(value: float, error: float) -> str:
    """With as many decimals as two digits of its error have."""
    if not math.isfinite(value) or not error > 0.0:
        return f"{value:.10g}"
    return f"{value:.{min(max(1 - math.floor(math.log10(error)), 0), 15)}f}"


def warnings_of(effective: float, *tails: ParetoK, what: str = "") -> tuple[str, ...]:
    """Say why estimates from so many effective traces with such tails are not to be trusted; nothing if they are."""
    found = []
    if (reason := too_few(effective)) is not None:
        found.append(reason)
    elif effective < _FEW:
        found.append(f"only {shown_ess(effective)} effective traces{what}: the standard error is a rough guess")
    for tail in tails:
        if tail.unknown:
            found.append(f"Pareto k is unknown ({tail.reason}): do not trust the standard error")
        elif not tail.reliable:
            found.append(f"Pareto k {tail:.2f} is too large (limit {tail.threshold:.2f}): do not trust the estimate")
        else:
            continue
        break
    return tuple(found)


# ---- assessment ---------------------------------------------------------------------------------------------------


def zero_share(log_weights: Floats) -> float:
    """The share of the weights that are 0."""
    return float(np.mean(log_weights == -np.inf))


def assess_value(
    name: str,
    kind: str,
    values: Floats,
    log_weights: Floats,
    levels: Sequence[float],
    smoothed: Floats | None = None,
) -> ValueDiagnostics:
    """Estimate mean and quantiles of one number per trace, and say how far to trust them.

    ``smoothed``: the Pareto-smoothed log weights, if a mean is to be estimated with them as well.
    """
    x, weights = there(values, log_weights)
    effective = ess(weights) if len(x) else 0.0
    if not effective:
        reason = "every trace that has this value has weight 0" if len(x) else "no trace has this value"
        nothing = tuple(QuantileEstimate(level, math.nan, math.nan, reason) for level in levels)
        unknown = (math.nan, math.nan)
        return ValueDiagnostics(
            name, kind, len(x), math.nan, math.nan, reason, nothing, 0.0, 0.0, *unknown, warnings=(reason,)
        )
    tail, own, own_tail = pareto_k(weights), specific_ess(x, weights), specific_pareto_k(x, weights)
    found = weighted_quantile(x, levels, weights)
    errors = weighted_quantile_errors(x, levels, weights)
    quantiles = tuple(
        QuantileEstimate(level, float(at), error, reason)
        for level, at, (error, reason) in zip(levels, found, errors, strict=True)
    )
    least = min(effective, own)
    return ValueDiagnostics(
        name=name,
        kind=kind,
        traces=len(x),
        mean=weighted_mean(x, weights),
        mean_error=weighted_mean_error(x, weights),
        error_reason=too_few(effective),
        quantiles=quantiles,
        ess=effective,
        specific_ess=own,
        pareto_k=float(tail),
        specific_pareto_k=float(own_tail),
        warnings=warnings_of(least, tail, own_tail, what="" if least == effective else " determine this mean"),
        smoothed_mean=math.nan if smoothed is None else weighted_mean(values, smoothed),
    )


def elements(name: str, values: Floats) -> Iterator[tuple[str, Floats]]:
    """One column per element, named name[i], or name[i][j] where there are more dimensions."""
    if values.ndim == 1:
        yield name, values
        return
    for index in np.ndindex(values.shape[1:]):
        yield name + "".join(f"[{i}]" for i in index), values[(slice(None), *index)]


def assess_weighting(
    method: str,
    log_weights: Floats,
    values: Mapping[tuple[str, str], Floats],
    levels: Sequence[float],
    *,
    note: str | None = None,
    more: Sequence[str] = (),
) -> WeightingDiagnostics:
    """Assess a weighting: its evidence, and every value, from (kind, name) to one number or row per trace."""
    evidence, effective, tail = log_evidence(log_weights), ess(log_weights), pareto_k(log_weights)
    smoothed = smooth(log_weights).log_weights
    again = log_evidence(smoothed)
    assessed = tuple(
        assess_value(label, kind, column, log_weights, levels, smoothed)
        for (kind, name), found in values.items()
        for label, column in elements(name, found)
    )
    representable = 0.0 < evidence.evidence < math.inf and evidence.standard_error < math.inf
    return WeightingDiagnostics(
        method=method,
        log_evidence=evidence.log_estimate,
        log_evidence_error=evidence.relative_error,
        evidence=evidence.evidence if 0.0 < evidence.evidence < math.inf else math.nan,
        evidence_error=evidence.standard_error if representable else math.nan,
        error_reason=evidence.reason,
        ess=effective,
        zero_share=zero_share(log_weights),
        pareto_k=float(tail),
        pareto_k_threshold=tail.threshold,
        pareto_k_reason=tail.reason,
        note=note,
        warnings=(*warnings_of(effective, tail), *more),
        values=assessed,
        smoothed_log_evidence=again.log_estimate,
        smoothed_log_evidence_error=again.relative_error,
        smoothed_ess=ess(smoothed),
    )
