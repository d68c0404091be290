"""NCrystal in a small form: the wheel from PyPI, the simulator of csim/, and ARS against the prior in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from generator_tools import built_once

import ars
from ars_lab.generators import ncrystal
from ars_lab.generators.fetch import Kitchen
from ars_lab.generators.spec import Built

pytestmark = [pytest.mark.slow, pytest.mark.compiler, pytest.mark.timeout(900)]  # with a download


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kitchen, Built]:
    return built_once("ncrystal", ncrystal.build, tmp_path_factory)


@pytest.fixture(scope="module")
def kitchen(made: tuple[Kitchen, Built]) -> Kitchen:
    return made[0]


@pytest.fixture(scope="module")
def built(made: tuple[Kitchen, Built]) -> Built:
    return made[1]


def test_neutrons_obey_braggs_law(built: Built) -> None:
    check = ncrystal.geometry(built, 400)
    assert check.kept, check.numbers


def test_latents_keep_their_names_when_flags_change(kitchen: Kitchen, built: Built) -> None:
    check = ncrystal.names(kitchen, built)
    assert check.kept, check.numbers


def test_ars_agrees_with_the_prior_in_loops(built: Built, started: Callable[[ars.Simulator], ars.Simulator]) -> None:
    """One neutron; proposals by hand, in and out of the loop, also for NCrystal's own draw."""
    sim = started(ars.Simulator([*built.command, "1"], workers=2))
    [choice] = [name for name in sim.prior(5, seed=1).latents if "sampleScatter" in name]
    outer: dict[str, Any] = {"wavelength": ars.ScaledBeta(2, 2, 4.45, 4.85)}
    inner: dict[str, Any] = {"depth": ars.Exponential(0.4), choice: ars.Beta(1.0, 1.2)}
    observe = {"across": [90.0], "up": [1.0]}
    by_ars = sim.posterior(observe, 600, proposals=outer | inner, budget=ars.Budget(M=2, R=1), seed=3)
    by_prior = sim.posterior(observe, 1_000, proposals=outer, in_loops="prior", seed=4)
    a, b = by_ars.log_evidence("ars"), by_prior.log_evidence()
    assert abs(a.log_estimate - b.log_estimate) < 3.5 * np.hypot(a.relative_error, b.relative_error)
    wrong = by_ars.log_evidence("biased")
    assert abs(wrong.log_estimate - b.log_estimate) > 5 * np.hypot(wrong.relative_error, b.relative_error)
    assert by_ars.ess("ars") > 80 and by_prior.ess() > 150
