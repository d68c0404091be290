"""Beta-Bernoulli: K_converge over the number of tosses, for proposals written by hand. No training.

Everything but K_converge is known exactly, so every run is also held against the truth: the evidence, p(A), q(A), and
the effective share of the traces.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ars import diagnostics
from ars.budget import Budget
from ars.columns import Floats
from ars.distributions import Beta, Mixture, Uniform
from ars.loops import LoopSummary
from ars.posterior import Posterior
from ars.proposers import Proposal
from ars.simulator import Simulator
from ars_lab.reproduce import methods
from ars_lab.reproduce.exact import BetaBernoulli
from ars_lab.reproduce.records import Record, pack, unpack
from ars_lab.reproduce.settings import BUDGETS, TRIES
from ars_lab.reproduce.settings import Beta as BetaSettings
from ars_lab.reproduce.workspace import Workspace

__all__ = ["METHODS", "SETTINGS", "Point", "points"]

SETTINGS: Final = ("a", "b")
METHODS: Final = ("ic", "prior", *(f"ars-{M}" for M in BUDGETS), "collapsed")


class Point(NamedTuple):
    """One method with one number of tosses, beside what is exact. NaN: there is no exact answer."""

    setting: str
    n: int
    method: str
    traces: int
    k_converge: int | None
    evidence: float
    evidence_error: float
    exact_evidence: float
    distance: float  # of the evidence, in standard errors
    ess: float
    ess_error: float
    exact_ess: float
    ess_distance: float  # in standard errors
    p_accept: float
    exact_p_accept: float
    q_accept: float
    exact_q_accept: float
    s_pq: float
    naive_variance_infinite: bool | None  # the run's verdict
    exact_s_pq: float


def proposals(case: BetaBernoulli) -> Mapping[str, Proposal]:
    """The paper's, by hand."""

    def mixture(t: Any) -> Mixture:
        return Mixture([0.99, 0.01], [Uniform(0.0, case.bound(t["x"])), Uniform(0.0, 1.0)])

    of_x = Beta(case.alpha + case.n, case.alpha)
    return {"x": of_x, "u": Uniform(0.0, 1.0) if case.setting == "a" else mixture}


def _runs(executable: Path, case: BetaBernoulli, settings: BetaSettings, work: Workspace) -> tuple[Record, Record]:
    """The run with the proposals and the largest budget, and the one with the prior inside the loop."""
    name = f"beta-{case.setting}-{case.n}"
    observe = {"y": [1.0] * case.n}
    about = {"case": list(case), "traces": settings.traces, "M": BUDGETS[-1], "N": TRIES}

    def proposed(seed: int) -> Any:
        with Simulator([str(executable), f"{case.alpha:g}", str(case.n)], **work.simulator) as sim:
            post = sim.posterior(
                observe,
                settings.traces,
                proposals=proposals(case),
                budget=Budget(M=BUDGETS[-1], N=TRIES),
                seed=seed,
                progress=work.reporter.progress(f"traces, Beta-Bernoulli {case.setting}, n = {case.n}"),
                ask_ahead=True,
            )
        return pack(post)

    def prior(seed: int) -> Any:
        with Simulator([str(executable), f"{case.alpha:g}", str(case.n)], **work.simulator) as sim:
            return pack(sim.posterior(observe, settings.traces, in_loops="prior", seed=seed))

    return unpack(work.arrays(name, about, proposed)), unpack(work.arrays(f"{name}-prior", about, prior))


def ess_error(log_weights: Floats) -> float:
    """The standard error of ESS/N, by the delta method. Too small where the weights' fourth moment does not exist."""
    w = np.exp(log_weights - log_weights.max())
    first, second = float(w.mean()), float(np.square(w).mean())
    influence = 2.0 * (w - first) / first - (np.square(w) - second) / second
    return first**2 / second * float(influence.std(ddof=1)) / math.sqrt(len(w))


def _point(case: BetaBernoulli, method: str, log_weights: Floats, loop: LoopSummary, settings: BetaSettings) -> Point:
    found = diagnostics.log_evidence(log_weights)
    share, error = diagnostics.normalised_ess(log_weights), ess_error(log_weights)
    exact = case.ess_share(method, TRIES)
    return Point(
        setting=case.setting,
        n=case.n,
        method=method,
        traces=len(log_weights),
        k_converge=diagnostics.k_converge(log_weights, settings.epsilon, seed=case.n, max_draws=settings.max_draws),
        evidence=found.evidence,
        evidence_error=found.standard_error,
        exact_evidence=case.evidence,
        distance=found.distance(case.evidence),
        ess=share,
        ess_error=error,
        exact_ess=math.nan if exact is None else exact,
        ess_distance=math.nan if exact is None else (share - exact) / error,
        p_accept=loop.p_accept,
        exact_p_accept=case.p_accept,
        q_accept=loop.q_accept,
        exact_q_accept=case.q_accept,
        s_pq=loop.s_pq,
        naive_variance_infinite=loop.naive_variance_infinite,
        exact_s_pq=case.s_pq,
    )


def _points_of(case: BetaBernoulli, proposed: Posterior, prior: Posterior, settings: BetaSettings) -> list[Point]:
    weights = methods.log_weights(proposed, methods.Acceptances(case.p_accept, case.q_accept))
    weights["prior"] = prior.log_weights("prior")
    (loop,) = proposed.loops.values()
    return [_point(case, method, weights[method], loop, settings) for method in METHODS]


def points(executable: Path, settings: BetaSettings, work: Workspace) -> list[Point]:
    """All settings, tosses and methods."""
    cases = [BetaBernoulli(setting, n) for setting in SETTINGS for n in settings.tosses]
    found: list[Point] = []
    for i, case in enumerate(cases):
        work.reporter.say(f"Beta-Bernoulli {i + 1}/{len(cases)}: setting {case.setting}, n = {case.n}")

        proposed, prior = _runs(executable, case, settings, work)

        def make(
            seed: int, case: BetaBernoulli = case, proposed: Posterior = proposed, prior: Posterior = prior
        ) -> Any:
            del seed
            return [list(point) for point in _points_of(case, proposed, prior, settings)]

        about = dataclasses.asdict(settings) | {"case": list(case)}
        found += [Point(*row) for row in work.json(f"beta-{case.setting}-{case.n}-points", about, make)]
    return found


def acceptance_errors(point: Point) -> tuple[float, float]:
    """The standard errors of the estimates of p(A) and q(A), from their exact values and the budget."""
    p, q = point.exact_p_accept, point.exact_q_accept
    left = (2.0 - q) / (q * TRIES)  # share of the variance of the main run's tries that the tries under q leave
    left /= 1.0 + left
    return p * math.sqrt((1.0 - p) / (point.traces * BUDGETS[-1])), q * math.sqrt((1.0 - q) * left / point.traces)


def failures(found: Sequence[Point], limit: float = 4.5) -> list[str]:
    """What does not agree with the exact answers, in words; empty if all is well.

    A few hundred distances are looked at, of which the largest is about 3.5 by chance."""
    wrong = []
    for point in found:
        where = f"setting {point.setting}, n = {point.n}"
        if point.method not in ("ic",) and not abs(point.distance) < limit:
            wrong.append(f"{where}, {point.method}: the evidence is {point.distance:+.1f} standard errors off")
        if point.method == "collapsed":
            p_error, q_error = acceptance_errors(point)
            for what, here, exact, error in (
                ("p(A)", point.p_accept, point.exact_p_accept, p_error),
                ("q(A)", point.q_accept, point.exact_q_accept, q_error),
            ):
                if not abs(here - exact) < limit * error:
                    wrong.append(f"{where}: {what} is {here:.5f}, exactly {exact:.5f}")
    return wrong
