from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats

from ars import diagnostics as d

some_log_weights = arrays(np.float64, st.integers(2, 60), elements=st.floats(-50, 50))
with_zeros = arrays(np.float64, st.integers(2, 60), elements=st.one_of(st.floats(-50, 50), st.just(-math.inf)))


# ---- evidence and effective traces ------------------------------------------------------------------------------


@given(with_zeros)
def test_evidence_against_plain_arithmetic(log_weights: np.ndarray) -> None:
    w = np.exp(log_weights)
    found = d.log_evidence(log_weights)
    assert found.evidence == pytest.approx(w.mean(), rel=1e-9)
    if w.any():
        error = w.std(ddof=1) / math.sqrt(len(w))
        if d.ess(log_weights) > 2.0 + 1e-6:
            assert found.standard_error == pytest.approx(error, rel=1e-6, abs=1e-12 * w.max())
            assert found.relative_error == pytest.approx(error / w.mean(), rel=1e-6, abs=1e-9)
        elif d.ess(log_weights) < 2.0 - 1e-6:
            assert math.isnan(found.standard_error) and math.isnan(found.relative_error)
            assert "too few" in str(found.reason)
        assert d.ess(log_weights) == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-9)
        assert d.log_evidence(log_weights).log_estimate == pytest.approx(
            special.logsumexp(log_weights) - math.log(len(w))
        )
    else:
        assert found.log_estimate == -math.inf
        assert math.isnan(found.relative_error)
        assert d.ess(log_weights) == 0.0


@given(some_log_weights, st.floats(-1e4, 1e4))
def test_a_constant_factor_shifts_the_evidence_and_nothing_else(log_weights: np.ndarray, shift: float) -> None:
    plain, moved = d.log_evidence(log_weights), d.log_evidence(log_weights + shift)
    assert moved.log_estimate == pytest.approx(plain.log_estimate + shift, abs=1e-6)
    if abs(d.ess(log_weights) - 2.0) > 1e-6:
        assert moved.relative_error == pytest.approx(plain.relative_error, rel=1e-6, abs=1e-6, nan_ok=True)
    assert d.ess(log_weights + shift) == pytest.approx(d.ess(log_weights), rel=1e-6)
    assert 1.0 - 1e-9 <= d.ess(log_weights) <= len(log_weights) + 1e-9


def test_huge_and_tiny_weights_do_not_overflow() -> None:
    found = d.log_evidence([2000.0, 2000.0, 2000.0 + math.log(3.0), 2000.0 + math.log(3.0)])
    assert found.log_estimate == pytest.approx(2000.0 + math.log(2.0))
    assert found.relative_error == pytest.approx(math.sqrt(4 / 3) / 4)
    assert found.standard_error == math.inf
    assert d.log_evidence([-2000.0, -2000.1, -2000.2]).standard_error == 0.0
    assert d.log_evidence([-3.0] * 10).standard_error == 0.0


def test_the_standard_error_is_the_spread_of_the_estimate() -> None:
    rng = np.random.default_rng(3)
    runs = [d.log_evidence(rng.normal(0, 0.7, 400)) for _ in range(2000)]
    spread = np.std([run.evidence for run in runs])
    assert np.mean([run.standard_error for run in runs]) == pytest.approx(spread, rel=0.05)
    distances = np.array([run.distance(math.exp(0.7**2 / 2)) for run in runs])
    assert np.mean(np.abs(distances) > 3) < 0.01


@pytest.mark.parametrize("wrong", [[], [1.0, math.nan], [math.inf, 0.0], [[1.0]]])
def test_what_is_no_log_weight_is_refused(wrong: list[float]) -> None:
    for function in (d.log_evidence, d.ess, d.pareto_k, d.k_converge):
        with pytest.raises(ValueError, match="log weight"):
            function(wrong)


def test_running_evidence_ends_at_the_evidence() -> None:
    log_weights = np.random.default_rng(1).normal(5.0, 1.0, 500)
    estimates, errors = d.running_evidence(log_weights, [10, 500])
    for n, estimate, error in zip([10, 500], estimates, errors, strict=True):
        whole = d.log_evidence(log_weights[:n])
        assert estimate == pytest.approx(whole.log_estimate)
        assert error == pytest.approx(whole.relative_error)


# ---- Pareto k ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0.2, 0.5, 0.7, 1.0, 1.5])
def test_pareto_k_of_pareto_weights(k: float) -> None:
    """A Pareto tail of index 1/k has shape k; the estimator's standard deviation is about (1 + k)/sqrt(tail)."""
    size, tail = 20_000, math.ceil(3 * math.sqrt(20_000))
    found = [
        float(d.pareto_k(k * np.random.default_rng(seed).exponential(size=size))) for seed in range(20)
    ]  # log of a Pareto
    prior_pull = 10 * (0.5 - k) / (tail + 10)
    error = (1 + k) / math.sqrt(tail) / math.sqrt(20)
    assert abs(np.mean(found) - k - prior_pull) < 3.5 * error


def test_the_generalised_pareto_fit_agrees_with_maximum_likelihood() -> None:
    x = np.sort(stats.genpareto.rvs(0.4, scale=3.0, size=2000, random_state=np.random.default_rng(7)))
    shape, _, _ = stats.genpareto.fit(x, floc=0)
    ours = d.fit_generalised_pareto(x).shape
    assert ours == pytest.approx((2000 * shape + 5) / 2010, abs=0.01)


def test_pareto_k_of_light_tails_is_small() -> None:
    rng = np.random.default_rng(2)
    assert d.pareto_k(np.log(rng.uniform(0.5, 1.5, 5000))) < 0
    light = d.pareto_k(np.log(rng.exponential(size=5000)))
    assert abs(light) < 0.25
    assert light.reliable
    assert light.tail == math.ceil(3 * math.sqrt(5000))
    assert light.threshold == 0.7


@given(arrays(np.float64, 100, elements=st.floats(-5, 5), unique=True), st.floats(-500, 500))
def test_pareto_k_ignores_a_constant_factor(log_weights: np.ndarray, shift: float) -> None:
    rounded = np.round(log_weights, 3)
    moved, plain = d.pareto_k(rounded + shift), d.pareto_k(rounded)
    assert (
        (math.isnan(moved) and math.isnan(plain)) or moved.tail != plain.tail or moved == pytest.approx(plain, abs=1e-3)
    )


def test_pareto_k_says_why_it_is_nan() -> None:
    few = d.pareto_k(np.arange(20.0))
    assert math.isnan(few)
    assert "20 weights are too few" in str(few.reason)
    assert d.pareto_k(np.arange(21.0)).reason is None
    assert "all weights are equal" in str(d.pareto_k(np.full(1000, -3.0)).reason)
    assert "every weight is 0" in str(d.pareto_k(np.full(1000, -math.inf)).reason)
    ties = np.zeros(1000)
    ties[:3] = 1.0
    assert "only 3 weights are larger" in str(d.pareto_k(ties).reason)
    assert not few.reliable
    copy = pickle.loads(pickle.dumps(few))
    assert copy.reason == few.reason


def test_pareto_k_with_zeros_and_ties() -> None:
    """Zero weights only lengthen the list: the same tail counts, as long as it has the same length."""
    rng = np.random.default_rng(4)
    log_weights = 0.6 * rng.exponential(size=4000)
    half = np.concatenate([log_weights, np.full(4000, -math.inf)])
    tail = math.ceil(3 * math.sqrt(8000))
    top = np.sort(log_weights)[-tail - 1 :]
    expected = d.fit_generalised_pareto(np.exp(top[1:] - top[-1]) - math.exp(top[0] - top[-1])).shape
    assert d.pareto_k(half) == pytest.approx(expected)
    assert 0.3 < d.pareto_k(np.round(log_weights, 1)) < 0.9


# ---- K_converge -------------------------------------------------------------------------------------------------


def brute_force(log_weights: np.ndarray, epsilon: float, limit: int, repeats: int, seed: int) -> int | None:
    rng = np.random.default_rng(seed)
    orders = [log_weights[rng.choice(len(log_weights), size=limit, replace=False)] for _ in range(repeats)]
    for K in range(1, limit + 1):
        total = 0.0
        for order in orders:
            w = np.exp(order[:K])
            total += w.max() / w.sum() if w.any() else 1.0
        if total / repeats < epsilon:
            return K
    return None


@settings(max_examples=40, deadline=None)
@given(with_zeros, st.sampled_from([0.0513, 0.1037, 0.3011, 0.6007]), st.integers(2, 60))
def test_k_converge_against_brute_force(log_weights: np.ndarray, epsilon: float, limit: int) -> None:
    limit = min(limit, len(log_weights))
    found = d.k_converge(log_weights, epsilon, seed=9, max_draws=limit, repeats=5)
    if limit * epsilon > 1:
        assert found == brute_force(log_weights, epsilon, limit, 5, 9)
    else:
        assert found is None


def test_k_converge_of_equal_weights_is_one_over_epsilon() -> None:
    for K in range(2, 150):  # Q_K = 1/K is not below epsilon, Q_(K+1) is
        assert d.k_converge(np.full(200, -1.1), 1 / K, repeats=3) == K + 1
    assert d.k_converge(np.zeros(100), 0.01) is None
    assert d.k_converge(np.zeros(5000), 0.01, max_draws=100) is None
    assert d.k_converge(np.full(5000, -math.inf), 0.01) is None


def test_k_converge_is_the_exact_mean_for_weights_of_two_sizes() -> None:
    """99 weights of 1 and one of 50: E[Q_K] is (1 - K/100)/K + K/100 * 50/(49 + K), which is below 0.3 from K = 4 to 6
    and again near the end."""
    weights = np.log(np.array([1.0] * 99 + [50.0]))
    exact = [(1 - K / 100) / K + K / 100 * 50 / (49 + K) for K in range(1, 101)]
    first = 1 + next(i for i, q in enumerate(exact) if q < 0.3)
    assert d.k_converge(weights, 0.3, repeats=4000) == first


@given(some_log_weights, st.floats(-300, 300))
@settings(deadline=None)
def test_k_converge_ignores_a_constant_factor(log_weights: np.ndarray, shift: float) -> None:
    rounded, shift = np.round(log_weights), round(shift)
    assert d.k_converge(rounded + shift, 0.201, repeats=3) == d.k_converge(rounded, 0.201, repeats=3)


def test_k_converge_refuses_nonsense() -> None:
    for wrong in ({"epsilon": 0.0}, {"epsilon": 2.0}, {"repeats": 0}, {"max_draws": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            d.k_converge(np.zeros(10), **wrong)


# ---- means, quantiles, resampling -------------------------------------------------------------------------------


def test_weighted_mean_and_its_error() -> None:
    values, weights = np.array([1.0, 2.0, 6.0, math.nan]), np.array([1.0, 2.0, 1.0, 5.0])
    assert d.weighted_mean(values, np.log(weights)) == pytest.approx(11 / 4)
    error = math.sqrt(sum((w / 4 * (x - 11 / 4)) ** 2 for x, w in zip(values[:3], weights[:3], strict=True)))
    assert d.weighted_mean_error(values, np.log(weights)) == pytest.approx(error)
    assert d.weighted_mean([1.0, math.inf], [0.0, -math.inf]) == 1.0
    with pytest.raises(ValueError, match="no trace has this value"):
        d.weighted_mean([math.nan], [0.0])
    with pytest.raises(ValueError, match="every weight is 0"):
        d.weighted_mean([1.0], [-math.inf])
    with pytest.raises(ValueError, match="must be equal"):
        d.weighted_mean([1.0, 2.0], [0.0])


def test_the_error_of_a_mean_is_its_spread() -> None:
    rng = np.random.default_rng(11)
    means, errors = [], []
    for _ in range(1000):
        x = rng.normal(size=300)  # proposed from N(0, 1), target N(0.5, 1)
        log_weights = 0.5 * x - 0.125
        means.append(d.weighted_mean(x, log_weights))
        errors.append(d.weighted_mean_error(x, log_weights))
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.08)
    assert abs(np.mean(means) - 0.5) < 3.5 * np.std(means) / math.sqrt(1000) + 0.01


@given(arrays(np.int64, 12, elements=st.integers(0, 4)), st.floats(0.001, 1.0))
def test_quantiles_equal_those_of_repeated_values(counts: np.ndarray, q: float) -> None:
    if not counts.any():
        return
    values = np.arange(12.0)[::-1].copy()
    with np.errstate(divide="ignore"):
        found = d.weighted_quantile(values, q, np.log(counts))
    repeated = np.sort(np.repeat(values, counts))
    below = math.floor(q * len(repeated) - 1e-9)
    assert found in repeated[max(below - 1, 0) : below + 2]
    assert np.mean(repeated <= found) >= q - 1e-9
    assert np.mean(repeated < found) <= q + 1e-9


def test_quantile_levels_are_checked_and_may_be_several() -> None:
    np.testing.assert_array_equal(d.weighted_quantile([3.0, 1.0, 2.0], [0.0, 0.5, 1.0], np.zeros(3)), [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        d.weighted_quantile([1.0], 1.5, [0.0])


@given(with_zeros, st.integers(0, 200), st.integers(0, 2**32))
def test_resampling_takes_each_row_its_share_of_times(log_weights: np.ndarray, n: int, seed: int) -> None:
    if np.all(log_weights == -math.inf):
        return
    rows = d.resample(log_weights, n, seed)
    share = n * d.normalised_weights(log_weights)
    counts = np.bincount(rows, minlength=len(share))
    assert counts.sum() == n
    assert np.all(counts >= np.floor(share - 1e-6))
    assert np.all(counts <= np.ceil(share + 1e-6))
    assert np.all(counts[log_weights == -math.inf] == 0)
