"""Marsaglia: a Gaussian with unknown mean, whose prior is drawn by the polar method, and a trained network."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Final, NamedTuple

from ars.loops import LoopSummary
from ars.simulator import Simulator
from ars_lab.reproduce.exact import marsaglia_evidence
from ars_lab.reproduce.networks import Trained, trained
from ars_lab.reproduce.repeated import Observed, Outcome, Truth, outcome, runs
from ars_lab.reproduce.settings import Settings
from ars_lab.reproduce.workspace import Workspace

__all__ = ["OBSERVED", "P_ACCEPT", "Scheme", "marsaglia", "schemes"]

P_ACCEPT: Final = math.pi / 4.0
_DATA: Final = {"a": 0.0, "b": -1.0}
OBSERVED: Final = tuple(
    Observed(f"marsaglia-{name}", f"Marsaglia {name}, y1 = y2 = {y:g}", {"y1": y, "y2": y}) for name, y in _DATA.items()
)


def _truth(observed: Observed) -> Truth:
    return Truth(math.log(marsaglia_evidence(_DATA[observed.name[-1]])))


def marsaglia(executable: Path, settings: Settings, work: Workspace) -> tuple[Trained, list[Outcome]]:
    """The network, and what came of observations a and b."""
    with Simulator([str(executable)], **work.simulator) as sim:
        network = trained(work, sim, "marsaglia", settings.marsaglia)
        found = []
        for observed in OBSERVED:
            done = runs(sim, network, observed, settings.marsaglia_runs, work)
            found.append(
                outcome(observed, done, _truth(observed), settings.marsaglia_runs, logarithmic=False, p_accept=P_ACCEPT)
            )
    return network, found


class Scheme(NamedTuple):
    """How naive weights fare when the network is trained on accepted draws, or on rejected ones too (appendix B.2)."""

    train_on: str
    observation: str
    held_out: float
    q_accept: float
    s_pq: float
    s_pq_error: float
    s_pq_bound: float
    naive_variance_infinite: bool | None
    ic_relative_variance: float  # Var(w) / E[w]^2, as far as the runs show
    ic_pareto_k: float
    ic_bias: float
    ic_bias_error: float
    ic_ess: float
    ars_ess: float  # M = 10
    ars_bias: float
    ars_bias_error: float


def _worst(loops: list[LoopSummary]) -> LoopSummary:
    """The run that says most: a verdict of yes, else the largest estimate."""
    return max(loops, key=lambda loop: (loop.naive_variance_infinite is True, loop.s_pq))


def _scheme(train_on: str, network: Trained, found: Outcome) -> Scheme:
    ic, ars, loop = found.found["ic"], found.found["ars-10"], _worst(found.loops)
    pooled_ess = ic.ess
    return Scheme(
        train_on=train_on,
        observation=found.observed.name,
        held_out=network.held_out,
        q_accept=found.q_accept,
        s_pq=loop.s_pq,
        s_pq_error=loop.s_pq_error,
        s_pq_bound=loop.s_pq_bound,
        naive_variance_infinite=loop.naive_variance_infinite,
        ic_relative_variance=1.0 / pooled_ess - 1.0 if pooled_ess else math.inf,
        ic_pareto_k=ic.pareto_k,
        ic_bias=ic.bias,
        ic_bias_error=ic.bias_error,
        ic_ess=ic.ess,
        ars_ess=ars.ess,
        ars_bias=ars.bias,
        ars_bias_error=ars.bias_error,
    )


def schemes(
    executable: Path, settings: Settings, work: Workspace, accepted: tuple[Trained, list[Outcome]]
) -> list[Scheme]:
    """The default training beside the alternative one, on the same observations."""
    network, found = accepted
    rows = [_scheme("accepted", network, each) for each in found]
    few = dataclasses.replace(settings.marsaglia_runs, repeats=max(2, settings.marsaglia_runs.repeats // 5))
    with Simulator([str(executable)], **work.simulator) as sim:
        other = trained(work, sim, "marsaglia-all", settings.marsaglia, train_on="all")
        for observed in OBSERVED:
            renamed = observed._replace(name=f"{observed.name}-all", title=f"{observed.title}, trained on all draws")
            done = runs(sim, other, renamed, few, work)
            rows.append(
                _scheme(
                    "all",
                    other,
                    outcome(renamed, done, _truth(observed), few, logarithmic=False, p_accept=P_ACCEPT),
                )
            )
    return rows
