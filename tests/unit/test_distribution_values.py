"""Distributions as values: rows, the wire, bad parameters, supports."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from distribution_table import LEAST_P, all_kinds, inf, name
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ars import _native
from ars import distributions as ars

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
