"""The rounds of a refinement: draw, weigh, train, look whether it became better."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from typing import Final, NamedTuple, Protocol

import numpy as np

from ars.columns import Columns, Floats, Site
from ars.config import RefineConfig
from ars.diagnostics import ess
from ars.errors import TrainingError
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import Vocabulary
from ars.network.refine.learner import Learner, Material
from ars.network.refine.pool import Pool, Round, joined, kept_round, log_mean, tempered
from ars.network.train.batches import Batcher
from ars.seeds import named_seed

__all__ = ["Drawn", "Kept", "Outcome", "RoundReport", "Rounds", "Source", "Told", "Validation"]

_MATERIAL: Final = 8192  # prior traces of one round, at most
_FEW: Final = 10.0  # effective traces of a start that is no good: the prior is asked as well
_PRIOR_ROUND: Final = -1  # its number
_FAR: Final = 0.5  # a network whose share is less than this part of the best one's is given up
_OFTEN: Final = 0.9  # share of first tries that are accepted, above which loops need no runs under q
_COMPARED: Final = 4  # runs of the best network and of the start that decide between them, at most
_ATTEMPTS: Final = 3  # of a training whose loss is not finite
_FINAL_LR: Final = 0.03  # of the learning rate of the first round, after the last
_SLOWEST: Final = 0.1  # of the learning rate, however often a training was in vain
_SMALLER: Final = 0.2  # each with so much of the learning rate of the one before


class Drawn(NamedTuple):
    """Traces that a network proposed, with unbiased log weights."""

    columns: Columns
    sites: tuple[Site, ...]
    log_weights: Floats
    traces: int  # that were asked for; failed ones count


class Source(Protocol):
    """Where traces come from."""

    def draw(self, network: ProposalNetwork | None, traces: int, seed: int, R: int) -> Drawn:
        """Traces of the observation that this network proposes; None: the prior. R: accepted runs under q per loop
        entry."""

    def prior(self, traces: int, seed: int) -> Material:
        """Traces of the prior, with their own data."""


class RoundReport(NamedTuple):
    """One line of a refinement's history: a network that drew fresh traces, and the training that came of them."""

    round: int  # 0: the start
    traces: int  # drawn with the network of this round
    ess_share: float  # ESS/N of these
    log_evidence: float  # by these alone
    pooled_log_evidence: float = math.nan  # by all rounds together
    exponent: float = math.nan  # of the weights that were trained on; below 1: tempered. NaN: no training followed
    acceptance: float = 1.0  # share of loop entries whose first try was accepted
    loss: float = math.nan  # held out, weighted, after the training
    steps: int = 0  # of the optimizer
    best_step: int = 0  # after which the held-out loss was lowest; 0: before the first
    seconds: float = 0.0


class Kept(Protocol):
    """A folder that keeps finished steps, so that an interrupted refinement goes on; everything in it may be absent."""

    def drawn(self, number: int) -> tuple[Round, RoundReport] | None: ...

    def keep_drawn(self, number: int, drawn: Round, report: RoundReport) -> None: ...

    def network(self, number: int) -> tuple[ProposalNetwork, RoundReport] | None: ...

    def keep_network(self, number: int, network: ProposalNetwork, report: RoundReport) -> None: ...


class Told(Protocol):
    """Receives the progress of the rounds."""

    def report(self, report: RoundReport) -> None: ...

    def training(self, step: int, steps: int) -> None: ...


class Outcome(NamedTuple):
    """What a refinement gave."""

    network: ProposalNetwork | None  # None: the prior, which it started from, is no worse
    reports: tuple[RoundReport, ...]
    best: int  # round whose network it is; 0: the start
    refined: Validation  # of the best network that was trained, on fresh traces; of the start if none was
    start: Validation
    problem: str  # why it ended early, or failed; "" if all went well

    @property
    def improved(self) -> bool:
        return self.best > 0


class Validation(NamedTuple):
    """Fresh traces of one network."""

    ess_share: float
    log_evidence: float

    def score(self, pooled: float) -> float:
        """The effective share, less what a mode that was lost takes away.

        The effective share alone does not show a lost mode; that these traces see less evidence than all rounds
        together does.
        """
        if not math.isfinite(self.log_evidence) or not math.isfinite(pooled):
            return self.ess_share if math.isfinite(self.log_evidence) else 0.0
        return self.ess_share * math.exp(2.0 * min(self.log_evidence - pooled, 0.0))


def _validation(log_weights: Floats, traces: int) -> Validation:
    """Of so many traces; those that are missing were dropped because they failed."""
    finite = log_weights[np.isfinite(log_weights)]
    share = ess(finite) / traces if len(finite) else 0.0
    return Validation(share, log_mean(finite, traces))


class Rounds:
    """A refinement that is under way.

    Parameters
    ----------
    start : ProposalNetwork
        What is refined; it stays as it is.
    source : Source
        Where traces come from.
    learner : Learner
        Trains.
    config : RefineConfig
        With a seed.
    kept : Kept or None
        Keeps finished steps.
    told : Told
        Receives a report of every round.
    from_prior : bool
        The prior draws the first round, and is what the result must be better than; ``start`` is a network that has
        learnt nothing (default: False).
    """

    def __init__(
        self,
        start: ProposalNetwork,
        source: Source,
        learner: Learner,
        config: RefineConfig,
        kept: Kept | None,
        told: Told,
        *,
        from_prior: bool = False,
    ) -> None:
        assert config.seed is not None
        self._source, self._learner, self._config = source, learner, config
        self._seed = config.seed
        self._kept, self._told = kept, told
        self._start = None if from_prior else start  # None: the prior, here and below
        self._first = _with_defensive(start, config.defensive)
        self._networks: list[ProposalNetwork | None] = [None if from_prior else self._first]
        self._of_round: list[int] = []  # the network of each round, as an index of these
        self._pool = Pool()
        self._reports: list[RoundReport] = []
        self._problem = ""

    def run(self) -> Outcome:
        c = self._config
        for number in range(c.rounds + 1):
            self._draw(number)
            if self._finished() or number == c.rounds:
                break
            try:
                self._train(number)
            except TrainingError as error:
                self._problem = f"round {number + 1}: {error}"
                break
        return self._chosen()

    # ---- one round ---------------------------------------------------------------------------------------------------

    def _draw(self, number: int) -> None:
        """Fresh traces of the latest network, which show how good it is, and which the next one is trained on."""
        kept, report = self._drawn(number, self._networks[-1])
        self._take(kept, len(self._networks) - 1)
        if number == 0 and self._start is not None and report.ess_share * report.traces < _FEW:
            # The prior may find what a useless start does not.
            self._networks.insert(0, None)
            self._of_round = [network + 1 for network in self._of_round]
            self._take(self._drawn(_PRIOR_ROUND, None)[0], 0)
        self._reports.append(report._replace(pooled_log_evidence=self._pool.log_evidence()))
        self._told.report(self._reports[-1])

    def _drawn(self, number: int, network: ProposalNetwork | None) -> tuple[Round, RoundReport]:
        """The traces of one round: as many runs as it takes for enough effective ones, up to the limit."""
        found = None if self._kept is None else self._kept.drawn(number)
        if found is not None:
            return found
        c, began = self._config, time.monotonic()
        parts: list[Round] = []
        log_weights: list[Floats] = []
        first = entries = 0
        while True:
            seed = named_seed(self._seed, "round", number, len(parts))
            drawn = self._source.draw(network, c.traces, seed, self._runs_under_q())
            first += int(np.count_nonzero(drawn.columns.loops["tries"] == 1))
            entries += len(drawn.columns.loops)
            parts.append(kept_round(drawn.columns, drawn.sites, drawn.log_weights, drawn.traces, c.effective / c.most))
            log_weights.append(drawn.log_weights)
            traces = len(parts) * c.traces
            seen = _validation(np.concatenate(log_weights), traces)
            if seen.ess_share * traces >= c.effective or len(parts) >= c.most:
                break
        kept = joined(parts)
        report = RoundReport(
            number,
            traces,
            seen.ess_share,
            seen.log_evidence,
            acceptance=first / entries if entries else 1.0,
            seconds=time.monotonic() - began,
        )
        if self._kept is not None:
            self._kept.keep_drawn(number, kept, report)
        return kept, report

    def _runs_under_q(self) -> int:
        """R: 0 where nearly every first try is accepted, which alone is then a good estimate, and asks no network. The
        round before decides, so the traces that it is for have no say."""
        often = bool(self._reports) and self._reports[-1].acceptance >= _OFTEN
        return 0 if often else self._config.R

    def _take(self, drawn: Round, network: int) -> None:
        """Adds traces to the pool, with the densities of all networks."""
        rows = self._pool.add(drawn)
        self._of_round.append(network)
        self._grow(drawn.columns, drawn.sites)
        latest = len(self._of_round) - 1
        for i, which in enumerate(self._of_round):
            those = np.arange(len(self._pool)) if i == latest else rows
            self._pool.log_q[i, those] = self._learner.log_q(self._networks[which], self._pool, those)

    def _grow(self, columns: Columns, sites: tuple[Site, ...]) -> None:
        """Sites that no network has met: all get them, so that the densities of all can be computed."""
        batcher = Batcher(self._first.vocabulary.copy(), self._first.observation_shapes)
        if batcher.meet(columns, sites):
            self._grow_to(batcher.vocabulary)

    def _grow_to(self, vocabulary: Vocabulary) -> None:
        for network in (self._first, *self._networks):
            if network is not None and network.vocabulary != vocabulary:
                network.grow(vocabulary)

    def _train(self, number: int) -> None:
        """The next network."""
        found = None if self._kept is None else self._kept.network(number)
        if found is not None:
            network, report = found
            self._grow_to(network.vocabulary)
        else:
            network, report = self._trained(number)
            if self._kept is not None:
                self._kept.keep_network(number, network, report)
        self._networks.append(network)
        self._reports[-1] = report

    def _trained(self, number: int) -> tuple[ProposalNetwork, RoundReport]:
        c, began = self._config, time.monotonic()
        exponent, weights = tempered(self._pool.pooled(), c.effective)
        begin = self._begin()
        if c.aim and exponent == 1.0:
            _, weights = tempered(self._pool.aimed(self._of_round.index(begin), c.aim), c.effective)
        material = None
        if c.prior_share:
            material = self._source.prior(min(c.traces, _MATERIAL), named_seed(self._seed, "prior", number))
            self._grow(material.columns, material.sites)
        start = self._networks[begin] or self._first
        for attempt in range(_ATTEMPTS):
            try:
                fitted = self._learner.fit(
                    start,
                    self._pool,
                    weights,
                    material,
                    named_seed(self._seed, "fit", number, attempt),
                    self._told.training,
                    scale=self._slower() * _SMALLER**attempt,
                )
                break
            except TrainingError:
                if attempt == _ATTEMPTS - 1:
                    raise
        report = self._reports[-1]
        spent = report.seconds + time.monotonic() - began
        return fitted.network, report._replace(
            exponent=exponent, loss=fitted.loss, steps=fitted.steps, best_step=fitted.best, seconds=spent
        )

    def _slower(self) -> float:
        """Of the learning rate: it falls along a cosine over the rounds, and is half as much after every training that
        made the held-out loss no lower."""
        vain = sum(report.steps > 0 and report.best_step == 0 for report in self._reports)
        fallen = 0.5 * (1 + math.cos(math.pi * (len(self._reports) - 1) / self._config.rounds))
        return max(0.5**vain, _SLOWEST) * (_FINAL_LR + (1 - _FINAL_LR) * fallen)

    # ---- which is best -----------------------------------------------------------------------------------------------

    def _scores(self) -> list[float]:
        pooled = self._pool.log_evidence()
        return [Validation(r.ess_share, r.log_evidence).score(pooled) for r in self._reports]

    def _index(self, number: int) -> int:
        """Where the network of a round is."""
        return len(self._networks) - len(self._reports) + number

    def _begin(self) -> int:
        """The network that the next training starts from: the latest, unless an earlier one is far better."""
        scores = self._scores()
        best = int(np.argmax(scores))
        return self._index(best if scores[-1] < _FAR * scores[best] else len(scores) - 1)

    def _finished(self) -> bool:
        c, scores = self._config, self._scores()
        if not np.isfinite(self._pool.log_weights).any():
            self._problem = (
                f"none of {int(self._pool.counts.sum()):,} traces has a weight above 0, so there is nothing to train on"
            )
            return True
        best = int(np.argmax(scores))
        return scores[best] >= c.enough or len(scores) - 1 - best >= c.patience

    def _chosen(self) -> Outcome:
        """The best network, if it is better than the start on fresh traces of both."""
        scores = self._scores()
        best = int(np.argmax(scores))
        seen = [Validation(r.ess_share, r.log_evidence) for r in self._reports]
        if best == 0:
            tried = seen[1 + int(np.argmax(scores[1:]))] if len(seen) > 1 else seen[0]
            return Outcome(self._start, tuple(self._reports), 0, tried, seen[0], self._problem)
        network = self._networks[self._index(best)]
        assert network is not None
        refined, start = self._compared(network), self._compared(self._start)
        pooled = self._pool.log_evidence()
        if refined.score(pooled) > start.score(pooled):
            return Outcome(network, tuple(self._reports), best, refined, start, self._problem)
        return Outcome(self._start, tuple(self._reports), 0, refined, start, self._problem)

    def _compared(self, network: ProposalNetwork | None) -> Validation:
        """Fresh traces, more than in a round: few of a network that learnt too much by heart do not show its rare large
        weights."""
        c, runs = self._config, min(_COMPARED, self._config.most)
        seeds = [named_seed(self._seed, "comparison", *([i] if i else [])) for i in range(runs)]
        drawn = [self._source.draw(network, c.traces, seed, c.R).log_weights for seed in seeds]
        return _validation(np.concatenate(drawn), runs * c.traces)


def _with_defensive(network: ProposalNetwork, share: float) -> ProposalNetwork:
    """A copy with another share of the prior in its proposals, if that is smaller."""
    made = copy.deepcopy(network)
    made.config = dataclasses.replace(network.config, defensive=min(share, network.config.defensive))
    return made.eval()
