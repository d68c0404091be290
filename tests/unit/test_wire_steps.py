"""STEPS and REPLIES as bytes: what we write is read back, and what a peer may not write is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_frames import HELLO, NORMAL, TABLE, UNIFORM, edited, framed, site_item

from ars import wire
from ars._native import DTYPES, NO_SITE, VERSION, DistKind, Message, ReplyFlag, RunFlag
from ars.errors import ProtocolError


def step_item(
    ticket: int = 0,
    trace: int = 0,
    state: int = 0,
    site: int = 0,
    told: list[tuple[int, int, float]] | None = None,
    prior: bytes = NORMAL,
    **wrong: int,
) -> bytes:
    told = told or []
    body = np.array(told, dtype=DTYPES["told"]).tobytes() + prior
    head = np.array([(40 + len(body), ticket, trace, state, site, 2, len(told), 0)], dtype=DTYPES["step"])
    for field, value in wrong.items():
        head[field] = value
    return head.tobytes() + body


def steps(*items: bytes, count: int | None = None) -> bytes:
    return framed(Message.STEPS, b"".join(items), len(items) if count is None else count)


def test_steps_of_all_sizes_are_read() -> None:
    batch = wire.decode_steps(
        steps(
            step_item(5, 10, 0, 0),
            step_item(6, 11, 77, 1, [(0, 0, 1.5), (0, 1, -2.5)], UNIFORM),
            step_item(7, 2**63, 2**40, NO_SITE, [(1, 0, 0.25)], b""),
        ),
        TABLE,
    )
    assert len(batch) == 3
    assert batch.ticket.tolist() == [5, 6, 7]
    assert batch.trace.tolist() == [10, 11, 2**63]
    assert batch.state.tolist() == [0, 77, 2**40]
    assert batch.site.tolist() == [0, 1, NO_SITE]
    assert batch.instance.tolist() == [2, 2, 2]
    assert batch.asks.tolist() == [True, True, False]
    assert batch.told_offsets.tolist() == [0, 0, 2, 3]
    assert batch.told_site.tolist() == [0, 0, 1]
    assert batch.told_instance.tolist() == [0, 1, 0]
    assert batch.told_value.tolist() == [1.5, -2.5, 0.25]
    assert batch.priors == [NORMAL, UNIFORM, b""]
    assert batch.prior_kind.tolist() == [DistKind.NORMAL, DistKind.UNIFORM, 0]
    assert batch.prior_offsets.tolist() == [0, 2, 4, 4]
    assert batch.prior_values.tobytes() == NORMAL[8:] + UNIFORM[8:]


def test_equal_questions_are_known_by_their_bytes() -> None:
    told = [(0, 0, 1.5)]
    rows = [step_item(1, 10, 5, 0, told), step_item(2, 11, 5, 0, told)]  # another ticket and another trace
    others = [
        step_item(3, 10, 6, 0, told),
        step_item(4, 10, 5, 1, told, UNIFORM),
        step_item(5, 10, 5, 0, []),
        step_item(6, 10, 5, 0, [(0, 0, 1.25)]),
        step_item(7, 10, 5, 0, told, NORMAL[:-8] + np.array([2.5]).tobytes()),
        step_item(8, 10, 5, 0, told, instance=7),
    ]
    questions = wire.decode_steps(steps(*rows, *others), TABLE).questions
    assert questions[0] == questions[1]
    assert len(set(questions)) == 1 + len(others)


def test_several_messages_make_one_batch() -> None:
    one = wire.decode_steps(steps(step_item(1, 1, told=[(0, 0, 1.0)]), step_item(2, 2)), TABLE)
    two = wire.decode_steps(steps(step_item(3, 3, told=[(0, 0, 2.0), (0, 1, 3.0)])), TABLE)
    both = wire.concatenate_steps([one, two])
    whole = wire.decode_steps(
        steps(step_item(1, 1, told=[(0, 0, 1.0)]), step_item(2, 2), step_item(3, 3, told=[(0, 0, 2.0), (0, 1, 3.0)])),
        TABLE,
    )
    for field in wire.StepBatch.__slots__:
        if field not in ("items", "item_offsets"):
            np.testing.assert_array_equal(getattr(both, field), getattr(whole, field))
    assert both.questions == whole.questions and both.priors == whole.priors
    assert wire.concatenate_steps([one]) is one
    with pytest.raises(ProtocolError, match="ticket comes twice"):
        wire.concatenate_steps([one, one])


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (steps(), "count is 0"),
        (steps(step_item(), count=2), "count 2, but the frame has only 88 bytes"),
        (steps(step_item(), step_item(1), count=1), "bytes after the last item"),
        (steps(step_item(size=64 - 4)), "item 0: an item's size 60 is not a multiple of 8"),
        (steps(step_item(size=0)), "item 0: an item's size 0 is not"),
        (steps(step_item(size=9000)), "item 0: an item's size 9000 is not"),
        (steps(step_item(), step_item(1, size=4096)), "item 1: an item of 4096 bytes is cut short to 64"),
        (steps(step_item(), step_item()), "ticket comes twice"),
        (steps(step_item(n_more=256)), "asks for 256 draws more"),
        (steps(step_item(n_more=1)), "too few for a distribution"),
        (steps(step_item(prior=NORMAL + NORMAL, n_more=1)), "too few for a stream"),
        (steps(step_item(site=9)), "asked about 9, which is no sample site"),
        (steps(step_item(site=4)), "asked about 4, which is no sample site"),
        (steps(step_item(told=[(2, 0, 1.0)])), "told of 2, which is no sample site"),
        (steps(step_item(told=[(0, 0, np.inf)])), "told of a value that is not finite"),
        (steps(step_item(told=[(0, k, 0.0) for k in range(129)])), "129 values told: at most 128"),
        (steps(step_item(n_told=2)), "2 values told do not fit"),
        (steps(step_item(n_told=2**31)), "2147483648 values told: at most"),
        (steps(step_item(site=NO_SITE)), "a step request of 64 bytes has content for 40"),
        (steps(step_item(prior=b"")), "0 bytes are too few for a distribution"),
        (steps(step_item(prior=UNIFORM)), "site 0 has distribution kind 1, and was announced with 2"),
        (steps(step_item(prior=NORMAL + bytes(8))), "72 bytes has content for 64"),
        (steps(step_item(prior=edited(NORMAL, "dist", "n", 2**31))), "2147483648 numbers does not fit"),
        (
            steps(step_item(prior=NORMAL[:8] + np.array([np.nan, 1.0]).tobytes())),
            "parameter 0 of distribution kind 2 is NaN",
        ),
        (steps(step_item()) + b"1234", "size"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_wrong_steps_are_refused(frame: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        wire.decode_steps(frame, TABLE)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_bytes_of_a_peer_do_worse_than_a_protocol_error(data: st.DataObject) -> None:
    frames: list[tuple[bytes, Callable[[bytes], Any]]] = [
        (
            steps(step_item(told=[(0, 0, 1.0)]), step_item(1, site=1, prior=UNIFORM)),
            lambda f: wire.decode_steps(f, TABLE),
        ),
        (framed(Message.SITES, site_item(0, 1, 2, b"some/x"), 1), wire.decode_sites),
        (wire.encode_hello(HELLO), wire.decode_hello),
        (wire.encode_run(wire.RunConfig(1, 1, RunFlag.POSTERIOR, observed={"y": np.ones(2)}), 1), wire.decode_run),
        (
            wire.encode_replies(np.arange(2), wire.Replies(np.ones(2), np.zeros(2), [NORMAL, b""]), 1),
            wire.decode_replies,
        ),
    ]
    frame, decode = data.draw(st.sampled_from(frames))
    raw = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for mangled in (bytes(raw), bytes(raw[:cut])):
        with contextlib.suppress(ProtocolError):
            decode(mangled)


def test_replies_are_read_back() -> None:
    replies = wire.Replies(
        np.array([1, 2, 3], dtype=np.uint64),
        np.array([0, ReplyFlag.ALWAYS_PRIOR, 0], dtype=np.uint32),
        [NORMAL, wire.PRIOR, b""],
    )
    frame = wire.encode_replies(np.array([9, 8, 7], dtype=np.uint32), replies, 4)
    assert wire.decode_header(frame) == wire.Header(Message.REPLIES, 24 + 3 * 24 + 24 + 8, 3, 4, VERSION)
    tickets, read = wire.decode_replies(frame)
    assert tickets.tolist() == [9, 8, 7]
    assert read.state.tolist() == [1, 2, 3]
    assert read.flags.tolist() == replies.flags.tolist()
    assert list(read.proposals) == list(replies.proposals)
