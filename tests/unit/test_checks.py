"""The statistics behind ``ars check``, and the policy that ``ars inspect`` proposes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import scipy.stats

from ars.checks import run
from ars.checks.policy import Rule, is_unnamed, propose_policy
from ars.checks.statistics import kolmogorov, same_distribution, uniform
from ars.checks.tries import places


@pytest.mark.parametrize("statistic", [0.1, 0.25, 0.5, 1.0, 1.5, 2.5])
def test_kolmogorov_against_scipy(statistic: float) -> None:
    assert kolmogorov(statistic) == pytest.approx(scipy.stats.kstwobign.sf(statistic), rel=1e-9, abs=1e-14)


def test_one_and_two_samples_against_scipy() -> None:
    rng = np.random.default_rng(1)
    one, two = rng.random(3000), rng.normal(0.5, 0.3, 2000)
    assert uniform(one) == pytest.approx(scipy.stats.kstest(one, "uniform", mode="asymp").pvalue, rel=0.05)
    expected = scipy.stats.ks_2samp(one, two, mode="asymp").statistic * np.sqrt(3000 * 2000 / 5000)
    assert same_distribution(one, two) == pytest.approx(scipy.stats.kstwobign.sf(expected), rel=1e-9)
    assert uniform(two.clip(0, 1)) < 1e-5


def test_two_geometric_numbers_with_one_unknown_probability() -> None:
    """The acceptance differs from entry to entry, and the places are uniform all the same."""
    rng = np.random.default_rng(2)
    p = rng.uniform(0.05, 0.95, 20_000)
    main, again = rng.geometric(p).astype(float), rng.geometric(p).astype(float)
    informative = main + again > 2
    noise = rng.random(len(p))
    assert uniform(places(main, again, noise)[informative]) > 1e-3
    elsewhere = rng.geometric(rng.permutation(p)).astype(float)  # of other states
    informative = main + elsewhere > 2
    assert uniform(places(main, elsewhere, noise)[informative]) < 1e-6


def test_addresses_that_are_call_paths() -> None:
    assert is_unnamed("tau decay/pythia>model#1>decay#3")
    assert is_unnamed("model#1")
    assert is_unnamed("forward#1:Normal")
    assert not is_unnamed("energy")
    assert not is_unnamed("sim.c:model#0/x")


def test_a_policy_names_functions_that_do_not_matter() -> None:
    matters = {
        "model#1>energy#1": True,
        "model#1>shower#2>flat#1": False,
        "model#1>shower#3>flat#2": False,
        "model#1>noise#4": False,
        "named": False,
        "model#1>decay#1>flat#1": None,
    }
    assert propose_policy(matters) == [Rule("shower", 2), Rule("noise", 1)]


def test_a_policy_never_matches_what_matters() -> None:
    matters = {"model#1>f#1": True, "model#1>f#2": False, "model#1>g#1>f#1": False}
    rules = propose_policy(matters)
    assert {rule.pattern for rule in rules} == {"f#2", "g"}
    assert not any(rule.pattern in "model#1>f#1" for rule in rules)


@pytest.mark.parametrize(("entries", "blamed"), [(0, "the time"), (3, "A continuation of a loop")])
def test_continuations_are_blamed_only_where_there_are_some(
    entries: int, blamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third run differs, as that of a program may which reads the clock."""
    plain, elsewhere, again = (
        cast(Any, SimpleNamespace(columns=SimpleNamespace(loops=[0] * entries))) for _ in range(3)
    )
    monkeypatch.setattr(run, "difference", lambda _, other: "1 of 9 traces differ" if other is again else "")
    finding = run._replays(plain, elsewhere, again)
    assert finding.verdict == "broken" and blamed in finding.text
    assert ("with continuations" in finding.text) == (entries > 0)
