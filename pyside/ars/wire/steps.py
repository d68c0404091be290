"""STEPS, the requests for proposals, and REPLIES."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, DistKind, Message
from ars.wire.frames import HEADER, Array, Bytes, expect, header_bytes, packed_struct, refuse
from ars.wire.sites import SiteTable

_STEP = DTYPES["step"]
_DIST = DTYPES["dist"]
_REPLY = DTYPES["reply"]
assert _STEP.fields is not None
_QUESTION_AT = _STEP.fields["state"][1]  # before it are the size, the ticket and the trace

_DIST_HEADER = packed_struct("dist")

PRIOR: bytes = np.array([(DistKind.PRIOR, 0, 0)], dtype=_DIST).tobytes()
"""The proposal "whatever the prior is", encoded."""

_GIVEN: bytes = np.array([(DistKind.GIVEN, 0, 1)], dtype=_DIST).tobytes()


def given(value: float) -> bytes:
    """The answer "take this value", encoded; it stands where a proposal would."""
    return _GIVEN + struct.pack("<d", value)


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Requests for proposals, one per row. Offsets have one entry more than there are rows."""

    ticket: Array
    trace: Array
    state: Array
    site: Array
    instance: Array
    told_offsets: Array
    told_site: Array
    told_instance: Array
    told_value: npt.NDArray[np.float64]
    prior_kind: Array  # 0 where the row only tells
    prior_offsets: Array
    prior_values: npt.NDArray[np.float64]  # the parameters of the priors
    items: bytes  # as they came
    item_offsets: Array
    n_more: Array  # draws of the site asked for besides the first, which the other columns are about

    def __len__(self) -> int:
        return int(self.ticket.size)

    @property
    def asks(self) -> npt.NDArray[np.bool_]:
        """The rows that want a proposal; the others only tell."""
        return np.asarray(self.site != native.NO_SITE)

    @property
    def questions(self) -> list[bytes]:
        """What each row asks, whoever asks it: state, site, instance, what it tells, prior. Equal ones are equal."""
        begin, end = self.item_offsets[:-1] + _QUESTION_AT, self.item_offsets[1:]
        return [self.items[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    @property
    def priors(self) -> list[bytes]:
        """Encoded; b"" where the row only tells."""
        end = self.item_offsets[1:]
        begin = end - np.where(self.asks, _DIST.itemsize + 8 * np.diff(self.prior_offsets), 0)
        return [self.items[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]


def _walk(kind: Message, frame: Bytes, count: int, smallest: int) -> npt.NDArray[np.int64]:
    """Where the items begin, and the end: one pass over their sizes."""
    header = HEADER.itemsize
    if header + count * smallest > len(frame):
        refuse(kind, f"count {count}, but the frame has only {len(frame)} bytes")
    body = memoryview(frame)[header:]
    if len(body) % 8:
        refuse(kind, f"{len(frame)} bytes, must be a multiple of 8")
    words = np.frombuffer(body, dtype="<u4")
    sizes = words.tolist() if count > len(words) // 64 else words
    offsets = [0] * (count + 1)
    at, end = 0, len(body)
    for i in range(count):
        if at >= end:
            refuse(kind, f"count {count}, but the frame ends after {i} items")
        size = int(sizes[at >> 2])
        if size < smallest or size > native.MAX_STEP or size & 7 or at + size > end:
            refuse(kind, f"item {i}: size {size} is wrong")
        at += size
        offsets[i + 1] = at
    if at != end:
        refuse(kind, f"{end - at} bytes after the last item")
    return np.array(offsets, dtype=np.int64) + header


def _gather(frame: Bytes, starts: npt.NDArray[np.int64], dtype: np.dtype[Any]) -> Array:
    """The structs that begin at these bytes, as one array."""
    words = np.frombuffer(frame, dtype="<u8", count=len(frame) // 8)
    n = dtype.itemsize // 8
    gathered: Array = words[(starts // 8)[:, None] + np.arange(n)].reshape(-1).view(dtype)
    return gathered


def decode_steps(frame: Bytes, sites: SiteTable) -> StepBatch:
    kind = Message.STEPS
    header = expect(frame, kind)
    if header.count < 1:
        refuse(kind, "count is 0")
    if HEADER.itemsize + header.count * _STEP.itemsize > len(frame):
        refuse(kind, f"count {header.count}, but the frame has only {len(frame)} bytes")
    raw = bytes(frame)
    try:
        found = native.decode_steps(raw, header.count, sites.kinds, sites.dists)
    except native.StepError as error:
        refuse(kind, f"item {error.item}: {error}" if error.item < header.count else str(error))
    if len(set(found.ticket.tolist())) != header.count:
        refuse(kind, "a ticket comes twice")
    return StepBatch(
        found.ticket,
        found.trace,
        found.state,
        found.site,
        found.instance,
        found.told_begin,
        found.told_site,
        found.told_instance,
        found.told_value,
        found.prior_kind,
        found.prior_begin,
        found.prior,
        raw,
        found.begin,
        found.n_more,
    )


def concatenate_steps(batches: Sequence[StepBatch]) -> StepBatch:
    """Several messages as one batch."""
    if len(batches) == 1:
        return batches[0]

    def joined(field: str) -> Array:
        return np.concatenate([getattr(b, field) for b in batches])

    def offsets(field: str) -> Array:
        parts = [getattr(b, field) for b in batches]
        ends = np.cumsum([0] + [int(part[-1] - part[0]) for part in parts])
        return np.concatenate([[0], *(part[1:] - part[0] + end for part, end in zip(parts, ends, strict=False))])

    tickets = joined("ticket")
    if np.unique(tickets).size != tickets.size:
        refuse(Message.STEPS, "a ticket comes twice")
    return StepBatch(
        tickets,
        joined("trace"),
        joined("state"),
        joined("site"),
        joined("instance"),
        offsets("told_offsets"),
        joined("told_site"),
        joined("told_instance"),
        joined("told_value"),
        joined("prior_kind"),
        offsets("prior_offsets"),
        joined("prior_values"),
        b"".join(b.items[int(b.item_offsets[0]) : int(b.item_offsets[-1])] for b in batches),
        offsets("item_offsets"),
        joined("n_more"),
    )


class Replies(NamedTuple):
    """One answer per row of a batch. A proposal is an encoded distribution, or b"" for a row that only tells; or
    several, one after another: ``n_more`` says how many besides the first (None: no row has more than one)."""

    state: Array
    flags: Array
    proposals: Sequence[bytes]
    n_more: Array | None = None


def encode_replies(ticket: Array, replies: Replies, run: int) -> bytes:
    sizes = np.fromiter(map(len, replies.proposals), dtype=np.int64, count=len(ticket))
    largest = native.MAX_STEP - _REPLY.itemsize
    if len(sizes) and int(sizes.max()) > largest:
        raise ValueError(f"a proposal has {int(sizes.max())} bytes, at most {largest}")
    proposals = b"".join(replies.proposals)
    total = HEADER.itemsize + len(ticket) * _REPLY.itemsize + len(proposals)
    out = np.empty(total, dtype=np.uint8)
    out[: HEADER.itemsize] = header_bytes(Message.REPLIES, total, len(ticket), run).view(np.uint8)
    native.encode_replies(
        np.ascontiguousarray(ticket, dtype=np.uint32),
        np.ascontiguousarray(replies.state, dtype=np.uint64),
        np.ascontiguousarray(replies.flags, dtype=np.uint32),
        np.zeros(len(ticket), np.uint32) if replies.n_more is None else replies.n_more.astype(np.uint32),
        sizes,
        proposals,
        out[HEADER.itemsize :],
    )
    return out.tobytes()


def decode_replies(frame: Bytes) -> tuple[Array, Replies]:
    """Tickets and answers (for tests and tools: the host's side)."""
    kind = Message.REPLIES
    header = expect(frame, kind)
    if header.count < 1:
        refuse(kind, "count is 0")
    offsets = _walk(kind, frame, header.count, _REPLY.itemsize)
    items = _gather(frame, offsets[:-1], _REPLY)
    if (items["flags"] & ~np.uint32(native.ReplyFlag.ALWAYS_PRIOR)).any():
        refuse(kind, "flags has bits that are unknown")
    if np.unique(items["ticket"]).size != items.size:
        refuse(kind, "a ticket comes twice")
    raw = bytes(frame)
    proposals = [raw[a + _REPLY.itemsize : b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    for proposal, flags, more in zip(proposals, items["flags"].tolist(), items["n_more"].tolist(), strict=True):
        if more and flags:
            refuse(kind, "several proposals and flags")
        parts = split_dists(proposal, more + 1) if proposal else [proposal] * (more == 0)
        if b"".join(parts) != proposal or len(parts) != more + 1:
            refuse(kind, f"a proposal's n does not fit the size of its reply, or there are not {more + 1} proposals")
        for part in parts:
            _check_proposal(part, flags)
    return items["ticket"].copy(), Replies(
        items["state"].copy(), items["flags"].copy(), proposals, items["n_more"].copy()
    )


def split_dists(encoded: bytes, count: int) -> list[bytes]:
    """The first distributions, at most ``count``, of those that follow each other here."""
    parts: list[bytes] = []
    at = 0
    while len(parts) < count and len(encoded) - at >= _DIST.itemsize:
        size: int = _DIST.itemsize + 8 * _DIST_HEADER.unpack_from(encoded, at)[2]
        parts.append(encoded[at : at + size])
        at += size
    return parts


def _check_proposal(proposal: bytes, flags: int) -> None:
    if proposal:
        if len(proposal) < _DIST.itemsize:
            refuse(Message.REPLIES, "a reply ends inside its proposal")
        dist = np.frombuffer(proposal, dtype=_DIST, count=1)[0]
        if _DIST.itemsize + 8 * int(dist["n"]) != len(proposal):
            refuse(Message.REPLIES, "a proposal's n does not fit the size of its reply")
        if dist["kind"] != DistKind.PRIOR:
            try:
                native.check(proposal)
            except ValueError as error:
                refuse(Message.REPLIES, f"a proposal is wrong: {error}")
        elif proposal != PRIOR:
            refuse(Message.REPLIES, "a PRIOR proposal has parameters")
    if flags & native.ReplyFlag.ALWAYS_PRIOR and proposal != PRIOR:
        refuse(Message.REPLIES, "ALWAYS_PRIOR without a PRIOR proposal")


def encode_probe() -> bytes:
    """A message that a host ignores: a reply of run 0. Whether it can be sent tells whether the host is there."""
    nothing = np.zeros(1, dtype=np.uint64)
    return encode_replies(nothing, Replies(nothing, nothing, [b""]), run=0)
