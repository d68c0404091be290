"""Effective shares before and after refinement, for docs/results.md: ``python -m ars_lab.refinement``.

Every case is one observation. It is inferred with the network as it was trained (with ``adapt``: with the prior), then
refined, and inferred again with another seed. Networks and observations are those of ``ars bench budget`` and
``ars reproduce mini-sherpa``, and are kept in the same cache.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

import ars
from ars.columns import Floats
from ars_lab.bench.measure import find_simulator
from ars_lab.bench.peer import default_cache
from ars_lab.reproduce.networks import trained
from ars_lab.reproduce.settings import Network as NetworkSettings
from ars_lab.reproduce.workspace import Workspace

__all__ = ["Case", "Row", "cases", "main", "measure", "order_shares", "table"]

_log = logging.getLogger(__name__)

BUDGET: Final = ars.Budget(M=10, R=2)  # fixed: the roulette of "auto" gives weights of 0, and so a smaller ESS/N
_PLANE: Final = 3.0  # z of Mini-SHERPA's calorimeter
_TITLES: Final = ("observation", "start", "before", "after", "evidence before", "evidence after", "known", "minutes",
                  "minutes of one core")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One line of the table. ``make`` has the observation, and the network to start from (None: adapt)."""

    name: str
    simulator: str
    arguments: tuple[str, ...]
    make: Callable[[ars.Simulator, Workspace], tuple[Mapping[str, Any], ars.Network | None]]
    known: float | None = None  # log evidence
    config: ars.RefineConfig = field(default_factory=ars.RefineConfig)
    particles: int = 0  # of Mini-SHERPA: their orders are counted


@dataclass(frozen=True)
class Row:
    """What came of a case."""

    name: str
    start: str  # "network" or "prior"
    before: float  # ESS/N
    after: float
    log_evidence_before: float
    error_before: float
    log_evidence: float
    error: float
    pareto_k: float
    known: float | None
    minutes: float  # of the refinement
    cores_minutes: float  # processor time in that time: of this process, the host and the simulators
    rounds: int
    orders: dict[str, tuple[float, float]]  # share and standard error, by order of the particles


# ---- cases -----------------------------------------------------------------------------------------------------------


def _fixed(observe: Mapping[str, Any]) -> Callable[..., tuple[Mapping[str, Any], None]]:
    return lambda *_: (observe, None)


def _mini_sherpa(channel: int, settings: NetworkSettings) -> Callable[..., tuple[Mapping[str, Any], ars.Network]]:
    def make(simulator: ars.Simulator, work: Workspace) -> tuple[Mapping[str, Any], ars.Network]:
        from ars_lab.reproduce.mini_sherpa import BINS, SHAPES, events

        network = trained(work, simulator, f"mini_sherpa-{settings.lstm_dim}", settings, shapes=SHAPES).network
        [event] = [event for event in events(simulator, work) if event.channel == channel]
        return {"calorimeter": event.calorimeter.reshape(BINS, BINS)}, network

    return make


def _marsaglia(y: float, settings: NetworkSettings) -> Callable[..., tuple[Mapping[str, Any], ars.Network]]:
    def make(simulator: ars.Simulator, work: Workspace) -> tuple[Mapping[str, Any], ars.Network]:
        network = trained(work, simulator, f"marsaglia-{settings.lstm_dim}", settings).network
        return {"y1": y, "y2": y}, network

    return make


def _sir(settings: NetworkSettings) -> Callable[..., tuple[Mapping[str, Any], ars.Network]]:
    def make(simulator: ars.Simulator, work: Workspace) -> tuple[Mapping[str, Any], ars.Network]:
        from ars_lab.sir import SHAPES, observation

        return observation(), trained(work, simulator, f"sir-{settings.lstm_dim}", settings, shapes=SHAPES).network

    return make


def _normal_evidence(y: float) -> float:
    """The log evidence of Marsaglia's two observations: Normals with a common mean of variance 1, and noise 0.1."""
    noise = 0.01
    precision = 1.0 + 2.0 / noise
    exponent = -0.5 * (2 * y * y / noise - (2 * y / noise) ** 2 / precision)
    return exponent - math.log(2 * math.pi) - 0.5 * math.log(noise * noise * precision)


def cases(*, quick: bool) -> list[Case]:
    """All cases. ``quick``: small networks and few rounds, which shows that everything works."""
    few = ars.RefineConfig(rounds=2, traces=500, most=2, steps=40, batch_size=64, effective=100)
    sherpa = NetworkSettings(20_000, 32, batch_size=64) if quick else NetworkSettings(600_000, 256, batch_size=256)
    polar = NetworkSettings(5_000, 32, batch_size=64) if quick else NetworkSettings(2_000_000, 512)
    usual = few if quick else ars.RefineConfig(traces=20_000, most=4, effective=2000)
    hard = few
    if not quick:
        hard = ars.RefineConfig(traces=40_000, most=2, effective=2000, rounds=7, steps=600, lr=2e-3, aim=0.5)
    epidemic = NetworkSettings(2_000, 16, batch_size=64) if quick else NetworkSettings(20_000, 128, batch_size=128)
    series = few
    if not quick:
        series = ars.RefineConfig(rounds=6, traces=10_000, most=2, effective=1000, steps=300, batch_size=128)
    small = few if quick else ars.RefineConfig(traces=5000)
    return [
        Case("Mini-SHERPA 2", "mini_sherpa", (), _mini_sherpa(2, sherpa), -160.0727, usual, particles=2),
        Case("Mini-SHERPA 3", "mini_sherpa", (), _mini_sherpa(3, sherpa), -150.7436, hard, particles=3),
        Case("Marsaglia a", "marsaglia", (), _marsaglia(0.0, polar), _normal_evidence(0.0), small),
        Case("Marsaglia b", "marsaglia", (), _marsaglia(-1.0, polar), _normal_evidence(-1.0), small),
        Case("SIR", "sir", (), _sir(epidemic), None, series),
        Case("truncated_normal b", "truncated_normal", ("b",), _fixed({"y": -1.0}), -1.4023, small),
        Case("nested", "nested", (), _fixed({"y": 2.0}), -1.5113, small),
    ]


# ---- one case --------------------------------------------------------------------------------------------------------


def order_shares(post: ars.Posterior, particles: int, method: str = "ars") -> dict[str, tuple[float, float]]:
    """The posterior share of every order of Mini-SHERPA's particles, with its Monte Carlo error.

    The order of a trace says which particle of the heaviest trace each of its own is, by the points on the calorimeter
    that they hit. The orders are about equally likely a posteriori, but not exactly: the first particle leaves at an
    angle to the mother, the second at an angle to what is left.
    """
    from ars_lab.reproduce.events import particles as momenta
    from ars_lab.reproduce.mini_sherpa import Event

    log_weights = post.log_weights(method)
    weights = np.exp(log_weights - log_weights.max())
    mine = np.flatnonzero((post["channel"] == particles - 1) & (weights > 0))
    thetas, phis = (post[name].reshape(len(post), -1)[:, : particles - 1] for name in ("thetas", "phis"))

    def hits(row: int) -> Floats:
        event = Event(particles, post["momentum"][row], thetas[row], phis[row], np.zeros(0))
        return np.array([_PLANE * v[:2] / v[2] for v in momenta(event)])

    reference = hits(int(mine[np.argmax(weights[mine])]))
    orders = list(itertools.permutations(range(particles)))
    found = np.empty(len(mine), np.int64)
    for i, row in enumerate(mine.tolist()):
        distances = np.square(hits(row)[:, None] - reference[None]).sum(axis=-1)
        found[i] = int(np.argmin([sum(distances[k, order[k]] for k in range(particles)) for order in orders]))
    w = weights[mine] / weights[mine].sum()
    shares = {}
    for number, order in enumerate(orders):
        share = float(w[found == number].sum())
        error = math.sqrt(float(np.square(w * ((found == number) - share)).sum()))
        shares["".join(str(k + 1) for k in order)] = (share, error)
    return shares


def _processor_time() -> float:
    """Seconds, of this process and of all that it has waited for."""
    of = os.times()
    return of.user + of.system + of.children_user + of.children_system


def _refined(
    case: Case,
    simulator: ars.Simulator,
    observe: Mapping[str, Any],
    network: ars.Network | None,
    seed: int,
    *,
    progress: bool,
) -> ars.Network | None:
    """A network for these data; None: the prior is good enough."""
    if network is not None:
        return network.refine(simulator, observe, seed=seed, config=case.config, progress=progress)
    from ars.adaptation import adapted_network

    data = {name: np.asarray(value, np.float64) for name, value in observe.items()}
    _, refined = adapted_network(
        simulator, data, False, case.config, None, None, seed, "proposal", "raise", None, progress, None
    )
    return refined


def measure(case: Case, work: Workspace, *, traces: int, seed: int, directory: str | None, progress: bool) -> Row:
    """Infers before and after, and refines in between."""
    with ars.Simulator([find_simulator(case.simulator, directory), *case.arguments]) as simulator:
        observe, network = case.make(simulator, work)
        before = simulator.posterior(observe, traces, network=network, budget=BUDGET, seed=seed)
    began, used = time.monotonic(), _processor_time()
    with ars.Simulator(simulator.command) as simulator:  # its own, whose processor time is known when it is closed
        refined = _refined(case, simulator, observe, network, seed, progress=progress)
    minutes, used = (time.monotonic() - began) / 60, (_processor_time() - used) / 60
    with ars.Simulator(simulator.command) as simulator:
        after = simulator.posterior(observe, traces, network=refined, budget=BUDGET, seed=seed + 1)
    then, now = before.log_evidence("ars"), after.log_evidence("ars")
    about = (refined.refinement if refined is not None else None) or {"rounds": []}
    return Row(
        case.name,
        "prior" if network is None else "network",
        before.ess("ars") / traces,
        after.ess("ars") / traces,
        then.log_estimate,
        then.relative_error,
        now.log_estimate,
        now.relative_error,
        float(after.pareto_k("ars")),
        case.known,
        minutes,
        used,
        max(len(about["rounds"]) - 1, 0),
        order_shares(after, case.particles) if case.particles else {},
    )


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = [f"| {' | '.join(_TITLES)} |", "|---|---|" + "---:|" * (len(_TITLES) - 2)]
    for row in rows:
        cells = [
            row.name,
            row.start,
            f"{row.before:.3g}",
            f"{row.after:.3g}",
            f"{row.log_evidence_before:.3f} ± {row.error_before:.3f}",
            f"{row.log_evidence:.4f} ± {row.error:.4f}",
            "" if row.known is None else f"{row.known:.4f}",
            f"{row.minutes:.1f}",
            f"{row.cores_minutes:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for row in rows:
        if row.orders:
            shares = ", ".join(f"{order} {share:.3f} ± {error:.3f}" for order, (share, error) in row.orders.items())
            lines.append(f"\nOrders of the particles, {row.name}: {shares}.")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m ars_lab.refinement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small networks and few rounds")
    parser.add_argument("--only", action="append", metavar="NAME", help="a case; may be repeated (default: all)")
    parser.add_argument("--traces", type=int, default=20_000, metavar="N", help="traces before and after (20,000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    parser.add_argument("--simulators", metavar="DIR", help="folder of csim's executables (default: the package's)")
    parser.add_argument("--cache", type=Path, metavar="DIR", help="folder of networks (default: that of ars bench)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the rows as JSON")
    given = parser.parse_args(arguments)
    chosen = [case for case in cases(quick=given.quick) if not given.only or case.name in given.only]
    if not chosen:
        parser.error(f"there is no such case; there are {', '.join(case.name for case in cases(quick=given.quick))}")
    work = Workspace((given.cache or default_cache()) / "budget", 1)
    rows = []
    for case in chosen:
        rows.append(
            measure(
                case, work, traces=given.traces, seed=given.seed, directory=given.simulators, progress=not given.quick
            )
        )
        if given.out is not None:
            given.out.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    sys.stdout.write(table(rows) + os.linesep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
