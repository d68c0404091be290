"""Requests for several draws, answered by proposers that know of one at a time: as single requests would be."""

from __future__ import annotations

import numpy as np
from step_builder import Request, steps_of

import ars
from ars import wire
from ars._native import DTYPES, MAGIC, VERSION, DistKind, Message, SiteKind
from ars.columns import Site
from ars.proposers import HandProposer
from ars.proposers.in_turn import answer

SITES = wire.SiteTable()
SITES.add([Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "a"), Site(1, SiteKind.SAMPLE, DistKind.NORMAL, "x")])
TRACE = 3
PRIORS = [ars.Normal(0.1 * i, 1.0).encode(1)[0] for i in range(5)]


def follows(t: ars.Drawn) -> ars.Distribution:
    return ars.Normal(0.5 * t["x"] + t["a"] if "x" in t else t["a"], 2.0)


def place() -> bytes:
    """Of a stream at its beginning."""
    stream = np.zeros(1, DTYPES["stream"])
    stream["key"], stream["trace"], stream["used"] = (11, 12), TRACE, 32
    return stream.tobytes()


def vector_batch(priors: list[bytes], told: list[tuple[int, int, float]]) -> wire.StepBatch:
    tail = np.array(told, dtype=DTYPES["told"]).tobytes() + b"".join(priors) + place()
    head = np.array([(40 + len(tail), 7, TRACE, 0, 1, 0, len(told), len(priors) - 1)], dtype=DTYPES["step"])
    body = head.tobytes() + tail
    header = np.array([(MAGIC, VERSION, Message.STEPS, 24 + len(body), 1, 1)], dtype=DTYPES["header"])
    return wire.decode_steps(header.tobytes() + body, SITES)


def test_the_answers_are_those_to_single_requests() -> None:
    replies = answer(HandProposer({"x": follows}), vector_batch(PRIORS, [(0, 0, 0.25)]), SITES)
    assert replies.n_more is not None and replies.n_more.tolist() == [4]
    proposals = wire.steps.split_dists(replies.proposals[0], 5)
    single, state, told = HandProposer({"x": follows}), 0, [(0, 0, 0.25)]
    for i, proposal in enumerate(proposals):
        one = single.step(steps_of([Request(TRACE, state, 1, i, told, PRIORS[i])], SITES), SITES)
        assert one.proposals[0] == proposal
        # The value is read off the next proposal's mean, so this checks what was told, not what we would have told.
        if i + 1 < len(proposals):
            mean = np.frombuffer(proposals[i + 1], np.float64)[1]
            state, told = int(one.state[0]), [(1, i, float((mean - 0.25) / 0.5))]
    assert len(set(proposals)) == 5


def test_a_prior_for_ever_ends_the_vector() -> None:
    replies = answer(HandProposer({}), vector_batch(PRIORS, []), SITES)
    assert replies.proposals[0] == wire.PRIOR and replies.flags.tolist() == [1]
    assert replies.n_more is not None and replies.n_more.tolist() == [0]


def test_a_reply_holds_what_fits() -> None:
    wide = ars.Mixture([1 / 64] * 64, [ars.Normal(i, 1) for i in range(64)])
    replies = answer(HandProposer({"x": wide}), vector_batch(PRIORS, []), SITES)
    assert replies.n_more is not None and replies.n_more.tolist() == [1]  # 2 of 5 fit 8 KB
    assert len(wire.encode_replies(np.array([7], np.uint32), replies, 1)) <= 24 + 8192
    ticket, back = wire.decode_replies(wire.encode_replies(np.array([7], np.uint32), replies, 1))
    assert ticket.tolist() == [7] and back.proposals[0] == replies.proposals[0]
