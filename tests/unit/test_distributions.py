"""Distributions: densities against scipy and 50-digit values, samplers against exact laws."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from distribution_table import CONTINUOUS, DISCRETE, EXTREME, LEAST_P, Array, all_kinds, inf, name, scipys_error
from scipy import integrate, stats

from ars import distributions as ars

# ---- densities ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "scipys"), CONTINUOUS, ids=name)
def test_log_density_agrees_with_scipy_into_the_tails(ours: ars.Distribution, scipys: Any) -> None:
    tails = 10.0 ** np.arange(-12.0, 0)
    x = np.concatenate([scipys.ppf(tails), scipys.ppf(np.linspace(0.05, 0.95, 19)), scipys.isf(tails)])
    low, high = ours.support()
    x = np.unique(x[np.isfinite(x) & (x > low) & (x < high)])
    assert len(x) > 15
    np.testing.assert_allclose(ours.log_prob(x), scipys.logpdf(x), rtol=1e-10, atol=scipys_error(ours))


@pytest.mark.parametrize(("ours", "scipys"), DISCRETE, ids=name)
def test_log_probability_agrees_with_scipy_into_the_tails(ours: ars.Distribution, scipys: Any) -> None:
    tails = 10.0 ** np.arange(-12.0, 0)
    x = np.unique(np.concatenate([scipys.ppf(tails), scipys.ppf(np.linspace(0.05, 0.95, 19)), scipys.isf(tails)]))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(ours.log_prob(x), scipys.logpmf(x), rtol=1e-10, atol=scipys_error(ours))
    assert np.all(ours.log_prob(x + 0.5) == -inf)


@pytest.mark.parametrize(("d", "x", "wanted"), EXTREME)
def test_log_density_at_extreme_points(d: ars.Distribution, x: float, wanted: float) -> None:
    np.testing.assert_allclose(d.log_prob(x), wanted, rtol=2e-12, atol=2e-14)


def light(d: ars.Distribution) -> bool:
    """Tails of a StudentT with a small df are too long for pieces between quantiles."""
    return not isinstance(d, ars.StudentT) or float(np.asarray(d.df)) > 2


@pytest.mark.parametrize(("ours", "scipys"), [pair for pair in CONTINUOUS if light(pair[0])], ids=name)
def test_density_integrates_to_one(ours: ars.Distribution, scipys: Any) -> None:
    """Piece by piece between quantiles, in the logarithm of the distance to the nearer end, which takes away a pole."""
    low, high = (float(end) for end in ours.support())
    cuts = np.unique(np.concatenate([scipys.ppf([1e-13, 1e-6, 1e-3, 0.1, 0.5]), scipys.isf([0.1, 1e-3, 1e-6, 1e-13])]))
    # Closer to an end than this, doubles have no digits left for the distance; that mass is taken from scipy.
    for end in (low, high):
        if np.isfinite(end):
            cuts = cuts[np.abs(cuts - end) > 1e-8 * abs(end)]
    node, weight = np.polynomial.legendre.leggauss(200)
    total = float(scipys.cdf(cuts[0]) + scipys.sf(cuts[-1]))
    for left, right in itertools.pairwise(cuts):
        anchor = low if right - low < high - right else high
        if np.isfinite(anchor):
            first, last = sorted([np.log(abs(left - anchor)), np.log(abs(right - anchor))])
            t = 0.5 * (first + last) + 0.5 * (last - first) * node
            x, log_jacobian, width = anchor + np.sign(left - anchor) * np.exp(t), t, last - first
        else:
            x, log_jacobian, width = 0.5 * (left + right) + 0.5 * (right - left) * node, np.zeros(200), right - left
        total += 0.5 * width * float(weight @ np.exp(ours.log_prob(x) + log_jacobian))
    rounding = np.spacing(np.abs(cuts).max()) / (cuts[-1] - cuts[0])
    assert total == pytest.approx(1, abs=1e-9 + 10 * rounding)


@pytest.mark.parametrize(
    ("d", "counts"),
    [
        (ars.Poisson(1e6), np.arange(990_000, 1_010_000)),
        (ars.Binomial(4_000_000_000, 1e-6), np.arange(3_200, 4_900)),
        (ars.Binomial(20, 0.3), np.arange(21)),
        (ars.NegativeBinomial(0.3, 0.05), np.arange(2000)),
        (ars.NegativeBinomial(1e6, 0.5), np.arange(980_000, 1_020_000)),
        (ars.Categorical([0.1, 0, 0.6, 0.3]), np.arange(4)),
        (ars.Mixture([0.5, 0.5], [ars.Poisson(1), ars.Binomial(9, 0.2)]), np.arange(60)),
    ],
    ids=name,
)
def test_probabilities_sum_to_one(d: ars.Distribution, counts: npt.NDArray[np.int64]) -> None:
    assert np.exp(d.log_prob(counts)).sum() == pytest.approx(1, abs=1e-11)


def test_mixture_is_the_weighted_sum_of_its_components() -> None:
    weights, parts = [0.2, 0.3, 0.5], [ars.Normal(0, 1), ars.Normal(3, 0.5), ars.Uniform(-1, 2)]
    x = np.linspace(-5, 5, 101)
    wanted = np.log(sum(w * np.exp(part.log_prob(x)) for w, part in zip(weights, parts, strict=True)))
    np.testing.assert_allclose(ars.Mixture(weights, parts).log_prob(x), wanted, rtol=1e-13)
    assert ars.Mixture(weights, parts).log_prob(60.0) == pytest.approx(np.log(0.2) + stats.norm.logpdf(60), rel=1e-13)
    area, _ = integrate.quad(lambda t: np.exp(ars.Mixture(weights, parts).log_prob(t)), -12, 12, points=[-1, 2, 3])
    assert area == pytest.approx(1, abs=1e-9)


def test_outside_the_support_and_nan() -> None:
    for d in all_kinds():
        low, high = (float(end) for end in d.support())
        assert np.isnan(d.log_prob(np.nan))
        assert d.log_prob(inf) == -inf
        assert d.log_prob(-inf) == -inf
        if np.isfinite(low):
            assert d.log_prob(np.nextafter(low, -inf)) == -inf
        if np.isfinite(high):
            assert d.log_prob(np.nextafter(high, inf)) == -inf


# ---- samplers -------------------------------------------------------------------------------------------------------

DRAWS = 40_000


@pytest.mark.parametrize(("ours", "scipys"), CONTINUOUS, ids=name)
def test_continuous_sampler(ours: ars.Distribution, scipys: Any) -> None:
    x = ours.sample(DRAWS, seed=20)
    assert np.all(np.isfinite(ours.log_prob(x)))
    assert stats.kstest(x, scipys.cdf).pvalue > LEAST_P
    # Kolmogorov-Smirnov is weak in the tails: count the draws there.
    for p in (0.01, 0.001):
        assert stats.binomtest(int(np.sum(x < scipys.ppf(p))), DRAWS, p).pvalue > LEAST_P
        assert stats.binomtest(int(np.sum(x > scipys.isf(p))), DRAWS, p).pvalue > LEAST_P


def chi_square(observed: Array, probability: Array) -> float:
    """p-value; bins with few expected draws are put together from both ends."""
    expected = probability * observed.sum()
    while len(expected) > 2 and (expected[0] < 10 or expected[-1] < 10):
        at = slice(1, None) if expected[0] < 10 else slice(None, -1)
        into, away = (0, 0) if expected[0] < 10 else (-1, -1)
        e, o = expected[away], observed[away]
        expected, observed = expected[at].copy(), observed[at].copy()
        expected[into] += e
        observed[into] += o
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize(("ours", "scipys"), DISCRETE, ids=name)
def test_discrete_sampler(ours: ars.Distribution, scipys: Any) -> None:
    x = ours.sample(DRAWS, seed=21)
    assert np.all(x == np.floor(x))
    assert np.all(np.isfinite(ours.log_prob(x)))
    # Bins: single values if they are few, else 100 of them, fixed by quantiles.
    tails = 10.0 ** np.arange(-4.0, -2)
    edges = np.unique(np.concatenate([scipys.ppf(tails), scipys.ppf(np.linspace(0.01, 0.99, 99)), scipys.isf(tails)]))
    if edges[-1] - edges[0] < 200:
        edges = np.arange(edges[0], edges[-1] + 1)
    probability = np.diff(np.concatenate([[0.0], scipys.cdf(edges), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, x), minlength=len(probability)).astype(np.float64)
    assert np.all(observed[probability == 0] == 0)
    kept = probability > 0
    assert chi_square(observed[kept], probability[kept]) > LEAST_P


@pytest.mark.parametrize(
    "d",
    [
        ars.Poisson(4),
        ars.Poisson(12),
        ars.Poisson(200),
        ars.Binomial(40, 0.3),
        ars.Binomial(4000, 0.4),
        ars.NegativeBinomial(2.5, 0.3),
    ],
    ids=name,
)
def test_counts_follow_their_own_probabilities(d: ars.Distribution) -> None:
    """Value by value, with many draws: a wrong constant in a rejection sampler shows here."""
    x = d.sample(1_000_000, seed=22)
    values = np.arange(x.min(), x.max() + 1)
    observed = np.bincount((x - x.min()).astype(np.int64)).astype(np.float64)
    assert chi_square(observed, np.exp(d.log_prob(values))) > LEAST_P


def test_sampler_of_a_mixture() -> None:
    d = ars.Mixture([0.25, 0.75, 0], [ars.Normal(0, 1), ars.Uniform(2, 3), ars.Normal(50, 1)])
    x = d.sample(DRAWS, seed=23)
    assert stats.kstest(x, lambda t: 0.25 * stats.norm.cdf(t) + 0.75 * stats.uniform.cdf(t, 2, 1)).pvalue > LEAST_P


@pytest.mark.parametrize(("a", "b"), [(1e-3, 1e-3), (1e-3, 2.0), (2.0, 1e-3), (1e-2, 1e-4)])
def test_beta_with_tiny_shapes(a: float, b: float) -> None:
    """Much of the mass is below 1e-300, or above 1 - 1e-15; none may land on 0 or 1."""
    x = ars.Beta(a, b).sample(DRAWS, seed=24)
    assert np.all((x > 0) & (x < 1))
    lower = np.array([1e-300, 1e-200, 1e-100, 1e-20, 1e-5, 0.5])
    upper = np.array([1e-3, 1e-6, 1e-10, 1e-14])
    cdf = np.concatenate([[0], stats.beta.cdf(lower, a, b), 1 - stats.beta.cdf(upper, b, a), [1]])
    edges = np.concatenate([lower, 1 - upper])
    observed = np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1).astype(np.float64)
    keep = np.diff(cdf) * DRAWS > 5
    assert (
        stats.chisquare(observed[keep], np.diff(cdf)[keep] * observed[keep].sum() / np.diff(cdf)[keep].sum()).pvalue
        > LEAST_P
    )


def test_gamma_with_a_tiny_shape_in_logarithms() -> None:
    """log X / -shape tends to an exponential; at shape 0.01 X itself spans hundreds of orders of magnitude."""
    x = ars.Gamma(0.01, 1).sample(DRAWS, seed=25)
    assert np.all(x > 0)
    edges = np.array([1e-300, 1e-200, 1e-100, 1e-50, 1e-10, 0.1])
    probability = np.diff(np.concatenate([[0], stats.gamma.cdf(edges, 0.01), [1]]))
    observed = np.bincount(np.searchsorted(edges, x), minlength=7).astype(np.float64)
    assert chi_square(observed, probability) > LEAST_P


def test_student_t_with_a_small_df_in_logarithms() -> None:
    """At df 0.05 values span hundreds of orders of magnitude; half of them are negative."""
    x = ars.StudentT(0.05, 0, 1).sample(DRAWS, seed=28)
    assert np.all(np.isfinite(x))
    assert stats.binomtest(int(np.sum(x > 0)), DRAWS, 0.5).pvalue > LEAST_P
    edges = np.array([1e-3, 1, 1e10, 1e40, 1e100, 1e200])
    probability = np.diff(np.concatenate([[0], 1 - 2 * stats.t.sf(edges, 0.05), [1]]))
    observed = np.bincount(np.searchsorted(edges, np.abs(x)), minlength=7).astype(np.float64)
    assert chi_square(observed, probability) > LEAST_P


def test_negative_binomial_moments_where_scipy_has_no_quantiles() -> None:
    """Mean and variance, r (1 - p) / p and r (1 - p) / p^2, within 4 standard errors."""
    for r, p in ((1e15, 0.5), (0.5, 1e-12), (8e30, 1 - 2**-53), (1e3, 1 - 1e-6)):
        x = ars.NegativeBinomial(r, p).sample(DRAWS, seed=29)
        assert np.array_equal(x, np.floor(x))
        mean = r * (1 - p) / p
        spread = np.sqrt(mean / p)
        assert abs(x.mean() - mean) < 4 * spread / np.sqrt(DRAWS)
        share = ((x - mean) / spread) ** 2
        kurtosis = 3 + 6 / r + p * p / ((1 - p) * r)
        assert abs(share.mean() - 1) < 4 * np.sqrt((kurtosis - 1) / DRAWS)
    assert np.all(ars.NegativeBinomial(1e100, 1).sample(10, seed=1) == 0)
    assert np.all(ars.NegativeBinomial(1e-100, 1e-9).sample(1000, seed=1) == 0)


def test_far_truncation_keeps_its_resolution() -> None:
    """10^8 standard deviations out, the distance from the end is exponential with that rate."""
    x = ars.TruncatedNormal(-1, 1e-8, 0, inf).sample(DRAWS, seed=26)
    assert stats.kstest(x * 1e16, stats.expon.cdf).pvalue > LEAST_P
    x = -ars.TruncatedNormal(1, 1e-8, -inf, 0).sample(DRAWS, seed=27)
    assert stats.kstest(x * 1e16, stats.expon.cdf).pvalue > LEAST_P


def test_the_seed_fixes_the_draws() -> None:
    for d in all_kinds():
        first = d.sample(50, seed=1)
        assert np.array_equal(first, d.sample(50, seed=1))
        assert d.discrete or not np.array_equal(first, d.sample(50, seed=2))
