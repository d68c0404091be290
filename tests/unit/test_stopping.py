"""Stages and the answer of a run that stops at an error, or when its time is up."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from ars.budget import AutoBudget
from ars.errors import FewTracesWarning
from ars.inference.stopping import posterior_to_target


class Stage(NamedTuple):
    start: int
    count: int
    final: bool


class Played:
    """A job whose traces take a given time and have weights with a given share of effective ones."""

    def __init__(self, traces: int, share: float, seconds: float = 0.0) -> None:
        self.asked = SimpleNamespace(traces=traces, resume=None)
        self.stages: list[Stage] = []
        self.now = 0.0
        self._share, self._seconds = share, seconds

    def stage(self, start: int, count: int, *, final: bool) -> Stage:
        self.stages.append(Stage(start, count, final))
        return self.stages[-1]

    def once(self, stage: Stage) -> Any:
        self.now += stage.count * self._seconds
        effective = max(self._share * stage.count, 1.0)
        evidence = SimpleNamespace(relative_error=effective**-0.5)
        return SimpleNamespace(ess=lambda: effective, log_evidence=lambda: evidence, stats={})

    def run(self, **auto: float) -> Stage:
        """The stage that is reported."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewTracesWarning)
            posterior_to_target(self, AutoBudget(**auto), self.once, clock=lambda: self.now)  # type: ignore[arg-type]
        return self.stages[-1]


@pytest.mark.parametrize("traces", [1, 2, 7, 100, 3_999, 4_000, 100_000, 1_000_000])
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.5])
def test_at_least_half_of_the_traces_are_left_for_the_answer(traces: int, share: float) -> None:
    job = Played(traces, share)
    final = job.run(error=1e-4)
    assert final.final and final.start <= traces / 2
    assert final.start + final.count == traces  # the target is out of reach: all that are left are run


def test_stages_follow_one_another_and_grow() -> None:
    job = Played(1_000_000, 4e-3)
    final = job.run(error=0.1)
    assert [stage.count for stage in job.stages[:-1]] == [1_000, 4_000, 16_000, 64_000]
    assert [stage.start for stage in job.stages] == [0, 1_000, 5_000, 21_000, 85_000]
    assert final.count == pytest.approx(1.4 * 100 / 4e-3, rel=1e-3)


def test_an_error_of_few_effective_traces_is_not_extrapolated_from() -> None:
    """It is too small when the largest weights have not come: 1 effective trace of all may look like an error of 1."""
    assert Played(10_000, 0.0).run(error=0.9).count > 4_000


@pytest.mark.parametrize("seconds", [1e-5, 1e-3, 0.1])
def test_the_time_is_kept_by_slow_and_fast_simulators(seconds: float) -> None:
    job = Played(1_000_000, 0.1, seconds)
    final = job.run(seconds=60.0)
    assert job.now <= 60.0
    assert final.count * seconds > (30.0 if seconds > 1e-4 else 4.0)


def test_the_slowest_simulators_make_few_traces() -> None:
    job = Played(1_000_000, 0.1, 10.0)
    assert job.run(seconds=60.0).count == 16
    assert [stage.count for stage in job.stages] == [16, 16]
