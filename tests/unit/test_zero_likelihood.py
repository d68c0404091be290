"""Which observations no trace of a run could explain."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ars._native import DTYPES, DistKind, FailureKind, SiteKind
from ars.columns import Columns, Site, empty
from ars.errors import ObservationWarning
from ars.results.zero_likelihood import impossible_observations, warn_of_impossible

SITES = [Site(i, SiteKind.OBSERVE, DistKind.NORMAL, name) for i, name in enumerate("abc")]
ZERO = -np.inf


def columns(*traces: dict[int, list[float]] | None) -> Columns:
    """One trace each: the log densities of its observations by site; None for a trace that failed."""
    head = np.zeros(len(traces), DTYPES["trace"])
    observed = [(site, log_p) for trace in traces for site, found in (trace or {}).items() for log_p in found]
    head["trace"] = np.arange(len(traces))
    head["failure"] = [0 if trace is not None else FailureKind.CRASH for trace in traces]
    head["n_observes"] = [sum(map(len, (trace or {}).values())) for trace in traces]
    observes = np.zeros(len(observed), DTYPES["values"])
    observes["site"] = [site for site, _ in observed]
    observes["log_p"] = [log_p for _, log_p in observed]
    return empty()._replace(traces=head, observes=observes)


def test_only_what_is_impossible_in_every_trace() -> None:
    found = columns({0: [-1.0], 1: [ZERO], 2: [ZERO]}, {0: [ZERO], 1: [ZERO], 2: [-2.0]})
    assert impossible_observations(found, SITES) == ["b"]


def test_one_element_of_many_is_enough_and_counts_once() -> None:
    assert impossible_observations(columns({0: [ZERO, ZERO, -1.0]}, {0: [-1.0, ZERO]}), SITES) == ["a"]
    assert impossible_observations(columns({0: [ZERO, ZERO]}, {0: [-1.0, -1.0]}), SITES) == []


def test_several_are_named_in_order_and_failed_traces_do_not_count() -> None:
    found = columns({2: [ZERO], 0: [ZERO]}, None, {0: [ZERO], 2: [ZERO]})
    assert impossible_observations(found, SITES) == ["a", "c"]
    with pytest.warns(ObservationWarning, match=r'the likelihood of "a", "c" is 0 in all 2 finished traces'):
        warn_of_impossible(found, SITES)


@pytest.mark.parametrize("found", [columns(), columns(None, None), columns({0: [-1.0]}), columns({})])
def test_nothing_to_say(found: Columns) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_impossible(found, SITES)
    assert impossible_observations(found, SITES) == []
