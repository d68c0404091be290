"""Requests for several draws at once, as requests for one draw each: what a proposer is asked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ars._native import DTYPES, Message
from ars.wire.frames import HEADER, header_bytes, packed_struct
from ars.wire.sites import SiteTable
from ars.wire.steps import StepBatch, decode_steps, split_dists

__all__ = ["Vector", "alone", "requests", "vectors_of"]

_STEP = packed_struct("step")
_TOLD = packed_struct("told")
_STREAM_SIZE = DTYPES["stream"].itemsize


class Vector(NamedTuple):
    """A request for several draws."""

    row: int  # of the batch
    first: bytes  # the request for its first draw alone
    trace: int
    site: int
    instance: int  # of the first draw
    priors: list[bytes]  # of all draws, encoded
    place: bytes  # of the random stream

    def request(self, draw: int, state: int, told: float, ticket: int) -> bytes:
        """The request for this draw alone, after the one before it, which gave the value ``told``."""
        told_item = _TOLD.pack(self.site, self.instance + draw - 1, told)
        size = _STEP.size + len(told_item) + len(self.priors[draw])
        head = _STEP.pack(size, ticket, self.trace, state, self.site, self.instance + draw, 1, 0)
        return head + told_item + self.priors[draw]


def vectors_of(batch: StepBatch) -> list[Vector]:
    """The requests of a batch that ask for several draws."""
    found = []
    for row in np.flatnonzero(batch.n_more).tolist():
        item = batch.items[int(batch.item_offsets[row]) : int(batch.item_offsets[row + 1])]
        _, ticket, trace, state, site, instance, n_told, n_more = _STEP.unpack_from(item)
        priors_at = _STEP.size + n_told * _TOLD.size
        priors = split_dists(item[priors_at:-_STREAM_SIZE], n_more + 1)
        told_and_prior = item[_STEP.size : priors_at] + priors[0]
        head = _STEP.pack(_STEP.size + len(told_and_prior), ticket, trace, state, site, instance, n_told, 0)
        found.append(Vector(row, head + told_and_prior, trace, site, instance, priors, item[-_STREAM_SIZE:]))
    return found


def alone(batch: StepBatch, vectors: Sequence[Vector], sites: SiteTable) -> StepBatch:
    """The batch with every request for its first draw alone."""
    bounds = batch.item_offsets.tolist()
    items = [batch.items[a:b] for a, b in itertools.pairwise(bounds)]
    for vector in vectors:
        items[vector.row] = vector.first
    return requests(items, sites)


def requests(items: Sequence[bytes], sites: SiteTable) -> StepBatch:
    """Requests as a batch. Tickets have to differ."""
    size = HEADER.itemsize + sum(map(len, items))
    header = header_bytes(Message.STEPS, size, len(items), 0).tobytes()
    return decode_steps(header + b"".join(items), sites)
