"""Pareto-smoothed weights: ArviZ's psislw, ties, zeros, short tails, and whether less variance is what they give."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from test_trust import posterior

from ars import diagnostics as d
from ars.results.smoothing import smooth


def cases() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    zeros = rng.normal(size=3000)
    zeros[rng.random(3000) < 0.9] = -np.inf  # as after a roulette
    return {
        "light": rng.normal(0.0, 0.5, 2000),
        "heavy": 0.8 * rng.exponential(size=5000),
        "bounded": -np.square(rng.normal(size=1000)),
        "mostly zero": zeros,
        "few": rng.normal(0.0, 2.0, 30),
        "far from 0": rng.normal(-1e5, 2.0, 500),
    }


@pytest.mark.parametrize("name", cases())
def test_smoothing_is_that_of_arviz(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its successor
        arviz = pytest.importorskip("arviz")
    log_weights = cases()[name]
    found = smooth(log_weights)
    theirs, k = arviz.psislw(log_weights.copy(), normalize=False)
    assert float(found.pareto_k) == pytest.approx(float(k), rel=1e-9)
    np.testing.assert_allclose(found.log_weights, np.asarray(theirs), rtol=1e-9, atol=1e-9)
    changed = found.log_weights != log_weights
    assert np.count_nonzero(changed) <= found.replaced == found.pareto_k.tail
    assert np.max(found.log_weights) <= np.max(log_weights), "cut off at the largest raw weight"
    assert np.array_equal(np.isneginf(found.log_weights), np.isneginf(log_weights)), "a weight of 0 stays 0"


def test_ties_stay_tied_whatever_their_order() -> None:
    rng = np.random.default_rng(1)
    log_weights = np.repeat(0.7 * rng.exponential(size=400), 3)
    order = rng.permutation(len(log_weights))
    plain, shuffled = smooth(log_weights).log_weights, smooth(log_weights[order]).log_weights
    assert (np.ptp(plain.reshape(-1, 3), axis=1) == 0.0).all()
    np.testing.assert_array_equal(shuffled, plain[order])
    assert not np.array_equal(plain, log_weights)


@pytest.mark.parametrize(
    "log_weights",
    [
        np.zeros(100),
        np.zeros(5),
        np.full(50, -np.inf),
        np.where(np.arange(1000) < 3, 9.0, 0.0),
        np.where(np.arange(500) < 4, 0.0, -np.inf),
    ],
    ids=["equal", "too few", "all zero", "three large ones", "four that count"],
)
def test_without_a_tail_nothing_changes(log_weights: np.ndarray) -> None:
    found = smooth(log_weights)
    assert found.replaced == 0 and found.pareto_k.reason
    np.testing.assert_array_equal(found.log_weights, log_weights)


def test_a_hopeless_tail_neither_overflows_nor_lies() -> None:
    found = smooth(-np.square(np.random.default_rng(2).normal(0.0, 60.0, 2000)))
    assert found.pareto_k > 2.0 and not np.isnan(found.log_weights).any()


def test_smoothed_evidence_has_less_variance_and_a_little_bias() -> None:
    """Weights with k = 0.6, mean 2.5: the plain mean is unbiased and varies more. In 400 runs of 500 traces."""
    rng = np.random.default_rng(7)
    runs, exact = 400, 2.5
    plain, smoothed = np.empty(runs), np.empty(runs)
    for i in range(runs):
        log_weights = 0.6 * rng.exponential(size=500)  # w = u^-0.6
        plain[i] = math.exp(d.log_evidence(log_weights).log_estimate)
        smoothed[i] = math.exp(d.log_evidence(smooth(log_weights).log_weights).log_estimate)
    assert np.square(smoothed - exact).mean() < 0.9 * np.square(plain - exact).mean()
    assert smoothed.std() < 0.9 * plain.std()
    assert abs(plain.mean() - exact) < 4 * plain.std() / math.sqrt(runs)
    assert smoothed.mean() < plain.mean(), "cut off: the bias is downwards"


def test_estimates_are_labelled() -> None:
    x = np.random.default_rng(5).exponential(size=3000)
    post = posterior(x, 0.6 * x)
    assert 0.5 < post.pareto_k() < 0.7
    found = post.smoothed()
    assert found.method == "ars" and found.replaced == post.pareto_k().tail
    assert found.mean("x") == d.weighted_mean(x, found.log_weights) != post.mean("x")
    assert np.shape(found.mean("pair")) == (2,) and found.quantile("x", 0.5) == pytest.approx(
        post.quantile("x", 0.5), rel=0.1
    )
    assert "Pareto-smoothed" in repr(found) and "slightly biased" in repr(found)
    assert post.log_weights() == pytest.approx(0.6 * x), "the plain weights are what they were"
    weighting = post.diagnostics()["ars"]
    assert weighting.smoothed_log_evidence == found.log_evidence().log_estimate
    assert weighting.smoothed_ess == found.ess()
    assert weighting.values[-1].smoothed_mean == found.mean("x")
    lines = [line for line in post.summary().splitlines() if "smoothed" in line]
    assert len(lines) == 1 and "Pareto-smoothed (slightly biased, less variance): evidence" in lines[0]


@pytest.mark.parametrize("scale", [0.1, 3.0], ids=["light", "hopeless"])
def test_a_summary_mentions_smoothing_only_where_it_helps(scale: float) -> None:
    x = np.random.default_rng(5).exponential(size=3000)
    assert "smoothed" not in posterior(x, scale * x).summary()
