"""MultivariateNormal and Dirichlet against scipy, and what is wrong with their parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ars

MEAN = np.array([1.0, -2.0, 0.3])
CHOLESKY = np.array([[1.5, 0, 0], [0.4, 0.9, 0], [-0.7, 0.2, 2.0]])
COVARIANCE = CHOLESKY @ CHOLESKY.T


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_density_of_a_multivariate_normal(scale: float) -> None:
    d = ars.MultivariateNormal(MEAN, scale * CHOLESKY)
    x = MEAN + scale * np.random.default_rng(1).normal(size=(50, 3)) * 3
    assert np.allclose(d.log_prob(x), stats.multivariate_normal(MEAN, scale**2 * COVARIANCE).logpdf(x), rtol=1e-9)
    assert d.log_prob(x.reshape(5, 10, 3)).shape == (5, 10)
    assert d.log_prob(x[0]).shape == ()


def test_one_coordinate_is_a_normal() -> None:
    x = np.linspace(-3, 3, 7)
    one, scalar = ars.MultivariateNormal([0.5], [[2.0]]), ars.Normal(0.5, 2.0)
    assert np.array_equal(one.log_prob(x[:, None]), scalar.log_prob(x))
    assert np.array_equal(one.sample(5, 3)[:, 0], scalar.sample(5, 3))


@pytest.mark.parametrize("a", [[1.0, 1.0], [0.5, 2.0, 3.0], [1e-2, 5.0, 0.3, 1.0], [200.0, 300.0, 1e3]])
def test_density_of_a_dirichlet(a: list[float]) -> None:
    x = np.random.default_rng(2).dirichlet(np.maximum(a, 0.5), 40)
    x = np.maximum(x, 1e-12) / np.maximum(x, 1e-12).sum(axis=1, keepdims=True)
    exact = [stats.dirichlet(a).logpdf(row / row.sum()) for row in x]
    assert np.allclose(ars.Dirichlet(a).log_prob(x), exact, rtol=1e-9, atol=1e-9)


# Computed with 60 digits (mpmath).
EXTREME: list[tuple[list[float], list[float], float]] = [
    ([1e6, 2e6, 3e6], [1 / 6, 1 / 3, 0.5], 15.561152290955616),
    ([1e12, 2e12, 3e12], [0.16666, 0.33334, 0.5], -1170.6391511999904),
    ([1e15] * 4, [0.25] * 4, 53.903379256671627),
    ([5e8, 1.0, 1e-3], [0.999999, 9.99e-07, 1e-09], -466.15473655377455),
    ([1e-100, 3.0], [5e-324, 1.0], 514.18156262197669),
    ([0.5, 0.5], [1e-300, 1.0], 344.24303406325745),
    ([1e-6, 1e-6, 1e8], [1e-20, 1e-200, 1.0], 478.93723076983221),
    ([1.0, 1.0, 1.0], [0.0, 0.25, 0.75], math.log(2)),
]


@pytest.mark.parametrize(("a", "x", "exact"), EXTREME)
def test_density_of_a_dirichlet_at_extremes(a: list[float], x: list[float], exact: float) -> None:
    assert ars.Dirichlet(a).log_prob(x) == pytest.approx(exact, rel=1e-11)


def test_two_coordinates_are_a_beta() -> None:
    x = ars.Dirichlet([2.0, 3.0]).sample(2000, 4)
    assert np.allclose(ars.Dirichlet([2.0, 3.0]).log_prob(x), ars.Beta(2, 3).log_prob(x[:, 0]), atol=1e-9)
    assert stats.kstest(x[:, 0], stats.beta(2, 3).cdf).pvalue > 1e-3


def test_draws_have_the_moments_of_their_distribution() -> None:
    n = 20_000
    x = ars.MultivariateNormal(MEAN, CHOLESKY).sample(n, 5)
    assert (np.abs(x.mean(axis=0) - MEAN) < 4 * np.sqrt(np.diag(COVARIANCE) / n)).all()
    spread = np.sqrt((COVARIANCE**2 + np.outer(np.diag(COVARIANCE), np.diag(COVARIANCE))) / n)
    assert (np.abs(np.cov(x.T) - COVARIANCE) < 4 * spread).all()
    a = np.array([0.1, 2.0, 3.0, 0.5])
    y = ars.Dirichlet(a).sample(n, 6)
    exact = stats.dirichlet(a)
    assert (np.abs(y.mean(axis=0) - exact.mean()) < 4 * np.sqrt(exact.var() / n)).all()
    for i, share in enumerate(a):  # every margin is a Beta, the last too
        assert stats.kstest(y[:, i], stats.beta(share, a.sum() - share).cdf).pvalue > 1e-4


@pytest.mark.parametrize("a", [[1e-3] * 60, [1e-100, 1e-100], [1e99, 1.0, 1e99], [1e-8, 1e8, 1e-8]])
def test_corners_stay_inside_the_simplex(a: list[float]) -> None:
    x = ars.Dirichlet(a).sample(500, 7)
    assert (x > 0).all() and (x < 1).all()
    assert np.allclose(x.sum(axis=1), 1, atol=1e-12)


def test_the_density_outside_is_zero() -> None:
    d = ars.Dirichlet([2.0, 2.0, 2.0])
    assert d.log_prob([0.5, 0.6, -0.1]) == -math.inf
    assert d.log_prob([0.5, 0.4, 0.2]) == -math.inf
    assert d.log_prob([0.5, 0.5, 0.0]) == -math.inf
    assert math.isnan(d.log_prob([0.5, math.nan, 0.5]))
    assert ars.MultivariateNormal(MEAN, CHOLESKY).log_prob([0, math.inf, 0]) == -math.inf


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ars.MultivariateNormal([0, 1], [[1, 0.5], [0, 1]]), r"cholesky\[0\]\[1\] is 0.5, must be 0"),
        (lambda: ars.MultivariateNormal([0, 1], [[1, 0], [0, 0]]), r"cholesky\[1\]\[1\] is 0, must be a positive"),
        (
            lambda: ars.MultivariateNormal([0, 1], [[1, 0], [math.inf, 1]]),
            r"cholesky\[1\]\[0\] is inf, must be a finite",
        ),
        (lambda: ars.MultivariateNormal([0, math.nan], np.eye(2)), r"mean\[1\] is nan, must be a finite number"),
        (lambda: ars.MultivariateNormal([0, 1], np.eye(3)), r"cholesky has shape \(3, 3\), must be \(2, 2\)"),
        (lambda: ars.MultivariateNormal(0, [[1]]), r"mean has shape \(\), must have 1 dimension"),
        (lambda: ars.MultivariateNormal([], np.empty((0, 0))), r"n is 0, must be from 1 to 512"),
        (lambda: ars.MultivariateNormal(np.zeros(513), np.eye(513)), r"n is 513, must be from 1 to 512"),
        (lambda: ars.Dirichlet([1.0]), r"n is 1, must be from 2 to 512"),
        (lambda: ars.Dirichlet([1.0, 0.0]), r"concentration\[1\] is 0, must be a positive number"),
        (lambda: ars.Dirichlet("ab"), r"concentration is 'ab', must be an array of numbers"),
        (lambda: ars.Dirichlet([1.0, 2.0]).log_prob([0.5]), r"its last axis must have 2 numbers"),
        (lambda: ars.Dirichlet([1.0, 2.0]).sample(-1, 1), r"n is -1, must not be negative"),
        (lambda: ars.Dirichlet([1.0, 2.0]).sample(1, -1), r"seed is -1"),
    ],
)
def test_wrong_parameters_are_named(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_they_are_values() -> None:
    d = ars.Dirichlet([1.0, 2.0])
    assert d == ars.Dirichlet([1, 2]) and hash(d) == hash(ars.Dirichlet([1, 2])) and d != ars.Dirichlet([2, 1])
    assert repr(d) == "Dirichlet(concentration=[1.0, 2.0])" and d.dimension == 2
    normal = ars.MultivariateNormal([0, 1], np.eye(2))
    assert normal != d and normal == ars.MultivariateNormal([0, 1], np.eye(2))
    with pytest.raises(ValueError, match="read-only"):
        normal.mean[0] = 1
