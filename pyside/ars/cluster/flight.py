"""The tasks of a run that are under way, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from distributed import Future

from ars.cluster.chunks import Chunks, Piece
from ars.cluster.tasks import Outcome
from ars.cluster.watch import Lost, Watch
from ars.errors import ArsError, HostLostError
from ars.runtime.recorder import Recorder

if TYPE_CHECKING:
    from ars.cluster.fleet import Fleet
    from ars.cluster.shipped import Shipped

__all__ = ["Flight"]

_AHEAD: Final = 2  # tasks per thread of a worker: one that runs, and one that waits


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
    """

    def __init__(self, fleet: Fleet, chunks: Chunks, shipped: Shipped | None) -> None:
        self._fleet = fleet
        self._chunks = chunks
        self._shipped = shipped
        self._network = fleet.send(None if shipped is None else shipped.network)
        self._flying: dict[Future, tuple[Piece, Future | None]] = {}  # with the network that it was given
        self._watch = Watch(fleet)

    def outcomes(self, stop: threading.Event | None) -> Iterator[tuple[Recorder, Outcome]]:
        """The tasks' results as they come, each with the recorder of its run.

        Results that are there come before an error that another task brought: they are not lost.
        """
        watch = self._watch
        while self._chunks or self._flying:
            if stop is not None and stop.is_set():
                return
            watch.look()
            while self._chunks and len(self._flying) < _AHEAD * max(watch.threads, 1):
                piece = self._chunks.next(watch.threads)
                self._flying[self._fleet.submit(piece.config, self._shipped, self._network)] = piece, self._network
            wrong: ArsError | None = None
            for future in watch.done(self._flying):
                piece, network = self._flying.pop(future)
                try:
                    outcome = self._landed(future, piece, network)
                except ArsError as error:
                    wrong = wrong or error
                    continue
                if outcome is not None:
                    piece.recorder.note(f"{watch.workers} worker{'s' if watch.workers != 1 else ''}")
                    yield piece.recorder, outcome
            if wrong is not None:
                raise wrong

    def _landed(self, future: Future, piece: Piece, network: Future | None) -> Outcome | None:
        """The result of a finished task; None if it was lost and has to be run again."""
        result: Outcome | Lost = self._watch.landed(future, f"a task of {piece.config.n_traces:,} traces")
        if isinstance(result, Lost):
            piece.recorder.lost(HostLostError(result.text))
            self._chunks.lost(piece)
            # The network may have been in that worker's memory alone.
            self._network = self._fleet.send(None if self._shipped is None else self._shipped.network, lost=network)
            return None
        self._chunks.measured(len(result.columns.traces), result.seconds)
        return result

    def cancel(self) -> None:
        """Gives up the tasks that are still under way."""
        if self._flying:
            self._fleet.give_up(list(self._flying))
            self._flying.clear()
