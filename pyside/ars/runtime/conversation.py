"""One run, as the controller sees it: requests answered, traces taken in, and the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ars import wire
from ars.columns import Columns
from ars.errors import ArsError, ProtocolError, RunInterrupted
from ars.proposers import Proposer
from ars.proposers.in_turn import answer
from ars.runtime.interrupts import Interrupts
from ars.wire import Done, RunConfig, StepBatch

if TYPE_CHECKING:
    from ars.runtime.session import Session

__all__ = ["Conversation", "Inbox"]

_LARGEST_BATCH = 32_768  # requests; their answers fit one message
_POLL_MS = 200
_CANCEL_WITHIN = 5.0
_SILENCE = 30.0  # seconds, and some multiple of trace_timeout, without a word or a pulse: the host hangs


class Inbox(NamedTuple):
    """What one round of receiving brought."""

    steps: list[StepBatch]
    columns: list[Columns]
    done: Done | None
    error: ArsError | None  # what ended the round; what came before it still counts


class Conversation:
    """One run: what has come in, and what is still to come."""

    def __init__(
        self,
        session: Session,
        config: RunConfig,
        proposer: Proposer,
        on_columns: Callable[[Columns], bool],
        stop: threading.Event | None = None,
    ) -> None:
        self._session = session
        self._config = config
        self._proposer = proposer
        self._on_columns = on_columns
        self._stop = stop
        self._seen = np.zeros(config.n_traces, dtype=np.bool_)
        # A trace that waits for a core may be silent for up to 100 times its limit (host.h). Meanwhile the process of a
        # host that works has a pulse.
        patience = 10.0 if session._family.pulse() is not None else 110.0
        self._silence = _SILENCE + patience * config.trace_timeout if config.trace_timeout else float("inf")
        self._cancelled = False
        self.done: Done | None = None
        self.steps_messages = 0
        self.requests = 0

    def converse(self, interrupts: Interrupts) -> Done:
        """Answers requests until the host is done."""
        heard, pulse = time.monotonic(), self._session._family.pulse()
        while True:
            interrupts.check()
            if self._session._closing.is_set():
                raise RunInterrupted("the simulator was closed during the run; .partial holds the finished traces")
            if self._stop is not None and self._stop.is_set():
                return self.cancel()
            inbox = self._session._inbox(self._config, _POLL_MS)
            now = time.monotonic()
            wants_stop = self._keep(inbox)
            if not (inbox.steps or inbox.columns or inbox.done):
                self._session._check_alive()
                if (later := self._session._family.pulse()) != pulse:
                    heard, pulse = now, later
                if now - heard > self._silence:
                    raise self._session._lost(f"no message for {now - heard:.0f} s")
                continue
            self._answer(inbox.steps, interrupts)
            self._free(inbox.columns)
            heard = time.monotonic()
            if inbox.done is not None:
                self._check_done(inbox.done)
                return inbox.done
            if wants_stop:
                return self.cancel()

    def _answer(self, steps: list[StepBatch], interrupts: Interrupts) -> None:
        """One batch for everything that waits, one message back."""
        if not steps:
            return
        if len(steps) > 1 and sum(map(len, steps)) > _LARGEST_BATCH:
            for each in steps:
                self._answer([each], interrupts)
            return
        batch = wire.concatenate_steps(steps)
        with interrupts.at_once():
            replies = answer(self._proposer, batch, self._session.sites)
        self._session._send(wire.encode_replies(batch.ticket, replies, self._session._run))
        self.steps_messages += len(steps)
        self.requests += len(batch.ticket)

    def _keep(self, inbox: Inbox) -> bool:
        """Hands finished traces on before anything else can go wrong; true if the run is to stop."""
        wants_stop = False
        for columns in inbox.columns:
            numbers = columns.traces["trace"]
            index = self._config.places(numbers)
            if self._seen[index].any():
                raise ProtocolError(f"TRACES: trace {int(numbers[self._seen[index]][0])} came before")
            self._seen[index] = True
            wants_stop |= self._on_columns(columns)
        if inbox.error is not None:
            raise inbox.error
        return wants_stop

    def _free(self, parts: list[Columns]) -> None:
        """The states of finished traces; after the requests that came with them have been answered."""
        for columns in parts:
            self._proposer.end_trace(columns.traces["trace"])

    @property
    def came(self) -> int:
        """How many traces have come."""
        return int(np.count_nonzero(self._seen))

    def _check_done(self, done: Done) -> None:
        came = self.came
        if done.traces != came:
            raise ProtocolError(f"DONE: traces {done.traces}, but {came} came")
        if not self._cancelled and (done.cancelled or came != self._config.n_traces):
            raise ProtocolError(f"DONE: after {came} traces of {self._config.n_traces}, and nobody cancelled the run")
        self.done = done

    def cancel(self) -> Done:
        """CANCEL, then everything up to DONE; requests are no longer answered."""
        if not self._cancelled:
            self._session._send(wire.encode_cancel(self._session._run))
        self._cancelled = True
        deadline = time.monotonic() + _CANCEL_WITHIN
        while time.monotonic() < deadline:
            inbox = self._session._inbox(self._config, _POLL_MS)
            self._keep(inbox)
            self._free(inbox.columns)
            if inbox.done is not None:
                self._check_done(inbox.done)
                return inbox.done
            if not (inbox.steps or inbox.columns):
                self._session._check_alive()
        raise self._session._lost(f"it did not stop within {_CANCEL_WITHIN:g} s of the request")
