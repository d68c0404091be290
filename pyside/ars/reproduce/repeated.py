"""Repeated runs of one observation with a network: what the paper's three plots and its table are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars.budget import Budget
from ars.columns import Floats
from ars.loops import LoopSummary
from ars.reproduce import convergence, methods
from ars.reproduce.figures import Panel
from ars.reproduce.networks import Trained
from ars.reproduce.records import Record, pack, unpack
from ars.reproduce.settings import BUDGETS, TRIES, Repeats
from ars.reproduce.workspace import Workspace
from ars.simulator import Simulator

__all__ = ["Observed", "Outcome", "Truth", "judge", "outcome", "runs"]

_LIMIT: Final = 4.5  # standard errors, of which a few dozen are looked at
_LEAST_EFFECTIVE: Final = 100.0  # traces, for a standard error to mean something


class Observed(NamedTuple):
    """An observation to run backwards from."""

    name: str  # "marsaglia-a"
    title: str
    data: Mapping[str, npt.ArrayLike]
    keep: tuple[str, ...] = ()  # values that are wanted later


class Truth(NamedTuple):
    """The log of the evidence, with its standard error, if it is an estimate."""

    log_evidence: float
    error: float = 0.0


class Outcome(NamedTuple):
    """What came of the runs of one observation."""

    observed: Observed
    panel: Panel
    found: dict[str, convergence.Final]
    loops: list[LoopSummary]  # of all loops of all runs
    p_accept: float
    q_accept: float
    correction: float  # how far biased weights lie from corrected ones, in standard errors of the difference
    traces_per_second: float


def runs(
    sim: Simulator, network: Trained, observed: Observed, settings: Repeats, work: Workspace, budget: int = BUDGETS[-1]
) -> list[Record]:
    """Each a stage of its own, with its own seed."""
    found = []
    for i in range(settings.repeats):
        name = f"{observed.name}-{i:03d}"

        def make(seed: int, name: str = name) -> Any:
            work.reporter.say(f"{observed.title}: run {name[-3:]} of {settings.repeats}")
            post = sim.posterior(
                observed.data,
                settings.traces,
                network=network.network,
                budget=Budget(M=budget, N=TRIES),
                seed=seed,
                progress=work.reporter.progress(f"traces, {observed.title}"),
            )
            return pack(post, observed.keep)

        data = {key: np.asarray(value, dtype=np.float64).tolist() for key, value in observed.data.items()}
        about = {"network": network.about, "traces": settings.traces, "data": data, "M": budget, "N": TRIES}
        found.append(unpack(work.arrays(name, about, make)))
    return found


def _acceptance(records: Sequence[Record]) -> tuple[float, float]:
    """p(A) and q(A) over all loops of all runs; NaN without entries."""
    loops = np.concatenate([record.columns.loops for record in records])
    if not len(loops):
        return float("nan"), float("nan")
    p = float(loops["runs_p"].sum()) / float(loops["tries_p"].sum())
    return p, float(loops["accepted_q"].sum()) / float(loops["tries_q"].sum())


def outcome(
    observed: Observed,
    records: Sequence[Record],
    truth: Truth,
    settings: Repeats,
    *,
    logarithmic: bool,
    p_accept: float | None = None,
) -> Outcome:
    """With the exact p(A) of a loop in which it does not depend on the state, "collapsed" is there too: its q(A) is
    that of all the tries of all runs, 10 per trace."""
    p, q = _acceptance(records)
    known = None if p_accept is None else methods.Acceptances(p_accept, q)
    weights: dict[str, list[Floats]] = {}
    for record in records:
        for method, found in methods.log_weights(record, known).items():
            weights.setdefault(method, []).append(found)
    finals = convergence.summarise(
        weights,
        truth.log_evidence,
        logarithmic=logarithmic,
        truth_error=truth.error,
        epsilon=settings.epsilon,
        orderings=settings.orderings,
    )
    panel = Panel(
        title=observed.title,
        curves={method: convergence.curves(found) for method, found in weights.items()},
        log_truth=truth.log_evidence,
        logarithmic=logarithmic,
        k_converge={method: found.k_converge for method, found in finals.items()},
        traces=settings.traces,
        epsilon=settings.epsilon,
    )
    speeds = [record.stats.get("traces_per_second", float("nan")) for record in records]
    loops = [loop for record in records for loop in record.loops.values()]
    correction = _distance(np.concatenate(weights["biased"]), np.concatenate(weights[f"ars-{BUDGETS[-1]}"]))
    return Outcome(observed, panel, finals, loops, p, q, correction, float(np.mean(speeds)))


def _distance(first: Floats, second: Floats) -> float:
    """Between the means of two kinds of weights of the same traces, in standard errors of their difference."""
    largest = float(max(first.max(), second.max()))
    difference = np.exp(first - largest) - np.exp(second - largest)
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return float(difference.mean()) / error if error else 0.0


def judge(found: Outcome, *, entered: bool = True) -> list[str]:
    """What is not as it must be: ARS at the truth, the uncorrected weights elsewhere. ``entered``: whether the traces
    that matter enter a loop at all. Of too few effective traces nothing can be said."""
    wrong = []
    for method, final in found.found.items():
        if final.effective < _LEAST_EFFECTIVE:
            continue
        distance = final.bias / final.bias_error if final.bias_error else float("inf")
        title = f"{found.observed.title}, {methods.LABELS[method]}"
        if (method.startswith("ars") or method == "collapsed") and not abs(distance) < _LIMIT:
            wrong.append(f"{title}: the evidence is {distance:+.1f} standard errors off")
        if method == "biased" and entered and not abs(found.correction) > _LIMIT:
            wrong.append(f"{title}: it should differ from ARS, and does by {found.correction:+.1f} standard errors")
    return wrong
