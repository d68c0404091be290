"""Data that cannot be: an error that names the value where no parameters could give it, a warning where no trace did.

data/support.c observes "y" from one family per argument, with parameters that depend on a latent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars

SOURCE = Path(__file__).resolve().parent / "data" / "support.c"
COUNTS, POSITIVE = "whole numbers from 0 up", "finite numbers from 0 up"
IMPOSSIBLE = [
    ("poisson", 0.5, "Poisson", COUNTS),
    ("poisson", -1.0, "Poisson", COUNTS),
    ("bernoulli", 2.0, "Bernoulli", "0 and 1"),
    ("bernoulli", 0.5, "Bernoulli", "0 and 1"),
    ("categorical", 0.5, "Categorical", COUNTS),
    ("categorical", -1.0, "Categorical", COUNTS),
    ("binomial", 0.5, "Binomial", COUNTS),
    ("binomial", -3.0, "Binomial", COUNTS),
    ("beta", 1.5, "Beta", "numbers from 0 to 1"),
    ("beta", -0.1, "Beta", "numbers from 0 to 1"),
    ("gamma", -1.0, "Gamma", POSITIVE),
    ("exponential", -1.0, "Exponential", POSITIVE),
    ("weibull", -1e-300, "Weibull", POSITIVE),
    ("lognormal", 0.0, "LogNormal", "finite numbers above 0"),
    ("lognormal", -2.0, "LogNormal", "finite numbers above 0"),
]
# Values that some latents explain and others do not: a likelihood of 0 in those, and no word about it.
OFTEN_ZERO = [("uniform", 0.5), ("truncated_normal", 0.5), ("binomial", 4.0)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("data"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    return lambda family: started(ars.Simulator([str(program), family], workers=2))


def posterior(
    sim: ars.Simulator, y: float, z: tuple[float, float] = (2.0, 1.0), on_failure: ars.simulator.OnFailure = "raise"
) -> ars.Posterior:
    return sim.posterior(observe={"y": y, "z": np.array(z)}, traces=100, seed=1, on_failure=on_failure)


@pytest.mark.parametrize(("family", "value", "name", "values"), IMPOSSIBLE)
@pytest.mark.parametrize("on_failure", ["raise", "zero", "skip"])
def test_a_value_that_no_parameters_could_give_is_an_error(
    family: str,
    value: float,
    name: str,
    values: str,
    on_failure: ars.simulator.OnFailure,
    start: Callable[..., ars.Simulator],
) -> None:
    says = f'the value {value:.12g} given for "y" is impossible: the simulator observes it from a {name}, '
    with pytest.raises(ars.ObservationError, match=re.escape(f"{says}whose values are {values}. Correct observe=")):
        posterior(start(family), value, on_failure=on_failure)


def test_the_element_of_an_array_is_named(start: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(ars.ObservationError, match=r'the value 1\.5 \(element 1 of 2\) given for "z" is impossible'):
        posterior(start("normal"), 0.0, (2.0, 1.5))


@pytest.mark.parametrize(("family", "value"), OFTEN_ZERO)
def test_a_value_beyond_bounds_that_depend_on_latents_has_likelihood_0(
    family: str, value: float, start: Callable[..., ars.Simulator]
) -> None:
    found = posterior(start(family), value)
    assert not found.failures
    weights = found.log_weights("ars")
    np.testing.assert_array_equal(
        np.isneginf(weights), np.floor(10 * found["x"]) < 4 if family == "binomial" else found["x"] < value
    )
    assert 0 < np.isneginf(weights).sum() < len(weights)


@pytest.mark.parametrize(
    ("family", "value"), [("fixed", 1.5), ("uniform", 1.5), ("categorical", 3.0), ("binomial", 99.0)]
)
def test_an_observation_that_no_trace_explains_is_named_in_a_warning(
    family: str, value: float, start: Callable[..., ars.Simulator]
) -> None:
    with pytest.warns(
        ars.ObservationWarning, match=r'every weight is 0: the likelihood of "y" is 0 in all 100 finished traces'
    ):
        found = posterior(start(family), value)
    assert not found.failures
    assert np.isneginf(found.log_weights("ars")).all()
