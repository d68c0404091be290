"""STEPS messages for tests of proposers: rows written as a host writes them, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ars import wire
from ars._native import DTYPES, MAGIC, VERSION, Message

Told = tuple[int, int, float]  # site, instance, value


class Request(NamedTuple):
    trace: int
    state: int
    site: int
    instance: int
    told: Sequence[Told]
    prior: bytes  # encoded; b"" if it only tells


def steps_of(requests: Sequence[Request], sites: wire.SiteTable) -> wire.StepBatch:
    """The batch that a controller makes of these; tickets count up from 0."""
    body = b""
    for ticket, (trace, state, site, instance, told, prior) in enumerate(requests):
        tail = np.array(list(told), dtype=DTYPES["told"]).tobytes() + prior
        size = DTYPES["step"].itemsize + len(tail)
        head = np.array([(size, ticket, trace, state, site, instance, len(told), 0)], dtype=DTYPES["step"])
        body += head.tobytes() + tail
    size = DTYPES["header"].itemsize + len(body)
    header = np.array([(MAGIC, VERSION, Message.STEPS, size, len(requests), 1)], dtype=DTYPES["header"])
    return wire.decode_steps(header.tobytes() + body, sites)
