"""Every weighting against Definitions 1-3 written out in Python, on a model whose evidence is a finite sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, pack

from ars import weights
from ars.budget import Budget, ChosenBudget, Level
from ars.columns import Columns
from ars.diagnostics import log_evidence
from ars.errors import WeightError
from ars.planning.entries import entries_of
from ars.weights import EntryValues

# x is 0 or 1; z is 0..3, drawn again until z > x; y given (x, z) has likelihood LIKELIHOOD[x][z].
P_X, Q_X = [0.3, 0.7], [0.6, 0.4]
P_Z = [[0.1, 0.2, 0.3, 0.4], [0.3, 0.3, 0.2, 0.2]]
Q_Z = [[0.4, 0.3, 0.2, 0.1], [0.4, 0.4, 0.1, 0.1]]  # accepts less often than the prior, in both states
LIKELIHOOD = [[0.0, 0.5, 1.5, 0.2], [0.0, 0.0, 0.9, 2.5]]
X, Z, LOOP = 0, 1, 2
SITES = [latent(X, "x"), latent(Z, "until/z"), loop_site(LOOP, "until")]


def accepted(x: int, z: int) -> bool:
    return z > x


P_A = [sum(P_Z[x][z] for z in range(4) if accepted(x, z)) for x in (0, 1)]
Q_A = [sum(Q_Z[x][z] for z in range(4) if accepted(x, z)) for x in (0, 1)]
EVIDENCE = sum(P_X[x] * P_Z[x][z] / P_A[x] * LIKELIHOOD[x][z] for x in (0, 1) for z in range(4) if accepted(x, z))


class Run(NamedTuple):
    columns: Columns
    ic: list[float]
    collapsed: list[float]
    ars: list[float]


def run(n: int, M: int, N: int, seed: int) -> Run:
    """Definitions 1-3, trace by trace, in linear space, beside what the simulator would record."""
    rng = np.random.default_rng(seed)
    traces, ic, collapsed, ars = [], [], [], []

    def draw(probabilities: list[float]) -> int:
        return int(rng.choice(len(probabilities), p=probabilities))

    for number in range(n):
        x = draw(Q_X)
        zs = [draw(Q_Z[x])]
        while not accepted(x, zs[-1]):
            zs.append(draw(Q_Z[x]))
        z = zs[-1]
        fresh = [draw(Q_Z[x]) for _ in range(N)]
        K = sum(accepted(x, other) for other in fresh)
        T = []
        for _ in range(M):
            T.append(1)
            while not accepted(x, draw(P_Z[x])):
                T[-1] += 1
        base = P_X[x] / Q_X[x] * LIKELIHOOD[x][z]
        w = [P_Z[x][k] / Q_Z[x][k] for k in range(4)]
        ic.append(base * math.prod(w[k] for k in zs))
        collapsed.append(base * (P_Z[x][z] / P_A[x]) / (Q_Z[x][z] / Q_A[x]))
        ars.append(base * K * (sum(T) / M) / N * w[z])
        traces.append(
            Trace(
                number,
                math.log(LIKELIHOOD[x][z]),
                samples=[
                    Sample(X, x, log_p=math.log(P_X[x]), log_q=math.log(Q_X[x])),
                    Sample(Z, z, loop=0, log_p=math.log(P_Z[x][z]), log_q=math.log(Q_Z[x][z])),
                ],
                loops=[
                    Loop(
                        LOOP,
                        tries=len(zs),
                        log_ratio_rejected=sum(math.log(w[k]) for k in zs[:-1]),
                        tries_q=N,
                        accepted_q=K,
                        runs_p=M,
                        tries_p=sum(T),
                        s_pq_sum=sum(w[k] ** 2 for k in fresh if not accepted(x, k)),
                    )
                ],
            )
        )
    return Run(pack(traces), ic, collapsed, ars)


@pytest.fixture(scope="module")
def small() -> Run:
    return run(4000, M=2, N=3, seed=5)


def test_each_weight_equals_its_definition(small: Run) -> None:
    assert 0.0 in small.ars, "some K must be 0, or the test misses that case"
    np.testing.assert_allclose(np.exp(weights.log_weight_ic(small.columns)), small.ic, rtol=1e-12)
    np.testing.assert_allclose(np.exp(weights.log_weight_ars(small.columns)), small.ars, rtol=1e-12)
    given = {"pA": {"until": lambda t: np.array(P_A)[t["x"].astype(int)]}, "qA": {"until": by_x(Q_A)}}
    found = weights.log_weight_collapsed(small.columns, SITES, **given)
    np.testing.assert_allclose(np.exp(found), small.collapsed, rtol=1e-12)


def by_x(table: list[float]) -> Callable[[EntryValues], np.ndarray]:
    return lambda values: np.array(table)[values["x"].astype(int)]


def test_all_but_biased_find_the_evidence(small: Run) -> None:
    collapsed = weights.log_weight_collapsed(small.columns, SITES, {"until": by_x(P_A)}, {"until": by_x(Q_A)})
    for log_weights in (weights.log_weight_ic(small.columns), weights.log_weight_ars(small.columns), collapsed):
        assert abs(log_evidence(log_weights).distance(EVIDENCE)) < 3
    assert abs(log_evidence(weights.log_weight_biased(small.columns)).distance(EVIDENCE)) > 10


def test_collapsed_takes_numbers_arrays_functions_and_addresses(small: Run) -> None:
    x = small.columns.samples["value"][::2].astype(int)
    as_arrays = weights.log_weight_collapsed(
        small.columns, SITES, {"until": np.array(P_A)[x]}, {"until": np.array(Q_A)[x]}
    )
    np.testing.assert_allclose(np.exp(as_arrays), small.collapsed, rtol=1e-12)
    halved = weights.log_weight_collapsed(small.columns, SITES, {"until": 0.5}, {"until": 0.25})
    np.testing.assert_allclose(halved, weights.log_weight_biased(small.columns) + math.log(0.5))


@pytest.mark.parametrize(
    ("pA", "qA", "message"),
    [
        ({}, {"until": 0.5}, r'need p\(A\) of loop "until": give it under "until"'),
        ({"until": 0.5}, {"until": 1.5}, r'q\(A\) of loop "until" must be a probability, not 1.5'),
        ({"until": math.nan}, {"until": 0.5}, "must be a probability, not nan"),
        ({"until": 0.0}, {"until": 0.5}, r'p\(A\) of loop "until" is 0'),
        ({"until": [0.5, 0.5]}, {"until": 0.5}, "must be one number or 4000, one per entry"),
    ],
)
def test_collapsed_refuses_what_is_no_probability(small: Run, pA: dict, qA: dict, message: str) -> None:
    with pytest.raises(WeightError, match=message):
        weights.log_weight_collapsed(small.columns, SITES, pA, qA)


def test_collapsed_with_several_loops_and_instances() -> None:
    sites = [latent(0, "a"), loop_site(1, "one"), loop_site(2, "one/in"), loop_site(3, "two/in")]
    packed = pack(
        [
            Trace(0, samples=[Sample(0, 0.5)], loops=[Loop(1), Loop(2, parent=0), Loop(2, instance=1, parent=0)]),
            Trace(1, samples=[Sample(0, 0.25)]),
            Trace(2, samples=[Sample(0, 0.8)], loops=[Loop(1), Loop(3)]),
        ]
    )
    with pytest.raises(WeightError, match=r'several loops are named "in".*"one/in", "two/in"'):
        weights.log_weight_collapsed(packed, sites, {"one": 1.0, "in": 0.5}, {"one": 1.0, "in": 0.5})

    def by_instance(values: EntryValues) -> np.ndarray:
        assert set(values) == {"a"}
        assert len(values) == 1
        return np.where(values.instance == 0, values["a"], 0.1)

    found = weights.log_weight_collapsed(
        packed, sites, {"one": 0.5, "one/in": by_instance, "two/in": 0.2}, {"one": 1.0, "one/in": 1.0, "two/in": 0.0}
    )
    np.testing.assert_allclose(found, [math.log(2 / 0.5 / 0.1), 0.0, -math.inf])


def test_loops_multiply_and_no_accepted_try_makes_the_weight_zero() -> None:
    loops = [
        Loop(LOOP, tries_q=10, accepted_q=4, runs_p=2, tries_p=7),
        Loop(LOOP, instance=1, tries_q=5, accepted_q=5, runs_p=1, tries_p=3),
    ]
    none = Loop(LOOP, tries_q=10, accepted_q=0, runs_p=1, tries_p=1)
    packed = pack([Trace(0, -1.5, loops=loops), Trace(1, 2.0), Trace(2, loops=[loops[0], none])])
    expected = [math.log(0.4 * 3.5 * 1.0 * 3.0) - 1.5, 2.0, -math.inf]
    np.testing.assert_allclose(weights.log_weight_ars(packed), expected)


def test_a_failed_trace_weighs_nothing() -> None:
    packed = pack([Trace(0, 1.0), Trace(1, failure=1), Trace(2, 2.0)])
    for found in (
        weights.log_weight_ars(packed),
        weights.log_weight_ic(packed),
        weights.log_weight_biased(packed),
        weights.log_weight_prior(packed, "prior"),
        weights.log_weight_collapsed(packed, SITES, {}, {}),
    ):
        assert found.tolist() == [1.0, -math.inf, 2.0]


def test_ars_without_estimates_names_the_loop() -> None:
    packed = pack([Trace(0, loops=[Loop(LOOP)])])
    with pytest.raises(WeightError, match=r'did not make for "until"\. Run again with a budget'):
        weights.log_weight_ars(packed, SITES)


def test_a_trace_of_weight_zero_needs_no_estimates() -> None:
    packed = pack([Trace(0, -math.inf, loops=[Loop(LOOP)]), Trace(1, failure=1, loops=[Loop(LOOP)]), Trace(2, 0.5)])
    for budget in (None, Budget(), Budget(reuse=True), Budget(R=1), two_phases()):
        found = weights.log_weight_ars(packed, SITES, budget=budget)
        assert found.tolist() == [-math.inf, -math.inf, 0.5]


# ---- budgets --------------------------------------------------------------------------------------------------------


def two_phases(log_price: float = 0.0) -> ChosenBudget:
    levels = (Level(2, 2, 0.5, 20.0), Level(1, 0, 1.0, 5.0))
    return ChosenBudget(2, {"until": levels}, levels, 10.0, log_price)


def one_phase() -> ChosenBudget:
    return ChosenBudget(1, {}, (Level(1, 1, 0.5, 20.0),), 10.0, 0.0)


def test_the_paper_s_weights_are_the_same_bits_as_ever(small: Run) -> None:
    loops, traces = small.columns.loops, small.columns.traces
    with np.errstate(divide="ignore"):
        log_k = np.log(loops["accepted_q"].astype(np.float64))
    correction = log_k + np.log(loops["tries_p"] / loops["runs_p"]) - np.log(loops["tries_q"].astype(np.float64))
    expected = traces["log_ratio_accepted"] + traces["log_likelihood"] + correction  # one loop per trace
    for given in ({}, {"budget": None}, {"budget": Budget(2, 3)}):
        assert weights.log_weight_ars(small.columns, SITES, **given).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("budget", "loop", "factor"),
    [
        (Budget(2, 5), Loop(LOOP, tries=1, tries_q=5, accepted_q=3, runs_p=2, tries_p=7), 3 / 5 * 3.5),
        (Budget(2, 5, reuse=True), Loop(LOOP, tries=1, tries_q=5, accepted_q=3, runs_p=2, tries_p=7), 4 / 6 * 3.5),
        (Budget(2, 5, reuse=True), Loop(LOOP, tries=4, tries_q=5, accepted_q=3, runs_p=2, tries_p=7), 3 / 6 * 3.5),
        (Budget(2, 5, reuse=True), Loop(LOOP, tries=4, tries_q=5, accepted_q=0, runs_p=2, tries_p=7), 0.0),
        (Budget(2, 5, reuse=True), Loop(LOOP, tries=1, tries_q=5, accepted_q=0, runs_p=2, tries_p=7), 1 / 6 * 3.5),
        (Budget(2, R=0), Loop(LOOP, tries=1, runs_p=2, tries_p=7), 3.5),
        (Budget(2, R=0), Loop(LOOP, tries=2, runs_p=2, tries_p=7), 0.0),
        (Budget(2, R=1), Loop(LOOP, tries=1, tries_q=1, accepted_q=1, runs_p=2, tries_p=7), 3.5),
        (Budget(2, R=3), Loop(LOOP, tries=2, tries_q=5, accepted_q=3, runs_p=2, tries_p=7), 3 / 6 * 3.5),
        (one_phase(), Loop(LOOP, tries=2, tries_q=5, accepted_q=3, runs_p=2, tries_p=7), 3 / 6 * 3.5),
        (one_phase(), Loop(LOOP, tries=1, runs_p=2, tries_p=7), 3.5),
    ],
)
def test_each_estimator_equals_its_definition(budget: Budget | ChosenBudget, loop: Loop, factor: float) -> None:
    found = weights.log_weight_ars(pack([Trace(0, 1.5, loops=[loop])]), SITES, budget=budget)
    np.testing.assert_allclose(np.exp(found), [math.exp(1.5) * factor], rtol=1e-14)


def test_exact_loops_need_no_estimates_and_have_factor_one() -> None:
    sites = [loop_site(0, "a"), loop_site(1, "b")]
    noisy = Loop(0, tries_q=10, accepted_q=4, runs_p=2, tries_p=7)
    packed = pack([Trace(0, 1.0, loops=[Loop(0), Loop(1, tries_q=2, accepted_q=1, runs_p=1, tries_p=3)])])
    assert weights.log_weight_ars(packed, sites, exact={"a"}) == pytest.approx(1.0 + math.log(1.5))
    with pytest.raises(WeightError, match='did not make for "a"'):
        weights.log_weight_ars(packed, sites, exact={"b"})
    all_exact = pack([Trace(0, 0.1, samples=[Sample(2, 0.0, log_p=0.3)], loops=[noisy, Loop(1)])])
    found = weights.log_weight_ars(all_exact, sites, exact={"a", "b"}, budget=two_phases())
    assert found.tobytes() == weights.log_weight_prior(all_exact, "prior").tobytes()


def test_after_two_phases_kept_traces_are_divided_by_their_probability() -> None:
    estimated = Loop(LOOP, tries=2, tries_q=5, accepted_q=3, runs_p=2, tries_p=7)
    log_a = [-1.0, -1.0, 9.0, 0.25, -math.inf]
    loops = [[estimated, estimated], [Loop(LOOP), Loop(LOOP)], [estimated], [], [Loop(LOOP)]]
    packed = pack([Trace(i, a, loops=each) for i, (a, each) in enumerate(zip(log_a, loops, strict=True))])
    budget = two_phases()
    log_keep = budget.decide(np.array(log_a), entries_of(packed, SITES)).log_keep
    assert log_keep[0] < -1.0
    assert log_keep[2] == log_keep[3] == 0.0
    log_factor = math.log(3 / 6 * 3.5)
    expected = [-1.0 + 2 * log_factor - log_keep[0], -math.inf, 9.0 + log_factor, 0.25, -math.inf]
    np.testing.assert_allclose(weights.log_weight_ars(packed, SITES, budget=budget), expected, rtol=1e-14)


def test_a_trace_that_was_kept_has_all_estimates() -> None:
    estimated = Loop(LOOP, tries_q=5, accepted_q=3, runs_p=2, tries_p=7)
    packed = pack([Trace(0, loops=[estimated, Loop(LOOP)])])
    with pytest.raises(WeightError, match='did not make for "until"'):
        weights.log_weight_ars(packed, SITES, budget=two_phases())


def test_in_one_phase_every_trace_has_estimates() -> None:
    with pytest.raises(WeightError, match='did not make for "until"'):
        weights.log_weight_ars(pack([Trace(0, loops=[Loop(LOOP)])]), SITES, budget=one_phase())
    tries_only = Loop(LOOP, tries=1, runs_p=1, tries_p=1)  # R = 0 is no estimate of the paper
    with pytest.raises(WeightError, match='did not make for "until"'):
        weights.log_weight_ars(pack([Trace(0, loops=[tries_only])]), SITES, budget=Budget())


def test_prior_weights_need_a_prior_run() -> None:
    packed = pack([Trace(0, 0.5, loops=[Loop(LOOP)])])
    assert weights.log_weight_prior(packed, "prior").tolist() == weights.log_weight_ic(packed).tolist() == [0.5]
    with pytest.raises(WeightError, match='need a run with in_loops="prior"'):
        weights.log_weight_prior(packed, "proposal")
