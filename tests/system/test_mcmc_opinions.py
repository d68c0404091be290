"""Chains and weighted traces: quick forms of tools/second_opinion.py, whose long forms compare every simulator."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ars.mcmc import ratio, sampler
from ars.mcmc.states import State

TOOL = Path(__file__).resolve().parents[2] / "tools" / "second_opinion.py"
DATASETS = 40

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def tool(csim: Callable[[str], str], nothing_left_behind: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    del nothing_left_behind
    monkeypatch.setenv("ARS_CSIM_DIR", str(Path(csim("gaussian")).parent))
    spec = importlib.util.spec_from_file_location("second_opinion", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "second_opinion", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["marsaglia_in_place", "mini_sherpa 1"])
def test_they_agree_where_there_is_no_exact_answer(tool: ModuleType, name: str) -> None:
    """Also on marsaglia_in_place, whose loop is an ars_reject; tests/system/test_mcmc.py has the others."""
    found = tool.differences(tool.questions()[name], quick=True)
    assert found
    assert max(each.errors for each in found.values()) < tool.LIMIT


def test_an_epidemic_has_states_whose_loop_is_hardly_accepted(tool: ModuleType) -> None:
    """Walks reach rates with which a small population is infected at once. They are refused, and end no chain."""
    question = tool.questions()["sir"]._replace(traces=40_000, steps=60)
    found = tool.differences(question)
    assert max(each.errors for each in found.values()) < tool.LIMIT


# tests/system/test_calibration.py has weighted traces of the other two, with networks.
@pytest.mark.parametrize(
    ("model", "method"),
    [("gaussian", "chains"), ("truncated_normal b", "chains"), ("branching", "chains"), ("branching", "weighted")],
)
def test_ranks_of_the_truth_are_uniform(tool: ModuleType, model: str, method: str) -> None:
    for ranks in tool.ranks(model, method, DATASETS).values():
        assert tool.p_value(ranks, bins=4) > tool.LEAST_P


def test_ranks_of_a_wrong_sampler_are_not(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that counts the data 25 times. Chains begin at good draws: it is their moves that this test sees."""
    correct = sampler.log_ratio

    def sure(old: State, new: State, *more: Any) -> ratio.Ratio:
        found = correct(old, new, *more)
        return found._replace(log=found.log + 24.0 * (new.log_likelihood - old.log_likelihood))

    monkeypatch.setattr(sampler, "log_ratio", sure)
    assert tool.p_value(tool.ranks("gaussian", "chains", DATASETS)["mu"], bins=4) < tool.LEAST_P
