"""Tasks that a worker does from beginning to end: a group of chains, a data set of a calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ars.cluster.sent import SentNetwork
from ars.cluster.watch import Lost, Watch
from ars.errors import ArsError

if TYPE_CHECKING:
    from ars.cluster.fleet import Fleet

__all__ = ["errands"]


def errands(
    fleet: Fleet,
    function: Callable[[bytes, SentNetwork | None], Any],
    tasks: Sequence[bytes],
    sent: SentNetwork | None,
    what: str,
    tick: Callable[[], None] | None = None,
) -> Iterator[tuple[int, Any]]:
    """What each task gave, with its index, in the order in which they end. Those of lost workers are run again.

    Parameters
    ----------
    fleet : Fleet
        Sends the tasks.
    function : callable
        Does a task on a worker: function(task, network).
    tasks : sequence of bytes
        Each packed.
    sent : SentNetwork or None
        The network that they need.
    what : str
        Names a task in errors.
    tick : callable, optional
        Called now and then (default: nothing is).

    Raises
    ------
    ArsError
        If a worker cannot do a task, workers are lost again and again, or there have been none for too long.
    """
    network = fleet.send(sent)
    watch = Watch(fleet)
    flying = {fleet.errand(function, task, network): (i, network) for i, task in enumerate(tasks)}
    try:
        while flying:
            watch.look()
            wrong: ArsError | None = None
            for future in watch.done(flying):
                i, given = flying.pop(future)
                try:
                    found = watch.landed(future, what)
                except ArsError as error:  # after the results that are there
                    wrong = wrong or error
                    continue
                if not isinstance(found, Lost):
                    yield i, found
                    continue
                network = fleet.send(sent, lost=given)
                flying[fleet.errand(function, tasks[i], network)] = i, network
            if wrong is not None:
                raise wrong
            if tick is not None:
                tick()
    finally:
        fleet.give_up(list(flying))
