"""The plan: which loops and traces are estimated, with how much, and for which reason."""

from __future__ import annotations

import math

import numpy as np
import pytest
from column_builder import Loop, Trace, latent, loop_site, pack

from ars import _native
from ars.budget import Budget, ChosenBudget, Costs, Level, budget_from_json, budget_to_json
from ars.distributions import Uniform
from ars.planning import variance
from ars.planning.choose import PilotLoop, choose
from ars.planning.entries import Entries, entries_of, exact_loops
from ars.planning.roulette import kept

# ---- variance --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "paper", "by_r"),
    [
        (0.98, 0.0020, {0: 0.020, 1: 0.010, 2: 0.0067, 5: 0.0034}),
        (0.5, 0.100, {0: 1.0, 1: 0.386, 2: 0.227, 5: 0.098}),
        (0.1, 0.90, {0: 9.0, 1: 1.56, 2: 0.654, 5: 0.212}),
        (0.01, 9.9, {0: 99.0, 1: 3.65, 2: 0.926, 5: 0.246}),
    ],
)
def test_variances_are_those_of_the_table(q: float, paper: float, by_r: dict[int, float]) -> None:
    assert variance.of_tries(q, 10) == pytest.approx(paper, rel=0.03)
    for R, expected in by_r.items():
        assert variance.of_accepted(q, R) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("q", [0.9, 0.5, 0.3, 0.05])
@pytest.mark.parametrize("R", [0, 1, 2, 7])
def test_variances_are_those_of_simulated_loops(q: float, R: int) -> None:
    rng = np.random.default_rng(R)
    tries = R + 1 + rng.negative_binomial(R + 1, q, 400_000)
    estimates = (R / (tries - 1) if R else (tries == 1)) / q
    squares = estimates**2
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - 1 - variance.of_accepted(q, R)) < 4 * error


def test_variances_are_stable_from_rare_to_certain_acceptance() -> None:
    q = np.array([1e-6, 1e-3, 0.499999, 0.5, 0.500001, 0.999999, 1.0])
    for R in (1, 2, 3, 10, 100, 1000):
        found = variance.of_accepted(q, R)
        assert np.all(np.diff(found) < 0)
        assert found[-1] == 0.0
        # both methods meet where one takes over; the slope there is about -1/R
        assert abs(found[2] - found[4]) < 3e-6 / R
        # by quadrature in t = log w, where the integrand is smooth for every q
        t, w = np.polynomial.legendre.leggauss(400)
        t, w = 40.0 / R * (t - 1) / 2, w * 20.0 / R
        for one, number in zip(q[:-1], found[:-1], strict=True):
            integrand = R * np.exp(R * t) * (1 - one) * -np.expm1(t) / (one + (1 - one) * np.exp(t))
            assert number == pytest.approx(float(np.sum(w * integrand)), rel=1e-8)


def test_variances_of_runs_and_tries() -> None:
    assert variance.of_runs(0.25, [1, 3]).tolist() == [0.75, 0.25]
    assert variance.of_tries(0.5, 9, reuse=True) == variance.of_tries(0.5, 10) == 0.1


# ---- entries ---------------------------------------------------------------------------------------------------------

SITES = [
    loop_site(0, "a"),
    loop_site(3, "a/b"),
    loop_site(4, "ab"),
    loop_site(5, "empty"),
    latent(1, "a/b/x"),
    latent(2, "ab/y"),
    latent(6, "z"),
]


@pytest.mark.parametrize(
    ("proposed", "exact"),
    [
        (set(), {"a", "a/b", "ab", "empty"}),
        ({"a/b/x"}, {"ab", "empty"}),
        ({"ab/y"}, {"a", "a/b", "empty"}),
        ({"z"}, {"a", "a/b", "ab", "empty"}),
    ],
)
def test_a_loop_is_exact_if_nothing_under_it_is_proposed(proposed: set[str], exact: set[str]) -> None:
    assert exact_loops(SITES, lambda site: site.address in proposed) == exact


def test_only_latents_are_asked_about() -> None:
    assert exact_loops(SITES[:1], lambda _site: pytest.fail("a loop has no proposal")) == {"a"}


def test_entries_leave_out_exact_loops() -> None:
    columns = pack(
        [
            Trace(0, loops=[Loop(0), Loop(3, parent=0), Loop(4)]),
            Trace(1),
            Trace(2, loops=[Loop(4), Loop(0), Loop(9)]),
        ]
    )
    found = entries_of(columns, SITES, {"a"})
    assert found.addresses == ("a/b", "ab", "site 9")
    assert found.rows.tolist() == [0, 0, 2, 2]
    assert found.loop.tolist() == [0, 1, 1, 2]
    assert found.n_traces == 3
    none = entries_of(pack([Trace(0)]), SITES)
    assert (none.rows.tolist(), none.addresses, none.n_traces) == ([], (), 1)


# ---- roulette --------------------------------------------------------------------------------------------------------


def test_uniforms_are_those_of_the_named_streams() -> None:
    traces = np.array([0, 5, 2**63, 7], dtype=np.uint64)
    found = _native.named_uniforms(12, traces, 1)
    (uniform,) = Uniform(0.0, 1.0).encode(1)
    for number, u in zip(traces.tolist(), found, strict=True):
        assert u == _native.sample(uniform, 1, 12, number, 1)[0]


def test_uniforms_want_numbers_of_traces() -> None:
    with pytest.raises(TypeError, match="vector of uint64"):
        _native.named_uniforms(1, np.arange(3), 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stream is -1"):
        _native.named_uniforms(1, np.arange(3, dtype=np.uint64), -1)
    assert len(_native.named_uniforms(1, np.arange(0, dtype=np.uint64), 1)) == 0


def test_a_trace_is_kept_by_its_number_alone() -> None:
    traces = np.arange(20_000, dtype=np.uint64)
    log_keep = np.log(np.full(len(traces), 0.3))
    found = kept(3, traces, log_keep)
    # stream 1: a saved run is decided in the same way for ever
    assert (found == (_native.named_uniforms(3, traces, 1) < 0.3)).all()
    assert abs(found.mean() - 0.3) < 4 * math.sqrt(0.21 / len(traces))
    assert (kept(3, traces[::-7].copy(), log_keep[::-7]) == found[::-7]).all()
    assert (kept(4, traces, log_keep) != found).any()
    assert kept(3, traces, np.zeros(len(traces))).all()
    assert not kept(3, traces, np.full(len(traces), -np.inf)).any()


# ---- decide ----------------------------------------------------------------------------------------------------------

LEVELS = (Level(8, 5, 0.1, 80.0), Level(1, 1, 0.7, 10.0))
CHOSEN = ChosenBudget(2, {"a": LEVELS}, (Level(3, 3, 0.4, 20.0), Level(1, 1, 1.0, 5.0)), 30.0, -3.0)


def entries(loops: list[list[str]]) -> Entries:
    addresses = tuple(sorted({address for each in loops for address in each}))
    rows = np.repeat(np.arange(len(loops), dtype=np.int64), [len(each) for each in loops])
    index = np.array([addresses.index(address) for each in loops for address in each], dtype=np.int64)
    return Entries(rows, index, addresses, len(loops))


def test_a_decision_is_the_best_one_written_out() -> None:
    loops = [["a"], ["a", "a", "b"], [], ["b"], ["a"], ["a"], []]
    log_a = np.array([0.0, -4.0, 2.0, 3.0, -math.inf, -300.0, -math.inf])
    level, log_keep = CHOSEN.decide(log_a, entries(loops))
    for i, names in enumerate(loops):
        if not names or log_a[i] == -math.inf:
            assert (level[i], log_keep[i]) == (0, -math.inf if log_a[i] == -math.inf else 0.0)
            continue
        options = []
        for k in (0, 1):
            chosen = [CHOSEN.levels.get(name, CHOSEN.default)[k] for name in names]
            cost = 30.0 + sum(each.cost for each in chosen)
            square = 2 * log_a[i] + sum(each.log_factor for each in chosen)
            log_r = min(0.0, (square - CHOSEN.log_price - math.log(cost)) / 2)
            options.append((np.logaddexp(square - log_r, CHOSEN.log_price + log_r + math.log(cost)), k, log_r))
        assert (level[i], log_keep[i]) == (min(options)[1], pytest.approx(min(options)[2], rel=1e-12))
    assert set(level[[0, 1, 3, 5]]) == {0, 1}


def test_a_decision_is_each_trace_s_own() -> None:
    rng = np.random.default_rng(1)
    loops = [["a"] * int(k) for k in rng.integers(0, 4, 500)]
    log_a = rng.normal(0, 5, 500)
    whole = CHOSEN.decide(log_a, entries(loops))
    part = CHOSEN.decide(log_a[100:], entries(loops[100:]))
    assert (whole.level[100:] == part.level).all()
    assert (whole.log_keep[100:] == part.log_keep).all()


def test_in_one_phase_all_traces_are_kept() -> None:
    one = ChosenBudget(1, {"a": LEVELS[:1]}, LEVELS[:1], 30.0, 0.0)
    level, log_keep = one.decide(np.array([-math.inf, -5.0]), entries([["a"], ["a"]]))
    assert level.tolist() == [0, 0]
    assert log_keep.tolist() == [0.0, 0.0]


# ---- choose ----------------------------------------------------------------------------------------------------------


def pilot_loop(p: float = 0.5, q: float = 0.9, method: str = "fork", outer: str | None = None) -> PilotLoop:
    return PilotLoop(1e4, 1e4 / p, 1e4, 1e4 / q, draws=2.0, asked=2.0, method=method, outer=outer)


def plan(
    pilot: dict[str, PilotLoop],
    log_a: np.ndarray,
    of: Entries,
    phases: int | None = None,
    costs: Costs | None = None,
    network: bool = True,
) -> ChosenBudget:
    auto = Budget.auto(phases=phases, costs=costs)
    found = choose(pilot, log_a, of, trace_draws=5.0, trace_asked=5.0, network=network, auto=auto)
    again = choose(pilot, log_a, of, trace_draws=5.0, trace_asked=5.0, network=network, auto=auto)
    assert found == again == budget_from_json(budget_to_json(found))
    decision = found.decide(log_a, of)
    assert not np.isnan(decision.log_keep).any()
    assert (decision.log_keep <= 0).all()
    assert decision.level.max(initial=0) < len(found.default)
    return found


def all_enter(n: int, *addresses: str) -> Entries:
    rows = np.repeat(np.arange(n, dtype=np.int64), len(addresses))
    return Entries(rows, np.tile(np.arange(len(addresses), dtype=np.int64), n), addresses, n)


def work(log_a: np.ndarray, of: Entries, budget: ChosenBudget, M: int, R: int) -> tuple[float, float]:
    """Second moment times cost, per pair of traces, of a plan for one loop "a", and of a fixed M and R in one phase."""
    level, log_keep = budget.decide(log_a, of)
    chosen = [budget.levels["a"][k] for k in level]
    square = np.exp(2 * log_a + np.array([each.log_factor for each in chosen]) - log_keep).mean()
    estimates = np.array([each.cost for each in chosen])
    if budget.phases == 2:
        cost = budget.trace_cost + np.mean(np.exp(log_keep) * (budget.trace_cost + estimates))
    else:
        cost = budget.trace_cost + estimates.mean()
    p, q, c = 0.5, 0.01, Costs()
    run_p = c.fork + (c.attempt + 2 * c.draw) / p
    run_q = c.fork + (c.attempt + 2 * c.draw + 2 * c.request_network) / q
    factor = (1 + float(variance.of_runs(p, M))) * (1 + float(variance.of_accepted(q, R)))
    fixed = np.exp(2 * log_a).mean() * factor * (budget.trace_cost + c.fork + M * run_p + R * run_q)
    return float(square * cost), float(fixed)


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_a_plan_takes_less_work_than_any_fixed_budget(spread: float) -> None:
    log_a = np.random.default_rng(2).normal(0, spread, 20_000)
    of = all_enter(len(log_a), "a")
    budget = plan({"a": pilot_loop(0.5, 0.01)}, log_a, of)
    for M in (1, 2, 3, 5, 8, 13):
        for R in (0, 1, 2, 3, 5, 8):
            planned, fixed = work(log_a, of, budget, M, R)
            assert planned < 1.02 * fixed


def test_equal_weights_take_one_phase_and_unequal_ones_two() -> None:
    of = all_enter(5000, "a")
    rng = np.random.default_rng(3)
    assert plan({"a": pilot_loop(method="in place")}, np.zeros(5000), of, network=False).phases == 1
    assert plan({"a": pilot_loop()}, rng.normal(0, 3, 5000), of).phases == 2
    for phases in (1, 2):
        assert plan({"a": pilot_loop()}, np.zeros(5000), of, phases).phases == phases


def test_cheap_continuations_are_more_numerous() -> None:
    of = all_enter(2000, "a")
    found = {
        method: plan({"a": pilot_loop(0.3, 0.3, method)}, np.zeros(2000), of, phases=1).levels["a"][0]
        for method in ("fork", "rewind", "in place")
    }
    assert found["fork"].M < found["rewind"].M <= found["in place"].M


def test_where_nearly_all_is_accepted_the_first_try_says_enough() -> None:
    of = all_enter(2000, "good", "poor")
    pilot = {"good": pilot_loop(0.9, 0.999), "poor": pilot_loop(0.9, 0.01)}
    levels = plan(pilot, np.zeros(2000), of, phases=1).levels
    assert levels["good"][0].R == 0
    assert levels["poor"][0].R >= 1


def test_in_one_phase_inner_loops_are_paid_for_rejected_outer_tries() -> None:
    of = all_enter(2000, "a", "a/b")
    alone = {"a": pilot_loop(0.5, 0.02), "a/b": pilot_loop(0.3, 0.3, "in place")}
    nested = alone | {"a/b": pilot_loop(0.3, 0.3, "in place", "a")}
    expensive = plan(nested, np.zeros(2000), of, phases=1).levels["a/b"][0]
    assert expensive.cost < plan(alone, np.zeros(2000), of, phases=1).levels["a/b"][0].cost
    assert plan(nested, np.zeros(2000), of, phases=2).levels == plan(alone, np.zeros(2000), of, phases=2).levels


def test_a_few_huge_weights_do_not_starve_the_rest() -> None:
    log_a = np.random.default_rng(4).normal(0, 1, 10_000)
    log_a[:2] = 40.0
    of = all_enter(len(log_a), "a")
    keep = np.exp(plan({"a": pilot_loop()}, log_a, of, phases=2).decide(log_a, of).log_keep)
    assert 399 < keep.sum() < 420
    assert (keep[:2] == 1).all()
    few = all_enter(50, "a")
    assert (plan({"a": pilot_loop()}, log_a[:50], few, phases=2).decide(log_a[:50], few).log_keep > -1e-6).all()


def test_the_first_traces_keep_their_share_of_what_all_keep() -> None:
    log_a = np.random.default_rng(4).normal(0, 4, 1000)
    of = all_enter(1000, "a")
    given = {"trace_draws": 5.0, "trace_asked": 5.0, "network": True, "auto": Budget.auto(phases=2)}
    few, many = (choose({"a": pilot_loop()}, log_a, of, **given, total=total) for total in (None, 100_000))
    kept_few, kept_many = (np.exp(each.decide(log_a, of).log_keep).sum() for each in (few, many))
    assert kept_few == pytest.approx(400, rel=1e-3)
    assert kept_many < 100


def test_levels_are_few() -> None:
    log_a = np.random.default_rng(5).normal(0, 5, 5000)
    budget = plan({"a": pilot_loop(0.1, 0.1, "in place")}, log_a, all_enter(5000, "a"), phases=2)
    assert 2 <= len(budget.default) <= 4
    assert len({(level.M, level.R) for level in budget.levels["a"]}) == len(budget.default)


# ---- corners ---------------------------------------------------------------------------------------------------------

EXTREME = np.array([-math.inf, -690.0, 0.0, 690.0] * 50)


@pytest.mark.parametrize("phases", [None, 1, 2])
@pytest.mark.parametrize(
    "log_a",
    [np.full(200, -math.inf), np.zeros(200), EXTREME, np.where(np.arange(200) == 7, 690.0, -math.inf)],
    ids=["all zero", "equal", "extreme", "one trace"],
)
@pytest.mark.parametrize(
    "pilot",
    [
        {},
        {"a": pilot_loop()},
        {"a": PilotLoop(0.0, 0.0, 0.0, 0.0, 2.0, 2.0, "fork", None)},
        {"a": PilotLoop(8.0, 8.0, 8.0, 8.0, 0.0, 0.0, "in place", None)},
        {"a": PilotLoop(3.0, 3e6, 3.0, 3e6, 2.0, 2.0, "fork", "b"), "b": pilot_loop(outer="a")},
    ],
    ids=["unknown", "known", "no counts", "always accepted", "rarely accepted"],
)
def test_corners_give_a_plan(pilot: dict[str, PilotLoop], log_a: np.ndarray, phases: int | None) -> None:
    for of in (all_enter(200, "a"), all_enter(200), entries([["a", "c"] if i % 3 else [] for i in range(200)])):
        budget = plan(pilot, log_a, of, phases)
        assert phases in (None, budget.phases)
        assert all(level.R >= 1 for level in budget.default), "an unknown loop must not be left without weights"


def test_loops_that_were_never_accepted_count_as_unknown() -> None:
    of = all_enter(1000, "a")
    unknown = plan({"a": PilotLoop(0.0, 9.0, 0.0, 9.0, 2.0, 2.0, "fork", None)}, np.zeros(1000), of, 1).levels["a"][0]
    half = plan({"a": pilot_loop(0.5, 0.5)}, np.zeros(1000), of, 1).levels["a"][0]
    assert (unknown.M, unknown.R) == (half.M, half.R)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match='loop "a": method must be one of'):
        plan({"a": pilot_loop(method="magic")}, np.zeros(3), all_enter(3, "a"))


def test_two_hundred_loops_with_two_hundred_entries() -> None:
    addresses = [f"l{i}" for i in range(200)]
    pilot = {
        address: pilot_loop(0.2, 0.3, ("fork", "rewind", "in place")[i % 3]) for i, address in enumerate(addresses)
    }
    log_a = np.random.default_rng(6).normal(0, 20, 500)
    for phases in (1, 2):
        budget = plan(pilot, log_a, all_enter(500, *addresses), phases)
        assert len(budget.levels) == 200


def test_many_traces_are_planned_like_few() -> None:
    """A sample stands for the many; the heaviest are all in it."""
    few = np.random.default_rng(7).normal(0, 2, 4000)
    many = np.repeat(few, 25)
    pilot = {"a": pilot_loop(0.3, 0.2)}
    one, other = (plan(pilot, each, all_enter(len(each), "a"), phases=2) for each in (few, many))
    kept_few, kept_many = (
        np.exp(budget.decide(each, all_enter(len(each), "a")).log_keep).mean()
        for budget, each in ((one, few), (other, many))
    )
    assert kept_few == pytest.approx(kept_many, rel=0.05)


def test_a_plan_does_not_depend_on_the_unit_of_weights() -> None:
    log_a = np.random.default_rng(8).normal(0, 2, 3000)
    of = all_enter(3000, "a")
    one, other = (plan({"a": pilot_loop()}, log_a + shift, of, phases=2) for shift in (0.0, 500.0))
    assert one.levels == other.levels
    np.testing.assert_allclose(
        one.decide(log_a, of).log_keep, other.decide(log_a + 500.0, of).log_keep, rtol=0, atol=1e-9
    )
