"""Data that the program itself holds: ars_observe_value, ars_observe_values, and vectors of any distributions.

held/held.c is one model, with data from the controller ("given") and with data of its own ("held").
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from scipy import stats

import ars

SOURCE = Path(__file__).resolve().parent / "held" / "held.c"
NAN = math.nan
DATA: dict[str, Any] = {"y": 0.6, "many": [0.4, 3, 2, 0.7, -1.5], "pair": [1, 4], "series": [-0.5, 0.5, 1.5]}
MISSING = {**DATA, "y": NAN, "many": [0.4, NAN, 2, 0.7, NAN]}
OTHER = {"y": -0.3, "series": [0.1, 0.2, NAN]}
PROPOSALS = {"x": ars.Normal(0.2, 0.7), "rate": ars.Gamma(3, 2)}

Start = Callable[..., ars.Simulator]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("held"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Start:
    return lambda *arguments: started(ars.Simulator([str(program), *arguments], workers=2))


def posterior(sim: ars.Simulator, data: dict[str, Any], traces: int = 200, **options: Any) -> ars.Posterior:
    return sim.posterior(observe=data, traces=traces, proposals=PROPOSALS, seed=4, **options)


def assert_same(one: ars.Posterior, other: ars.Posterior) -> None:
    assert one.log_weights("ars").tobytes() == other.log_weights("ars").tobytes()
    for name in ("x", "rate", "first", "seen"):
        assert one[name].tobytes() == other[name].tobytes(), name


def test_held_data_give_the_bits_of_given_data(start: Start) -> None:
    held, given = start("held"), start("given")
    one = posterior(held, {})
    assert_same(one, posterior(given, DATA))
    assert np.array_equal(one["seen"], np.broadcast_to(DATA["many"], (200, 5)))
    assert np.array_equal(one["first"], np.full(200, 0.6))
    assert np.isfinite(one.log_weights("ars")).all()


def test_held_nan_was_not_observed(start: Start) -> None:
    one = posterior(start("missing"), {})
    assert_same(one, posterior(start("given"), MISSING))
    assert len(np.unique(one["first"])) == 200  # drawn
    assert len(np.unique(one["seen"][:, 4])) == 200


def test_given_data_replace_held_data(start: Start) -> None:
    """Those of some names; the others stay the program's own."""
    one = posterior(start("held"), OTHER)
    assert_same(one, posterior(start("given"), {**DATA, **OTHER}))
    assert np.array_equal(one["first"], np.full(200, -0.3))


def test_only_data_that_say_nothing_at_all_are_warned_of(start: Start) -> None:
    """Warnings are errors here. Without "y" the data of the other names still count."""
    one = posterior(start("held"), {"y": NAN})
    assert_same(one, posterior(start("given"), {**DATA, "y": NAN}))
    nothing = {name: np.full_like(values, NAN, dtype=np.float64) for name, values in DATA.items()}
    with pytest.warns(ars.ObservationWarning, match="the result is the prior"):
        posterior(start("given"), nothing)


def test_without_a_posterior_held_data_are_simulated(start: Start, program: Path) -> None:
    held, given = start("held").prior(300, seed=2), start("given").prior(300, seed=2)
    assert set(held.observations) == {"y", "many", "pair", "series"}
    for name, values in held.observations.items():
        assert values.tobytes() == given.observations[name].tobytes(), name
    assert len(np.unique(held.observations["y"])) == 300
    # y ~ N(0, 1 + 0.25) over the prior, not the 0.6 that the program holds
    y = held.observations["y"]
    assert abs(y.mean()) < 4 * math.sqrt(1.25 / 300)
    assert np.array_equal(held.observations["many"], held["seen"])
    alone = {"ARS_SEED": "3", "ARS_TRACES": "5"}
    assert subprocess.run([str(program), "held"], env=alone, check=True).returncode == 0


def test_the_evidence_of_held_data_is_exact(start: Start) -> None:
    x, rate = np.linspace(-5, 5, 401)[:, None], np.linspace(0, 14, 1402)[None, 1:]
    many = DATA["many"]
    log_p = stats.norm.logpdf(DATA["y"], x, 0.5) + stats.norm.logpdf(many[0], x, 1) + stats.poisson.logpmf(3, rate)
    log_p = log_p + math.log(0.5) + stats.gamma.logpdf(many[3], 2, scale=1 / rate)
    log_p = log_p + stats.truncnorm.logpdf(many[4], (-3 - x) / 2, (3 - x) / 2, x, 2)
    log_p = log_p + stats.poisson.logpmf(1, rate) + stats.poisson.logpmf(4, 2 * rate)
    log_p = log_p + sum(stats.norm.logpdf(value, x + i, 2) for i, value in enumerate(DATA["series"]))
    density = np.exp(log_p + stats.norm.logpdf(x) + stats.gamma.logpdf(rate, 2))
    exact = math.log(density.sum() * (x[1, 0] - x[0, 0]) * (rate[0, 1] - rate[0, 0]))
    found = posterior(start("held"), {}, 4000).log_evidence("ars")
    relative = found.evidence / math.exp(exact) - 1
    assert found.relative_error < 0.1
    assert abs(relative) < 4 * found.relative_error
    assert abs(2 * (relative + 1) - 1) > 4 * 2 * found.relative_error  # a factor of 2 would be seen


@pytest.mark.parametrize(
    ("arguments", "observe", "message"),
    [
        (("impossible", "0.5"), {}, r"the value 0\.5 that the program holds for \"y\" is impossible: .*a Poisson, .*"),
        (("impossible", "inf"), {}, "Correct the program, or give other data in observe="),
        (("impossible_many", "-1"), {}, r"the value -1 \(element 1 of 2\) that the program holds"),
        (("impossible_many", "1"), {"y": [2, 0.5]}, r"the value 0\.5 \(element 1 of 2\) given for \"y\" .*observe="),
        (("impossible_many", "1"), {"y": [2]}, "are too short: 1 values were given, the simulator observes at least 2"),
        (("impossible_many", "1"), {"y": [2, 2, 2]}, "are too long: 3 values were given, the simulator observed 2"),
        (("given",), {**DATA, "many": [1, 2]}, "too short: 2 values were given, the simulator observes at least 5"),
        (("given",), {}, r"the simulator observes \"y\", for which no data were given; given: none"),
        (("held",), {"z": 1}, r"data were given for \"z\", which the simulator did not observe"),
        (("null",), {}, r"ars_observe_values\(\"y\"\): given is NULL, must point to 2"),
        (("inside",), {}, r"ars_observe_value\(\"y\"\) was called inside the loop loop"),
        (("changing",), {"y": [1, 2]}, r"the site \"y\" was (Poisson|of several kinds) before and is .* now"),
    ],
)
def test_errors(start: Start, arguments: tuple[str, ...], observe: dict[str, Any], message: str) -> None:
    with pytest.raises(ars.ArsError, match=re.compile(message, re.DOTALL)):
        start(*arguments).posterior(observe=observe, traces=50, seed=1)


def test_a_network_needs_the_data_that_the_program_holds(start: Start) -> None:
    pytest.importorskip("torch")
    sim = start("held")
    network = sim.train(300, lstm_dim=8, batch_size=64, seed=1)
    with pytest.raises(ars.ObservationError, match=r"If the program itself holds the value of 'many'.*observe="):
        sim.posterior(observe={"y": 0.6, "pair": [1, 4], "series": DATA["series"]}, traces=10, network=network, seed=1)
    with_data = sim.posterior(observe=DATA, traces=50, network=network, seed=1)
    assert np.isfinite(with_data.log_weights("ars")).all()
