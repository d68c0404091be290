"""Ranks of the truth among weighted draws: uniform where they must be, and found out where they are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ars.calibration.ranks import binomial_interval, place, rank_band, truth_rank, uniformity


def test_the_rank_is_exact_for_draws_of_equal_weight() -> None:
    """r of N draws below the truth: (r + V) / (N + 1)."""
    draws, v = np.array([0.1, 0.4, 0.6, 0.9]), 0.25
    placed = place(0.5, draws, np.zeros(4), v)
    assert placed is not None
    assert placed.rank == pytest.approx((2 + v) / 5)
    assert placed.cdf == 0.5 and placed.ess == pytest.approx(4.0)


def test_ties_share_their_ranks() -> None:
    """Two draws equal to the truth and one below: the truth is second, third or fourth of four."""
    for v in (0.0, 0.5, 0.999):
        placed = place(1.0, np.array([0.0, 1.0, 1.0]), np.zeros(3), v)
        assert placed is not None and placed.rank == pytest.approx((1 + 3 * v) / 4)
    assert truth_rank(0.0, 0.0, 0.0, 0.3) == 0.3  # no draws say nothing


def test_traces_without_the_value_or_without_weight_do_not_count() -> None:
    draws, log_weights = np.array([np.nan, 0.2, 0.8]), np.array([5.0, 0.0, -np.inf])
    placed = place(0.5, draws, log_weights, 0.5)
    assert placed is not None and placed.cdf == 1.0 and placed.ess == pytest.approx(1.0)
    assert place(0.5, np.array([np.nan, 1.0]), np.array([0.0, -np.inf]), 0.5) is None


def gaussian_ranks(bias: float, draws: int, discrete: bool = False, n: int = 400) -> np.ndarray:
    """Truths of a Gaussian model whose posterior is sampled from its prior, with weights to which a bias is added."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(n):
        x, values = rng.normal(), rng.normal(size=draws)
        if discrete:
            x, values = np.round(x), np.round(values)
        y = x + 0.5 * rng.normal()
        log_weights = -0.5 * ((y - values) / 0.5) ** 2 + bias * values
        placed = place(float(x), values, log_weights, float(rng.random()))
        assert placed is not None
        found.append(placed.rank)
    return np.array(found)


@pytest.mark.parametrize("draws", [10, 300])
@pytest.mark.parametrize("discrete", [False, True], ids=["continuous", "discrete"])
def test_right_weights_give_uniform_ranks_and_wrong_ones_do_not(draws: int, discrete: bool) -> None:
    assert uniformity(gaussian_ranks(0.0, draws, discrete)).p_value > 0.01
    wrong = uniformity(gaussian_ranks(1.5, draws, discrete))
    assert wrong.p_value < 0.001 and wrong.shape == "too high"


def test_the_shapes_have_names() -> None:
    u = (np.arange(400) + 0.5) / 400
    assert uniformity(u).p_value > 0.9
    assert uniformity(u**2).shape == "too high" and uniformity(np.sqrt(u)).shape == "too low"
    assert uniformity(stats.beta(0.5, 0.5).ppf(u)).shape == "too narrow"
    assert uniformity(stats.beta(2.0, 2.0).ppf(u)).shape == "too wide"
    assert math.isnan(uniformity(np.empty(0)).p_value)


def test_p_values_are_uniform_and_the_band_holds() -> None:
    rng = np.random.default_rng(2)
    runs = rng.random((600, 100))
    p = np.array([uniformity(each).p_value for each in runs])
    assert abs(np.mean(p < 0.1) - 0.1) < 4 * math.sqrt(0.09 / 600)
    band = rank_band(100)
    share = np.array([np.searchsorted(np.sort(each), band.at, side="right") / 100 for each in runs])
    inside = np.all((share >= band.low - 1e-9) & (share <= band.high + 1e-9), axis=1)
    assert abs(inside.mean() - 0.99) < 4 * math.sqrt(0.0099 / 600)


def test_intervals_are_those_of_scipy() -> None:
    for n, share in ((200, 0.5), (57, 0.9), (40, 0.05)):
        expected = stats.binom.interval(0.99, n, share)
        assert binomial_interval(n, share) == pytest.approx([each / n for each in expected])
    assert binomial_interval(0, 0.3) == (0.3, 0.3)
