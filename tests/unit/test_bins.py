"""Bins of histograms: a narrow posterior gets as many bars as a wide one, whatever the prior is like."""

from __future__ import annotations

import numpy as np
import pytest

from ars.results.bins import bin_edges, densities


def middle(edges: np.ndarray, values: np.ndarray, weights: np.ndarray) -> int:
    """Bars that cover the middle 90% of the weight."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    low, high = values[order][np.searchsorted(reached, [0.05, 0.95])]
    return int(np.count_nonzero((edges[1:] > low) & (edges[:-1] < high)))


@pytest.mark.parametrize("ratio", [1.0, 10.0, 1e3, 1e6])
def test_a_posterior_is_covered_by_many_bars_however_wide_its_prior_is(ratio: float) -> None:
    rng = np.random.default_rng(1)
    prior = rng.normal(size=4000)
    values = rng.normal(2.0, 2.0 / ratio, size=4000)  # proposals, twice as wide as the posterior
    log_weights = -0.5 * ((values - 2.0) * ratio) ** 2 + 0.5 * ((values - 2.0) * ratio / 2.0) ** 2
    edges = bin_edges(values, log_weights, prior)
    assert 8 <= middle(edges, values, np.exp(log_weights)) <= 60
    assert len(edges) <= 151
    # what used to be done: 40 equal bins over everything that was drawn
    if ratio >= 10.0:
        everything = np.histogram_bin_edges(np.concatenate([values, prior]), 40)
        assert middle(everything, values, np.exp(log_weights)) <= 4


def test_the_weights_decide_and_not_the_draws() -> None:
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(0.0, 100.0, 1000), rng.normal(5.0, 0.1, 1000)])
    log_weights = np.where(np.arange(2000) < 1000, -50.0, 0.0)
    edges = bin_edges(values, log_weights)
    assert 4.0 < edges[0] < edges[-1] < 6.0


def test_densities_are_shares_of_all_draws() -> None:
    values, weights = np.array([0.5, 1.5, 9.0, np.nan]), np.array([1.0, 2.0, 1.0, 7.0])
    np.testing.assert_allclose(densities(values, np.array([0.0, 1.0, 3.0]), weights), [0.25, 0.25])
    np.testing.assert_allclose(densities(values, np.array([0.0, 1.0, 3.0])), [1 / 3, 1 / 6])


def test_whole_numbers_have_a_bar_each() -> None:
    values = np.random.default_rng(3).poisson(4.0, 1000).astype(float)
    edges = bin_edges(values, np.zeros(1000))
    np.testing.assert_allclose(np.diff(edges), 1.0)
    np.testing.assert_allclose(edges % 1.0, 0.5)


@pytest.mark.parametrize("values", [[3.0, 3.0], [0.5, 0.5], [np.nan, np.nan], [1.5]])
def test_degenerate_draws_have_bins_too(values: list[float]) -> None:
    edges = bin_edges(np.array(values), np.zeros(len(values)))
    assert len(edges) >= 2 and np.all(np.diff(edges) > 0.0)
    assert np.all(np.isfinite(bin_edges(np.array(values), np.full(len(values), -np.inf))))
