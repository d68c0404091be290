"""Draws of vectors: ars_sample_vector in one request, the MultivariateNormal and the Dirichlet.

vectors/vectors.c has the models. Exact answers are closed forms; draws of a vector are compared bit by bit with those
of scalars.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from build_helpers import COMPILERS, Builder, Variant
from scipy import stats
from scipy.special import gammaln

import ars

SOURCE = Path(__file__).resolve().parent / "vectors" / "vectors.c"
MEAN = np.array([0.5, -0.2, 0.1])
CHOLESKY = np.array([[1.0, 0, 0], [0.6, 0.8, 0], [-0.3, 0.5, 0.7]])
CONCENTRATION = np.array([1.5, 0.7, 2.0])
NOISE = 0.5
Y = [1.1, 0.3, -0.4]

Start = Callable[..., ars.Simulator]
Array = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("vectors"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Start:
    def begin(*arguments: str, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([str(program), *arguments], workers=2, **options))

    return begin


# ---- one request for many draws ------------------------------------------------------------------------------------


def follows(t: ars.Drawn) -> ars.Distribution:
    """Depends on the element before."""
    return ars.Normal(0.9 * t["x"] if "x" in t else 0.1, 1.3)


def assert_same_bits(one: ars.Posterior, other: ars.Posterior, weighting: str) -> None:
    assert one.log_weights(weighting).tobytes() == other.log_weights(weighting).tobytes()
    assert one["x"].tobytes() == other["x"].tobytes()
    for field in ("value", "log_p", "log_q", "instance"):
        assert one.columns.samples[field].tobytes() == other.columns.samples[field].tobytes(), field


@pytest.mark.parametrize("n", [1, 2, 300])
@pytest.mark.parametrize("proposals", [None, {"x": follows, "after": ars.Normal(0.2, 0.8)}, {"x": ars.Normal(0, 2)}])
def test_a_vector_has_the_bits_of_its_scalars(start: Start, n: int, proposals: dict[str, Any] | None) -> None:
    options: dict[str, Any] = {
        "observe": {"y": 0.3},
        "traces": 6 if n == 300 else 40,
        "seed": 5,
        "proposals": proposals,
    }
    vector, scalars = (start(model, str(n)).posterior(**options) for model in ("vector", "scalars"))
    assert_same_bits(vector, scalars, "ic")
    if proposals and n == 300:
        assert vector.stats["requests"] < scalars.stats["requests"] / 50


@pytest.mark.parametrize("model", ["looped", "first"])
@pytest.mark.parametrize("n", [3, 20])
def test_in_a_loop_forked_and_rewound(start: Start, model: str, n: int) -> None:
    options: dict[str, Any] = {
        "observe": {"y": 0.3}, "traces": 20, "seed": 6, "proposals": {"x": follows}, "budget": ars.Budget(2, 3)
    }  # fmt: skip
    scalars = start(f"{model}-scalars", str(n)).posterior(**options)
    for how in ("fork", "auto"):
        vector = start(model, str(n), continuations=how).posterior(**options)
        assert_same_bits(vector, scalars, "ars")


def test_markov_chains_of_a_vector(start: Start) -> None:
    """Values are given to elements, one by one."""
    chains = {m: start(m, "2").mcmc({"y": 0.3}, 8, 4, seed=3, warmup=2) for m in ("vector", "scalars")}
    assert chains["vector"]["x"].tobytes() == chains["scalars"]["x"].tobytes()


# ---- exact answers -------------------------------------------------------------------------------------------------


def given_past(past: list[Array]) -> tuple[Array, float]:
    """Mean and standard deviation of the next coordinate under the posterior of "normal", given those before it."""
    k, precision = len(past), np.linalg.inv(CHOLESKY @ CHOLESKY.T)
    covariance = np.linalg.inv(precision + np.eye(3) / NOISE**2)
    mean = covariance @ (precision @ MEAN + np.array(Y) / NOISE**2)
    if not k:
        return mean[0], math.sqrt(covariance[0, 0])
    gain = np.linalg.solve(covariance[:k, :k], covariance[:k, k])
    shift = sum(g * (x - m) for g, x, m in zip(gain, past, mean, strict=False))
    return mean[k] + shift, math.sqrt(covariance[k, k] - gain @ covariance[:k, k])


def by_hand(t: ars.Drawn) -> ars.Distribution:
    """Nearly the posterior."""
    past = [t["x", i] for i in range(3) if ("x", i) in t]
    mean, std = given_past(past)
    return ars.Normal(mean, 1.2 * std)


LOG_EVIDENCE = float(stats.multivariate_normal(MEAN, CHOLESKY @ CHOLESKY.T + NOISE**2 * np.eye(3)).logpdf(Y))


def log_evidence_of_half() -> float:
    """The loop keeps the half in which the sum is above its mean: twice the posterior's share of that half."""
    precision = np.linalg.inv(CHOLESKY @ CHOLESKY.T)
    covariance = np.linalg.inv(precision + np.eye(3) / NOISE**2)
    mean = covariance @ (precision @ MEAN + np.array(Y) / NOISE**2)
    share = stats.norm.sf(0.4, mean.sum(), math.sqrt(covariance.sum()))
    return LOG_EVIDENCE + math.log(2 * share)


def distance(post: ars.Posterior, weighting: str, exact: float) -> float:
    """How many standard errors the evidence is off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.NaiveVarianceWarning)
        found = post.log_evidence(weighting)
    return abs(found.evidence - math.exp(exact)) / found.standard_error


def assert_near(post: ars.Posterior, weighting: str, exact: float) -> None:
    off = distance(post, weighting, exact)
    assert off < 4, (off, exact)
    found = post.log_evidence(weighting)
    assert found.standard_error < 0.1 * found.evidence


@pytest.mark.parametrize("proposals", [None, {"x": by_hand}])
def test_evidence_of_a_multivariate_normal(start: Start, proposals: dict[str, Any] | None) -> None:
    traces = 600 if proposals else 4000
    post = start("normal").posterior(observe={"y": Y}, traces=traces, proposals=proposals, seed=7)
    assert_near(post, "ic", LOG_EVIDENCE)
    assert np.asarray(post["seen"]).shape == (traces, 3)
    if proposals:
        assert post.ess("ic") > 300


def test_evidence_in_a_loop_needs_the_correction(start: Start) -> None:
    sim, exact = start("normal-loop"), log_evidence_of_half()
    budget = ars.Budget(2, 2)
    post = sim.posterior(observe={"y": Y}, traces=500, proposals={"x": by_hand}, budget=budget, seed=8)
    assert_near(post, "ars", exact)
    assert distance(post, "biased", exact) > 5


def test_evidence_of_a_dirichlet_multinomial(start: Start) -> None:
    counts = np.array([4, 1, 5])
    a = CONCENTRATION
    exact = float(
        gammaln(11) - gammaln(counts + 1).sum() + gammaln(a.sum()) - gammaln(a.sum() + 10)
        + (gammaln(a + counts) - gammaln(a)).sum()
    )  # fmt: skip
    data = {"first": 4.0, "second": 1.0}
    sim = start("dirichlet")

    def posterior_given_past(t: ars.Drawn) -> ars.Distribution:
        b = a + counts
        if ("p", 0) in t:
            return ars.ScaledBeta(b[1], b[2], 0, 1 - t["p", 0])
        return ars.Beta(b[0], b[1] + b[2])

    for proposals in (None, {"p": posterior_given_past}):
        traces = 300 if proposals else 3000
        post = sim.posterior(observe=data, traces=traces, proposals=proposals, seed=9)
        if proposals:  # the posterior itself proposes: every weight is the evidence
            assert np.allclose(post.log_weights("ic"), exact, atol=1e-9)
        else:
            assert_near(post, "ic", exact)
    values = np.asarray(post["all"])
    assert (values > 0).all() and (values < 1).all() and np.allclose(values.sum(axis=1), 1, atol=1e-12)
    assert int((post.columns.samples["instance"] == 1).sum()) == 300  # the last coordinate is no latent


def test_vectors_as_data_have_their_joint_density(start: Start) -> None:
    v, w = [0.2, 0.4, -1.0], [0.3, 0.1, 0.6]
    sim = start("observed")
    post = sim.posterior(observe={"v": v, "w": w}, traces=50, seed=10)
    scale = post["scale"]
    exact = [
        stats.multivariate_normal(MEAN, s**2 * CHOLESKY @ CHOLESKY.T).logpdf(v)
        + stats.dirichlet(s * CONCENTRATION).logpdf(w)
        for s in scale
    ]  # fmt: skip
    assert np.allclose(post.log_weights("ic"), exact, atol=1e-9)
    drawn = sim.prior(50, seed=11)
    assert np.allclose(np.asarray(drawn["w"]).sum(axis=1), 1)
    with pytest.raises(ars.ArsError, match="numbers that sum to 1"):
        sim.posterior(observe={"v": v, "w": [0.3, 0.1, 0.7]}, traces=2, seed=1)


def test_vectors_as_nuisance(start: Start) -> None:
    x = np.asarray(start("nuisance").prior(4000, seed=12)["x"])
    assert (np.abs(x[:, :3].mean(axis=0) - MEAN) < 4 * np.sqrt(np.diag(CHOLESKY @ CHOLESKY.T) / 4000)).all()
    share = CONCENTRATION / CONCENTRATION.sum()
    spread = np.sqrt(share * (1 - share) / (CONCENTRATION.sum() + 1) / 4000)
    assert (np.abs(x[:, 3:].mean(axis=0) - share) < 4 * spread).all()


def test_a_network_follows_the_correlation(start: Start) -> None:
    sim = start("normal-loop")
    net = sim.train(20_000, lstm_dim=32, components=3, batch_size=64, lr=3e-3, seed=1)
    post = sim.posterior(observe={"y": Y}, traces=1500, network=net, budget=ars.Budget(2, 2), seed=13)
    assert_near(post, "ars", log_evidence_of_half())
    prior = sim.posterior(observe={"y": Y}, traces=1500, seed=13)
    assert post.ess("ars") > 1.5 * prior.ess("ars")


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (1, r'ars_sample_vector\("x"\), element 1: Normal: std is -1, must be a positive finite number'),
        (2, r"element 0 is Normal and element 1 is Uniform; a name keeps one kind"),
        (3, r'ars_sample\("x"\): MultivariateNormal: draws have 3 coordinates. Draw them with ars_sample_vector'),
        (4, r"Dirichlet: draws have 3 coordinates. Draw them with ars_sample_vector or ars_draw_vector"),
        (5, r"and observe them with ars_observe_vector"),
        (6, r"element 0: Dirichlet: concentration\[1\] is nan, must be a positive number"),
        (7, r"cholesky\[0\]\[1\] is 2, must be 0: give the lower factor, row by row"),
        (8, r"ars_draw_vector.*cholesky\[1\]\[1\] is -1, must be a positive finite number"),
        (9, r"MultivariateNormal: mean is NULL, must point to 2 numbers"),
        (10, r"ars_sample_vector\(\"x\"\): d is NULL, with n = 2"),
        (11, r"MultivariateNormal: n is 513, must be from 1 to 512"),
    ],
)
def test_mistakes_are_named(start: Start, case: int, says: str) -> None:
    with pytest.raises(ars.ArsError, match=says):
        start("bad", str(case)).prior(1, seed=1)


def test_no_elements_are_nothing(start: Start) -> None:
    traces = start("bad", "0").prior(3, seed=1)
    assert len(traces.columns.samples) == 0


def test_a_vector_is_no_proposal(start: Start) -> None:
    whole = ars.MultivariateNormal(MEAN, CHOLESKY)
    with pytest.raises(TypeError, match="coordinates of a vector are proposed one by one"):
        start("normal").posterior(observe={"y": Y}, traces=2, proposals={"x": whole})  # type: ignore[dict-item]
    with pytest.raises(ars.ProposalError, match="coordinates of a vector are proposed one by one"):
        start("normal").posterior(observe={"y": Y}, traces=2, proposals={"x": lambda _: whole})  # type: ignore[dict-item,return-value]
