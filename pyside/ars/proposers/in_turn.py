"""Requests for several draws at once, answered by a proposer that knows of one at a time.

A simulator that calls ``ars_sample_vector`` asks for many proposals in one request. Each may depend on the values
before it, which the simulator has not drawn yet. But they are known: the request says where its random stream is, and
samplers are the same here as there. So the proposer is asked about the first draw, its value is drawn, the proposer is
told of it and asked about the second, and so on. Its answers are those to the same questions asked one by one, to the
last bit; only the waiting between them is gone.
"""

from __future__ import annotations

import numpy as np

from ars._native import DTYPES, MAX_STEP
from ars._vectors import Streams
from ars.proposers.protocol import Proposer
from ars.wire import Replies, SiteTable, StepBatch
from ars.wire.vectors import Vector, alone, requests, vectors_of

__all__ = ["answer"]

_ROOM = MAX_STEP - DTYPES["reply"].itemsize  # for the proposals of a reply


class _Answers:
    """The proposals of one request so far."""

    def __init__(self, vector: Vector, stream: int, state: int, proposal: bytes) -> None:
        self.vector = vector
        self.stream = stream
        self.state = state
        self.proposals = [proposal]
        self.size = len(proposal)

    @property
    def wants_more(self) -> bool:
        return len(self.proposals) < len(self.vector.priors)

    @property
    def prior(self) -> bytes:
        """Of the latest proposal."""
        return self.vector.priors[len(self.proposals) - 1]

    def take(self, state: int, flags: int, proposal: bytes) -> bool:
        """Whether the proposal could be added, and the next one be asked for."""
        if flags or self.size + len(proposal) > _ROOM:
            return False
        self.state = state
        self.proposals.append(proposal)
        self.size += len(proposal)
        return True


def answer(proposer: Proposer, batch: StepBatch, sites: SiteTable) -> Replies:
    """The proposer's replies to a batch, in which requests may ask for several draws.

    Parameters
    ----------
    proposer : Proposer
        Whoever proposes; its ``step`` sees requests for one draw each.
    batch : StepBatch
        Everything that waits.
    sites : SiteTable
        The sites that have been announced.

    Returns
    -------
    Replies
        One per request. A request for several draws may get fewer proposals than it asked for: those that fit a reply.
    """
    if not batch.n_more.any():
        return proposer.step(batch, sites)
    vectors = vectors_of(batch)
    first = proposer.step(alone(batch, vectors, sites), sites)
    states, proposals = first.state.copy(), list(first.proposals)
    n_more = np.zeros(len(proposals), np.uint32)
    streams = Streams([vector.place for vector in vectors])
    done = [
        _Answers(vector, i, int(first.state[vector.row]), proposals[vector.row]) for i, vector in enumerate(vectors)
    ]
    active = [a for a in done if a.wants_more and not first.flags[a.vector.row]]
    while active:
        active = _next_draws(proposer, active, streams, sites)
    for a in done:
        states[a.vector.row] = a.state
        proposals[a.vector.row] = b"".join(a.proposals)
        n_more[a.vector.row] = len(a.proposals) - 1
    return Replies(states, first.flags, proposals, n_more)


def _next_draws(proposer: Proposer, active: list[_Answers], streams: Streams, sites: SiteTable) -> list[_Answers]:
    """Asks for one more proposal of each. Returns those that go on."""
    values = streams.draw([a.stream for a in active], [a.proposals[-1] for a in active], [a.prior for a in active])
    drawn = [(a, value) for a, value in zip(active, values.tolist(), strict=True) if value == value]
    if not drawn:
        return []
    items = [a.vector.request(len(a.proposals), a.state, value, ticket) for ticket, (a, value) in enumerate(drawn)]
    replies = proposer.step(requests(items, sites), sites)
    rows = zip(drawn, replies.state.tolist(), replies.flags.tolist(), replies.proposals, strict=True)
    taken = [(a, a.take(state, flags, proposal)) for (a, _), state, flags, proposal in rows]
    return [a for a, goes_on in taken if goes_on and a.wants_more]
