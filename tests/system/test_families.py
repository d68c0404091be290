"""NegativeBinomial and StudentT in a real simulator, as latents and as data, and ars_log_density."""

from __future__ import annotations

import functools
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from scipy import stats

import ars

SOURCE = Path(__file__).resolve().parent / "families" / "families.c"
DATA = {"y": 2.2, "z": 4.0}
BY_HAND = {"x": ars.StudentT(3, 1.2, 0.8), "k": ars.NegativeBinomial(2.5, 0.45)}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("families"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    return lambda *arguments: started(ars.Simulator([str(program), *arguments], workers=2))


@functools.cache
def truth() -> tuple[float, float, float]:
    """Evidence and posterior means of x and k, by quadrature over x and a sum over k."""
    x, k = np.linspace(-60, 60, 6001)[:, None], np.arange(60)[None, :]
    log_p = stats.t.logpdf(x, 3, 0.5, 1) + stats.nbinom.logpmf(k, 2.5, 0.4)
    log_p = log_p + stats.t.logpdf(DATA["y"], 5, x + 0.3 * k, 0.5) + stats.nbinom.logpmf(DATA["z"], 1.5 + k, 0.5)
    density = np.exp(log_p) * (x[1, 0] - x[0, 0])
    evidence = float(density.sum())
    return evidence, float((density * x).sum() / evidence), float((density * k).sum() / evidence)


def assert_exact(post: ars.Posterior) -> None:
    evidence, x, k = truth()
    found = post.log_evidence("ars")
    assert found.relative_error < 0.06
    assert abs(found.evidence / evidence - 1) < 4 * found.relative_error
    assert abs(found.evidence / evidence - 1.3) > 4 * found.relative_error  # another evidence would be seen
    weights = np.exp(post.log_weights("ars") - post.log_weights("ars").max())
    weights /= weights.sum()
    for name, mean in (("x", x), ("k", k)):
        found_mean = float(weights @ post[name])
        error = math.sqrt(float(weights**2 @ (post[name] - found_mean) ** 2))
        assert abs(found_mean - mean) < 4 * error, name


@pytest.mark.usefixtures("estimates_the_prior")
def test_the_prior_and_proposals_by_hand_give_the_exact_evidence(start: Callable[..., ars.Simulator]) -> None:
    sim = start()
    for proposals in (None, BY_HAND):
        post = sim.posterior(observe=DATA, traces=10_000, proposals=proposals, seed=5)
        assert_exact(post)
        np.testing.assert_allclose(post["log likelihood"], post.columns.traces["log_likelihood"], rtol=1e-12)


def test_a_network_proposes_for_both(start: Callable[..., ars.Simulator]) -> None:
    pytest.importorskip("torch")
    sim = start()
    network = sim.train(10_000, lstm_dim=16, batch_size=64, seed=1)
    post = sim.posterior(observe=DATA, traces=4000, network=network, seed=6)
    assert_exact(post)
    prior = sim.posterior(observe=DATA, traces=4000, seed=6)
    assert post.ess("ars") > 2 * prior.ess("ars")  # it has learnt something about both


def test_data_of_a_kind_are_checked(start: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(ars.ObservationError, match=r"a NegativeBinomial, whose values are whole numbers from 0 up"):
        start().posterior(observe={**DATA, "z": 1.5}, traces=10, seed=1)


def test_log_density_of_wrong_parameters_fails_the_trace(program: Path, start: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(ars.ArsError, match="ars_log_density: StudentT: df is -1, must be a positive number"):
        start("wrong").prior(10, seed=1)
    assert subprocess.run([str(program)], check=False).returncode == 0  # outside a trace it is NaN
    alone = subprocess.run([str(program), "wrong"], capture_output=True, text=True, check=False)
    assert alone.returncode < 0 and "ars_log_density: StudentT: df is -1" in alone.stderr
