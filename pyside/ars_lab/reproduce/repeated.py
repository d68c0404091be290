"""Repeated runs of one observation with a network: what the paper's three plots and its table are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars.budget import Budget
from ars.columns import Floats
from ars.loops import LoopSummary
from ars.posterior import Posterior
from ars.simulator import Simulator
from ars.weights import log_weight_biased
from ars_lab.reproduce import convergence, methods
from ars_lab.reproduce.figures import Panel
from ars_lab.reproduce.networks import Trained
from ars_lab.reproduce.records import Record, pack, unpack
from ars_lab.reproduce.settings import BUDGETS, TRIES, Repeats
from ars_lab.reproduce.workspace import Arrays, Workspace

__all__ = ["Observed", "Outcome", "Runs", "Truth", "judge", "outcome", "runs"]

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


class Runs(NamedTuple):
    """All runs of one observation."""

    records: list[Record]  # with estimates
    naive: list[methods.Naive]  # without; none: the others serve

    def log_weights(self, acceptances: methods.Acceptances | None) -> dict[str, list[Floats]]:
        """By method, of every run."""
        found = _by_method(methods.log_weights(record, acceptances) for record in self.records)
        return found | _by_method(naive.log_weights(acceptances) for naive in self.naive)


def _by_method(runs: Iterable[Mapping[str, Floats]]) -> dict[str, list[Floats]]:
    found: dict[str, list[Floats]] = {}
    for run in runs:
        for method, log_weights in run.items():
            found.setdefault(method, []).append(log_weights)
    return found


def runs(sim: Simulator, network: Trained, observed: Observed, settings: Repeats, work: Workspace) -> Runs:
    """Each a stage of its own, with its own seed."""
    data = {key: np.asarray(value, dtype=np.float64).tolist() for key, value in observed.data.items()}
    about = {"network": network.about, "data": data}

    def posterior(what: str, traces: int, budget: Budget | None, seed: int) -> Posterior:
        work.reporter.say(f"{observed.title}: {what} of {settings.repeats}")
        return sim.posterior(
            observed.data,
            traces,
            network=network.network,
            budget=budget,
            seed=seed,
            progress=work.reporter.progress(f"traces, {observed.title}"),
        )

    def with_estimates(i: int) -> Record:
        def make(seed: int) -> Arrays:
            budget = Budget(M=BUDGETS[-1], N=TRIES)
            return pack(posterior(f"run {i + 1}", settings.traces, budget, seed), observed.keep)

        mine = about | {"traces": settings.traces, "M": BUDGETS[-1], "N": TRIES}
        return unpack(work.arrays(f"{observed.name}-{i:03d}", mine, make))

    def without(i: int) -> methods.Naive:
        def make(seed: int) -> Arrays:
            post = posterior(f"run {i + 1} without estimates", settings.naive_traces, None, seed)
            return methods.Naive.of(post)._asdict()

        mine = about | {"traces": settings.naive_traces}
        return methods.Naive(**work.arrays(f"{observed.name}-naive-{i:03d}", mine, make))

    each = range(settings.repeats)
    return Runs([with_estimates(i) for i in each], [without(i) for i in each] if settings.naive_traces else [])


def _acceptance(records: Sequence[Record]) -> tuple[float, float]:
    """p(A) and q(A) over all loops of all runs; NaN without entries."""
    loops = np.concatenate([record.columns.loops for record in records])
    if not len(loops):
        return float("nan"), float("nan")
    p = float(loops["runs_p"].sum()) / float(loops["tries_p"].sum())
    return p, float(loops["accepted_q"].sum()) / float(loops["tries_q"].sum())


def outcome(
    observed: Observed,
    done: Runs,
    truth: Truth,
    settings: Repeats,
    *,
    logarithmic: bool,
    p_accept: float | None = None,
) -> Outcome:
    """With the exact p(A) of a loop in which it does not depend on the state, "collapsed" is there too: its q(A) is
    that of all the tries of all runs, 10 per trace."""
    records = done.records
    p, q = _acceptance(records)
    known = None if p_accept is None else methods.Acceptances(p_accept, q)
    weights = done.log_weights(known)
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
        epsilon=settings.epsilon,
    )
    speeds = [record.stats.get("traces_per_second", float("nan")) for record in records]
    loops = [loop for record in records for loop in record.loops.values()]
    biased = np.concatenate([log_weight_biased(record.columns) for record in records])
    correction = _distance(biased, np.concatenate(weights[f"ars-{BUDGETS[-1]}"]))
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
