"""Proposal heads: each density integrates to 1, is C's, is drawn from, has right gradients, covers the prior."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from ars import _kernels as kernels
from ars import _native
from ars._native import DistKind
from ars.distributions import covers, decode

torch = pytest.importorskip("torch")
from value_features import value_features  # noqa: E402

from ars.network.model import densities  # noqa: E402
from ars.network.model.heads import (  # noqa: E402
    HEADS,
    WRAPPED,
    Head,
    HeadSettings,
    Proposal,
    truncated_quantile,
)

Array = npt.NDArray[np.float64]
inf = np.inf
ROWS = 3


class Case(NamedTuple):
    kind: DistKind
    params: tuple[float, ...]
    wrap: bool = False  # an angle, whose components go around

    @property
    def id(self) -> str:
        return f"{'wrapped ' if self.wrap else ''}{self.kind.name.lower()}{self.params}"

    @property
    def head(self) -> Head:
        return WRAPPED if self.wrap else HEADS[self.kind]

    @property
    def settings(self) -> HeadSettings:
        return SETTINGS._replace(wrap=self.wrap)


CONTINUOUS = [
    Case(DistKind.UNIFORM, (-1, 1)),
    Case(DistKind.UNIFORM, (1e3, 1e3 + 0.5)),
    Case(DistKind.UNIFORM, (0, 2 * np.pi), wrap=True),
    Case(DistKind.UNIFORM, (-np.pi, np.pi), wrap=True),
    Case(DistKind.UNIFORM, (1e3, 1e3 + 6.2832), wrap=True),
    Case(DistKind.NORMAL, (0, 1)),
    Case(DistKind.NORMAL, (-50, 1e-3)),
    Case(DistKind.BETA, (2, 5)),
    Case(DistKind.BETA, (0.5, 0.7)),
    Case(DistKind.BETA, (300, 40)),
    Case(DistKind.GAMMA, (3, 2)),
    Case(DistKind.GAMMA, (0.6, 10)),
    Case(DistKind.GAMMA, (500, 0.1)),
    Case(DistKind.EXPONENTIAL, (0.25,)),
    Case(DistKind.WEIBULL, (2, 1.5)),
    Case(DistKind.WEIBULL, (10, 0.8)),
    Case(DistKind.LOGNORMAL, (1, 0.5)),
    Case(DistKind.LOGNORMAL, (-3, 2)),
    Case(DistKind.TRUNCATED_NORMAL, (0, 1, -1, 2)),
    Case(DistKind.TRUNCATED_NORMAL, (0, 1, 0, inf)),
    Case(DistKind.TRUNCATED_NORMAL, (0, 1, -inf, -6)),
    Case(DistKind.TRUNCATED_NORMAL, (0, 1, 40, 41)),
    Case(DistKind.TRUNCATED_NORMAL, (5, 10, 0, 0.1)),
    Case(DistKind.TRUNCATED_NORMAL, (0, 1, -inf, inf)),
    Case(DistKind.STUDENT_T, (4, -1, 2)),
    Case(DistKind.STUDENT_T, (200, 1e3, 0.1)),
]
DISCRETE = [
    Case(DistKind.BERNOULLI, (0.3,)),
    Case(DistKind.BERNOULLI, (1.0,)),
    Case(DistKind.CATEGORICAL, (0.2, 0.5, 0.3)),
    Case(DistKind.CATEGORICAL, (0.5, 0.0, 0.25, 0.25)),
    Case(DistKind.POISSON, (3.5,)),
    Case(DistKind.POISSON, (400,)),
    Case(DistKind.POISSON, (0.0,)),
    Case(DistKind.BINOMIAL, (12, 0.4)),
    Case(DistKind.BINOMIAL, (1000, 0.02)),
    Case(DistKind.BINOMIAL, (7, 1.0)),
    Case(DistKind.BINOMIAL, (0, 0.5)),
    Case(DistKind.NEGATIVE_BINOMIAL, (2.5, 0.3)),
    Case(DistKind.NEGATIVE_BINOMIAL, (60, 0.2)),
    Case(DistKind.NEGATIVE_BINOMIAL, (3, 1.0)),
]
ALL = CONTINUOUS + DISCRETE
SETTINGS = HeadSettings(components=10, categories=4, defensive=0.01)

each = pytest.mark.parametrize("case", ALL, ids=[case.id for case in ALL])
each_continuous = pytest.mark.parametrize("case", CONTINUOUS, ids=[case.id for case in CONTINUOUS])
each_discrete = pytest.mark.parametrize("case", DISCRETE, ids=[case.id for case in DISCRETE])


def prior_tensors(case: Case, rows: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    prior = torch.zeros((rows, 4), dtype=torch.float64)
    if case.kind is DistKind.CATEGORICAL:
        return prior, torch.tensor(case.params, dtype=torch.float64).expand(rows, -1)
    prior[:, : len(case.params)] = torch.tensor(case.params, dtype=torch.float64)
    return prior, None


def random_raw(case: Case, rows: int, seed: int, spread: float = 1.5) -> torch.Tensor:
    """What a trained network might give: far from the start. The first row is the untrained network's."""
    generator = torch.Generator().manual_seed(seed)
    bias = case.head.bias(case.settings)
    raw = bias.double() + spread * torch.randn((rows, len(bias)), generator=generator, dtype=torch.float64)
    raw[0] = bias
    return raw


def build(case: Case, raw: torch.Tensor) -> Proposal:
    return case.head.build(raw, *prior_tensors(case, len(raw)), case.settings)


def words(proposal: Proposal) -> npt.NDArray[np.uint64]:
    """The wire form of every row."""
    doubles = proposal.doubles().detach().numpy()
    table = np.empty((len(doubles), 1 + doubles.shape[1]), dtype=np.uint64)
    table[:, 0] = np.array([(proposal.kind, 0, doubles.shape[1])], dtype=_native.DTYPES["dist"]).view(np.uint64)
    table.view(np.float64)[:, 1:] = doubles
    return table


def encoded_prior(case: Case) -> bytes:
    header = np.array([(case.kind, 0, len(case.params))], dtype=_native.DTYPES["dist"]).tobytes()
    return header + np.array(case.params, dtype=np.float64).tobytes()


def density(row: npt.NDArray[np.uint64], x: npt.ArrayLike) -> Array:
    return np.exp(_native.log_density(row[None], x))


def support(case: Case) -> Array:
    """All whole numbers that can matter."""
    high = {DistKind.POISSON: 1.0, DistKind.BINOMIAL: case.params[0], DistKind.CATEGORICAL: len(case.params) - 1}
    if case.kind in (DistKind.POISSON, DistKind.NEGATIVE_BINOMIAL):
        return np.arange(0, 200_000, dtype=np.float64)
    return np.arange(0, high.get(case.kind, 1) + 1, dtype=np.float64)


def test_every_prior_has_a_head() -> None:
    """But for kinds that came later (above PRIOR), which may be left to the prior."""
    first = {kind for kind in _native.N_PARAMS if kind < DistKind.PRIOR}
    assert first <= set(HEADS) <= set(_native.N_PARAMS)
    assert len(first) == 12
    assert {DistKind.NEGATIVE_BINOMIAL, DistKind.STUDENT_T} <= set(HEADS)


@each
def test_c_accepts_and_agrees(case: Case) -> None:
    """log q, of draws from the proposal, of draws from the prior, and of awkward values."""
    proposal = build(case, random_raw(case, 40, seed=1))
    table = words(proposal)
    _native.check(table)
    ends = [*case.params[:2], 0.0, 1.0, 0.5, -3.25, 1e9]
    columns = [_native.sample(table, 40, seed=s) for s in range(10)]
    columns += [np.resize(_native.sample(encoded_prior(case), 40, seed=77), 40)]
    columns += [np.full(40, end) for end in ends]
    for x in columns:
        in_c = _native.log_density(table, x)
        in_torch = proposal.log_prob(torch.from_numpy(x)).numpy()
        assert np.array_equal(np.isinf(in_c), np.isinf(in_torch))
        finite = np.isfinite(in_c)
        in_c, in_torch = in_c[finite], in_torch[finite]
        assert np.all(np.abs(in_c - in_torch) <= 1e-10 * np.maximum(1, np.abs(in_c)))


# Every kind that can be a component, its parameters, and values: inside, at ends with a density, and outside.
DERIVATIVES = {
    DistKind.UNIFORM: ((-1.0, 2.0), (0.5, -1.0, 3.0)),
    DistKind.NORMAL: ((0.3, 1.7), (-2.0, 0.3, 9.0)),
    DistKind.POISSON: ((2.5,), (0.0, 4.0, 1.5)),
    DistKind.BINOMIAL: ((7.0, 0.3), (0.0, 3.0, 7.0, 8.0)),
    DistKind.BETA: ((1.5, 0.7), (0.2, 0.999, -0.1)),
    DistKind.SCALED_BETA: ((2.5, 3.5, -1.0, 3.0), (-0.5, 2.9, 3.5)),
    DistKind.GAMMA: ((0.8, 2.0), (1e-3, 1.0, 20.0, -1.0)),
    DistKind.EXPONENTIAL: ((1.5,), (0.0, 2.0, -1.0)),
    DistKind.WEIBULL: ((2.0, 1.5), (0.1, 2.0, 7.0, -1.0)),
    DistKind.LOGNORMAL: ((0.5, 0.8), (0.1, 3.0, 0.0)),
    DistKind.TRUNCATED_NORMAL: ((0.5, 2.0, -1.0, 1.5), (-1.0, 0.2, 1.5, 2.0)),
    DistKind.NEGATIVE_BINOMIAL: ((2.5, 0.3), (0.0, 4.0, 1.5)),
    DistKind.STUDENT_T: ((3.0, 0.5, 2.0), (-7.0, 0.5, 40.0)),
    DistKind.MULTIVARIATE_NORMAL: ((0.5, 2.0), (-1.0, 0.5, 3.0)),  # of one coordinate, given those before it
    DistKind.DIRICHLET: ((2.0, 1.5, 0.0, 0.8), (0.1, 0.4, 0.9)),
}
FIRST = {DistKind.BINOMIAL: 1, DistKind.NEGATIVE_BINOMIAL: 1, DistKind.STUDENT_T: 1}  # n, r and df are the prior's
ENDS = {  # parameters with a derivative
    DistKind.UNIFORM: 0,
    DistKind.SCALED_BETA: 2,
    DistKind.TRUNCATED_NORMAL: 2,
    DistKind.DIRICHLET: 2,
}


def test_derivatives_are_tested_for_every_component() -> None:
    assert set(DERIVATIVES) == set(densities._DERIVATIVE)


@pytest.mark.parametrize("kind", DERIVATIVES, ids=lambda kind: kind.name.lower())
def test_a_densitys_derivative_is_that_of_finite_differences(kind: DistKind) -> None:
    params, values = DERIVATIVES[kind]
    x = torch.tensor(values, dtype=torch.float64)
    first = FIRST.get(kind, 0)
    last = ENDS.get(kind, len(params))
    at = torch.zeros((len(x), 1, 4), dtype=torch.float64)
    at[..., : len(params)] = torch.tensor(params, dtype=torch.float64)
    moved = at.clone().requires_grad_()
    value = densities.log_density(kind, moved, x)
    finite = torch.isfinite(value)
    (found,) = torch.autograd.grad(torch.where(finite, value, 0.0).sum(), moved)
    assert torch.all(found[~finite.squeeze(-1)] == 0)
    assert torch.all(found[..., :first] == 0) and torch.all(found[..., last:] == 0)
    for j in range(first, last):
        step = 1e-6 * params[j]
        high, low = at.clone(), at.clone()
        high[..., j] += step
        low[..., j] -= step
        wanted = (densities.log_density(kind, high, x) - densities.log_density(kind, low, x)) / (2 * step)
        torch.testing.assert_close(found[..., j][finite], wanted[finite], rtol=1e-6, atol=1e-7)


def test_densities_of_many_components_are_those_of_each() -> None:
    rng = np.random.default_rng(3)
    params = np.zeros((5, 3, 4))
    params[..., :2] = rng.uniform(0.5, 4, (5, 3, 2))
    x = rng.uniform(0.05, 0.95, 5)
    found = kernels.component_densities(DistKind.BETA, params[:, ::2], x)
    assert found == pytest.approx(stats.beta.logpdf(x[:, None], params[:, ::2, 0], params[:, ::2, 1]), rel=1e-12)
    assert kernels.component_densities(DistKind.BETA, params[:0], x[:0]).shape == (0, 3)
    assert kernels.component_densities(DistKind.BETA, params[:, :0], x).shape == (5, 0)
    with pytest.raises(ValueError, match="MIXTURE components"):
        kernels.component_densities(DistKind.MIXTURE, params, x)
    with pytest.raises(ValueError, match="are not the parameters of BETA components"):
        kernels.component_densities(DistKind.BETA, params, x[:2])
    with pytest.raises(TypeError, match="float32"):
        kernels.component_densities(DistKind.BETA, params, x.astype(np.float32))  # type: ignore[arg-type]


POSITIVE = {DistKind.GAMMA, DistKind.EXPONENTIAL, DistKind.WEIBULL, DistKind.LOGNORMAL}
TAIL = 10.0 ** np.arange(-13, -2)
SHARES = np.concatenate([TAIL, np.linspace(0.01, 0.99, 25), 1 - TAIL[::-1]])


def quadrature(row: npt.NDArray[np.uint64], logarithm: bool) -> float:
    """Gauss-Legendre between neighbouring quantiles of all components, so that none is narrower than a piece."""
    cuts = np.unique(np.concatenate([component.ppf(SHARES) for weight, component in components(row) if weight > 1e-12]))
    cuts = cuts[np.isfinite(cuts)]
    node, weight = np.polynomial.legendre.leggauss(24)
    if logarithm:
        cuts = np.log(cuts[cuts > 0])
    half = np.diff(cuts)[:, None] / 2
    t = cuts[:-1, None] + half * (1 + node)
    x, slope = (np.exp(t), np.exp(t)) if logarithm else (t, 1.0)
    return float(np.sum(density(row, x) * slope * weight * half))


@each_continuous
def test_density_integrates_to_one(case: Case) -> None:
    for row in words(build(case, random_raw(case, 6, seed=11))):
        assert quadrature(row, case.kind in POSITIVE) == pytest.approx(1, abs=1e-8)


@each_discrete
def test_probabilities_sum_to_one(case: Case) -> None:
    for row in words(build(case, random_raw(case, ROWS, seed=11, spread=1.0))):
        assert density(row, support(case)).sum() == pytest.approx(1, abs=1e-9)


@each_continuous
def test_draws_pass_kolmogorov_smirnov(case: Case) -> None:
    """Against the distribution function of the components, from scipy: an independent implementation."""
    for seed, row in enumerate(words(build(case, random_raw(case, ROWS, seed=13)))):
        draws = _native.sample(row[None], 5_000, seed=100 + seed)
        assert stats.kstest(draws, lambda x, row=row: mixture_cdf(row, x)).pvalue > 1e-4


def mixture_cdf(row: npt.NDArray[np.uint64], x: Array) -> Array:
    return np.asarray(sum(weight * component.cdf(x) for weight, component in components(row)))


def components(row: npt.NDArray[np.uint64]) -> list[tuple[float, Any]]:
    """The weights, if they are any, and the components as scipy knows them."""
    return [
        (weight, in_scipy(DistKind(int(kind)), *params))
        for weight, kind, *params in row.view(np.float64)[1:].reshape(-1, 6).tolist()
        if weight > 0
    ]


def in_scipy(kind: DistKind, a: float, b: float, c: float, d: float) -> Any:
    return {
        DistKind.UNIFORM: lambda: stats.uniform(a, b - a),
        DistKind.NORMAL: lambda: stats.norm(a, b),
        DistKind.BETA: lambda: stats.beta(a, b),
        DistKind.SCALED_BETA: lambda: stats.beta(a, b, loc=c, scale=d - c),
        DistKind.GAMMA: lambda: stats.gamma(a, scale=1 / b),
        DistKind.EXPONENTIAL: lambda: stats.expon(scale=1 / a),
        DistKind.WEIBULL: lambda: stats.weibull_min(b, scale=a),
        DistKind.LOGNORMAL: lambda: stats.lognorm(b, scale=np.exp(a)),
        DistKind.STUDENT_T: lambda: stats.t(a, b, c),
        DistKind.TRUNCATED_NORMAL: lambda: stats.truncnorm((c - a) / b, (d - a) / b, loc=a, scale=b),
    }[kind]()


@each_discrete
def test_draws_pass_chi_square(case: Case) -> None:
    for seed, row in enumerate(words(build(case, random_raw(case, ROWS, seed=13, spread=1.0)))):
        draws = _native.sample(row[None], 5_000, seed=200 + seed)
        numbers = support(case)
        expected = 5_000 * density(row, numbers)
        observed = np.bincount(draws.astype(np.int64), minlength=len(numbers))
        assert observed.sum() == 5_000
        # Numbers next to each other are counted together until 10 are expected.
        bins = np.minimum(np.floor(np.cumsum(expected) / 10), np.floor(expected.sum() / 10) - 1)
        _, index = np.unique(bins, return_inverse=True)
        want, got = np.bincount(index, expected), np.bincount(index, observed)
        assert got[want < 1e-9].sum() == 0
        want, got = want[want >= 1e-9], got[want >= 1e-9]
        if len(want) > 1:
            assert stats.chisquare(got, want * 5_000 / want.sum()).pvalue > 1e-4


@each
def test_gradient_is_that_of_finite_differences(case: Case) -> None:
    if case.kind is DistKind.CATEGORICAL:
        values = [0.0, 2.0]
    else:
        values = np.unique(_native.sample(encoded_prior(case), 3, seed=4)).tolist()
    for value in values:
        raw = random_raw(case, 2, seed=17, spread=0.7).requires_grad_()
        x = torch.full((2,), value, dtype=torch.float64)
        assert torch.autograd.gradcheck(
            lambda r, x=x: build(case, r).log_prob(x), (raw,), eps=1e-6, atol=1e-5, rtol=1e-4
        )


@each
def test_gradients_are_finite_at_extremes(case: Case) -> None:
    x = torch.from_numpy(_native.sample(encoded_prior(case), 50, seed=5))
    raw = random_raw(case, 50, seed=19, spread=60.0).requires_grad_()
    proposal = build(case, raw)
    _native.check(words(proposal))
    log_q = proposal.log_prob(x)
    assert bool(torch.isfinite(log_q).all())
    log_q.sum().backward()
    assert raw.grad is not None
    assert bool(torch.isfinite(raw.grad).all())


@each
def test_covers_the_prior_and_bounds_the_weight(case: Case) -> None:
    """p/q is at most 1/share, whatever the network says."""
    prior = decode(encoded_prior(case))
    table = words(build(case, random_raw(case, 30, seed=23, spread=20.0)))
    for row in table:
        assert bool(np.all(covers(decode(row.tobytes()), *prior.support()))) or case.params == (0.5, 0.0, 0.25, 0.25)
    x = _native.sample(encoded_prior(case), 30, seed=6)
    log_ratio = _native.log_density(encoded_prior(case), x) - _native.log_density(table, x)
    assert log_ratio.max() <= -np.log(SETTINGS.defensive) + 1e-9


@each
def test_untrained_proposal_is_close_to_the_prior(case: Case) -> None:
    """The Kullback-Leibler divergence from the prior, by 20,000 draws."""
    row = words(build(case, random_raw(case, 1, seed=0)))[0]
    x = _native.sample(encoded_prior(case), 20_000, seed=8)
    difference = _native.log_density(encoded_prior(case), x) - _native.log_density(row[None], x)
    assert difference.mean() < (0.12 if case.kind is DistKind.TRUNCATED_NORMAL else 0.06)
    assert difference.mean() > -4 * difference.std() / np.sqrt(len(x)) - 1e-12


def test_untrained_uniform_is_uniform() -> None:
    """The ten Betas are a partition of unity; only the two at the ends are kept movable."""
    row = words(build(Case(DistKind.UNIFORM, (-1, 1)), random_raw(Case(DistKind.UNIFORM, (-1, 1)), 1, 0)))[0]
    assert density(row, np.linspace(-0.98, 0.98, 101)) == pytest.approx(0.5, rel=0.1)


def test_a_category_never_seen_keeps_its_prior_share() -> None:
    case = Case(DistKind.CATEGORICAL, (0.1, 0.2, 0.3, 0.15, 0.25))
    raw = torch.zeros((1, 4), dtype=torch.float64)
    p = build(case, raw).doubles()
    assert p.numpy()[0] == pytest.approx(case.params, rel=1e-12)


def test_categories_must_be_given() -> None:
    with pytest.raises(ValueError, match="categories is None"):
        HEADS[DistKind.CATEGORICAL].build(torch.zeros(1, 4).double(), torch.zeros(1, 4).double(), None, SETTINGS)


@pytest.mark.parametrize("case", [c for c in CONTINUOUS if c.kind is DistKind.TRUNCATED_NORMAL], ids=lambda c: c.id)
def test_truncated_quantiles_are_placed_well(case: Case) -> None:
    mean, std, low, high = case.params
    u = torch.tensor([0.05, 0.3, 0.5, 0.9], dtype=torch.float64)
    ours = truncated_quantile(prior_tensors(case, 1)[0], u).numpy()[0]
    exact = stats.truncnorm((low - mean) / std, (high - mean) / std, loc=mean, scale=std)
    spread = exact.ppf(0.84) - exact.ppf(0.16)
    assert np.abs(ours - exact.ppf(u.numpy())).max() < 0.1 * spread


# ---- the same in C, for serving --------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("components", [1, 2, 10, 40])
def test_the_c_code_makes_the_same_proposals(case: Case, components: int) -> None:
    settings = case.settings._replace(components=components)
    head = case.head
    generator = torch.Generator().manual_seed(components)
    raw = head.bias(settings) + 1.5 * torch.randn((ROWS, head.size(settings)), generator=generator)
    prior, categories = prior_tensors(case, ROWS)
    proposal = head.build(raw.double(), prior, categories, settings)
    expected = proposal.doubles().numpy()
    probabilities = np.zeros((ROWS, 0)) if categories is None else np.ascontiguousarray(categories.numpy())
    widths = np.full(ROWS, probabilities.shape[1])
    found = kernels.propose(
        case.kind,
        components,
        settings.defensive,
        raw.numpy(),
        prior.numpy(),
        probabilities,
        widths,
        wrap=case.wrap,
    )
    for row, encoded in enumerate(found):
        _native.check(encoded)
        header = np.frombuffer(encoded, dtype=_native.DTYPES["dist"], count=1)[0]
        wanted = expected[row]
        if case.wrap:  # parts of an angle's components that are too far away are left out
            wanted = wanted.reshape(-1, 6)[wanted[::6] > 0].reshape(-1)
        assert (header["kind"], header["n"]) == (proposal.kind, len(wanted))
        assert np.frombuffer(encoded, offset=8) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


def test_the_c_code_wants_what_fits_its_head() -> None:
    raw, prior, none, widths = np.zeros((2, 30), np.float32), np.ones((2, 4)), np.zeros((2, 0)), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="30 raw numbers or 0 categories are wrong for a POISSON prior"):
        kernels.propose(DistKind.POISSON, 10, 0.01, raw, prior, none, widths)
    with pytest.raises(ValueError, match="30 raw numbers or 0 categories are wrong for a UNIFORM prior"):
        kernels.propose(DistKind.UNIFORM, 10, 0.01, raw, prior, none, widths, wrap=True)
    with pytest.raises(ValueError, match="wrong for a CATEGORICAL prior"):
        kernels.propose(DistKind.CATEGORICAL, 10, 0.01, raw, prior, np.ones((2, 3)) / 3, np.array([3, 4]))
    with pytest.raises(ValueError, match="wrong for a NORMAL prior"):
        kernels.propose(DistKind.NORMAL, 64, 0.01, np.zeros((2, 192), np.float32), prior, none, widths)
    with pytest.raises(ValueError, match="2 rows of raw numbers"):
        kernels.propose(DistKind.NORMAL, 10, 0.01, raw, prior[:1], none, widths)
    raw[1, 3] = np.nan
    with pytest.raises(FloatingPointError):
        kernels.propose(DistKind.NORMAL, 10, 0.01, raw, prior, none, widths)
    turn = np.array([[0, 2 * np.pi, 0, 0]])
    for at in range(4):
        raw = np.zeros((1, 4), np.float32)
        raw[0, at] = np.nan
        with pytest.raises(FloatingPointError):
            kernels.propose(DistKind.UNIFORM, 1, 0.01, raw, turn, none[:1], widths[:1], wrap=True)


@each
def test_the_c_code_sees_the_same_features(case: Case) -> None:
    drawn = np.concatenate([_native.sample(encoded_prior(case), 20, seed=3), [0.0, -7.25, 1e9]])
    kind = torch.full((len(drawn),), int(case.kind))
    kind[-1] = 0  # no value
    prior, _ = prior_tensors(case, len(drawn))
    expected = value_features(kind, [case.kind], prior, torch.from_numpy(drawn), angles=case.wrap).numpy()
    found = kernels.value_features((kind.numpy(), prior.numpy(), drawn), wrap=case.wrap)
    assert found.shape == (len(drawn), kernels.VALUE_FEATURES)
    assert found == pytest.approx(expected, rel=1e-5, abs=2e-6)
