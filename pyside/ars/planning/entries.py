"""Loop entries that need estimates: which trace entered which loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ars._native import SiteKind
from ars.columns import Columns, Integers, Site

__all__ = ["Entries", "entries_of", "exact_loops"]


class Entries(NamedTuple):
    """The loop entries of some traces, in the order of the traces. Exact loops are left out."""

    rows: Integers  # the trace's row, per entry
    loop: Integers  # index into addresses, per entry
    addresses: tuple[str, ...]
    n_traces: int


def entries_of(columns: Columns, sites: Sequence[Site], exact: Collection[str] = ()) -> Entries:
    """The accepted entries of all loops that are not exact. Entries that were given up need no estimate.

    Loops are in the order of their addresses. Their numbers depend on which worker met a loop first; a plan must not.
    """
    ids = columns.loops["site"].astype(np.int64)
    rows = np.repeat(np.arange(len(columns.traces), dtype=np.int64), columns.traces["n_loops"])
    names = {site.id: site.address for site in sites if site.kind == SiteKind.LOOP}
    met = np.flatnonzero(np.bincount(ids)).tolist() if len(ids) else []
    addresses = {number: names.get(number, f"site {number}") for number in met}
    wanted = sorted((number for number in met if addresses[number] not in exact), key=addresses.__getitem__)
    index = np.full(max(met, default=-1) + 1, -1, dtype=np.int64)
    index[wanted] = np.arange(len(wanted), dtype=np.int64)
    loop = index[ids]
    needed = (loop >= 0) & (columns.loops["abandoned"] == 0)
    return Entries(rows[needed], loop[needed], tuple(addresses[number] for number in wanted), len(columns.traces))


def exact_loops(sites: Iterable[Site], proposes: Callable[[Site], bool]) -> frozenset[str]:
    """Addresses of the loops under which nothing has a proposal: there q(A) = p(A), and the factor is exactly 1."""
    known = list(sites)
    around: set[str] = set()  # the addresses of everything that encloses a proposed latent
    for site in known:
        if site.kind == SiteKind.SAMPLE and proposes(site):
            around.update(site.address[:i] for i, letter in enumerate(site.address) if letter == "/")
    return frozenset(site.address for site in known if site.kind == SiteKind.LOOP) - around
