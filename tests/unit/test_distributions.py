"""Distributions: densities against scipy and 50-digit values, samplers against exact laws, the wire, bad parameters."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from ars import _native
from ars import distributions as ars

inf = np.inf
Array = npt.NDArray[np.float64]


def truncnorm(mean: float, std: float, low: float, high: float) -> Any:
    return stats.truncnorm((low - mean) / std, (high - mean) / std, loc=mean, scale=std)


# Ours, and the same distribution in scipy.
CONTINUOUS: list[tuple[ars.Distribution, Any]] = [
    (ars.Uniform(-1, 3), stats.uniform(-1, 4)),
    (ars.Uniform(1e6, 1e6 + 1), stats.uniform(1e6, 1)),
    (ars.Normal(2, 0.5), stats.norm(2, 0.5)),
    (ars.Normal(-1e6, 1e-3), stats.norm(-1e6, 1e-3)),
    (ars.Beta(2, 3), stats.beta(2, 3)),
    (ars.Beta(0.5, 0.5), stats.beta(0.5, 0.5)),
    (ars.Beta(0.05, 3), stats.beta(0.05, 3)),
    (ars.Beta(1, 1), stats.beta(1, 1)),
    (ars.Beta(1, 0.3), stats.beta(1, 0.3)),
    (ars.Beta(1e4, 2e4), stats.beta(1e4, 2e4)),
    (ars.Gamma(0.01, 2), stats.gamma(0.01, scale=0.5)),
    (ars.Gamma(0.7, 2), stats.gamma(0.7, scale=0.5)),
    (ars.Gamma(1, 2), stats.gamma(1, scale=0.5)),
    (ars.Gamma(5, 1e-3), stats.gamma(5, scale=1e3)),
    (ars.Gamma(1e6, 3), stats.gamma(1e6, scale=1 / 3)),
    (ars.Exponential(3), stats.expon(scale=1 / 3)),
    (ars.Weibull(2, 0.3), stats.weibull_min(0.3, scale=2)),
    (ars.Weibull(2, 5), stats.weibull_min(5, scale=2)),
    (ars.LogNormal(1, 0.5), stats.lognorm(0.5, scale=np.exp(1))),
    (ars.LogNormal(-3, 4), stats.lognorm(4, scale=np.exp(-3))),
    (ars.TruncatedNormal(0, 1, -1, 2), truncnorm(0, 1, -1, 2)),
    (ars.TruncatedNormal(0, 1, -0.3, 0.2), truncnorm(0, 1, -0.3, 0.2)),
    (ars.TruncatedNormal(0, 1, -inf, 0), truncnorm(0, 1, -inf, 0)),
    (ars.TruncatedNormal(1, 2, 4, inf), truncnorm(1, 2, 4, inf)),
    (ars.TruncatedNormal(0, 1, 0.2, 0.9), truncnorm(0, 1, 0.2, 0.9)),
    (ars.TruncatedNormal(0, 1, 8, 9), truncnorm(0, 1, 8, 9)),
    (ars.TruncatedNormal(0, 1, -9, -8), truncnorm(0, 1, -9, -8)),
    (ars.TruncatedNormal(0, 1, 8, 8.01), truncnorm(0, 1, 8, 8.01)),
    (ars.TruncatedNormal(0, 1, 30, inf), truncnorm(0, 1, 30, inf)),
    (ars.TruncatedNormal(0, 1, -inf, -30), truncnorm(0, 1, -inf, -30)),
    (ars.StudentT(0.4, 1, 2), stats.t(0.4, 1, 2)),
    (ars.StudentT(1, 0, 1), stats.t(1)),
    (ars.StudentT(4.5, -2, 0.1), stats.t(4.5, -2, 0.1)),
    (ars.StudentT(1e6, 1e3, 5), stats.t(1e6, 1e3, 5)),
    (ars.ScaledBeta(2, 3, -1, 4), stats.beta(2, 3, -1, 5)),
    (ars.ScaledBeta(0.3, 0.4, 10, 11), stats.beta(0.3, 0.4, 10, 1)),
    (ars.ScaledBeta(0.3, 4, 0, 1e-9), stats.beta(0.3, 4, 0, 1e-9)),
]

DISCRETE: list[tuple[ars.Distribution, Any]] = [
    (ars.Bernoulli(0.3), stats.bernoulli(0.3)),
    (ars.Bernoulli(1e-3), stats.bernoulli(1e-3)),
    (ars.Poisson(1e-3), stats.poisson(1e-3)),
    (ars.Poisson(3), stats.poisson(3)),
    (ars.Poisson(9.99), stats.poisson(9.99)),
    (ars.Poisson(10), stats.poisson(10)),
    (ars.Poisson(150), stats.poisson(150)),
    (ars.Poisson(1e6), stats.poisson(1e6)),
    (ars.Binomial(1, 0.4), stats.binom(1, 0.4)),
    (ars.Binomial(20, 0.3), stats.binom(20, 0.3)),
    (ars.Binomial(20, 0.9), stats.binom(20, 0.9)),
    (ars.Binomial(25, 0.5), stats.binom(25, 0.5)),
    (ars.Binomial(1000, 0.98), stats.binom(1000, 0.98)),
    (ars.Binomial(100_000, 1e-4), stats.binom(100_000, 1e-4)),
    (ars.Binomial(4_000_000_000, 0.5), stats.binom(4_000_000_000, 0.5)),
    (ars.Binomial(4_000_000_000, 1e-9), stats.binom(4_000_000_000, 1e-9)),
    (ars.NegativeBinomial(1, 0.4), stats.nbinom(1, 0.4)),
    (ars.NegativeBinomial(0.05, 0.01), stats.nbinom(0.05, 0.01)),
    (ars.NegativeBinomial(3.5, 0.2), stats.nbinom(3.5, 0.2)),
    (ars.NegativeBinomial(40, 0.95), stats.nbinom(40, 0.95)),
    (ars.NegativeBinomial(2.5, 1e-3), stats.nbinom(2.5, 1e-3)),
    (ars.NegativeBinomial(1e5, 0.999), stats.nbinom(1e5, 0.999)),
    (ars.Categorical([0.1, 0, 0.6, 0.3]), stats.rv_discrete(values=(range(4), [0.1, 0, 0.6, 0.3]))),
]

# Log densities computed with 60 digits and more (mpmath), where scipy's own error is too large.
EXTREME: list[tuple[ars.Distribution, float, float]] = [
    (ars.Poisson(1000000.0), 1000000, -7.8266938955201431),
    (ars.Poisson(1000000.0), 1003000, -12.323698387635038),
    (ars.Poisson(1000000.0), 3000000, -1295845.2420043134),
    (ars.Poisson(1000000000000000.0), 1000000000000000, -18.188326730660015),
    (ars.Poisson(1000000000000000.0), 1000000100000000, -23.188326613993355),
    (ars.Poisson(1e-300), 1, -690.77552789821371),
    (ars.Poisson(1e-300), 2, -1382.2442029769874),
    (ars.Binomial(4294967295, 0.3), 1288490188, -11.228969548015757),
    (ars.Binomial(4294967295, 0.3), 1288600000, -17.913655802739769),
    (ars.Binomial(4294967295, 0.3), 0, -1531907219.162814),
    (ars.Binomial(4294967295, 0.3), 4294967294, -5171023795.6213221),
    (ars.Binomial(1000, 0.999999999999999), 1000, -9.9920072216264139e-13),
    (ars.Binomial(1000, 0.999999999999999), 999, -27.631820713359743),
    (ars.Binomial(1000, 0.999999999999999), 0, -34539.575992340882),
    (ars.Binomial(4294967295, 1e-12), 0, -0.0042949672950021474),
    (ars.Binomial(4294967295, 1e-12), 1, -5.4546063055371311),
    (ars.Binomial(4294967295, 1e-12), 5, -32.043343403615999),
    (ars.Beta(0.001, 0.001), 5e-324, 736.09473103245153),
    (ars.Beta(0.001, 0.001), 1e-300, 682.48385155330714),
    (ars.Beta(0.001, 0.001), 0.5, -6.2159927502495767),
    (ars.Beta(0.001, 0.001), 0.999999999999999, 26.904135599340195),
    (ars.Beta(1e-100, 1e-100), 1e-300, 459.82387141824919),
    (ars.Beta(1e-100, 1e-100), 0.5, -229.56536211884462),
    (ars.Beta(100000000.0, 100000000.0), 0.5, 9.331122608361428),
    (ars.Beta(100000000.0, 100000000.0), 0.5001, 5.3311225683623077),
    (ars.Beta(100000000.0, 100000000.0), 0.1, -102165114.40042428),
    (ars.Beta(0.5, 100000000.0), 5e-324, 380.85801138849211),
    (ars.Beta(0.5, 100000000.0), 1e-09, 18.899608347224688),
    (ars.Beta(0.5, 100000000.0), 0.5, -69314708.378298332),
    (ars.Beta(1000000000000000.0, 3), 0.999999999999997, 33.043652430338645),
    (ars.Beta(1000000000000000.0, 3), 0.5, -693147180559843.08),
    (ars.ScaledBeta(5e6, 5e6, -1, 1), 0.000244140625, 6.842086094120396),
    (ars.ScaledBeta(5e6, 5e6, -1, 1), 0.5, -1438402.9344675649),
    (ars.ScaledBeta(5e6, 2, -1, 1), 0.9999997615814209, 13.618318443286292),
    (ars.ScaledBeta(0.5, 5e6, -1, 3), -0.9999990463256836, 12.18634109311622),
    (ars.Gamma(0.001, 1e-300), 5e-324, 736.09767743617781),
    (ars.Gamma(0.001, 1e-300), 1e-10, 15.404870665728449),
    (ars.Gamma(0.001, 1e-300), 1e300, -698.68270678359756),
    (ars.Gamma(1000000000000000.0, 1e-05), 1e20, -29.701252195630244),
    (ars.Gamma(1000000000000000.0, 1e-05), 1.0000001e20, -34.701251962285237),
    (ars.Gamma(100000000.0, 1e300), 1e-292, 680.64624899219952),
    (ars.Weibull(1e-300, 0.1), 1e-300, 687.47294280521966),
    (ars.Weibull(1e-300, 0.1), 1e-290, 657.74967696827325),
    (ars.Weibull(100000.0, 1000.0), 99900.0, -5.9723654440090054),
    (ars.Weibull(100000.0, 1000.0), 1.0, -11506.017709691246),
    (ars.TruncatedNormal(0, 1, 8, 9), 8.0, 2.0946800602324754),
    (ars.TruncatedNormal(0, 1, 8, 9), 8.5, -2.0303199397675246),
    (ars.TruncatedNormal(0, 1, 8, 9), 9.0, -6.4053199397675246),
    (ars.TruncatedNormal(0, 1, 100, 100.001), 100.0, 6.957338809542211),
    (ars.TruncatedNormal(0, 1, 100, 100.001), 100.0005, 6.9073386845419722),
    (ars.TruncatedNormal(1000.0, 0.001, 0, 1), 1.0, 20.72226533661383),
    (ars.TruncatedNormal(1000.0, 0.001, 0, 1), 0.999999999, 19.723265364866979),
    (ars.TruncatedNormal(0, 1, -1e-08, 1e-08), 0.0, 17.72753356339242),
    (ars.TruncatedNormal(0, 1, 5, 5.000000001), 5.0, 20.723265756706044),
    (ars.TruncatedNormal(0, 1, -np.inf, -40), -40.0, 3.6895034805491154),
    (ars.TruncatedNormal(0, 1, -np.inf, -40), -41.0, -36.810496519450885),
    (ars.TruncatedNormal(0, 1, 10000.0, np.inf), 10000.0, 9.2103403819761825),
    (ars.TruncatedNormal(0, 1, 10000.0, np.inf), 10000.0005, 4.2103402559575484),
    (ars.TruncatedNormal(0, 1, -np.inf, 0), 0.0, -0.22579135264472743),
    (ars.TruncatedNormal(0, 1, -np.inf, 0), -30.0, -450.22579135264473),
    (ars.TruncatedNormal(0, 1, 10, 10.2), 10.1, 1.4467265958058239),
    (ars.NegativeBinomial(1e-100, 0.5), 0, -6.9314718055994532e-101),
    (ars.NegativeBinomial(1e-100, 0.5), 1, -230.95165647996451),
    (ars.NegativeBinomial(1e-100, 0.5), 1000, -930.31344513833201),
    (ars.NegativeBinomial(0.001, 1e-12), 0, -0.027631021115928549),
    (ars.NegativeBinomial(0.001, 1e-12), 1000000000, -27.638352477609747),
    (ars.NegativeBinomial(0.5, 1e-15), 100000000000000, -34.059848791338364),
    (ars.NegativeBinomial(1e15, 0.5), 1000000000000000, -18.534900320939988),
    (ars.NegativeBinomial(1e15, 0.5), 1000000100000000, -21.034900270939992),
    (ars.NegativeBinomial(1e17, 1 - 2**-53), 11, -2.1259319686870238),
    (ars.NegativeBinomial(1e17, 1 - 2**-53), 100, -134.12700467964748),
    (ars.NegativeBinomial(8e30, 1 - 2**-53), 888178419700125, -18.129035414116725),
    (ars.NegativeBinomial(2.5, 0.999999999999999), 0, -2.4980018054066035e-15),
    (ars.NegativeBinomial(2.5, 0.999999999999999), 3, -101.73735634910491),
    (ars.NegativeBinomial(1e8, 0.9999), 10001, -5.5242170516932613),
    (ars.NegativeBinomial(7, 0.3), 0, -8.4278096302815522),
    (ars.StudentT(1e-100, 0, 1), 0, -115.82240183026223),
    (ars.StudentT(1e-100, 0, 1), 1.0, -230.95165647996451),
    (ars.StudentT(1e-100, 0, 1), 1e300, -921.72718437817822),
    (ars.StudentT(0.1, 0, 1), 1e-300, -1.909920741368282),
    (ars.StudentT(0.1, 0, 1), 1e300, -763.02942323055009),
    (ars.StudentT(0.5, 1e300, 1e-300), -1e300, -1384.4211698785988),
    (ars.StudentT(1e100, 0, 1), 3, -5.4189385332046727),
    (ars.StudentT(1e100, 0, 1), -40, -800.91893853320467),
    (ars.StudentT(1e8, 2, 3), 50, -130.01738826465076),
    (ars.StudentT(1e8, 2, 3), 1000000.0, -350700575.19833518),
    (ars.StudentT(1e15, 0, 1), 5, -13.418938533204529),
    (ars.StudentT(3, 0, 1), 10000000000.0, -90.907067992049118),
    (ars.StudentT(3, 0, 1), 1e200, -1840.8717386675238),
    (ars.StudentT(1, -1.5e308, 1), 1.5e308, -1421.7343717475178),
    (ars.StudentT(5, 0, 1e-308), 1e308, -7797.2986009155792),
    (ars.StudentT(30, 1, 2), 1.0001, -1.6204175072304576),
]


def name(value: object) -> str:
    return repr(value) if isinstance(value, ars.Distribution) else ""


def all_kinds() -> list[ars.Distribution]:
    mixture = ars.Mixture(
        [0.2, 0.3, 0.5], [ars.Normal(0, 1), ars.ScaledBeta(2, 3, -1, 4), ars.TruncatedNormal(0, 1, 1, inf)]
    )
    return [*(d for d, _ in CONTINUOUS), *(d for d, _ in DISCRETE), mixture, ars.Mixture([1], [ars.Poisson(3)])]


def scipys_error(d: ars.Distribution) -> float:
    """scipy subtracts terms of the size n log n from each other; EXTREME has exact values for large n."""
    counts = (ars.Poisson, ars.Binomial, ars.Gamma, ars.NegativeBinomial, ars.StudentT)
    n = max(2.0, *(float(np.max(value)) for value in d.parameters.values())) if isinstance(d, counts) else 2.0
    return 1e-10 + 1e-15 * n * np.log(n)


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
LEAST_P = 1e-4


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


# ---- rows -----------------------------------------------------------------------------------------------------------


def test_rows_are_independent_distributions() -> None:
    mean, std = np.arange(5.0), np.array([1, 2, 3, 4, 5.0])
    d = ars.Normal(mean, std)
    x = np.linspace(-1, 1, 5)
    assert d.rows == 5
    np.testing.assert_allclose(d.log_prob(x), stats.norm.logpdf(x, mean, std), rtol=1e-13)
    np.testing.assert_allclose(d.log_prob(0.5), stats.norm.logpdf(0.5, mean, std), rtol=1e-13)
    draws = ars.Normal(1e6 * np.arange(1000), 1).sample(1000, seed=3) - 1e6 * np.arange(1000)
    assert stats.kstest(draws, stats.norm.cdf).pvalue > LEAST_P


def test_scalars_are_repeated_over_rows() -> None:
    assert ars.Normal(0, [1, 2]).encode(2) == ars.Normal(0, 1).encode(1) + ars.Normal(0, 2).encode(1)
    assert ars.Normal(0, 1).encode(3) == ars.Normal(0, 1).encode(1) * 3
    assert ars.Normal(0, 1).encode(0) == []
    assert ars.Normal([], 1).encode(0) == []
    assert ars.Categorical([[0.5, 0.5], [0.1, 0.9]]).encode(2)[1] == ars.Categorical([0.1, 0.9]).encode(1)[0]


def test_rows_of_a_mixture() -> None:
    weights = np.array([[0.5, 0.5], [0.1, 0.9], [1, 0]])
    d = ars.Mixture(weights, [ars.Normal([0, 1, 2], 1), ars.Uniform(0, 1)])
    for i, encoded in enumerate(d.encode(3)):
        assert encoded == ars.Mixture(weights[i], [ars.Normal(i, 1), ars.Uniform(0, 1)]).encode(1)[0]
    assert ars.Mixture([0.5, 0.5], [ars.Normal([0, 1], 1), ars.Normal(0, 1)]).rows == 2


def test_nested_mixtures_are_flattened() -> None:
    inner = ars.Mixture([[0.5, 0.5], [0.2, 0.8]], [ars.Normal(1, 1), ars.Normal(2, 1)])
    nested = ars.Mixture([0.4, 0.6], [ars.Normal(0, 1), inner])
    flat = ars.Mixture([[0.4, 0.3, 0.3], [0.4, 0.12, 0.48]], [ars.Normal(0, 1), ars.Normal(1, 1), ars.Normal(2, 1)])
    assert len(nested.components) == 3
    x = np.array([0.3, 2.5])
    np.testing.assert_allclose(nested.log_prob(x), flat.log_prob(x), rtol=1e-14)


# ---- the wire -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [*all_kinds(), ars.Prior()], ids=name)
def test_there_and_back(d: ars.Distribution) -> None:
    [encoded] = d.encode(1)
    assert ars.decode(encoded) == d
    header = np.frombuffer(encoded[:8], dtype=_native.DTYPES["dist"])[0]
    assert header["kind"] == d.kind
    assert header["reserved"] == 0
    assert len(encoded) == 8 + 8 * header["n"]


def test_rows_there_and_back() -> None:
    for d in (
        ars.Normal([0, 1], [1, 2]),
        ars.Categorical([[0.5, 0.5], [0.1, 0.9]]),
        ars.Mixture([[0.5, 0.5], [0.1, 0.9]], [ars.Normal([0, 1], [1, 1]), ars.Uniform([0, 0], [1, 2])]),
    ):
        assert ars.decode_rows(d.encode(2)) == d
        assert ars.decode_rows(d.encode(2)).encode(2) == d.encode(2)
    with pytest.raises(ValueError, match="2 kinds or sizes of distributions among 2 rows"):
        ars.decode_rows([*ars.Normal(0, 1).encode(1), *ars.Poisson(1).encode(1)])


@given(st.binary(max_size=200))
def test_random_bytes_never_crash(data: bytes) -> None:
    try:
        d = ars.decode(data)
    except ValueError:
        return
    assert d.encode(1) == [data]


@given(
    st.sampled_from(list(_native.DistKind)),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(-1, 1),
    st.lists(st.floats() | st.sampled_from([0.0, 1.0, 2.0, 0.5, 7.0, 14.0]), max_size=14),
)
def test_almost_valid_bytes_never_crash(kind: int, reserved: int, off: int, numbers: list[float]) -> None:
    header = np.array([(kind, reserved, max(0, len(numbers) + off))], dtype=_native.DTYPES["dist"])
    data = header.tobytes() + np.array(numbers, dtype=np.float64).tobytes()
    try:
        d = ars.decode(data)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return
    assert d.encode(1) == [data]
    if not isinstance(d, ars.Prior):
        x = d.sample(3, seed=1)
        assert np.all(np.isfinite(x))
        assert not np.any(np.isnan(d.log_prob(x)))


# ---- bad parameters -------------------------------------------------------------------------------------------------

many = [ars.Normal(i, 1) for i in range(65)]
BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: ars.Normal(0, -1), "Normal: std is -1, must be a positive finite number"),
    (lambda: ars.Normal(0, [1, 2, -3]), "row 2: Normal: std is -3, must be a positive finite number"),
    (lambda: ars.Normal([0, np.nan], 1), "row 1: Normal: mean is nan, must be a finite number"),
    (lambda: ars.Normal("wide", 1), "Normal: mean is 'wide', must be a number or an array of numbers"),
    (lambda: ars.Normal(None, [1, 2]), "Normal: mean is nan, must be a finite number"),
    (lambda: ars.Normal([[0]], 1), r"Normal: mean has shape (1, 1), must be a number, or an array of one per row"),
    (
        lambda: ars.Normal([0, 1], [1, 2, 3]),
        "Normal: mean has 2 rows, std has 3 rows; give scalars or equally many rows",
    ),
    (lambda: ars.Uniform(1, 1), "Uniform: low is 1, must be below high, which is 1"),
    (lambda: ars.Uniform(0, inf), "Uniform: high is inf, must be a finite number"),
    (lambda: ars.Bernoulli(1.5), "Bernoulli: p is 1.5, must be a probability from 0 to 1"),
    (lambda: ars.Categorical([0.5, 0.6]), "Categorical: the probabilities sum to 1.1, must sum to 1"),
    (lambda: ars.Categorical([1.5, -0.5]), "Categorical: p[0] is 1.5, must be a probability from 0 to 1"),
    (lambda: ars.Categorical([]), "Categorical: k is 0, must be from 1 to 512"),
    (lambda: ars.Categorical(np.full(513, 1 / 513)), "Categorical: k is 513, must be from 1 to 512"),
    (lambda: ars.Categorical(1.0), "Categorical: p has shape (), must be an array, or one array per row"),
    (lambda: ars.Poisson(-2), "Poisson: rate is -2, must be a number from 0 to 1e15"),
    (lambda: ars.Binomial(2.5, 0.5), "Binomial: n is 2.5, must be a whole number from 0 to 4294967295"),
    (lambda: ars.Binomial(2**32, 0.5), "Binomial: n is 4294967296, must be a whole number from 0 to 4294967295"),
    (lambda: ars.Beta(0, 1), "Beta: a is 0, must be a positive number"),
    (lambda: ars.Gamma(1, inf), "Gamma: rate is inf, must be a positive finite number"),
    (lambda: ars.Exponential(0), "Exponential: rate is 0, must be a positive finite number"),
    (lambda: ars.Weibull(-1, 1), "Weibull: scale is -1, must be a positive finite number"),
    (lambda: ars.LogNormal(0, 0), "LogNormal: sigma is 0, must be a positive finite number"),
    (lambda: ars.TruncatedNormal(0, 1, 2, 1), "TruncatedNormal: low is 2, must be below high, which is 1"),
    (lambda: ars.NegativeBinomial(0, 0.5), "NegativeBinomial: r is 0, must be a positive number from 1e-100 to 1e100"),
    (lambda: ars.NegativeBinomial(2, 1.5), "NegativeBinomial: p is 1.5, must be a probability from 0 to 1"),
    (
        lambda: ars.NegativeBinomial(2, 0),
        "r is 2 and p is 0, so the mean r (1 - p) / p is above 1e15",
    ),
    (lambda: ars.NegativeBinomial(1e10, 1e-6), "so the mean r (1 - p) / p is above 1e15"),
    (lambda: ars.StudentT(0, 0, 1), "StudentT: df is 0, must be a positive number from 1e-100 to 1e100"),
    (lambda: ars.StudentT(2, inf, 1), "StudentT: loc is inf, must be a finite number"),
    (lambda: ars.StudentT(2, 0, 0), "StudentT: scale is 0, must be a positive finite number"),
    (lambda: ars.ScaledBeta(1, 1, 0, inf), "ScaledBeta: high is inf, must be a finite number"),
    (lambda: ars.Mixture([0.5, 0.6], many[:2]), "Mixture: the weights sum to 1.1, must sum to 1"),
    (lambda: ars.Mixture([1.5, -0.5], many[:2]), "Mixture: the weight of component 0 is 1.5, must be from 0 to 1"),
    (lambda: ars.Mixture([1], many[:2]), "Mixture: weights are for 1 components, but components has 2"),
    (lambda: ars.Mixture([], []), "Mixture: weights are for 0 components, but components has 0"),
    (lambda: ars.Mixture([0.5, 0.5], [many[0], ars.Poisson(1)]), "Mixture: component 1 (Poisson) is discrete"),
    (lambda: ars.Mixture([1], [ars.Prior()]), "Mixture: component 0 is Prior(), which cannot be a component"),
    (lambda: ars.Mixture([1], [ars.Categorical([1])]), "Mixture: component 0 is Categorical(p=[1.])"),
    (lambda: ars.Mixture(np.full(65, 1 / 65), many), "Mixture: 65 components, must be at most 64"),
    (
        lambda: ars.Mixture([0.5, 0.5], [ars.Normal([0, 1], 1), ars.Normal([0, 1, 2], 1)]),
        "Mixture: component 0 has 2 rows, component 1 has 3 rows",
    ),
    (lambda: ars.Normal([0, 1], 1).encode(3), "Normal: its parameters have 2 rows, but 3 are needed"),
    (lambda: ars.Normal(0, 1).encode(-1), "rows is -1, must not be negative"),
    (lambda: ars.Normal([0, 1], 1).sample(3, seed=1), "Normal: its parameters have 2 rows, but n is 3"),
    (
        lambda: ars.Normal([0, 1], 1).log_prob([1, 2, 3]),
        "Normal: x has shape (3,), must be one value for each of 2 rows",
    ),
    (lambda: ars.Normal(0, 1).sample(3, seed=-1), "seed is -1, must be from 0 to 2**64 - 1"),
    (lambda: ars.Prior().log_prob(0), "Prior has no density of its own"),
    (lambda: ars.Prior().sample(1, seed=1), "Prior cannot be sampled on its own"),
    (lambda: ars.decode(b""), "a distribution of 0 bytes is too short"),
    (lambda: ars.decode(ars.Normal(0, 1).encode(1)[0] + b"\0" * 8), "8 bytes are left over"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        make()
    assert message in str(caught.value)


# ---- values, supports, coverage --------------------------------------------------------------------------------------


def test_distributions_are_frozen_values() -> None:
    mean = np.array([0.0, 1.0])
    d = ars.Normal(mean, 1)
    mean[0] = 7
    assert d == ars.Normal([0, 1], 1)
    assert d != ars.Normal([0, 1], 2)
    assert ars.Normal(0, 1) != ars.Normal([0], [1])
    assert hash(d) == hash(ars.Normal([0, 1], 1))
    with pytest.raises(AttributeError):
        d.mean = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        d.parameters["mean"][0] = 3


def test_repr() -> None:
    assert repr(ars.Normal(0, 2)) == "Normal(mean=0.0, std=2.0)"
    assert repr(ars.Uniform(0, [1, 2])) == "Uniform(low=0.0, high=[1., 2.])"
    assert repr(ars.Normal(np.zeros(500), 1)) == "Normal(mean=[0., 0., ..., 0., 0.], std=1.0)"
    mixture = ars.Mixture([0.5, 0.5], [ars.Poisson(1), ars.Binomial(3, 0.5)])
    assert repr(mixture) == "Mixture(weights=[0.5, 0.5], components=(Poisson(rate=1.0), Binomial(n=3.0, p=0.5)))"
    assert repr(ars.Prior()) == "Prior()"


def test_every_code_has_a_class() -> None:
    assert {spec.kind for spec in ars.REGISTRY.values()} == set(_native.DistKind) - {_native.DistKind.GIVEN}  # a value
    coordinates = {"NormalCoordinate": "MultivariateNormal", "DirichletCoordinate": "Dirichlet"}
    for cls, spec in ars.REGISTRY.items():
        assert coordinates.get(cls.__name__, cls.__name__) == _native.dist_name(spec.kind)


@pytest.mark.parametrize(
    ("d", "low", "high", "discrete"),
    [
        (ars.Uniform(0, [1, 2]), [0, 0], [1, 2], False),
        (ars.Normal(0, 1), -inf, inf, False),
        (ars.Bernoulli([0, 0.5, 1]), [0, 0, 1], [0, 1, 1], True),
        (ars.Categorical([0, 0.5, 0.5, 0]), 1, 2, True),
        (ars.Poisson([0, 1]), [0, 0], [0, inf], True),
        (ars.Binomial(5, [0, 0.5, 1]), [0, 0, 5], [0, 5, 5], True),
        (ars.Beta(1, 2), 0, 1, False),
        (ars.Weibull(1, 2), 0, inf, False),
        (ars.TruncatedNormal(0, 1, -inf, 3), -inf, 3, False),
        (ars.ScaledBeta(1, 2, 3, 4), 3, 4, False),
        (ars.Mixture([0.5, 0.5, 0], [ars.Uniform(0, 1), ars.Beta(1, 1), ars.Normal(0, 1)]), 0, 1, False),
        (ars.Mixture([[1, 0], [0.5, 0.5]], [ars.Uniform(0, 1), ars.Uniform(3, 4)]), [0, 0], [1, 4], False),
        (ars.Mixture([1], [ars.Poisson(1)]), 0, inf, True),
    ],
    ids=name,
)
def test_support(d: ars.Distribution, low: npt.ArrayLike, high: npt.ArrayLike, discrete: bool) -> None:
    got_low, got_high = d.support()
    assert np.array_equal(got_low, np.asarray(low, dtype=np.float64))
    assert np.array_equal(got_high, np.asarray(high, dtype=np.float64))
    assert d.discrete is discrete


@pytest.mark.parametrize(
    ("proposal", "low", "high", "covered"),
    [
        (ars.Normal(0, 1), -inf, inf, True),
        (ars.Uniform(0, [1, 2]), 0, 2, [False, True]),
        (ars.ScaledBeta(2, 2, 0, 1), [0, -1], [1, 1], [True, False]),
        (ars.TruncatedNormal(0, 1, 0, inf), 0, inf, True),
        (ars.Mixture([0.5, 0.5], [ars.Uniform(0, 1), ars.Uniform([1, 2], 3)]), 0, 3, [True, False]),
        (ars.Mixture([0.5, 0.5], [ars.Uniform(2, 3), ars.Uniform(0, 2.5)]), 0, 3, True),
        (ars.Mixture([1, 0], [ars.Uniform(0, 1), ars.Normal(0, 1)]), 0, 2, False),
        (ars.Mixture([0.5, 0.5], [ars.Bernoulli(0.5), ars.Binomial(3, 0.5)]), 0, [3, 4], [True, False]),
        (ars.Poisson(3), 0, inf, True),
        (ars.Bernoulli([0, 0.5]), 0, 1, [False, True]),
        (ars.Categorical([[0.5, 0, 0.5], [0.2, 0.3, 0.5]]), 0, 2, [False, True]),
        (ars.Categorical([0.5, 0.5]), 0, [1, 2], [True, False]),
        (ars.Prior(), [0, 0], inf, [True, True]),
    ],
    ids=name,
)
def test_covers(
    proposal: ars.Distribution, low: npt.ArrayLike, high: npt.ArrayLike, covered: bool | list[bool]
) -> None:
    assert np.array_equal(ars.covers(proposal, low, high), covered)
