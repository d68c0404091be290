"""Every budget finds the exact evidence of real simulators, and every known mistake fails the same test.

A z-score is the distance of one estimate from the truth, in standard errors. A run with a fixed budget gives 100 of
them: its traces are independent, so blocks of them are too. A budget that decides itself by its first traces needs 100
runs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from build_helpers import COMPILERS, Builder, Variant
from fit_programs import fit
from program_author import generate
from program_source import to_c_file
from programs import C_FILE, Program
from proposals import proposals
from reference import infer_loops_prior

import ars
import exact
from ars.columns import Columns
from ars.planning.entries import entries_of
from ars.planning.roulette import kept
from ars.weights import log_weight_biased
from exactness import assert_exact, findings, is_exact

Floats = npt.NDArray[np.float64]

BLOCKS = 100
PER_BLOCK = 40
AUTO_TRACES = 120
WORKERS = 32  # more of them, fewer messages
SEED = 20261118

CASES = {
    case.command[0]: case
    for case in (
        exact.beta_bernoulli(10),
        exact.truncated_normal("a"),
        exact.nested(),
        exact.recursive(1),
        exact.sequence(),
        exact.branching(),
    )
}
FIXED = {
    "R=0": ars.Budget(M=1, R=0),
    "R=1": ars.Budget(M=1, R=1),
    "R=3": ars.Budget(M=2, R=3),
    "paper": ars.Budget(M=1, N=4),
    "reuse": ars.Budget(M=1, N=4, reuse=True),
}
PHASES = (1, 2, None)
# Two phases for all; one phase, and a free choice, take turns.
AUTO = [(name, phases) for i, name in enumerate(CASES) for phases in (2, (1, None)[i % 2])]


def scores(weights: Sequence[Floats], evidence: float) -> Floats:
    """One z-score per array of weights. They share one variance: that of few skewed weights says little by itself."""
    variance = float(np.mean([np.var(w, ddof=1) for w in weights]))
    return np.array([(w.mean() - evidence) / math.sqrt(variance / len(w)) for w in weights])


def blocks(log_weights: Floats, count: int = BLOCKS) -> list[Floats]:
    return np.split(np.exp(log_weights), count)


def posterior(sim: ars.Simulator, case: exact.Case, traces: int, budget: object, seed: int) -> ars.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.SupportWarning)
        return sim.posterior(
            case.observed,
            traces,
            proposals=case.proposals(ars),
            budget=budget,  # type: ignore[arg-type]
            seed=seed,
        )


@pytest.fixture
def started_case(
    csim: Callable[[str], str], started: Callable[[ars.Simulator], ars.Simulator]
) -> Callable[[exact.Case], ars.Simulator]:
    return lambda case: started(ars.Simulator([csim(case.command[0]), *case.command[1:]], workers=WORKERS))


# ---- fixed budgets ---------------------------------------------------------------------------------------------------


def corrected(columns: Columns, q_accept: Floats, tries_p: Floats) -> Floats:
    """Log weights with these estimates of q(A) and 1/p(A) per loop entry."""
    rows = np.repeat(np.arange(len(columns.traces)), columns.traces["n_loops"])
    with np.errstate(divide="ignore"):
        factors = np.log(q_accept * tries_p)
    return np.asarray(log_weight_biased(columns) + np.bincount(rows, factors, minlength=len(columns.traces)))


def mistakes(runs: Mapping[str, ars.Posterior]) -> dict[str, Floats]:
    """Log weights that an implementation could make of the same continuations."""
    loops = {name: post.columns.loops for name, post in runs.items()}
    columns, tries = runs["R=3"].columns, loops["R=3"]["tries"].astype(np.float64)
    for other in loops.values():  # the main run does not depend on the budget
        np.testing.assert_array_equal(other["tries"], tries)
    estimated = loops["R=3"]["runs_p"] > 0  # others are exact: nothing is proposed in them
    inverse_p = np.where(estimated, loops["R=3"]["tries_p"] / np.maximum(loops["R=3"]["runs_p"], 1), 1.0)
    tries[~estimated] = 1.0
    by_r = {R: R / np.where(estimated, tries + loops[f"R={R}"]["tries_q"] - 1.0, R) for R in (1, 3)}
    two_over_s = np.where(estimated, 2.0 / (tries + loops["R=1"]["tries_q"]), 1.0)
    return {
        "biased": log_weight_biased(columns),
        "1/L": corrected(columns, 1.0 / tries, inverse_p),
        "2/S": corrected(columns, two_over_s, inverse_p),
        "R chosen by L": corrected(columns, np.where(tries == 1, by_r[1], by_r[3]), inverse_p),
    }


@pytest.mark.parametrize("name", CASES)
def test_fixed_budgets_are_exact_and_mistakes_are_not(
    started_case: Callable[[exact.Case], ars.Simulator], name: str
) -> None:
    case = CASES[name]
    sim = started_case(case)
    runs = {key: posterior(sim, case, BLOCKS * PER_BLOCK, budget, SEED) for key, budget in FIXED.items()}
    found = {key: findings(scores(blocks(post.log_weights()), case.evidence)) for key, post in runs.items()}
    assert not any(found.values()), found
    for mistake, log_weights in mistakes(runs).items():
        assert not is_exact(scores(blocks(log_weights), case.evidence)), mistake


# ---- budgets that decide themselves ----------------------------------------------------------------------------------


@pytest.fixture
def decided_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans by few traces, and roulette among few: in runs of the usual size both leave less to chance."""
    monkeypatch.setattr("ars.inference.pilot.FIRST", (30, 1000))
    monkeypatch.setattr("ars.planning.choose._KEEP_AT_LEAST", 10)


class Roulette(NamedTuple):
    """The traces of a run in two phases."""

    log_a: Floats
    log_weights: Floats
    log_keep: Floats

    @classmethod
    def of(cls, post: ars.Posterior) -> Roulette:
        log_a = log_weight_biased(post.columns)
        assert isinstance(post.budget, ars.ChosenBudget)
        decision = post.budget.decide(log_a, entries_of(post.columns, post.sites, post.run.exact))
        return cls(log_a, post.log_weights(), decision.log_keep)

    @property
    def log_factor(self) -> Floats:
        """What the estimates of a kept trace multiply its weight by."""
        known = self.log_weights > -np.inf
        return np.where(known, np.where(known, self.log_weights, 0.0) + self.log_keep - self.log_a, 0.0)


def divided_by_own(post: ars.Posterior) -> Floats:
    """The weight is divided by the probability that the corrected weight has, not by the one that kept it."""
    it = Roulette.of(post)
    own = it.log_a + it.log_factor - np.minimum(it.log_keep + it.log_factor, 0)
    return np.where(it.log_weights > -np.inf, own, -np.inf)


def dropped_by_own(post: ars.Posterior) -> Floats:
    """A kept trace whose corrected weight is small has to pass the roulette again."""
    it = Roulette.of(post)
    again = kept(post.run.seed, post.trace_numbers.astype(np.uint64), it.log_keep + np.minimum(it.log_factor, 0))
    return np.where(again, it.log_weights, -np.inf)


ROULETTE_MISTAKES = {"divided by own": divided_by_own, "dropped by own": dropped_by_own}


@pytest.mark.slow
@pytest.mark.usefixtures("decided_early")
@pytest.mark.parametrize(("name", "phases"), AUTO)
def test_auto_is_exact(started_case: Callable[[exact.Case], ars.Simulator], name: str, phases: int | None) -> None:
    case = CASES[name]
    sim = started_case(case)
    budget = ars.Budget.auto(phases=phases)
    runs = [posterior(sim, case, AUTO_TRACES, budget, seed) for seed in range(SEED, SEED + BLOCKS)]
    assert_exact(scores([np.exp(post.log_weights()) for post in runs], case.evidence))
    assert not is_exact(scores([np.exp(post.log_weights("biased")) for post in runs], case.evidence))
    if phases == 2:
        for mistake, weights in ROULETTE_MISTAKES.items():
            assert not is_exact(scores([np.exp(weights(post)) for post in runs], case.evidence)), mistake


# ---- random programs -------------------------------------------------------------------------------------------------

PROGRAMS = 50
PROGRAM_SEED = 12  # of programs on which ignoring q(A)/p(A) is off by 15% on average
PER_PROGRAM = 4  # traces of every program in a block
REFERENCE_TRACES = 20_000


@pytest.fixture
def programs_built(tmp_path: Path) -> tuple[list[Program], str]:
    """All programs, and one executable whose argument says which of them runs."""
    made = [generate(PROGRAM_SEED, index, fit) for index in range(PROGRAMS)]
    source = tmp_path / C_FILE
    source.write_text(to_c_file(made), encoding="utf-8")
    variant = Variant(COMPILERS[0], ("-O1", "-Wno-unused"))
    return made, str(Builder(tmp_path / "build").program([source], variant))


def program_weights(program: Program, executable: str, budgets: Mapping[str, object]) -> dict[str, Floats]:
    """Weights by every budget and by every mistake, over the evidence. The reference proposes by the prior inside
    loops, so its evidence needs no estimates."""
    reference = infer_loops_prior(program, REFERENCE_TRACES, seed=program.index).log_weights("biased")
    evidence = float(np.exp(reference).mean())
    observe = {name: values[0] if len(values) == 1 else list(values) for name, values in program.data.items()}
    with ars.Simulator([executable, str(program.index)], workers=WORKERS) as sim, warnings.catch_warnings():
        # An interval whose ends numpy and libm compute from the same values may differ in the last bit.
        warnings.simplefilter("ignore", ars.SupportWarning)
        runs = {
            name: sim.posterior(
                observe,
                BLOCKS * PER_PROGRAM,
                proposals=proposals(program),
                budget=budget,  # type: ignore[arg-type]
                seed=1000 + program.index,
            )
            for name, budget in budgets.items()
        }
    log_weights = {name: post.log_weights() for name, post in runs.items()} | mistakes(runs)
    return {name: np.exp(found) / evidence for name, found in log_weights.items()}


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("decided_early")
def test_random_programs_agree_with_their_reference(programs_built: tuple[list[Program], str]) -> None:
    """A block has a few traces of every program, so that its weights are many and its variance is well known."""
    budgets = {**FIXED, **{f"auto, phases={phases}": ars.Budget.auto(phases=phases) for phases in PHASES}}
    weights = [program_weights(program, programs_built[1], budgets) for program in programs_built[0]]
    in_blocks = {
        name: np.concatenate([each[name].reshape(BLOCKS, PER_PROGRAM) for each in weights], axis=1)
        for name in weights[0]
    }
    z = {name: scores(list(found), 1.0) for name, found in in_blocks.items()}
    found = {name: findings(z[name]) for name in budgets}
    assert not any(found.values()), found
    for mistake in set(z) - set(budgets):
        assert not is_exact(z[mistake]), mistake
