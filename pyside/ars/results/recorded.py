"""Parts of a result: values by name, and the statistics of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ars._native import SiteKind
from ars.columns import Columns, Floats, Key, Site, values_of
from ars.results.continuations import refused

__all__ = ["DERIVED", "Recorded", "complete_stats"]

# Statistics that are not sums over traces: they are computed again for traces that are put together, or read.
DERIVED = ("requests_per_message", "traces_per_second", "loops_estimated", "zero_weights", "correction_variance")


class Recorded(Mapping[str, Floats]):
    """The values of all sites of one kind, by name, or by address where several share a name."""

    def __init__(self, columns: Columns, sites: Sequence[Site], kind: SiteKind) -> None:
        self._columns = columns
        self._sites = [site for site in sites if site.kind == kind]

    def __getitem__(self, key: Key) -> Floats:
        return values_of(self._columns, self._sites, key)

    def __iter__(self) -> Iterator[str]:
        count = Counter(site.name for site in self._sites)
        return iter(site.name if count[site.name] == 1 else site.address for site in self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def __repr__(self) -> str:
        return f"{{{', '.join(self)}}}"


def complete_stats(stats: Mapping[str, float], columns: Columns) -> dict[str, float]:
    """The run's counters, what the traces say of themselves, and what follows. Traces of hosts that were lost, or that
    an earlier run had kept, tell as much as others."""
    full = {name: value for name, value in stats.items() if name not in DERIVED}
    full.setdefault("traces", len(columns.traces))
    full.setdefault("traces_replayed", 0)
    full.setdefault("snapshots", int(columns.traces["snapshots"].sum()))
    for name in ("rewinds", "forks", "tries_q", "tries_p"):
        full.setdefault(name, int(columns.loops[name].sum()))
    full.setdefault("continuations", full["rewinds"] + full["forks"])
    full.setdefault("rewinds_refused", int(np.count_nonzero(refused(columns.loops))))
    estimated = columns.loops["runs_p"] > 0
    full.setdefault("entries_estimated", int(np.count_nonzero(estimated)))
    full["loops_estimated"] = len(np.unique(columns.loops["site"][estimated]))
    return full | _rates(full)


def _rates(counters: Mapping[str, float]) -> dict[str, float]:
    """Rates that follow from counters: requests per message that brings some, and traces per second of this run, those
    that an earlier one had kept not counted."""
    found: dict[str, float] = {}
    if "steps_messages" in counters:
        messages = counters["steps_messages"]
        found["requests_per_message"] = counters.get("requests", 0) / messages if messages else 0.0
    if counters.get("seconds"):
        found["traces_per_second"] = (counters["traces"] - counters.get("traces_resumed", 0)) / counters["seconds"]
    return found
