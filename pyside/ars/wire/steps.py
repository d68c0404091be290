"""STEPS, the requests for proposals, and REPLIES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, DistKind, Message, SiteKind
from ars.wire.frames import HEADER, Array, Bytes, expect, header_bytes, packed_struct, refuse
from ars.wire.sites import SiteTable

_STEP = DTYPES["step"]
_TOLD = DTYPES["told"]
_DIST = DTYPES["dist"]
_REPLY = DTYPES["reply"]
_unpack_step = packed_struct("step").unpack_from
_unpack_dist = packed_struct("dist").unpack_from
_iter_told = packed_struct("told").iter_unpack

PRIOR: bytes = np.array([(DistKind.PRIOR, 0, 0)], dtype=_DIST).tobytes()
"""The proposal "whatever the prior is", encoded."""


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Requests for proposals, one per row. told_offsets has one entry more than there are rows."""

    ticket: Array
    trace: Array
    state: Array
    site: Array
    instance: Array
    told_offsets: Array
    told_site: Array
    told_instance: Array
    told_value: npt.NDArray[np.float64]
    priors: tuple[bytes, ...]  # encoded; b"" where the row only tells

    def __len__(self) -> int:
        return int(self.ticket.size)

    @property
    def asks(self) -> npt.NDArray[np.bool_]:
        """The rows that want a proposal; the others only tell."""
        return np.asarray(self.site != native.NO_SITE)


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
    """One pass over the items: a message holds tens of them, for which plain Python is faster than array by array."""
    header = expect(frame, Message.STEPS)
    if header.count < 1:
        refuse(Message.STEPS, "count is 0")
    raw = bytes(frame)
    items: list[tuple[int, ...]] = []
    told: list[tuple[int, int, float]] = []
    told_offsets = [0]
    priors: list[bytes] = []
    at = HEADER.itemsize
    for i in range(header.count):
        item, middle, end = _step_at(raw, at, i)
        if item[6]:
            told.extend(_iter_told(raw[at + _STEP.itemsize : middle]))
        if item[4] == native.NO_SITE:
            if middle != end:
                refuse(Message.STEPS, f"item {i}: it has no site and is longer than what it tells")
        else:
            _check_prior(raw, middle, end, item[4], sites)
        priors.append(raw[middle:end])
        told_offsets.append(len(told))
        items.append(item)
        at = end
    if at != len(raw):
        refuse(Message.STEPS, f"{len(raw) - at} bytes after the last item")
    parameters = np.frombuffer(b"".join([prior[_DIST.itemsize :] for prior in priors]))
    if np.isnan(parameters).any():
        refuse(Message.STEPS, "a prior's parameter is NaN")
    return _step_batch(items, told, told_offsets, priors, sites)


def _step_at(raw: bytes, at: int, i: int) -> tuple[tuple[int, ...], int, int]:
    """The item that begins here, where its prior begins, and where it ends."""
    if at + _STEP.itemsize > len(raw):
        refuse(Message.STEPS, f"the frame ends inside item {i}")
    item = _unpack_step(raw, at)
    size, n_told = item[0], item[6]
    if not _STEP.itemsize <= size <= native.MAX_STEP or size & 7 or at + size > len(raw):
        refuse(Message.STEPS, f"item {i}: size {size} is wrong")
    if n_told > native.MAX_TOLD:
        refuse(Message.STEPS, f"item {i}: n_told {n_told}, at most {native.MAX_TOLD}")
    if item[7]:
        refuse(Message.STEPS, f"item {i}: reserved is not 0")
    middle = at + _STEP.itemsize + n_told * _TOLD.itemsize
    if middle > at + size:
        refuse(Message.STEPS, f"item {i}: it ends inside what it tells")
    return item, middle, at + size


def _check_prior(raw: bytes, at: int, end: int, site: int, sites: SiteTable) -> None:
    kind = Message.STEPS
    announced = sites.latent_dist(site)
    if announced is None:
        sites.check(kind, "site", np.array([site]), SiteKind.SAMPLE)
    if end - at < _DIST.itemsize:
        refuse(kind, f"site {sites[site].address!r}: a request ends before its prior")
    dist, reserved, n = _unpack_dist(raw, at)
    if reserved:
        refuse(kind, f"site {sites[site].address!r}: its prior's reserved is not 0")
    if _DIST.itemsize + 8 * n != end - at:
        refuse(kind, f"site {sites[site].address!r}: its prior's n does not fit the size of its request")
    if dist != announced:
        refuse(kind, f"site {sites[site].address!r}: a prior of kind {dist}, it was announced with {announced}")


def _step_batch(
    items: list[tuple[int, ...]],
    told: list[tuple[int, int, float]],
    told_offsets: list[int],
    priors: list[bytes],
    sites: SiteTable,
) -> StepBatch:
    _, ticket, trace, state, site, instance, _, _ = zip(*items, strict=True)
    if len(set(ticket)) != len(ticket):
        refuse(Message.STEPS, "a ticket comes twice")
    told_site, told_instance, told_value = zip(*told, strict=True) if told else ((), (), ())
    told_sites = np.array(told_site, dtype=np.uint32)
    values = np.array(told_value, dtype=np.float64)
    if told:
        sites.check(Message.STEPS, "told site", told_sites, SiteKind.SAMPLE)
        if not np.isfinite(values).all():
            refuse(Message.STEPS, "a told value is not finite")
    return StepBatch(
        np.array(ticket, dtype=np.uint32),
        np.array(trace, dtype=np.uint64),
        np.array(state, dtype=np.uint64),
        np.array(site, dtype=np.uint32),
        np.array(instance, dtype=np.uint32),
        np.array(told_offsets, dtype=np.int64),
        told_sites,
        np.array(told_instance, dtype=np.uint32),
        values,
        tuple(priors),
    )


def concatenate_steps(batches: Sequence[StepBatch]) -> StepBatch:
    """Several messages as one batch."""
    if len(batches) == 1:
        return batches[0]
    ends = np.cumsum([0] + [int(b.told_offsets[-1]) for b in batches])
    told_offsets = np.concatenate([[0], *(b.told_offsets[1:] + e for b, e in zip(batches, ends, strict=False))])

    def joined(field: str) -> Array:
        return np.concatenate([getattr(b, field) for b in batches])

    tickets = joined("ticket")
    if np.unique(tickets).size != tickets.size:
        refuse(Message.STEPS, "a ticket comes twice")
    return StepBatch(
        tickets,
        joined("trace"),
        joined("state"),
        joined("site"),
        joined("instance"),
        told_offsets,
        joined("told_site"),
        joined("told_instance"),
        joined("told_value"),
        tuple(p for b in batches for p in b.priors),
    )


class Replies(NamedTuple):
    """One answer per row of a batch. A proposal is an encoded distribution, or b"" for a row that only tells."""

    state: Array
    flags: Array
    proposals: Sequence[bytes]


def encode_replies(ticket: Array, replies: Replies, run: int) -> bytes:
    heads = np.zeros(len(ticket), dtype=_REPLY)
    sizes = np.fromiter((len(p) for p in replies.proposals), dtype=np.int64, count=len(ticket)) + _REPLY.itemsize
    if (sizes > native.MAX_STEP).any():
        raise ValueError(f"a proposal has {sizes.max()} bytes with its header, at most {native.MAX_STEP}")
    heads["size"] = sizes
    heads["ticket"] = ticket
    heads["state"] = replies.state
    heads["flags"] = replies.flags
    raw = heads.tobytes()
    parts: list[bytes] = [b""] * (2 * len(ticket) + 1)
    parts[0] = header_bytes(Message.REPLIES, HEADER.itemsize + int(sizes.sum()), len(ticket), run).tobytes()
    parts[1::2] = [raw[at : at + _REPLY.itemsize] for at in range(0, len(raw), _REPLY.itemsize)]
    parts[2::2] = replies.proposals
    return b"".join(parts)


def decode_replies(frame: Bytes) -> tuple[Array, Replies]:
    """Tickets and answers (for tests and tools: the host's side)."""
    kind = Message.REPLIES
    header = expect(frame, kind)
    if header.count < 1:
        refuse(kind, "count is 0")
    offsets = _walk(kind, frame, header.count, _REPLY.itemsize)
    items = _gather(frame, offsets[:-1], _REPLY)
    if items["reserved"].any():
        refuse(kind, "reserved is not 0")
    if (items["flags"] & ~np.uint32(native.ReplyFlag.ALWAYS_PRIOR)).any():
        refuse(kind, "flags has bits that are unknown")
    if np.unique(items["ticket"]).size != items.size:
        refuse(kind, "a ticket comes twice")
    raw = bytes(frame)
    proposals = [raw[a + _REPLY.itemsize : b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    for proposal, flags in zip(proposals, items["flags"].tolist(), strict=True):
        _check_proposal(proposal, flags)
    return items["ticket"].copy(), Replies(items["state"].copy(), items["flags"].copy(), proposals)


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
