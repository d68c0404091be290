"""Distributions to test, with the same ones by scipy, and densities to 50 digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from ars import distributions as ars

inf = np.inf
LEAST_P = 1e-4  # of a test of draws
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
