"""Where training traces come from: drawn while the network trains, or read from disk."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from ars.arguments import ON_FAILURE, OnFailure
from ars.columns import Columns, Site, empty
from ars.config import TrainingConfig
from ars.errors import ShardError
from ars.network.train.batches import between, complete, split
from ars.network.train.share import Share
from ars.store.recordings import Folders, open_recordings

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = ["FreshTraces", "Part", "Prefetch", "RecordedTraces", "Source"]

_Item = TypeVar("_Item")
_LARGEST_CHUNK: Final = 32  # batches that are drawn in one run
_LARGEST_BYTES: Final = 128 << 20
_LONG: Final = 1.0  # seconds: a run that takes longer is long enough
_PROBE: Final = 256  # traces that show whether a simulator is the one that was recorded
_WAIT: Final = 0.1


class Part(NamedTuple):
    """The traces of one batch, or a rank's share of them."""

    columns: Columns  # complete ones
    sites: tuple[Site, ...]
    traces: int  # how far this takes the training; more than it holds, if some failed or are other ranks'


class Source(Protocol):
    """A numbered stream of traces: from the same place on it is always the same."""

    def held_out(self, n: int) -> list[Part]:
        """Traces that ``batches`` never gives."""

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        """The traces from number ``start`` up to ``total``, in batches. Ends early when ``stop`` is set."""

    def describe(self) -> dict[str, Any]:
        """What this is, for JSON. Two that describe themselves alike give the same traces."""


def _other_seed(seed: int) -> int:
    """A seed for traces that must not be those of the given one."""
    return (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64


class FreshTraces:
    """Traces drawn from the prior when they are needed. Each is used once."""

    def __init__(
        self,
        sim: Simulator,
        seed: int,
        on_failure: OnFailure = ON_FAILURE,
        max_rejected: int = 0,
        share: Share | None = None,
    ) -> None:
        self._sim = sim
        self._seed = seed
        self._on_failure = on_failure
        self._max_rejected = max_rejected
        self._share = share or Share()
        self._lease = sim._lease()

    def _draw(
        self, seed: int, first: int, n: int, stop: threading.Event | None = None
    ) -> tuple[Columns, tuple[Site, ...]]:
        return self._sim._prior_chunk(
            seed,
            first,
            n,
            on_failure=self._on_failure,
            stop=stop,
            max_rejected=self._max_rejected,
            lease=self._lease,
        )

    def held_out(self, n: int) -> list[Part]:
        return [self._own(_other_seed(self._seed), 0, n)]

    def _own(self, seed: int, first: int, n: int, stop: threading.Event | None = None) -> Part:
        """This rank's share of n traces, in one run."""
        low, high = self._share.bounds(n)
        if low == high:
            return Part(empty(), (), n)
        columns, sites = self._draw(seed, first + low, high - low, stop)
        return Part(complete(columns), sites, n)

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        """A run gives several batches: as many as keep it short, so that neither runs nor waits for their ends cost."""
        if self._share.ranks > 1:
            yield from self._own_batches(start, total, size, stop)
            return
        chunk = 1
        while start < total and not stop.is_set():
            n = min(chunk * size, total - start)
            began = time.monotonic()
            columns, sites = self._draw(self._seed, start, n, stop)
            if stop.is_set():
                return
            quick = time.monotonic() - began < _LONG and sum(column.nbytes for column in columns) < _LARGEST_BYTES
            for part in split(columns, size):
                yield Part(complete(part), sites, len(part.traces))
            start += n
            chunk = min(2 * chunk, _LARGEST_CHUNK) if quick else max(chunk // 2, 1)

    def _own_batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        """A run per batch: the numbers of a rank's shares of several batches are not consecutive."""
        while start < total:
            n = min(size, total - start)
            part = self._own(self._seed, start, n, stop)
            if stop.is_set():
                return
            yield part
            start += n

    def describe(self) -> dict[str, Any]:
        about = {"kind": "fresh", "seed": self._seed, "on_failure": self._on_failure}
        return about | ({"max_rejected": self._max_rejected} if self._max_rejected else {})


class RecordedTraces:
    """Traces of folders that ``record`` wrote, again and again in different orders; the last ones are held out."""

    def __init__(self, folders: Folders, seed: int, *, rejected: bool = False, share: Share | None = None) -> None:
        self._recording = open_recordings(folders)
        where = self._recording.directory
        if rejected and not self._recording.max_rejected:
            raise ShardError(
                f'{where} holds what loops accepted, and train_on="all" needs what they rejected, too. Record into '
                f"another folder with max_rejected={TrainingConfig.max_rejected} (ars train --train-on all --record "
                "N), or train on accepted draws"
            )
        self._seed = seed
        self._share = share or Share()
        self._held = 0
        if self._recording.traces < 2:
            raise ShardError(f"{where} holds {self._recording.traces} traces, too few to train on")

    def check_simulator(self, sim: Simulator) -> None:
        """Raises a ShardError if these are the traces of another simulator."""
        self._recording.check_simulator(*sim._prior_chunk(0, 0, _PROBE))

    def held_out(self, n: int) -> list[Part]:
        self._held = max(1, min(n, self._recording.traces // 10))
        return [self._own(columns, sites) for columns, sites in self._recording.last(self._held)]

    def _own(self, columns: Columns, sites: tuple[Site, ...]) -> Part:
        """This rank's share of a batch."""
        n = len(columns.traces)
        return Part(columns if self._share.ranks == 1 else between(columns, *self._share.bounds(n)), sites, n)

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        keep = self._recording.traces - self._held
        for columns, sites in self._recording.batches(size, self._seed, keep, start):
            if start >= total or stop.is_set():
                return
            yield self._own(columns, sites)
            start += len(columns.traces)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "recorded",
            **self._recording.about(),
            "traces": self._recording.traces,
            "seed": self._seed,
        }


# ---- at the same time ------------------------------------------------------------------------------------------------


class Prefetch(Generic[_Item]):
    """An iterator's items, made in another thread, a few ahead. An error in there is raised here.

    ``make`` gets an event that says to stop, which it should heed while it waits for something. ``check`` is called
    now and then while we wait, and may raise.
    """

    def __init__(
        self,
        make: Callable[[threading.Event], Iterator[_Item]],
        check: Callable[[], None] = lambda: None,
        ahead: int = 8,
    ) -> None:
        self._make = make
        self._check = check
        self._stop = threading.Event()
        self._queue: queue.Queue[tuple[_Item | None, BaseException | None]] = queue.Queue(ahead)
        self._thread = threading.Thread(target=self._run, name="ars-prefetch", daemon=True)

    def _run(self) -> None:
        try:
            for item in self._make(self._stop):
                if not self._put((item, None)):
                    return
            self._put((None, None))
        except BaseException as error:
            self._put((None, error))

    def _put(self, entry: tuple[_Item | None, BaseException | None]) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(entry, timeout=_WAIT)
            except queue.Full:
                continue
            return True
        return False

    def __enter__(self) -> Iterator[_Item]:
        self._thread.start()
        return self._items()

    def _items(self) -> Iterator[_Item]:
        while True:
            try:
                item, error = self._queue.get(timeout=_WAIT)
            except queue.Empty:
                self._check()
                continue
            if error is not None:
                raise error
            if item is None:
                return
            yield item

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
