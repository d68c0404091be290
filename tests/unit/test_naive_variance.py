"""The lower bound of S_pq: never above the truth, and above 1 where S_pq is infinite through draws that nobody sees."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from column_builder import Trace, loop_site, pack
from scipy import special

from ars._native import DTYPES
from ars.loops import LoopSummary, summarise_loops
from ars.results.naive_variance import accepted_share, lower_bound, unseen_share

SITE = loop_site(0, "draw")


def verdict(loops: npt.NDArray) -> LoopSummary:
    columns = pack([Trace(0)])._replace(loops=loops)
    return summarise_loops(columns, [SITE])["draw"]


def entries(
    tries: tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]],
    tries_q: tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]],
    p_accept: float,
    M: int,
    rng: np.random.Generator,
) -> npt.NDArray:
    """Loop entries from (accepted, log p/q) of tries under q: those of the main run, a row per entry, and N others."""
    accepted, log_ratio = tries
    n = len(accepted)
    loops = np.zeros(n, DTYPES["loop"])
    loops["s_pq_main"] = np.nan
    first = accepted.argmax(axis=1)
    loops["tries"] = first + 1
    before = np.arange(accepted.shape[1])[None, :] < first[:, None]
    loops["log_ratio_rejected"] = np.where(before, log_ratio, 0.0).sum(axis=1)
    accepted, log_ratio = tries_q
    loops["tries_q"] = accepted.shape[1]
    loops["accepted_q"] = accepted.sum(axis=1)
    loops["s_pq_sum"] = np.where(accepted, 0.0, np.exp(2 * log_ratio)).sum(axis=1)
    loops["runs_p"] = M
    loops["tries_p"] = rng.geometric(p_accept, size=(n, M)).sum(axis=1)
    return loops


def bernoulli(p: float, q: float, n: int, seed: int, M: int = 10, N: int = 10) -> npt.NDArray:
    """One Bernoulli, accepted when it is 1: S_pq = (1-p)^2 / (1-q), where the bound is attained."""
    rng = np.random.default_rng(seed)

    def draw(width: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        accepted = rng.random((n, width)) < q
        return accepted, np.where(accepted, math.log(p / q), math.log((1 - p) / (1 - q)))

    return entries(draw(80), draw(N), p, M, rng)


def beta_bernoulli(tosses: int, n: int, seed: int) -> npt.NDArray:
    """The paper's setting a: S_pq is infinite for all numbers of tosses, through an x that is hardly ever proposed."""
    rng = np.random.default_rng(seed)

    def draw(width: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        x = rng.beta(2 + tosses, 2, size=(n, width))
        log_q = (1 + tosses) * np.log(x) + np.log1p(-x) - special.betaln(2 + tosses, 2)
        return rng.random((n, width)) <= 4 * x * (1 - x), -log_q

    return entries(draw(80), draw(10), 2 / 3, 10, rng)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.7), (0.5, 0.74), (0.2, 0.3), (0.9, 0.98), (0.3, 0.3)])
@pytest.mark.parametrize("M", [1, 2, 10])
def test_the_bound_is_below_the_truth_and_near_to_it(p: float, q: float, M: int) -> None:
    exact = (1 - p) ** 2 / (1 - q)
    found = [lower_bound(bernoulli(p, q, 3000, seed, M)) for seed in range(20)]
    assert max(found) < exact
    assert np.mean(found) > 0.4 * exact  # a bound of 0 would be right as well
    assert all(verdict(bernoulli(p, q, 3000, seed, M)).naive_variance_infinite is not True for seed in range(5))


def test_a_proposal_that_hardly_ever_visits_what_p_rejects() -> None:
    """Half of p is rejected, and 2e-5 of q: 10,000 traces of 10 tries see two of them, or none."""
    exact = 0.25 / 2e-5
    found = [verdict(bernoulli(0.5, 1 - 2e-5, 1000, seed)) for seed in range(10)]
    assert all(1 < v.s_pq_bound < exact for v in found)
    for v in found:
        unseen = "no try under q was rejected" in v.note
        assert v.naive_variance_infinite is (None if unseen else True)
        assert not unseen or "bias naive weights" in v.note


@pytest.mark.parametrize("tosses", [1, 3, 10, 20, 30])
def test_infinite_through_draws_that_nobody_sees(tosses: int) -> None:
    loops = beta_bernoulli(tosses, 20_000, seed=tosses)
    assert lower_bound(loops) > 1
    assert verdict(loops).naive_variance_infinite is True
    # from few traces it cannot be told, and is not
    assert verdict(beta_bernoulli(tosses, 200, seed=tosses)).naive_variance_infinite is not False


def test_what_p_rejects_and_q_did_not_show_forbids_a_clean_bill() -> None:
    """Under q, rejected draws have p/q = 1/4 in what is seen; the rest of what p rejects lies where q has 1e-7."""
    rng = np.random.default_rng(1)

    def draw(width: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        accepted = rng.random((600, width)) < 0.6
        return accepted, np.where(accepted, 0.0, math.log(0.25))

    loops = entries(draw(60), draw(10), 0.8, 10, rng)  # p rejects 0.2, of which the tries under q show 0.1
    assert unseen_share(loops) > 0.03
    found = verdict(loops)
    assert found.naive_variance_infinite is None
    assert "miss at least" in found.note
    honest = entries(draw(60), draw(10), 0.9, 10, rng)
    assert unseen_share(honest) == 0.0
    assert verdict(honest).naive_variance_infinite is False


def test_few_entries_or_no_estimates_say_nothing() -> None:
    assert lower_bound(bernoulli(0.5, 0.999, 20, seed=1)) == 0.0
    loops = bernoulli(0.5, 0.999, 100, seed=1)
    loops["runs_p"] = loops["tries_p"] = 0
    assert lower_bound(loops) == 0.0
    assert unseen_share(loops) == 0.0


def until(loops: npt.NDArray, R: int, q: float, rng: np.random.Generator) -> npt.NDArray:
    """The same entries with R runs under q until accepted, instead of N tries."""
    loops["accepted_q"], loops["tries_q"] = R, rng.geometric(q, size=(len(loops), R)).sum(axis=1)
    return loops


@pytest.mark.parametrize("R", [0, 1, 4])
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.7), (0.2, 0.3), (0.9, 0.98)])
def test_the_bound_holds_for_runs_until_accepted(p: float, q: float, R: int) -> None:
    exact = (1 - p) ** 2 / (1 - q)
    rng = np.random.default_rng(R)
    made = [until(bernoulli(p, q, 3000, seed, 1), R, q, rng) for seed in range(8)]
    found = [lower_bound(loops, until_accepted=True) for loops in made]
    assert max(found) < exact
    assert np.mean(found) > 0.4 * exact
    assert all(unseen_share(loops, until_accepted=True) == 0.0 for loops in made)
    share = accepted_share(np.concatenate(made), until_accepted=True)
    assert abs(share.mean() - q) < 4 * share.std() / math.sqrt(len(share))


@pytest.mark.parametrize("tosses", [1, 3, 10, 20, 30])
def test_infinite_also_without_a_try_under_q(tosses: int) -> None:
    loops = beta_bernoulli(tosses, 40_000, seed=tosses)
    loops["tries_q"] = loops["accepted_q"] = 0  # R = 0
    loops["s_pq_sum"] = 0.0
    loops["s_pq_main"] = np.exp(2 * loops["log_ratio_rejected"]) * (loops["tries"] == 2)  # at most what it was
    columns = pack([Trace(0)])._replace(loops=loops)
    found = summarise_loops(columns, [SITE], until_accepted=True)["draw"]
    assert found.naive_variance_infinite is True


def test_what_q_did_not_show_is_missed_with_one_run_and_no_try() -> None:
    rng = np.random.default_rng(2)

    def draw(width: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        accepted = rng.random((6000, width)) < 0.6
        return accepted, np.where(accepted, 0.0, math.log(0.25))

    for p_accept, misses in ((0.8, True), (0.9, False)):  # the tries under q show 0.1 of what p rejects
        loops = until(entries(draw(60), draw(1), p_accept, 1, rng), 0, 0.6, rng)
        loops["s_pq_sum"], loops["s_pq_main"] = 0.0, (loops["tries"] - 1) / 16
        assert (unseen_share(loops, until_accepted=True) > 0.0) is misses
        columns = pack([Trace(0)])._replace(loops=loops)
        found = summarise_loops(columns, [SITE], until_accepted=True)["draw"]
        assert (found.naive_variance_infinite is False) is not misses
