"""NaN in ``observe``: the term is left out of the likelihood, and the simulator draws what was not observed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from build_helpers import COMPILERS, Builder, Variant
from scipy import stats
from tests import exact

import ars

HERE = Path(__file__).resolve().parent
NAN = math.nan
LIMIT = 3.0  # standard errors
TRACES = 4000

Floats = npt.NDArray[np.float64]
Start = Callable[..., ars.Simulator]

FULL: dict[str, Any] = {"y1": 0.6, "y2": -0.5, "v": [0.4, -0.7, 0.8], "w": [0.3, -0.4], "last": 1.2}
PROPOSALS = {"x": ars.Normal(0.3, 0.8), "z": lambda t: ars.Normal(0.3 * t["x"] - 0.4, 1.1)}
BUDGET = ars.Budget(M=2, N=4)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("missing"))


@pytest.fixture(scope="module")
def state(builder: Builder) -> Path:
    return builder.program([HERE / "missing" / "state.c"], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture(scope="module")
def support(builder: Builder) -> Path:
    return builder.program([HERE / "data" / "support.c"], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(started: Callable[[ars.Simulator], ars.Simulator]) -> Start:
    def make(program: str | Path, *arguments: str, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([str(program), *arguments], **{"workers": 2, **options}))

    return make


def without(*hidden: str) -> dict[str, Any]:
    """The data, but for some numbers: "y1", or "v1" for the second element of v."""
    data = {name: np.array(value, dtype=np.float64) for name, value in FULL.items()}
    for name in hidden:
        if name in data:
            data[name][...] = NAN
        else:
            data[name[0]][int(name[1])] = NAN
    return data


def truth(data: dict[str, Any]) -> tuple[float, dict[str, float]]:
    """Evidence and posterior means of state.c, by quadrature over x, y1 and z. What is missing of v is integrated out
    in closed form: it is Normal, and so is ``last`` given it."""
    x, w_x = exact.legendre(-6, 6, 80)
    given = float(data["y1"])
    if math.isnan(given):
        y, w_y = exact.legendre(-7, 7, 80)
    else:
        y, w_y = np.array([given]), np.ones(1)
    z, w_z = exact.panels((-10, -3, -1, 0), 32)
    x, y, z = x[:, None, None], y[None, :, None], z[None, None, :]
    centre = 0.5 * x + 0.5 * y
    mass = w_x[:, None, None] * w_y[None, :, None] * w_z * exact.normal_pdf(x, 0, 1) * exact.normal_pdf(y, x, 0.5)
    mass = mass * exact.normal_pdf(z, centre, 1) / exact.normal_cdf(0.0, centre, 1)

    def term(value: Any, mean: Any, std: float) -> Any:
        return 1.0 if math.isnan(float(value)) else exact.normal_pdf(float(value), mean, std)

    v, variance = data["v"], 0.25
    for value, mean in itertools.chain(zip(v, (x, z, y), strict=True), zip(data["w"], (x, z), strict=True)):
        mass = mass * term(value, mean, 0.3)
    used = []
    for value, mean in ((v[0], x), (v[1], z)):
        used.append(mean if math.isnan(value) else value)
        variance += 0.09 if math.isnan(value) else 0.0
    mass = mass * term(data["y2"], z + 0.5 * y, 0.4) * term(data["last"], used[0] - used[1], math.sqrt(variance))
    evidence = float(mass.sum())
    return evidence, {name: float((mass * value).sum()) / evidence for name, value in (("x", x), ("z", z), ("y1", y))}


def infer(sim: ars.Simulator, data: dict[str, Any], traces: int = TRACES, **options: Any) -> ars.Posterior:
    return sim.posterior(data, traces, **{"proposals": PROPOSALS, "budget": BUDGET, "seed": 61, **options})


def distance(post: ars.Posterior, evidence: float) -> float:
    found = post.log_evidence("ars")
    return abs(found.evidence - evidence) / found.standard_error


def far_from(post: ars.Posterior, name: str, mean: float) -> float:
    """How many standard errors a posterior mean is off."""
    log_weights = post.log_weights("ars")
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    found = float(np.sum(weights * post[name]))
    return abs(found - mean) / math.sqrt(float(np.sum((weights * (post[name] - found)) ** 2)))


PATTERNS = [(), ("y1",), ("v1",), ("y1", "v1"), ("v0", "v2", "w0", "last"), ("y1", "v", "w1", "last")]


# ---- exact answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", PATTERNS, ids=[",".join(each) or "none" for each in PATTERNS])
def test_the_evidence_and_the_means_are_those_of_fewer_data(start: Start, state: Path, hidden: tuple[str, ...]) -> None:
    data = without(*hidden)
    evidence, means = truth(data)
    post = infer(start(state), data)
    assert distance(post, evidence) < LIMIT
    for name in ("x", "z", "y1") if "y1" in hidden else ("x", "z"):
        assert far_from(post, name, means[name]) < LIMIT


@pytest.mark.parametrize("mistake", ["scored", "stale"])
def test_a_missing_term_that_is_scored_or_stale_fails_the_same_test(start: Start, state: Path, mistake: str) -> None:
    data = without("y1", "v1")
    evidence, _ = truth(data)
    sim = start(state, mistake, workers=1)  # "the trace before" is that of one worker
    assert distance(infer(sim, data), evidence) > 2 * LIMIT


def test_gaussian_data_are_those_that_are_left(start: Start, csim: Callable[[str], str]) -> None:
    for y in ([0.8, NAN, 1.1], [NAN, NAN, 1.1], [0.8, -0.1, NAN]):
        left = exact.gaussian([value for value in y if not math.isnan(value)])
        post = start(csim("gaussian"), "3").posterior({"y": y}, TRACES, proposals=left.proposals(ars), seed=62)
        assert distance(post, left.evidence) < LIMIT
        assert far_from(post, "mu", left.posterior_mean["mu"]) < LIMIT
        assert distance(post, exact.gaussian([0.8, -0.1, 1.1]).evidence) > LIMIT  # as if it had been given


def test_a_loop_without_data_has_evidence_one(start: Start, csim: Callable[[str], str]) -> None:
    proposals = exact.truncated_normal("b").proposals(ars)
    with pytest.warns(ars.ObservationWarning, match="every number in observe is NaN"):
        post = start(csim("truncated_normal"), "b").posterior(
            {"y": NAN}, TRACES, proposals=proposals, budget=ars.Budget(M=2, N=10), seed=63
        )
    assert distance(post, 1.0) < LIMIT
    assert far_from(post, "x_final", 1.5) < LIMIT  # x stays Uniform: the loop comes after it
    biased = post.log_evidence("biased")
    assert abs(biased.evidence - 1.0) > LIMIT * biased.standard_error


@pytest.mark.parametrize(
    "family",
    [
        "normal",
        "uniform",
        "poisson",
        "bernoulli",
        "categorical",
        "binomial",
        "beta",
        "gamma",
        "exponential",
        "weibull",
        "lognormal",
        "truncated_normal",
    ],
)
def test_any_family_can_be_missing_and_the_others_still_count(start: Start, support: Path, family: str) -> None:
    post = start(support, family).posterior({"y": NAN, "z": [2, NAN]}, 50, seed=64)
    expected = stats.poisson(1 + post["x"]).logpmf(2)
    np.testing.assert_allclose(post.columns.traces["log_likelihood"], expected, rtol=1e-12)
    by_site = {site.id: site.address for site in post.sites}
    of_y = [row["log_p"] for row in post.columns.observes if by_site[int(row["site"])] == "y"]
    assert of_y == [0.0] * 50


def test_without_any_data_the_traces_are_those_of_the_prior(start: Start, state: Path) -> None:
    """The stream is that of the trace itself: an observation that is drawn is drawn as in a prior run."""
    sim = start(state)
    prior = sim.prior(200, seed=65)
    with pytest.warns(ars.ObservationWarning):
        post = sim.posterior(without(*FULL), 200, seed=65)
    for name in ("x", "z", "y1"):
        np.testing.assert_array_equal(post[name], prior[name])
    np.testing.assert_array_equal(post["v"][:, :2], prior["v"][:, :2])
    assert (post.log_weights("ars") == 0).all()


# ---- the same bits ---------------------------------------------------------------------------------------------------


def bits(post: ars.Posterior) -> tuple[bytes, ...]:
    order = np.argsort(post.trace_numbers)
    return (
        post.trace_numbers[order].tobytes(),
        post.log_weights("ars")[order].tobytes(),
        *(post[name][order].tobytes() for name in ("x", "z", "y1", "v")),
    )


def test_the_same_bits_for_any_number_of_workers_and_either_kind_of_continuation(start: Start, state: Path) -> None:
    data = without("y1", "v1")
    found = [
        infer(start(state, workers=workers, continuations=how), data, 300)
        for workers, how in ((1, "auto"), (8, "auto"), (2, "fork"), (2, "check"))
    ]
    assert found[0].stats["rewinds"] > 0 and found[2].stats["forks"] > 0
    assert len({bits(post) for post in found}) == 1


def test_two_phases_replay_what_was_drawn(start: Start, state: Path) -> None:
    data = without("y1", "v1")
    found = [infer(start(state, workers=n), data, 2000, budget="auto") for n in (1, 8)]
    assert bits(found[0]) == bits(found[1])
    assert distance(found[0], truth(data)[0]) < LIMIT


def test_parts_of_a_run_are_the_run(start: Start, state: Path) -> None:
    data = without("y1", "v1")
    sim = start(state)
    whole = infer(sim, data, 60)
    parts = [infer(sim, data, 30), infer(sim, data, 30, first_trace=30)]
    assert bits(ars.Posterior.concat(parts)) == bits(whole)
    other = infer(sim, data | {"y1": np.array(0.6)}, 30, first_trace=30)
    with pytest.raises(ValueError, match='the data of "y1" differ'):
        ars.Posterior.concat([parts[0], other])


@pytest.mark.parametrize("budget", [BUDGET, "auto"])
def test_a_run_with_missing_data_can_be_resumed(start: Start, state: Path, tmp_path: Path, budget: Any) -> None:
    data = without("y1", "v1")
    sim = start(state)
    folder = tmp_path / "run"
    infer(sim, data, 40, resume=folder, budget=budget)
    again = infer(sim, data, 40, resume=folder, budget=budget)
    assert again.stats["traces_resumed"] > 0
    assert bits(again) == bits(infer(sim, data, 40, budget=budget))
    with pytest.raises(ars.StorageError, match=r"observe: y1 changed \(\['nan'\] -> \[0\.6\]\)"):
        infer(sim, data | {"y1": np.array(0.6)}, 40, resume=folder, budget=budget)
    with pytest.raises(ars.StorageError, match="observe: y2 changed"):
        infer(sim, data | {"y2": np.array(NAN)}, 40, resume=folder, budget=budget)


# ---- results ---------------------------------------------------------------------------------------------------------


def test_results_keep_what_was_not_observed(start: Start, state: Path, tmp_path: Path) -> None:
    post = infer(start(state), without("y1", "v1"), 50)
    expected = np.array([0.4, NAN, 0.8])
    post.save(tmp_path / "post.nc")
    for each in (post, ars.Posterior.load(tmp_path / "post.nc")):
        np.testing.assert_array_equal(each.observed["v"], expected)
        np.testing.assert_array_equal(each.observations["v"][7], expected)
        tree = each.to_datatree()
        np.testing.assert_array_equal(tree["observed_data"]["v"].values, expected)
        assert np.isnan(tree["observed_data"]["y1"].values)
