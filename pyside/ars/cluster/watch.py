"""A cluster as the tasks of a run see it: its workers, and what has become of each task."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from distributed import Future, KilledWorker, wait
from distributed.client import FutureCancelledError, FuturesCancelledError
from distributed.comm import CommClosedError

from ars.cluster.simulators import Answer, Refused
from ars.errors import ArsError, HostLostError, RunInterrupted

if TYPE_CHECKING:
    from ars.cluster.fleet import Fleet

__all__ = ["Lost", "Watch"]

_WAIT: Final = 0.25  # seconds between two looks at the user's wish to stop
_LOOK: Final = 2.0  # seconds between two looks at the number of workers
_FRUITLESS: Final = 20  # lost tasks in a row, after which the run is given up


class Lost(NamedTuple):
    """A task was lost with its worker, and has to be run again."""

    text: str


class Watch:
    """See the module. One per run.

    Parameters
    ----------
    fleet : Fleet
        The cluster.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._lease = fleet.lease()
        self._fruitless, self._last = 0, ""  # tasks lost in a row, and what became of the last
        self.workers, self.threads = fleet.size()
        self._looked = self._seen = time.monotonic()

    def look(self) -> None:
        """Counts the workers, now and then. Raises what ends a run: no workers for too long, too many losses in a row,
        or a simulator that was closed."""
        if self._fleet.lease() != self._lease:
            raise RunInterrupted("the simulator was closed during the run; .partial holds the finished traces")
        if self._fruitless > _FRUITLESS:
            raise HostLostError(f"{_FRUITLESS} tasks were lost in a row; the last one: {self._last}")
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked, (self.workers, self.threads) = now, self._fleet.size()
        if self.threads:
            self._seen = now
        elif now - self._seen > self._fleet.setup.limits.startup_timeout:
            raise HostLostError(
                f"the cluster has had no workers for {now - self._seen:.0f} s; .partial holds the finished traces"
            )

    def done(self, futures: Collection[Future]) -> list[Future]:
        """Those that have ended; waits a moment if there are none."""
        with contextlib.suppress(TimeoutError, FuturesCancelledError):  # cancelled ones are looked at one by one
            wait(list(futures), timeout=_WAIT, return_when="FIRST_COMPLETED")
        return [each for each in futures if each.done()]

    def landed(self, future: Future, what: str) -> Any:
        """The result of a task that has ended, or Lost.

        Parameters
        ----------
        future : Future
            The task.
        what : str
            Names it in errors.

        Raises
        ------
        ArsError
            If it cannot be run on that worker, or the scheduler is lost.
        """
        try:
            result: Answer | Refused = future.result()
        except (KilledWorker, FutureCancelledError) as error:
            return self._lost(f"a worker was lost with {what} ({error})")
        except CommClosedError as error:
            raise self._fleet.gone(error) from error
        except Exception as error:  # it did not come to our code there, e.g. if libars is another version
            raise ArsError(
                f"a worker could not begin its task: {type(error).__name__}: {error}. Workers need the same packages "
                "and modules as the client"
            ) from error
        if isinstance(result, Refused):
            refusal = result.named()
            if isinstance(refusal, HostLostError):
                return self._lost(str(refusal))
            raise refusal
        self._fleet.check_build(result)
        self._fruitless = 0
        return result.found

    def _lost(self, text: str) -> Lost:
        self._fruitless += 1
        self._last = text
        return Lost(text)
