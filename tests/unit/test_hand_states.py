"""The states of proposals by hand: what they find is right, and its cost does not grow with what was drawn before.

Cost is counted in lines of Python that are executed (``hand_cost.py``) and in bytes that are held, never in seconds.
"""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Iterator

import hand_cost
import numpy as np
import pytest
from hand_cost import ASK, PRIOR, SITES, SIZES, Told, X, middle, one_trace
from step_builder import Request, steps_of

import ars
from ars._native import NO_SITE, DistKind, SiteKind
from ars.columns import Site
from ars.distributions import Distribution
from ars.proposers import HandProposer, hand_states
from ars.proposers.hand_states import Drawn, State, StateStore, _Draw, _Trie
from ars.wire import SiteTable

# ---- what is found ---------------------------------------------------------------------------------------------------


class Plain:
    """What a function sees, by definition: tables of all that was drawn."""

    def __init__(self, drawn: list[Told]) -> None:
        self.latest: dict[str, float] = {}
        self.instances: dict[tuple[str, int], list[float]] = {}
        self.names: dict[str, None] = {}
        for number, instance, value in drawn:
            site = SITES[number]
            self.names[site.name] = None
            for spelled in {site.name, site.address}:
                self.latest[spelled] = value
                self.instances.setdefault((spelled, instance), []).append(value)


def same(t: Drawn, drawn: list[Told]) -> None:
    plain = Plain(drawn)
    assert list(t) == list(plain.names)
    assert len(t) == len(plain.names)
    spellings = {spelled for site in SITES.all() for spelled in (site.name, site.address)}
    for spelled in sorted(spellings | {"nothing"}):
        assert (spelled in t) == (spelled in plain.latest)
        if spelled in plain.latest:
            assert t[spelled].tolist() == [plain.latest[spelled]]
        for instance in (0, 1, 2, 5, 17, 40):
            found = plain.instances.get((spelled, instance), [])
            if len(found) > 1:
                with pytest.raises(ars.ProposalError, match="several sites have this name"):
                    t[spelled, instance]
            elif found:
                assert t[spelled, instance].tolist() == found
            else:
                assert (spelled, instance) not in t
                assert t.get((spelled, instance)) is None  # type: ignore[call-overload]


def test_every_state_of_a_random_tree_finds_what_was_drawn() -> None:
    """Steps that tell none, one or many values, from any earlier state, as retries and continuations do."""
    rng = random.Random(3)
    checked: list[int] = []
    expected: list[Told] = []

    def propose(t: Drawn) -> Distribution:
        same(t, expected)
        checked.append(len(expected))
        return ars.Normal(0.0, 1.0)

    proposer = HandProposer({"ask": propose})
    paths: dict[int, list[Told]] = {0: []}
    for _ in range(400):
        state = rng.choice([*paths][-20:])
        drawn = list(paths[state])
        for _ in range(rng.choice((0, 1, 1, 1, 2, 9))):
            site = rng.randrange(ASK)
            drawn.append((site, sum(number == site for number, _, _ in drawn), rng.random()))
        expected = drawn
        told = drawn[len(paths[state]) :]
        replies = proposer.step(steps_of([Request(7, state, ASK, 0, told, PRIOR)], SITES), SITES)
        paths[int(replies.state[0])] = drawn
    assert len(checked) == 400
    assert max(checked) > 100


def test_how_the_draws_were_told_does_not_matter() -> None:
    """One call for two traces that drew the same latents, told one by one or all at once."""
    rows: list[int] = []

    def propose(t: Drawn) -> Distribution:
        rows.append(t.rows)
        return ars.Normal(t["x", 1], 1.0)

    proposer = HandProposer({"ask": propose})
    state = 0
    for told in ([(X, 0, 1.0)], [(X, 1, 2.0)]):
        reply = proposer.step(steps_of([Request(0, state, NO_SITE, 0, told, b"")], SITES), SITES)
        state = int(reply.state[0])
    both = [Request(0, state, ASK, 0, [], PRIOR), Request(1, 0, ASK, 0, [(X, 0, 3.0), (X, 1, 4.0)], PRIOR)]
    proposer.step(steps_of(both, SITES), SITES)
    assert rows == [2]


def test_a_missing_name_is_said_with_the_last_names_only() -> None:
    sites = SiteTable([Site(i, SiteKind.SAMPLE, DistKind.NORMAL, f"s{i}") for i in range(100)])
    proposer = HandProposer({"s99": lambda t: ars.Normal(t["other"], 1.0)})
    told = [(i, 0, 0.0) for i in range(50)]
    with pytest.raises(ars.ProposalError, match=r"drawn so far: 30 names, 's30', .*'s49'$"):
        proposer.step(steps_of([Request(0, 0, 99, 0, told, PRIOR)], sites), sites)


def test_a_trie_is_a_map_that_keeps_its_older_versions() -> None:
    rng = random.Random(1)
    trie, plain = _Trie(), dict[int, int]()
    versions: list[tuple[_Trie, dict[int, int]]] = []
    for i in range(1, 2001):
        key = rng.choice((rng.randrange(20), rng.randrange(70_000)))
        trie, plain[key] = trie.put(key, i), i
        if i % 200 == 0:
            versions.append((trie, dict(plain)))
    for version, content in versions:
        assert all(version.get(key) == value for key, value in content.items())
        assert all(version.get(key) is None for key in (70_001, 1 << 40, *range(20)) if key not in content)


# ---- what it costs ---------------------------------------------------------------------------------------------------


def lines(*of: str) -> list[float]:
    """The lines per draw that ``hand_cost.py`` counts, one number per size, each ten times the one before.

    It counts in an interpreter of its own, because the tests before this one leave theirs in all kinds of states: with
    some of them, tracing spun inside CPython 3.11 and never came back.
    """
    ran = subprocess.run(
        [sys.executable, hand_cost.__file__, *of], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    counted = [float(line) for line in ran.stdout.split()]
    assert len(counted) == len(SIZES)
    assert min(counted) > 1  # tracing was on
    return counted


@pytest.mark.parametrize("proposed", ["function", "distribution", "elsewhere"])
def test_lines_per_draw_do_not_grow_with_the_number_of_draws(proposed: str) -> None:
    few, some, many = lines("draws", proposed)
    if proposed == "function":
        assert many < 1.6 * some < 1.6**2 * few  # a logarithm; linear growth would be 10 each
    else:
        assert many < 1.1 * few
        assert many < 80  # nothing is looked up


def test_lines_per_draw_do_not_grow_with_the_number_of_sites() -> None:
    """Ten thousand latents of different names, a function that looks at the first and the last."""
    few, some, many = lines("sites")
    assert many < 1.6 * some < 1.6**2 * few


def test_lines_per_continuation_do_not_grow_with_the_depth_of_its_loop() -> None:
    """Continuations fork off at one state, deep in the trace, and each goes another way."""
    few, some, many = lines("continuations")
    assert many < 1.6 * some < 1.6**2 * few


def held(draws: int) -> float:
    """Bytes per draw at the end of a trace."""
    proposer = HandProposer({"x": middle(draws)})
    one_trace(proposer, 10, trace=9)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        one_trace(proposer, draws)
        return tracemalloc.get_traced_memory()[0] / draws
    finally:
        tracemalloc.stop()


def test_bytes_per_draw_do_not_grow() -> None:
    few, some, many = map(held, SIZES)
    assert many < 1.3 * some < 1.3**2 * few
    assert many < 2_000


def test_memory_goes_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hand_states, "_SHAPES_KEPT", 0)
    proposer = HandProposer({"x": middle(1)})
    one_trace(proposer, 1_000)
    (state,) = [state for state in proposer.states._states.values() if state.end == 500]
    shape = weakref.ref(proposer.states.shape(state))
    del state
    gc.disable()  # nothing waits for the collector of cycles
    try:
        proposer.end_trace(np.array([0], dtype=np.uint64))
        assert shape() is None
        assert len(proposer.states) == len(proposer.states.shapes) == 0
    finally:
        gc.enable()


def test_a_chain_of_a_hundred_thousand_links_neither_recurses_nor_overflows() -> None:
    def chain() -> Iterator[State]:
        state = store._start
        for i in range(100_000):
            state = State(0, state, ((X, i),), (float(i),))
            yield state

    store = StateStore()
    store._states.update(enumerate(chain(), 1))
    store._of_trace[0] = list(store._states)
    last = store._states[100_000]
    t = Drawn(store, [last], SITES)
    for instance in (0, 1, 4_711, 65_535, 99_998, 99_999):
        assert t["x", instance].tolist() == [float(instance)]
    assert t["x"].tolist() == [99_999.0]
    del t, last
    store.end_trace(np.array([0], dtype=np.uint64))
    assert len(store) == 0


def test_an_earlier_draw_is_a_logarithm_of_steps_away() -> None:
    class Counted(_Draw):
        __slots__ = ()
        visited = 0

        @property
        def instance(self) -> int:  # type: ignore[override]
            Counted.visited += 1
            return self.column

        @instance.setter
        def instance(self, value: int) -> None:
            del value

    draw: Counted | None = None
    for i in range(10_000):
        draw = Counted(i, i, draw)
    assert draw is not None
    worst = 0
    for instance in range(0, 10_000, 37):
        Counted.visited = 0
        found = draw.find(instance)
        assert found is not None
        assert found.column == instance
        worst = max(worst, Counted.visited)
    assert worst < 120  # 4 looks at each of 2 log2(10,000) draws; one after another would be 20,000
