"""The tasks of a run that are under way, and what becomes of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from distributed import Future, KilledWorker, wait
from distributed.client import FutureCancelledError, FuturesCancelledError
from distributed.comm import CommClosedError

from ars.cluster.chunks import Chunks, Piece
from ars.cluster.tasks import Outcome, Refused
from ars.errors import ArsError, HostLostError
from ars.runtime.recorder import Recorder

if TYPE_CHECKING:
    from ars.cluster.fleet import Fleet
    from ars.cluster.shipped import Shipped

__all__ = ["Flight"]

_WAIT: Final = 0.25  # seconds between two looks at the user's wish to stop
_LOOK: Final = 2.0  # seconds between two looks at the number of workers
_AHEAD: Final = 2  # tasks per thread of a worker: one that runs, and one that waits
_FRUITLESS: Final = 20  # lost tasks in a row, after which the run is given up


class Flight:
    """See the module.

    Parameters
    ----------
    fleet : Fleet
        Sends the tasks.
    chunks : Chunks
        The traces to run.
    shipped : Shipped or None
        Who proposes; None: the prior.
    network : Future or None
        The network, in the cluster's memory.
    """

    def __init__(self, fleet: Fleet, chunks: Chunks, shipped: Shipped | None, network: Future | None) -> None:
        self._fleet = fleet
        self._chunks = chunks
        self._shipped = shipped
        self._network = network
        self._flying: dict[Future, Piece] = {}
        self._fruitless = 0
        self._workers, self._threads = fleet.size()
        self._looked = self._seen = time.monotonic()

    def outcomes(self, stop: threading.Event | None) -> Iterator[tuple[Recorder, Outcome]]:
        """The tasks' results as they come, each with the recorder of its run.

        Results that are there come before an error that another task brought: they are not lost.
        """
        while self._chunks or self._flying:
            if stop is not None and stop.is_set():
                return
            self._look()
            while self._chunks and len(self._flying) < _AHEAD * max(self._threads, 1):
                piece = self._chunks.next(self._threads)
                self._flying[self._fleet.submit(piece.config, self._shipped, self._network)] = piece
            with contextlib.suppress(TimeoutError, FuturesCancelledError):  # cancelled ones are looked at below
                wait(list(self._flying), timeout=_WAIT, return_when="FIRST_COMPLETED")
            wrong: ArsError | None = None
            for future in [each for each in self._flying if each.done()]:
                piece = self._flying.pop(future)
                try:
                    outcome = self._landed(future, piece)
                except ArsError as error:
                    wrong = wrong or error
                    continue
                if outcome is not None:
                    piece.recorder.note(f"{self._workers} worker{'s' if self._workers != 1 else ''}")
                    yield piece.recorder, outcome
            if wrong is not None:
                raise wrong

    def _look(self) -> None:
        """How many workers there are now; none for too long is an error."""
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked, (self._workers, self._threads) = now, self._fleet.size()
        if self._threads:
            self._seen = now
        elif now - self._seen > self._fleet.setup.limits.startup_timeout:
            raise HostLostError(
                f"the cluster has had no workers for {now - self._seen:.0f} s; .partial holds the finished traces"
            )

    def _landed(self, future: Future, piece: Piece) -> Outcome | None:
        """The result of a finished task; None if it was lost and has to be run again."""
        try:
            result = future.result()
        except (KilledWorker, FutureCancelledError) as error:
            self._again(piece, f"a worker was lost with a task of {piece.config.n_traces:,} traces ({error})")
            return None
        except CommClosedError as error:
            raise self._fleet.gone(error) from error
        except Exception as error:  # it did not come to our code there, e.g. if a module of the user's is missing
            raise ArsError(
                f"a worker could not begin its task: {type(error).__name__}: {error}. Workers need the same packages "
                "and modules as the client"
            ) from error
        if isinstance(result, Refused):
            refusal = result.named()
            if isinstance(refusal, HostLostError):
                self._again(piece, str(refusal))
                return None
            raise refusal
        self._fruitless = 0
        self._chunks.measured(len(result.columns.traces), result.seconds)
        return result  # type: ignore[no-any-return]

    def _again(self, piece: Piece, text: str) -> None:
        self._fruitless += 1
        piece.recorder.lost(HostLostError(text))
        if self._fruitless > _FRUITLESS:
            raise HostLostError(f"{_FRUITLESS} tasks were lost in a row; the last one: {text}")
        self._chunks.give_back(piece)
        self._network = self._fleet.send_again(self._shipped)  # it may have been in that worker's memory alone

    def cancel(self) -> None:
        """Gives up the tasks that are still under way."""
        if self._flying:
            self._fleet.give_up(list(self._flying))
            self._flying.clear()
