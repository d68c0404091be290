"""Two sites never share an address, names that are not UTF-8 are shown, and a score that overflows says where.

names/names.c names its sites in one way per argument, in the traces whose first draw says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars

SOURCE = Path(__file__).resolve().parent / "names" / "names.c"
SEED, TRACES = 2, 16
BUDGET = ars.Budget(M=1, N=2)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("names"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    return lambda way, workers=2: started(ars.Simulator([str(program), way], workers=workers))


@pytest.fixture(scope="module")
def right(program: Path) -> ars.Posterior:
    with ars.Simulator([str(program), "nothing"], workers=2) as sim:
        found = posterior(sim)
    assert 3 <= found["bad"].sum() <= TRACES - 3
    return found


def posterior(sim: ars.Simulator) -> ars.Posterior:
    return sim.posterior(observe={"y": 0.1}, traces=TRACES, budget=BUDGET, seed=SEED, on_failure="zero")


def check(found: ars.Posterior, right: ars.Posterior, kind: str, says: str) -> None:
    bad = right["bad"] == 1
    assert dict(found.failures) == {kind: int(bad.sum())}
    for example in found.failures.examples:
        assert bad[example.trace]
        assert re.search(says, example.text), example.text
    np.testing.assert_array_equal(found["first"][~bad], right["first"][~bad])
    assert np.isneginf(found.log_weights("ars")[bad]).all()


SITE, IN_LOOP = '"a/x" outside any loop', '"x" in the loop "a"'
LOOP, LOOP_IN_LOOP = '"a/b" outside any loop', '"b" in the loop "a"'
ADVICE = 'have the same address. Rename one of them: "/" separates a site from the loops around it'
SHARED = {
    "site_then_loop": (SITE, IN_LOOP),
    "loop_then_site": (SITE, IN_LOOP),
    "loops": (LOOP, LOOP_IN_LOOP),
    "loops_reversed": (LOOP, LOOP_IN_LOOP),
    "reject": (LOOP, LOOP_IN_LOOP),
    "results": ('"a/r" outside any loop', '"r" in the loop "a"'),
}


@pytest.mark.parametrize("way", SHARED)
def test_two_sites_with_one_address_are_refused(
    way: str, start: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    """Whichever was met first, by this process or by another."""
    first, second = SHARED[way]
    either = "|".join(re.escape(f"{a} and {b} {ADVICE}") for a, b in ((first, second), (second, first)))
    check(posterior(start(way)), right, "misuse", either)


def test_also_when_they_are_never_in_one_trace(start: Callable[..., ars.Simulator], right: ars.Posterior) -> None:
    """One worker runs the traces in order: what the first one names, the others may not name otherwise."""
    found = posterior(start("across_traces", workers=1))
    other = right["bad"] != right["bad"][0]
    assert dict(found.failures) == {"misuse": int(other.sum())}
    for example in found.failures.examples:
        assert other[example.trace]
        assert SITE in example.text
        assert IN_LOOP in example.text


def test_slashes_that_share_nothing_are_names_like_others(start: Callable[..., ars.Simulator]) -> None:
    found = posterior(start("harmless"))
    assert not found.failures
    addresses = {(site.kind.name, site.address) for site in found.sites}
    assert {
        ("SAMPLE", "b/x"),
        ("SAMPLE", "b/c/x"),
        ("SAMPLE", "a/x"),
        ("SAMPLE", "a/x/y"),
        ("SAMPLE", "a/b/z"),
    } < addresses
    assert {("RESULT", "a/x"), ("RESULT", "a"), ("SAMPLE", "a"), ("LOOP", "a"), ("LOOP", "a/b")} < addresses


WRONG_BYTES = {
    "latin1": r'the name "gr\\xfc\\xdfe" is not UTF-8: byte 3 is 0xfc\. Give the site a name in UTF-8',
    "latin1_result": r'the name "\\xff" is not UTF-8: byte 1 is 0xff',
    "cut_short": r'the name "x\\xe2\\x82" is not UTF-8: byte 2 is 0xe2',
}


@pytest.mark.parametrize("way", WRONG_BYTES)
def test_a_name_that_is_not_utf8_is_shown(way: str, start: Callable[..., ars.Simulator], right: ars.Posterior) -> None:
    check(posterior(start(way)), right, "misuse", WRONG_BYTES[way])


def test_an_observation_whose_name_is_not_utf8_is_shown(start: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(
        ars.ObservationError, match=r'observes "d\\xe9tecteur", for which no data were given; given: "y"'
    ):
        posterior(start("latin1_observe"))


def test_utf8_is_a_name_like_others(start: Callable[..., ars.Simulator]) -> None:
    found = posterior(start("utf8"))
    assert not found.failures
    assert "grüße" in {site.address for site in found.sites}


def test_a_log_likelihood_that_overflows_says_in_which_factor(
    start: Callable[..., ars.Simulator], right: ars.Posterior
) -> None:
    says = r'ars_factor\("second"\): the trace\'s log likelihood overflowed: it was 1e\+308, and 1e\+308 was added'
    check(posterior(start("factors")), right, "nan", says)


def test_a_log_likelihood_that_overflows_downwards_is_a_likelihood_of_0(start: Callable[..., ars.Simulator]) -> None:
    found = posterior(start("factors_down"))
    assert not found.failures
    assert np.isneginf(found.log_weights("ars")[found["bad"] == 1]).all()


def test_with_proposals_by_hand_the_advice_can_be_followed(start: Callable[..., ars.Simulator]) -> None:
    """No command line has them, so a failure does not advise ars replay."""
    sim = start("factors")

    def again(**which: int) -> ars.TraceFailure:
        proposals = {"first": ars.Beta(1, 3)}
        with pytest.raises(ars.TraceFailure) as caught:
            sim.posterior(observe={"y": 0.1}, budget=BUDGET, proposals=proposals, **which)
        return caught.value

    error = again(traces=TRACES, seed=SEED)
    first = error.failures[0]
    assert f"sim.posterior(..., traces=1, first_trace={first.trace}, seed={SEED}), with the same data" in str(error)
    assert "ars replay" not in str(error)
    assert again(traces=1, first_trace=first.trace, seed=SEED).failures == (first,)
