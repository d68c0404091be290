"""How much of each experiment is run.

``full`` has the paper's networks, proposals and limits. It differs in what would take days on two cores: the traces
that Mini-SHERPA's network is trained on are half as many; the runs with estimates are 10 (Mini-SHERPA: 5) of 5,000
traces instead of 100 of 100,000; the ground truth of Mini-SHERPA has 400,000 traces at most instead of 12 million, and
a second computation, without the simulator, beside it. Weightings without estimates have longer runs of their own,
because it takes many traces to see how bad the naive one is; Marsaglia's are as long as the paper's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["BUDGETS", "SIZES", "TRIES", "Beta", "MiniSherpa", "Network", "Repeats", "Settings", "settings_for"]

SIZES: Final = ("tiny", "quick", "full")
BUDGETS: Final = (1, 2, 10)  # M of the methods
TRIES: Final = 10  # N, of all of them: max(M, 10)


@dataclass(frozen=True)
class Network:
    """A training."""

    traces: int
    lstm_dim: int
    lstm_depth: int = 1
    batch_size: int = 512
    lr: float = 1e-3
    components: int = 10


@dataclass(frozen=True)
class Repeats:
    """Independent runs of one observation."""

    repeats: int
    traces: int  # of each
    naive_traces: int = 0  # of further runs, without estimates, for IC, Biased and Collapsed; 0: the same runs serve
    epsilon: float = 0.01  # of K_converge
    orderings: int = 50  # of the weights, for K_converge


@dataclass(frozen=True)
class Beta:
    """Beta-Bernoulli: no training, one run per setting and number of tosses."""

    tosses: tuple[int, ...]
    traces: int
    max_draws: int = 10_000
    epsilon: float = 0.01


@dataclass(frozen=True)
class MiniSherpa:
    """Mini-SHERPA: a training, repeated runs per channel, and the evidence that they are held against."""

    network: Network
    runs: Repeats
    truth_traces: int  # with the prior inside the loops, at most
    truth_chunk: int
    truth_error: float  # relative: when it is reached, no more traces are run
    reference_points: int  # of the computation without the simulator
    hardest_epsilon: float = 0.03  # of channel 3, as in the paper
    truth_network: Network | None = None  # a smaller one, which proposes more traces per second; None: the same


@dataclass(frozen=True)
class Settings:
    """Everything that decides the numbers, but for the seed."""

    size: str
    beta: Beta
    marsaglia: Network
    marsaglia_runs: Repeats
    mini_sherpa: MiniSherpa

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def with_runs(self, repeats: int | None, traces: int | None) -> Settings:
        """With another number of repeated runs, or of traces in each, which then serve all weightings."""
        other = {} if repeats is None else {"repeats": repeats}
        if traces is not None:
            other |= {"traces": traces, "naive_traces": 0}
        return dataclasses.replace(
            self,
            marsaglia_runs=dataclasses.replace(self.marsaglia_runs, **other),
            mini_sherpa=dataclasses.replace(self.mini_sherpa, runs=dataclasses.replace(self.mini_sherpa.runs, **other)),
        )


_SETTINGS: Final = {
    "tiny": Settings(
        size="tiny",
        beta=Beta(tosses=(1, 10), traces=600, max_draws=600, epsilon=0.03),
        marsaglia=Network(traces=12_000, lstm_dim=32, batch_size=128, lr=3e-3),
        marsaglia_runs=Repeats(repeats=3, traces=150, naive_traces=400, epsilon=0.1, orderings=10),
        mini_sherpa=MiniSherpa(
            network=Network(traces=2_000, lstm_dim=16, batch_size=128, lr=3e-3, components=4),
            runs=Repeats(repeats=2, traces=100, epsilon=0.1, orderings=10),
            truth_traces=600,
            truth_chunk=300,
            truth_error=0.1,
            reference_points=4_000,
            truth_network=Network(traces=2_000, lstm_dim=8, batch_size=128, lr=3e-3, components=4),
        ),
    ),
    "quick": Settings(
        size="quick",
        beta=Beta(tosses=(1, 2, 3, 5, 8, 11, 15, 20, 25, 30), traces=4_000, max_draws=4_000),
        marsaglia=Network(traces=150_000, lstm_dim=128, batch_size=256),
        marsaglia_runs=Repeats(repeats=10, traces=2_000),
        mini_sherpa=MiniSherpa(
            network=Network(traces=60_000, lstm_dim=128, lstm_depth=1, batch_size=256, lr=2e-3),
            runs=Repeats(repeats=5, traces=2_000, epsilon=0.03),
            truth_traces=40_000,
            truth_chunk=10_000,
            truth_error=0.03,
            reference_points=60_000,
        ),
    ),
    "full": Settings(
        size="full",
        beta=Beta(tosses=tuple(range(1, 31)), traces=10_000),
        marsaglia=Network(traces=2_000_000, lstm_dim=512),
        marsaglia_runs=Repeats(repeats=10, traces=5_000, naive_traces=100_000),
        mini_sherpa=MiniSherpa(
            network=Network(traces=1_000_000, lstm_dim=512, lstm_depth=3),
            runs=Repeats(repeats=10, traces=5_000, naive_traces=10_000),
            truth_traces=400_000,
            truth_chunk=100_000,
            truth_error=0.02,
            reference_points=600_000,
            truth_network=Network(traces=400_000, lstm_dim=128),
        ),
    ),
}


def settings_for(size: str) -> Settings:
    """The settings of "tiny" (a test), "quick" (minutes) or "full" (hours)."""
    try:
        return _SETTINGS[size]
    except KeyError:
        raise ValueError(f"size must be one of {', '.join(SIZES)}, not {size!r}") from None
