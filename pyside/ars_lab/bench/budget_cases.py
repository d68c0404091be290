"""What ``ars bench budget`` infers: simulators, data and proposals, and what an automatic budget should gain there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ars
from ars_lab.bench.measure import Effort, find_simulator
from ars_lab.reproduce.beta import proposals as beta_proposals
from ars_lab.reproduce.exact import BetaBernoulli
from ars_lab.reproduce.settings import Network as NetworkSettings
from ars_lab.reproduce.workspace import Workspace

__all__ = ["Case", "Targets", "cases"]

Options = Mapping[str, Any]  # arguments of Simulator.posterior, but for traces, budget and seed

_NETWORKS = {  # by size: of Marsaglia, of Mini-SHERPA. Those of "full" are about as good as the paper's
    "smallest": (NetworkSettings(512, 16, batch_size=64), NetworkSettings(512, 16, batch_size=64, components=4)),
    "quick": (NetworkSettings(150_000, 128, batch_size=256), NetworkSettings(400_000, 128, batch_size=256, lr=2e-3)),
    "full": (NetworkSettings(500_000, 512), NetworkSettings(600_000, 256, batch_size=256)),
}


@dataclass(frozen=True)
class Targets:
    """What "auto" should gain over M = 1, N = 10: if both fork, and if both rewind where that is safe."""

    fork: float
    auto: float


@dataclass(frozen=True)
class Case:
    """One line of the table. ``make`` has the options of the posterior, for a simulator that is running."""

    name: str
    command: tuple[str, ...]
    targets: Targets
    make: Callable[[ars.Simulator], Options]
    prior: bool = False  # nothing is proposed; the fixed budgets estimate nevertheless, as they once did


def _fixed(options: Options) -> Callable[[ars.Simulator], Options]:
    return lambda _: options


# ---- networks --------------------------------------------------------------------------------------------------------


def _marsaglia(work: Workspace, settings: NetworkSettings) -> Callable[[ars.Simulator], Options]:
    def make(simulator: ars.Simulator) -> Options:
        from ars_lab.reproduce.networks import trained

        network = trained(work, simulator, f"marsaglia-{settings.lstm_dim}", settings).network
        return {"observe": {"y1": 0.0, "y2": 0.0}, "network": network}

    return make


def _mini_sherpa(work: Workspace, settings: NetworkSettings, channel: int) -> Callable[[ars.Simulator], Options]:
    def make(simulator: ars.Simulator) -> Options:
        from ars_lab.reproduce.mini_sherpa import BINS, SHAPES, events
        from ars_lab.reproduce.networks import trained

        network = trained(work, simulator, f"mini_sherpa-{settings.lstm_dim}", settings, shapes=SHAPES).network
        [event] = [event for event in events(simulator, work) if event.channel == channel]
        return {"observe": {"calorimeter": event.calorimeter.reshape(BINS, BINS)}, "network": network}

    return make


# ---- proposals by hand -----------------------------------------------------------------------------------------------


def _beta(setting: str, n: int, targets: Targets, directory: str | None) -> Case:
    case = BetaBernoulli(setting, n)
    command = (find_simulator("beta_bernoulli", directory), f"{case.alpha:g}", str(n))
    options = {"observe": {"y": [1.0] * n}, "proposals": beta_proposals(case), "ask_ahead": True}
    return Case(f"Beta-Bernoulli {setting}, n = {n}", command, targets, _fixed(options))


def _loop(p: float, q: float, targets: Targets, directory: str | None) -> Case:
    """u is uniform and accepted below p; a share q of the proposals is. The data know u to a tenth of that range."""
    accepted, rejected = ars.Uniform(0.0, p), ars.Uniform(p, 1.0)
    options = {"observe": {"y": 5.0}, "proposals": {"u": ars.Mixture([q, 1 - q], [accepted, rejected])}}
    command = (find_simulator("bench_loop", directory), "data", f"{p:g}", "1", "1")
    return Case(f"p(A) = {p:g}, q(A) = {q:g}", command, targets, _fixed(options))


# ---- nothing proposed ------------------------------------------------------------------------------------------------

_PRIOR: Mapping[tuple[str, ...], Mapping[str, object]] = {
    ("marsaglia",): {"y1": 0.0, "y2": 0.0},
    ("truncated_normal", "a"): {"y": -0.5},
    ("truncated_normal", "b"): {"y": -0.5},
    ("beta_bernoulli", "2", "3"): {"y": [1.0, 1.0, 1.0]},
    ("nested",): {"y": 0.5},
    ("recursive",): {"y": 0.5},
    ("sequence",): {"y": 0.5},
    ("branching",): {"y": 0.5},
}


def _prior(words: tuple[str, ...], directory: str | None) -> Case:
    command = (find_simulator(words[0], directory), *words[1:])
    name = f"prior only: {' '.join(words)}"
    return Case(name, command, Targets(50, 10), _fixed({"observe": _PRIOR[words]}), prior=True)


# ---- all -------------------------------------------------------------------------------------------------------------


def cases(effort: Effort, directory: str | None, cache: Path) -> list[Case]:
    """The table of the issue that asked for automatic budgets. Networks are trained once, and kept in ``cache``."""
    if effort.size == "smallest":
        return [_loop(0.5, 0.2, Targets(1, 1), directory), _prior(("nested",), directory)]
    work = Workspace(cache / "budget", 1)
    marsaglia, sherpa = _NETWORKS[effort.size]
    generator = (find_simulator("mini_sherpa", directory),)
    few = list(_PRIOR)[:2] if effort.size == "quick" else list(_PRIOR)
    return [
        Case("Marsaglia a", (find_simulator("marsaglia", directory),), Targets(4, 1.5), _marsaglia(work, marsaglia)),
        Case("Mini-SHERPA 2", generator, Targets(8, 3), _mini_sherpa(work, sherpa, 2)),
        Case("Mini-SHERPA 3", generator, Targets(20, 6), _mini_sherpa(work, sherpa, 3)),
        _beta("a", 30, Targets(1.2, 1), directory),
        _beta("b", 10, Targets(1.2, 1), directory),
        _loop(1e-3, 0.1, Targets(1.5, 1), directory),
        _loop(0.5, 0.01, Targets(3, 2), directory),
        *(_prior(words, directory) for words in few),
    ]
