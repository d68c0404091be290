from __future__ import annotations

import math

import numpy as np
import pytest
from column_builder import Loop, Trace, loop_site, pack

from ars.loops import Loops, LoopSummary, summarise_loops

LOOP, OTHER = 0, 1
SITES = [loop_site(LOOP, "draw"), loop_site(OTHER, "draw/inner")]


def bernoulli_loop(p: float, q: float, entries: int, N: int, seed: int) -> Loops:
    """A loop around one Bernoulli, accepted when it is 1: S_pq = (1 - p)^2 / (1 - q) exactly."""
    rng = np.random.default_rng(seed)
    traces = []
    for number in range(entries):
        rejected = N - int(rng.binomial(N, q))
        traces.append(
            Trace(
                number,
                loops=[
                    Loop(
                        LOOP,
                        tries=int(rng.geometric(q)),
                        tries_q=N,
                        accepted_q=N - rejected,
                        runs_p=2,
                        tries_p=int(rng.geometric(p, size=2).sum()),
                        s_pq_sum=rejected * ((1 - p) / (1 - q)) ** 2,
                    )
                ],
            )
        )
    return summarise_loops(pack(traces), SITES)


@pytest.mark.parametrize(("p", "q", "infinite"), [(0.5, 0.4, False), (0.2, 0.9, True), (0.1, 0.3, True)])
def test_estimates_against_exact_values(p: float, q: float, infinite: bool) -> None:
    found = bernoulli_loop(p, q, entries=2000, N=10, seed=1)["draw"]
    exact = (1 - p) ** 2 / (1 - q)
    assert abs(found.s_pq - exact) < 3 * found.s_pq_error
    assert found.s_pq_error == pytest.approx((1 - p) ** 2 / (1 - q) ** 2 * math.sqrt(q * (1 - q) / 20_000), rel=0.1)
    assert found.entries == 2000
    assert abs(found.mean_tries - 1 / q) < 3 * math.sqrt(1 - q) / q / math.sqrt(2000)
    left = (2 - q) / (10 * q)  # of the variance of the main run's tries, given ten tries more
    assert found.q_accept_error == pytest.approx(q * math.sqrt((1 - q) * left / (1 + left) / 2000), rel=0.1)
    assert found.p_accept_error == pytest.approx(p * math.sqrt((1 - p) / 4000), rel=0.1)
    assert abs(found.q_accept - q) < 3 * found.q_accept_error
    assert abs(found.p_accept - p) < 3 * found.p_accept_error
    assert found.naive_variance_infinite is infinite


def test_too_close_to_tell() -> None:
    found = bernoulli_loop(0.5, 0.75, entries=50, N=2, seed=3)["draw"]  # exactly 1
    assert found.naive_variance_infinite is None
    assert "too close to 1" in found.note


def test_no_rejection_seen() -> None:
    packed = pack([Trace(i, loops=[Loop(LOOP, tries_q=5, accepted_q=5, runs_p=1, tries_p=1)]) for i in range(100)])
    found = summarise_loops(packed, SITES)["draw"]
    assert found.naive_variance_infinite is None
    assert "no try under q was rejected" in found.note
    assert found.q_accept == 1.0


def test_nothing_estimated() -> None:
    found = summarise_loops(pack([Trace(0, loops=[Loop(LOOP, tries=3)])]), SITES)["draw"]
    assert found.naive_variance_infinite is None
    assert found.mean_tries == 3.0
    assert math.isnan(found.p_accept)
    assert found.q_accept == pytest.approx(1 / 3)
    assert math.isnan(found.s_pq)
    assert found.note == "nothing was estimated"


def heavy(k: float, scale: float, entries: int, seed: int) -> LoopSummary:
    s = scale * np.exp(k * np.random.default_rng(seed).exponential(size=entries))
    made = [Loop(LOOP, tries_q=1, accepted_q=i % 2, runs_p=1, tries_p=1, s_pq_sum=x) for i, x in enumerate(s)]
    return summarise_loops(pack([Trace(i, loops=[loop]) for i, loop in enumerate(made)]), SITES)["draw"]


def test_an_infinite_mean_is_found_although_its_standard_error_is_as_large() -> None:
    """Pareto values with index 1/2: the sample mean is about its own standard error from anything."""
    verdicts = [heavy(k=2.0, scale=0.5, entries=3000, seed=seed) for seed in range(20)]
    assert any(v.s_pq - 2 * v.s_pq_error < 1 for v in verdicts), "the plain rule would miss some"
    assert all(v.naive_variance_infinite for v in verdicts)


def test_a_heavy_tail_below_one_is_not_called_finite() -> None:
    found = heavy(k=1.5, scale=1e-6, entries=3000, seed=1)
    assert found.s_pq + 2 * found.s_pq_error < 1
    assert found.naive_variance_infinite is None
    assert "heavy tail" in found.note


def test_one_bad_instance_among_good_ones_is_found() -> None:
    rng = np.random.default_rng(2)
    traces = []
    for number in range(400):
        traces.append(
            Trace(
                number,
                loops=[
                    Loop(
                        LOOP,
                        instance=i,
                        tries_q=10,
                        accepted_q=5,
                        runs_p=1,
                        tries_p=1,
                        s_pq_sum=10 * level * rng.uniform(0.8, 1.2),
                    )
                    for i, level in enumerate([0.01, 0.02, 1.5, 0.01, 0.05])
                ],
            )
        )
    found = summarise_loops(pack(traces), SITES)["draw"]
    assert found.s_pq == pytest.approx(1.59 / 5, rel=0.02)
    assert found.s_pq_largest == pytest.approx(1.5, rel=0.02)
    assert found.naive_variance_infinite is True


def test_s_pq_weighs_tries_and_acceptance_weighs_entries() -> None:
    loops = [
        Loop(LOOP, tries_q=10, accepted_q=5, runs_p=1, tries_p=1, s_pq_sum=2.0),
        Loop(LOOP, tries_q=30, accepted_q=5, runs_p=1, tries_p=3, s_pq_sum=4.0),
    ]
    found = summarise_loops(pack([Trace(i, loops=[loop]) for i, loop in enumerate(loops)]), SITES)["draw"]
    assert found.s_pq == pytest.approx(6 / 40)
    assert found.q_accept == 1.0, "the main runs accepted at once"
    assert found.p_accept == pytest.approx(2 / 4)


def test_names_and_table() -> None:
    packed = pack([Trace(0, loops=[Loop(LOOP), Loop(OTHER, parent=0)])])
    found = summarise_loops(packed, SITES)
    assert list(found) == ["draw", "draw/inner"]
    assert found["inner"] is found["draw/inner"]
    lines = repr(found).splitlines()
    assert len(lines) == 5
    assert lines[3].startswith("p(A), q(A): ") and "harmonic mean" in lines[3]
    assert lines[4] == "draw, draw/inner: nothing was estimated"
    assert lines[0].startswith("loop")
    assert lines[2].startswith("draw/inner")
    assert lines[1].endswith("undecided") and lines[1].split()[3] == "-" and "nan" not in lines[1]
    with pytest.raises(
        KeyError, match='"missing" is no loop that a trace entered; the addresses are: "draw", "draw/inner"'
    ):
        found["missing"]
    assert repr(summarise_loops(pack([]), SITES)) == "no loops"


def run_until_accepted(
    p: float, q: float, entries: int, M: int, R: int, seed: int, *, estimated: float = 1.0
) -> LoopSummary:
    """The same loop, with the tries of the main run, and R runs under q until accepted."""
    rng = np.random.default_rng(seed)
    square = ((1 - p) / (1 - q)) ** 2
    traces = []
    for number in range(entries):
        loop = Loop(LOOP, tries=int(rng.geometric(q)))
        loop.s_pq_main = (loop.tries - 1) * square
        loop.log_ratio_rejected = (loop.tries - 1) * 0.5 * math.log(square)
        if rng.random() < estimated:
            loop.runs_p, loop.tries_p = M, int(rng.geometric(p, size=M).sum())
            loop.accepted_q, loop.tries_q = R, int(rng.geometric(q, size=R).sum())
            loop.s_pq_sum = (loop.tries_q - R) * square
        traces.append(Trace(number, loops=[loop]))
    return summarise_loops(pack(traces), SITES, until_accepted=True)["draw"]


@pytest.mark.parametrize("R", [0, 1, 3])
@pytest.mark.parametrize(("p", "q", "infinite"), [(0.5, 0.4, False), (0.2, 0.9, True), (0.1, 0.3, True)])
def test_runs_until_accepted_have_verdicts_too(p: float, q: float, infinite: bool, R: int) -> None:
    found = run_until_accepted(p, q, 3000, 1, R, seed=R)
    assert abs(found.s_pq - (1 - p) ** 2 / (1 - q)) < 3.5 * found.s_pq_error
    # per run until accepted, s - S_pq t has the variance of (c - S_pq) (t - 1) - S_pq, with c = ((1 - p) / (1 - q))^2
    exact = (1 - p) ** 2 / (1 - q) ** 2 * q * math.sqrt((1 - q) / (3000 * (R + 1)))
    assert found.s_pq_error == pytest.approx(exact, rel=0.1)
    assert abs(found.q_accept - q) < 3.5 * found.q_accept_error
    assert found.q_accept_error == pytest.approx(q * math.sqrt((1 - q) / (3000 * (R + 1))), rel=0.1)
    assert abs(found.p_accept - p) < 3.5 * found.p_accept_error
    assert found.naive_variance_infinite is infinite
    assert (found.budget, found.estimated) == (f"M=1, R={R}", 3000)


def test_a_verdict_needs_few_estimates_or_none_if_the_variance_is_infinite() -> None:
    for share in (0.0, 0.02):
        found = run_until_accepted(0.2, 0.9, 3000, 1, 0, seed=5, estimated=share)
        assert found.naive_variance_infinite is True
        assert "S_pq = 6" in found.warning()
        assert found.entries == 3000 and (found.estimated > 0) == (share > 0)
        assert math.isnan(found.p_accept) == (share == 0)


def test_without_runs_under_p_a_variance_is_never_called_finite() -> None:
    nothing = run_until_accepted(0.5, 0.4, 3000, 1, 0, seed=6, estimated=0.0)
    assert nothing.naive_variance_infinite is None
    assert "only runs under p can show" in nothing.note
    assert (nothing.budget, nothing.estimated) == ("-", 0)
    assert nothing.s_pq == pytest.approx(0.25 / 0.6, rel=0.1) and math.isnan(nothing.s_pq_bound)
    few = run_until_accepted(0.5, 0.4, 3000, 1, 0, seed=6, estimated=0.1)
    assert few.naive_variance_infinite is None
    assert few.note == f"{few.estimated} estimated entries are too few to rule out a tail; 500 would do"


def test_a_single_rejected_try_shows_no_tail() -> None:
    made = [Loop(LOOP, tries=1 + (i == 0), runs_p=1, tries_p=1, s_pq_main=0.1 * (i == 0)) for i in range(2000)]
    packed = pack([Trace(i, loops=[loop]) for i, loop in enumerate(made)])
    found = summarise_loops(packed, SITES, until_accepted=True)["draw"]
    assert found.naive_variance_infinite is None
    assert "too few tries under q were rejected" in found.note


def test_tries_of_main_runs_and_of_continuations_are_pooled() -> None:
    loops = [
        Loop(LOOP, tries=3, tries_q=10, accepted_q=5, runs_p=1, tries_p=1, s_pq_sum=2.0, s_pq_main=0.5),
        Loop(LOOP, tries=7, s_pq_main=1.5),
        Loop(LOOP, tries=7),  # of an older file, and not estimated
    ]
    found = summarise_loops(pack([Trace(i, loops=[loop]) for i, loop in enumerate(loops)]), SITES)["draw"]
    assert found.s_pq == pytest.approx((2.0 + 0.5 + 1.5) / (10 + 3 + 7))
    assert (found.budget, found.estimated, found.entries) == ("M=1, N=10", 1, 3)


def test_ratios_beyond_all_bounds_do_no_harm() -> None:
    made = [Loop(LOOP, tries=2, s_pq_main=math.inf if i % 9 == 0 else 0.01) for i in range(90)]
    found = summarise_loops(pack([Trace(i, loops=[loop]) for i, loop in enumerate(made)]), SITES)["draw"]
    assert found.naive_variance_infinite is True


def test_levels_are_named_from_the_smallest_to_the_largest() -> None:
    pairs = [(1, 0), (3, 5), (1, 2), (1, 0)]
    made = [Loop(LOOP, runs_p=M, tries_p=M, accepted_q=R, tries_q=R, s_pq_main=0.0) for M, R in pairs]
    packed = pack([Trace(i, loops=[loop]) for i, loop in enumerate([*made, Loop(LOOP, s_pq_main=0.0)])])
    found = summarise_loops(packed, SITES, until_accepted=True)
    assert found["draw"].budget == "M=1, R=0 to M=3, R=5"
    assert (found["draw"].entries, found["draw"].estimated) == (5, 4)
    row = repr(found).splitlines()[1]
    assert "  M=1, R=0 to M=3, R=5  " in row


def test_exact_loops_are_summarised_as_such() -> None:
    rng = np.random.default_rng(3)
    traces = []
    for i in range(300):
        inner = Loop(OTHER, parent=0, tries=int(rng.geometric(0.5)))
        inner.s_pq_main = inner.tries - 1.0
        traces.append(Trace(i, loops=[Loop(LOOP, tries=2, runs_p=1, tries_p=1, s_pq_main=0.1), inner]))
    found = summarise_loops(pack(traces), SITES, exact=("draw/inner",), until_accepted=True)
    inner = found["inner"]
    assert (inner.note, inner.naive_variance_infinite, inner.budget) == ("nothing was proposed", False, "-")
    assert inner.p_accept == inner.q_accept == pytest.approx(1 / inner.mean_tries)
    assert inner.s_pq == pytest.approx(1 - 1 / inner.mean_tries)
    assert (found["draw"].note != "nothing was proposed") and found["draw"].estimated == 300
