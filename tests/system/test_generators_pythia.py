"""Pythia's stock binary with its loop marked from outside: ARS weights have the exact mean, biased ones do not."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator

import numpy as np
import pytest
from generator_tools import built_once

import ars
from ars_lab.generators import pythia
from ars_lab.generators.spec import Built

pytestmark = [pytest.mark.slow, pytest.mark.compiler, pytest.mark.timeout(900)]  # with two downloads

LIMIT = 3.5  # standard errors


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compiled here."""
    if shutil.which("c++") is None or shutil.which("nm") is None:
        pytest.skip("a C++ compiler and nm are needed")
    return built_once("pythia", pythia.build, tmp_path_factory)[1]


@pytest.fixture
def simulator(built: Built) -> Iterator[ars.Simulator]:
    with built.simulator() as simulator:
        yield simulator


def angles(simulator: ars.Simulator) -> list[str]:
    return [name for name in simulator.prior(20, seed=1).latents if "phaseSpace2" in name]


def test_draws_have_the_names_of_pythias_functions(simulator: ars.Simulator) -> None:
    drawn = simulator.prior(50, seed=1)
    assert {"energy", "x", "y", "channel"} < set(drawn.latents)
    first, second = angles(simulator)
    for name, order in ((first, 1), (second, 2)):
        functions = [part.rpartition("#")[0].removeprefix("Pythia8::") for part in name.split(">")]
        assert functions[-3:] == ["TauDecays::isotropicDecay", "Rndm::phaseSpace2", "Rndm::flat"]
        assert f"phaseSpace2#{order}>" in name
    assert len(drawn.latents) == 6  # all else is a nuisance
    (loop,) = drawn.loops.values()
    assert loop.name == "tau decay" and loop.entries == 50 and loop.mean_tries > 1.5


@pytest.mark.filterwarnings("ignore::ars.NaiveVarianceWarning")
def test_the_evidence_of_no_data_is_1(simulator: ars.Simulator) -> None:
    """Proposals inside the loop halve its acceptance, and ARS weights know."""
    nothing = {"calorimeter": np.full(2 * pythia.CELLS**2, math.nan)}
    cosine, azimuth = angles(simulator)
    proposals = {cosine: ars.Beta(1.0, 2.0), azimuth: ars.Beta(1.2, 1.2), "energy": ars.Uniform(20, 80)}
    with pytest.warns(ars.ObservationWarning, match="the result is the prior"):
        post = simulator.posterior(nothing, 1500, proposals=proposals, budget=ars.Budget(M=4, R=4), seed=2)
    (loop,) = post.loops.values()
    assert abs(loop.q_accept - loop.p_accept) > 5 * math.hypot(loop.q_accept_error, loop.p_accept_error)
    ours, biased = post.log_evidence("ars"), post.log_evidence("biased")
    assert abs(ours.evidence - 1) < LIMIT * ours.standard_error < 0.3
    assert abs(biased.evidence - 1) > LIMIT * biased.standard_error
    assert not post.failures
