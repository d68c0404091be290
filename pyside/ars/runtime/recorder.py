"""What a run brings in: finished traces, failures, and what is still missing."""

from __future__ import annotations

import logging
import mmap
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np

from ars._native import FailureKind, failure_name
from ars.columns import Array, Columns, Integers, Site, merge
from ars.errors import ArsError, BiasWarning, ObservationError, StorageError, TraceFailure
from ars.failures import EXAMPLES_PER_KIND, Failure, describe, failures_of
from ars.outside import outside
from ars.progress import Progress, StreamProgress
from ars.runtime.run_summary import RunSummary
from ars.store.site_numbers import SiteNumbers, renumber
from ars.wire import RunConfig

__all__ = ["Keeper", "Recorder"]

_BLOCK: Final = 32 << 20  # bytes
_THEN: Final = '.partial holds the finished traces; on_failure="zero" gives a failed trace weight 0'

_log = logging.getLogger(__name__)


def _block(parts: Sequence[Columns]) -> Columns:
    """The traces of all parts, in memory that was asked of the system."""

    def joined(pieces: list[Array]) -> Array:
        n, dtype = sum(map(len, pieces)), pieces[0].dtype
        out = np.frombuffer(mmap.mmap(-1, n * dtype.itemsize), dtype) if n else np.empty(0, dtype)
        return np.concatenate(pieces, out=out)

    return Columns(*(joined([part[i] for part in parts]) for i in range(len(Columns._fields))))


class Keeper(Protocol):
    """Where finished traces go at once, so that they survive us."""

    def keep(self, columns: Columns, sites: Sequence[Site]) -> None: ...

    def flush(self) -> None: ...


class Recorder:
    """Takes in finished traces, and says when a failure means to stop.

    The traces of a run without a list are ``first`` to ``first + total - 1``. They may come from several families of
    processes, one after another. A family that is started for this run gets ``sites``, and keeps their ids. If traces
    are kept, those of a family that was there before are brought to the same ids.
    """

    def __init__(
        self,
        total: int,
        on_failure: str,
        progress: Progress,
        *,
        first: int = 0,
        seed: int | None = None,
        keeper: Keeper | None = None,
        advice: Callable[[Failure], str] | None = None,
        said: set[str] | None = None,
    ) -> None:
        """``said``: what the runs of one call, which share it, have logged and need not log again."""
        self._parts: list[Columns] = []
        self._small = 0  # the first of the parts that have not been put together
        self._size = 0  # of those, in bytes
        self._total = total
        self._first = first
        self._seed = seed
        self._on_failure = on_failure
        self._progress = progress
        self._keeper = keeper
        self._advice = advice
        self.said = set() if said is None else said
        self._examples: Counter[int] = Counter()
        self._failed: list[Array] = []
        self._stop = False
        self._summary: RunSummary | None = None
        self._resumed = 0
        self.done = 0
        self.restarts = 0
        self.n_failed = 0
        self._numbers = SiteNumbers()
        self._met = -1  # sites of the family at work
        self._ours: Integers | None = None
        self._unkept: StorageError | None = None
        self.stderr: dict[int, str] = {}
        self.incidents: list[Failure] = []

    @property
    def sites(self) -> tuple[Site, ...]:
        """All that the run has met."""
        return self._numbers.sites

    @sites.setter
    def sites(self, sites: Sequence[Site]) -> None:
        self._numbers.adopt(sites)

    def start(self, columns: Columns, sites: Sequence[Site]) -> None:
        """Traces that were kept by an earlier run."""
        self.sites = tuple(sites)
        if len(columns.traces):
            self._add(columns, lambda: "")
        self._resumed = self.done

    def take(self, columns: Columns, sites: Callable[[], tuple[Site, ...]], said: Callable[[], str]) -> bool:
        """True if the run is to stop. ``said``: the simulator's last lines on stderr."""
        if self._keeper is None:
            self._add(columns, said)
        else:
            columns = renumber(columns, self._to_ours(sites()))
            self._add(columns, said)
            try:
                self._keeper.keep(columns, self.sites)
            except StorageError as error:  # the run stops in good order, and what is under way still comes in
                self._unkept = self._unkept or error
        return self.stopped

    def _to_ours(self, sites: Sequence[Site]) -> Integers | None:
        """Our numbers for the sites of the family at work; found out when it has met new ones."""
        if len(sites) != self._met:
            self._met, self._ours = len(sites), self._numbers.adopt(sites)
        return self._ours

    def _add(self, columns: Columns, said: Callable[[], str]) -> None:
        self._keep(columns)
        self.done += len(columns.traces)
        self._progress.update(self.done, self._total)
        if not len(columns.failures):
            return
        self._failed.append(columns.failures)
        self.n_failed += len(columns.failures)
        for number, kind in zip(columns.failures["trace"].tolist(), columns.failures["kind"].tolist(), strict=True):
            self._examples[kind] += 1
            if self._examples[kind] <= EXAMPLES_PER_KIND:
                self.stderr[number] = said()
        wrong_data = bool((columns.failures["kind"] == FailureKind.OBSERVATION).any())
        self._stop = self._stop or self._on_failure == "raise" or wrong_data

    def _keep(self, columns: Columns) -> None:
        """Small pieces are put together now and then. Each block has memory of its own, which goes back to the system
        when it is let go of; that of many small pieces would not."""
        self._parts.append(columns)
        self._size += sum(column.nbytes for column in columns)
        if self._size > _BLOCK:
            self._parts[self._small :] = [_block(self._parts[self._small :])]
            self._small, self._size = len(self._parts), 0

    @property
    def stopped(self) -> bool:
        """Whether a failure has ended the run, or a disk that takes no more traces."""
        return self._stop or self._unkept is not None

    @property
    def complete(self) -> bool:
        """Whether every trace is in."""
        return self.done >= self._total

    def note(self, text: str) -> None:
        """Something to show with the progress from now on."""
        if isinstance(self._progress, StreamProgress):
            self._progress.note(text)

    def unkept(self) -> StorageError | None:
        """The error that finished traces could not be kept, at the end of a run; None if all are on the disk."""
        if self._keeper is None:
            return None
        try:
            self._keeper.flush()
        except StorageError as error:
            return self._unkept or error
        return self._unkept if self._unkept is not None and self.done < self._total else None

    def lost(self, error: ArsError) -> None:
        """The simulator was lost; the run goes on when it is there again."""
        self.restarts += 1
        self._met = -1
        self.incidents.append(Failure(-1, "lost_host", 0, str(error), seed=self._seed))
        _log.warning("%s. The run continues; %d of %d traces had finished", error, self.done, self._total)

    def count(self, summary: RunSummary | None) -> None:
        """How a part of the run went, or as far as it went."""
        if summary is not None:
            self._summary = summary if self._summary is None else self._summary + summary

    @property
    def summary(self) -> RunSummary | None:
        """How the run went so far; None before its first part is over."""
        return self._summary

    def stats(self) -> dict[str, float]:
        """The run's counters, so far."""
        stats = self._summary.stats() if self._summary is not None else {}
        return {**stats, "restarts": self.restarts, "traces_resumed": self._resumed}

    def resumed(self, lost: Sequence[str]) -> None:
        """Controllers that were lost on this run before us."""
        for who in lost:
            text = f"the controller ({who}) was lost; the run continued from the traces that it had kept"
            self.incidents.append(Failure(-1, "lost_controller", 0, text, seed=self._seed))

    def left(self, config: RunConfig) -> list[RunConfig]:
        """The runs that bring in what is missing of this one: a listed run stays one, unless its list is too long."""
        if config.listed is None:
            return [config.part(first, count) for first, count in self.missing()]
        if self.done == 0:
            return config.messages()
        missing = np.ones(config.n_traces, dtype=np.bool_)
        for part in self._parts:
            missing[config.places(part.traces["trace"])] = False
        return config.only(missing).messages() if missing.any() else []

    def missing(self) -> list[tuple[int, int]]:
        """The traces of a run without a list that have not come: pairs of first and count."""
        if self.done == 0:
            return [(self._first, self._total)]
        numbers = np.concatenate([part.traces["trace"] for part in self._parts])
        came = np.sort((numbers - np.uint64(self._first)).astype(np.int64))  # counted from the first
        edges = np.concatenate([[-1], came, [self._total]])
        gaps = np.flatnonzero(np.diff(edges) > 1)
        return [(self._first + int(edges[i]) + 1, int(edges[i + 1] - edges[i]) - 1) for i in gaps]

    def columns(self) -> Columns:
        """What has come, in the order of the numbers."""
        self._parts = [merge(self._parts)]
        self._small, self._size = 1, 0
        return self._parts[0]

    def forget(self) -> None:
        """Lets go of the traces. What the run says of itself stays."""
        self._parts.clear()
        self._small, self._size = 0, 0

    def failures(self) -> list[Failure]:
        if not self._failed:
            return []
        return failures_of(np.concatenate(self._failed), self.sites, self._seed, self.stderr)

    def describe(self) -> str:
        """The failures in words, and how to run the first again."""
        return describe(self.failures(), advice=self._advice)

    def warn_of_dropped(self, failed: int | None = None, done: int | None = None) -> None:
        """Warns, at the end of a run, if the run's policy drops failed traces. ``failed`` of ``done``: in all steps, if
        this was one of several."""
        failed = self.n_failed if failed is None else failed
        if self._on_failure == "skip" and failed:
            warnings.warn(
                f"{failed} of {self.done if done is None else done} traces failed and were dropped, which biases the "
                f"result unless failures are unrelated to the values drawn. {self.describe()}",
                BiasWarning,
                stacklevel=outside(),
            )

    def error(self, then: str = _THEN) -> TraceFailure | None:
        """The error that the failures amount to under the run's policy. ``then``: what to do about it."""
        if not self._stop:
            return None
        failures = self.failures()
        wrong_data = [f for f in failures if f.kind == failure_name(FailureKind.OBSERVATION)]
        if wrong_data:
            return ObservationError(f"the observed data do not fit the simulator: {wrong_data[0].text}", wrong_data)
        return TraceFailure(
            f"{len(failures)} of {self.done} traces failed. {self.describe()}\n{then}",
            failures,
        )
