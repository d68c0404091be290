"""Proposals by hand, over batches built here: no process, no socket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from step_builder import Request, steps_of

import ars
from ars._native import NO_SITE, DistKind, ReplyFlag, SiteKind
from ars.columns import Site
from ars.distributions import Distribution, decode
from ars.proposers import Drawn, HandProposer, PriorProposer
from ars.proposers.hand import _covers
from ars.wire import PRIOR, SiteTable, StepBatch

SITES = SiteTable(
    [
        Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
        Site(1, SiteKind.SAMPLE, DistKind.UNIFORM, "loop/u"),
        Site(2, SiteKind.SAMPLE, DistKind.NORMAL, "left/z"),
        Site(3, SiteKind.SAMPLE, DistKind.NORMAL, "right/z"),
        Site(4, SiteKind.LOOP, None, "loop"),
    ]
)
X, U, LEFT, RIGHT = range(4)
PRIORS: dict[int, Distribution] = {
    X: ars.Normal(0.0, 1.0),
    U: ars.Uniform(0.0, 1.0),
    LEFT: ars.Normal(0.0, 1.0),
    RIGHT: ars.Normal(0.0, 1.0),
}
Told = tuple[int, int, float]
Row = tuple[int, int, int, Sequence[Told]]  # trace, state, site, told


def batch(*rows: Row) -> StepBatch:
    requests = []
    for trace, state, site, told in rows:
        prior = PRIORS[site].encode(1)[0] if site != NO_SITE else b""
        requests.append(Request(trace, state, site, 0, told, prior))
    return steps_of(requests, SITES)


def test_the_prior_proposer_says_so_once_and_for_all() -> None:
    replies = PriorProposer().step(batch((0, 0, X, []), (1, 7, NO_SITE, [(X, 0, 1.0)])), SITES)
    assert list(replies.proposals) == [PRIOR, b""]
    assert replies.flags.tolist() == [ReplyFlag.ALWAYS_PRIOR, 0]


def test_by_name_by_address_and_the_prior_elsewhere() -> None:
    given = {"u": ars.Beta(2.0, 3.0), "left/z": ars.Normal(1.0, 1.0), "z": ars.Normal(2.0, 1.0)}
    replies = HandProposer(given).step(batch((0, 0, X, []), (0, 0, U, []), (0, 0, LEFT, []), (0, 0, RIGHT, [])), SITES)
    assert replies.flags.tolist() == [ReplyFlag.ALWAYS_PRIOR, 0, 0, 0]
    assert replies.proposals[0] == PRIOR
    assert [decode(p) for p in replies.proposals[1:]] == [given["u"], given["left/z"], given["z"]]


def test_a_function_is_called_once_for_the_batch_with_the_values_of_each_row() -> None:
    calls: list[list[float]] = []

    def propose(t: Drawn) -> Distribution:
        calls.append(t["x"].tolist())
        return ars.Normal(t["x"] + 0.5, 0.1)

    proposer = HandProposer({"u": propose})
    replies = proposer.step(batch(*((n, 0, U, [(X, 0, float(n))]) for n in range(5))), SITES)
    assert calls == [[0.0, 1.0, 2.0, 3.0, 4.0]]
    assert [decode(p) for p in replies.proposals] == [ars.Normal(n + 0.5, 0.1) for n in range(5)]


def test_states_are_immutable_so_retries_and_forks_go_back_to_them() -> None:
    proposer = HandProposer({"u": lambda t: ars.Normal(t["x"], 1.0), "z": lambda t: ars.Normal(t["u"], 1.0)})
    start = proposer.step(batch((4, 0, U, [(X, 0, 2.0)])), SITES)
    entry = int(start.state[0])
    for value in (0.25, 0.75):  # two tries that go on from the same state
        reply = proposer.step(batch((4, entry, LEFT, [(U, 0, value)])), SITES)
        assert decode(reply.proposals[0]) == ars.Normal(value, 1.0)
    again = proposer.step(batch((4, entry, U, [])), SITES)
    assert int(again.state[0]) == entry
    assert decode(again.proposals[0]) == ars.Normal(2.0, 1.0)


def test_latest_instance_given_instance_and_address() -> None:
    seen: dict[str, float] = {}

    def propose(t: Drawn) -> Distribution:
        seen.update(latest=t["x"][0], first=t["x", 0][0], second=t["x", 1][0], address=t["left/z"][0])
        assert list(t) == ["x", "z"]
        assert len(t) == 2
        assert t.rows == 1
        assert "u" not in t
        assert t.get("u") is None
        with pytest.raises(ValueError, match="read-only"):
            t["x"][0] = 3.0
        return ars.Uniform(0.0, 1.0)

    told = [(X, 0, 10.0), (X, 1, 11.0), (LEFT, 0, 12.0)]
    HandProposer({"u": propose}).step(batch((0, 0, U, told)), SITES)
    assert seen == {"latest": 11.0, "first": 10.0, "second": 11.0, "address": 12.0}


def test_an_instance_of_a_name_that_two_sites_share_is_ambiguous() -> None:
    told = [(LEFT, 0, 1.0), (RIGHT, 0, 2.0)]
    latest = HandProposer({"x": lambda t: ars.Normal(t["z"], 1.0)}).step(batch((0, 0, X, told)), SITES)
    assert decode(latest.proposals[0]) == ars.Normal(2.0, 1.0)
    with pytest.raises(ars.ProposalError, match="several sites have this name; use a full address"):
        HandProposer({"x": lambda t: ars.Normal(t["z", 0], 1.0)}).step(batch((0, 0, X, told)), SITES)


def test_rows_with_different_histories_do_not_see_each_other() -> None:
    def propose(t: Drawn) -> Distribution:
        return ars.Normal(t["x"], 1.0) if "x" in t else ars.Normal(-1.0, 1.0)

    mixed = batch((0, 0, U, [(X, 0, 5.0)]), (1, 0, U, []), (2, 0, U, [(X, 0, 6.0)]))
    replies = HandProposer({"u": propose}).step(mixed, SITES)
    assert [float(decode(p).parameters["mean"]) for p in replies.proposals] == [5.0, -1.0, 6.0]


def test_a_row_that_only_tells_gets_a_state_and_no_proposal() -> None:
    proposer = HandProposer({"u": lambda t: ars.Normal(t["x"], 1.0)})
    told = proposer.step(batch((0, 0, NO_SITE, [(X, 0, 3.0)])), SITES)
    assert list(told.proposals) == [b""]
    reply = proposer.step(batch((0, int(told.state[0]), U, [])), SITES)
    assert decode(reply.proposals[0]) == ars.Normal(3.0, 1.0)


def test_states_end_with_their_trace() -> None:
    proposer = HandProposer({"u": lambda t: ars.Normal(t["x"], 1.0)})
    replies = proposer.step(batch((0, 0, U, [(X, 0, 1.0)]), (1, 0, U, [(X, 0, 2.0)])), SITES)
    assert len(proposer.states) == 2
    proposer.end_trace(np.array([0, 5], dtype=np.uint64))
    assert len(proposer.states) == 1
    first, second = replies.state.tolist()
    with pytest.raises(ars.ProtocolError, match=f"state {first} is unknown, or its trace is over"):
        proposer.step(batch((0, first, U, [])), SITES)
    with pytest.raises(ars.ProtocolError, match=f"state {second} belongs to trace 1, not to trace 2"):
        proposer.step(batch((2, second, U, [])), SITES)
    with pytest.raises(ars.ProtocolError, match="told twice"):
        proposer.step(batch((1, second, U, [(X, 0, 3.0)])), SITES)


@pytest.mark.parametrize(
    ("proposal", "says"),
    [
        (lambda t: ars.Normal(t["y"], 1.0), r"t\['y'\] has not been drawn.*drawn so far: 'x'"),
        (lambda t: ars.Normal(t["x", 3], 1.0), r"t\['x', 3\] has not been drawn"),
        (lambda _: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda t: ars.Normal(t["x"], -1.0), "raised ValueError: .*std"),
        (lambda _: 0.5, "must return a distribution, such as .*, not 0.5"),
        (lambda _: ars.Normal(np.zeros(3), 1.0), "have 3 rows, but 2 are needed"),
    ],
)
def test_what_is_wrong_with_a_proposal_is_said_with_its_site(proposal: object, says: str) -> None:
    rows = batch((0, 0, U, [(X, 0, 1.0)]), (1, 0, U, [(X, 0, 2.0)]))
    with pytest.raises(ars.ProposalError, match=r"the proposal for 'loop/u' \(proposals\['u'\]\).*" + says):
        HandProposer({"u": proposal}).step(rows, SITES)  # type: ignore[dict-item]


def test_a_fixed_proposal_with_rows_is_refused_at_once() -> None:
    with pytest.raises(ars.ProposalError, match=r"proposals\['x'\].*have 2 rows"):
        HandProposer({"x": ars.Normal(np.zeros(2), 1.0)})


def test_a_proposal_that_does_not_cover_the_prior_is_warned_about_once_per_site() -> None:
    proposer = HandProposer({"u": lambda t: ars.Uniform(0.0, 0.5 + 0.0 * t["x"]), "x": ars.Normal(0.0, 1.0)})
    rows = batch((0, 0, U, [(X, 0, 1.0)]), (1, 0, X, []))
    with pytest.warns(ars.SupportWarning, match=r"'loop/u', Uniform\(.*\"ars\" if the accepted region") as caught:
        proposer.step(rows, SITES)
    assert len(caught) == 1
    proposer.step(rows, SITES)  # a second warning would be an error


def test_the_prior_itself_may_be_proposed() -> None:
    replies = HandProposer({"u": ars.Prior()}).step(batch((0, 0, U, [])), SITES)
    assert list(replies.proposals) == [PRIOR]
    assert replies.flags.tolist() == [0]


def test_many_paths_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes that no trace under way needs go, also while other traces are under way."""
    monkeypatch.setattr("ars.proposers.hand_states._SHAPES_KEPT", 5)
    proposer = HandProposer({"u": lambda t: ars.Normal(t["x"], 1.0)})
    proposer.step(batch((1000, 0, U, [(X, 0, 0.0)])), SITES)
    for trace in range(30):
        told = [(X, trace + k, 0.0) for k in range(4)]
        proposer.step(batch((trace, 0, U, told)), SITES)
        proposer.end_trace(np.array([trace], dtype=np.uint64))
        assert len(proposer.states.shapes) <= 1 + 5 + 4
    assert len(proposer.states) == 1


def test_a_difference_in_the_last_bit_is_no_gap() -> None:
    end = -0.28098362422839906
    prior = ars.Uniform(-1.854, end)
    assert _covers(ars.Uniform(-1.854, np.nextafter(end, -1)), prior)
    assert not _covers(ars.Uniform(-1.854, end - 1e-6), prior)
    assert _covers(ars.Normal(0, 1), ars.Normal(3, 2))
    assert not _covers(ars.TruncatedNormal(0, 1, -np.inf, 0), ars.Normal(0, 1))
