"""Weights of a refinement's pool: unbiased for the mixture of rounds, tempered where few traces count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import ars
from ars.adaptation import _checked
from ars.columns import Floats, Integers
from ars.network.refine.pool import Pool, log_mean, pooled_log_weights, tempered
from ars.network.refine.rounds import Validation
from ars.seeds import named_seed

SEEDS = 300


def drawn(rng: np.random.Generator) -> tuple[Floats, Floats, Integers, Integers]:
    """Two rounds for the target exp(-x^2 / 2): one too far to the right, one too wide. Their own weights have noise of
    mean 1, as estimates of loops give them."""
    proposals = [stats.norm(1.5, 0.8), stats.norm(0.0, 3.0)]
    counts = np.array([60, 20])
    x = np.concatenate([p.rvs(n, random_state=rng) for p, n in zip(proposals, counts, strict=True)])
    of = np.repeat([0, 1], counts)
    log_q = np.stack([p.logpdf(x) for p in proposals])
    own = log_q[of, np.arange(len(x))]
    noise = np.log(rng.exponential(size=len(x)))
    return -0.5 * x**2 - own + noise, log_q, of, counts


def distance(estimates: list[float], truth: float) -> float:
    return (float(np.mean(estimates)) - truth) / (float(np.std(estimates)) / math.sqrt(len(estimates)))


def test_pooled_weights_are_unbiased() -> None:
    rng = np.random.default_rng(1)
    truth = math.sqrt(2 * math.pi)
    pooled, doubled = [], []
    for _ in range(SEEDS):
        log_weights, log_q, of, counts = drawn(rng)
        pooled.append(math.exp(log_mean(pooled_log_weights(log_weights, log_q, of, counts), int(counts.sum()))))
        # the mutant: both rounds' own weights together would be unbiased, but not over a count of one round
        doubled.append(math.exp(log_mean(pooled_log_weights(log_weights, log_q, of, counts), int(counts[0]))))
    assert abs(distance(pooled, truth)) < 3
    assert abs(distance(doubled, truth)) > 10


def test_the_density_of_other_rounds_may_be_anything() -> None:
    """It decides only how rounds share a trace: loops' acceptance under other rounds' proposals may be left out."""
    rng = np.random.default_rng(2)
    truth = math.sqrt(2 * math.pi)
    partition, wrong = [], []
    for _ in range(SEEDS):
        log_weights, log_q, of, counts = drawn(rng)
        scaled = log_q + np.log([[3.0], [0.5]])  # as if acceptance probabilities were missing
        partition.append(math.exp(log_mean(pooled_log_weights(log_weights, scaled, of, counts), int(counts.sum()))))
        own = log_q[of, np.arange(len(of))]
        mixture = np.log((np.exp(scaled) * counts[:, None]).sum(axis=0) / counts.sum())
        wrong.append(math.exp(log_mean(log_weights + own - mixture, int(counts.sum()))))
    assert abs(distance(partition, truth)) < 3
    assert abs(distance(wrong, truth)) > 10


def test_pooling_beats_each_round() -> None:
    """A round that hardly sees a region leaves it to the other."""
    rng = np.random.default_rng(3)
    plain, pooled = [], []
    for _ in range(SEEDS):
        log_weights, log_q, of, counts = drawn(rng)
        plain.append(math.exp(log_mean(log_weights)))
        pooled.append(math.exp(log_mean(pooled_log_weights(log_weights, log_q, of, counts), int(counts.sum()))))
    assert np.std(pooled) < 0.7 * np.std(plain)


def test_one_round_keeps_its_weights() -> None:
    log_weights, log_q = np.array([0.0, -3.0, -np.inf]), np.array([[1.0, 2.0, 3.0]])
    pooled = pooled_log_weights(log_weights, log_q, np.zeros(3, np.int64), np.array([3]))
    np.testing.assert_allclose(pooled, log_weights)


def pool_of(log_weights: Floats, log_q: Floats, of: Integers, counts: Integers) -> Pool:
    pool = Pool()
    pool.log_weights, pool.log_q, pool.of, pool.counts = log_weights, log_q, of, counts
    return pool


def test_a_training_aims_at_what_its_start_proposes_too_rarely() -> None:
    """The posterior is twice the proposal for one trace, and half of it for another: by the square roots of these."""
    log_q = np.log([[0.5, 0.25, 0.25]])
    pool = pool_of(np.log([1.0, 2.0, 0.5]) + 3.0, log_q, np.zeros(3, np.int64), np.array([3]))
    r = np.array([1.0, 2.0, 0.5]) * 3 / 3.5
    assert pool.aimed(0, 0.5) == pytest.approx(pool.pooled() + 0.5 * np.log(r))


def test_the_aim_leaves_the_best_proposal_and_weights_of_zero_alone_and_is_limited() -> None:
    rounds = np.zeros(4, np.int64)
    best = pool_of(np.full(4, -2.0), np.log([[0.1, 0.2, 0.3, 0.4]]), rounds, np.array([4]))
    assert best.aimed(0, 0.5) == pytest.approx(best.pooled())
    odd = pool_of(np.array([0.0, 0.0, 30.0, -np.inf]), np.zeros((1, 4)), rounds, np.array([4]))
    gain = odd.aimed(0, 0.5)[:3] - odd.pooled()[:3]
    assert gain == pytest.approx(0.5 * np.array([math.log(0.25), math.log(0.25), math.log(4.0)]), abs=1e-6)
    assert odd.aimed(0, 0.5)[3] == -np.inf
    far = pool_of(np.array([0.0, 0.0]), np.array([[0.0, 0.0], [0.0, -50.0]]), np.zeros(2, np.int64), np.array([2, 1]))
    assert far.aimed(1, 0.5)[1] - far.pooled()[1] == pytest.approx(0.5 * math.log(1000.0))


def test_enough_effective_traces_are_not_tempered() -> None:
    exponent, weights = tempered(np.zeros(100), 50)
    assert exponent == 1.0
    np.testing.assert_allclose(weights, 0.01)


def test_few_effective_traces_are_tempered_to_as_many_as_wanted() -> None:
    log_weights = np.random.default_rng(1).normal(scale=6.0, size=5000)
    exponent, weights = tempered(log_weights, 500)
    assert 0.0 < exponent < 0.5
    assert 1.0 / np.square(weights).sum() == pytest.approx(500, rel=1e-6)
    np.testing.assert_allclose(np.log(weights) - np.log(weights[0]), exponent * (log_weights - log_weights[0]))


def test_one_trace_that_counts_stays_the_only_one() -> None:
    log_weights = np.full(100, -np.inf)
    log_weights[7] = -500.0
    _, weights = tempered(log_weights, 50)
    assert weights[7] == 1.0 and weights.sum() == 1.0


def test_all_weights_zero_is_an_error() -> None:
    with pytest.raises(ValueError, match="every weight is 0"):
        tempered(np.full(3, -np.inf), 2)


def test_a_lost_mode_costs_score() -> None:
    """Its traces are all effective, but they see half of the evidence that all rounds together see."""
    whole, half = Validation(0.5, math.log(2.0)), Validation(0.9, math.log(1.0))
    assert half.score(math.log(2.0)) < whole.score(math.log(2.0))
    assert half.score(math.log(1.0)) > whole.score(math.log(1.0))
    assert Validation(0.0, -math.inf).score(0.0) == 0.0


def test_every_purpose_has_a_seed_of_its_own() -> None:
    seeds = {named_seed(s, name, n) for s in (1, 2) for name in ("round", "fit", "prior") for n in range(20)}
    assert len(seeds) == 2 * 3 * 20
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert named_seed(1, "round", 0) == named_seed(1, "round", 0)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rounds", 0, "rounds must be from 1 to 64"),
        ("traces", 10, "traces must be from 100"),
        ("prior_share", 0.95, "prior_share must be from 0 to 0.9"),
        ("defensive", 0.0, "defensive must be from 1e-06 to 0.5"),
        ("enough", 2, "enough must be from 0 to 1"),
        ("R", -1, "R must be from 0"),
        ("seed", -1, "seed must be from 0"),
    ],
)
def test_settings_out_of_range_are_named(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ars.RefineConfig(**{field: value})  # type: ignore[arg-type]


NETWORK = object()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((True, True, None, None), ValueError, "give refine= or adapt=, not both"),
        ((True, False, None, None), ValueError, "refine= needs network="),
        ((False, True, NETWORK, None), ValueError, "adapt= starts from the prior and takes no network="),
        ((True, False, NETWORK, {"x": 1}), ValueError, "refine= cannot be combined with proposals="),
        ((False, True, None, {"x": 1}), ValueError, "adapt= cannot be combined with proposals="),
        ((3, False, NETWORK, None), TypeError, "refine must be True, False or an ars.RefineConfig, not 3"),
    ],
)
def test_what_cannot_be_combined_is_refused(arguments: tuple[object, ...], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        _checked(*arguments)  # type: ignore[arg-type]


def test_settings_may_be_given_instead_of_true() -> None:
    config = ars.RefineConfig(rounds=3)
    assert _checked(config, False, NETWORK, None) is config  # type: ignore[arg-type]
    assert _checked(False, True, None, None) == ars.RefineConfig()
