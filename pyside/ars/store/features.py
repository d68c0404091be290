"""What traces have: latents and observations, how often, and of which size. Traces of one simulator are alike in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ars._native import DistKind, SiteKind
from ars.columns import Columns, Site, offsets, trace_of

__all__ = ["Features", "features_of", "unlike"]


class Feature(NamedTuple):
    dist: DistKind | None
    share: float  # of the traces that have it
    size: int  # most numbers of an observation in a trace


Features = dict[tuple[SiteKind, str], Feature]


def features_of(columns: Columns, sites: Sequence[Site]) -> Features:
    """Which latents and observations the traces have, and how often."""
    where = offsets(columns)
    found: Features = {}
    rows = max(len(columns.traces), 1)
    for site in sites:
        if site.kind not in (SiteKind.SAMPLE, SiteKind.OBSERVE):
            continue
        items, starts = (
            (columns.samples, where.samples) if site.kind is SiteKind.SAMPLE else (columns.observes, where.observes)
        )
        index = np.flatnonzero(items["site"] == site.id)
        traces = trace_of(starts, index)
        size = 0
        if site.kind is SiteKind.OBSERVE and len(index):
            size = int(np.bincount(traces, weights=items["n"][index]).max())
        if len(index):
            found[site.kind, site.address] = Feature(site.dist, len(np.unique(traces)) / rows, size)
    return found


def unlike(one: Features, other: Features, here: str, there: str, often: float = 0.1) -> list[str]:
    """What most traces of one have and the other has not, or has otherwise, a line each; at most 20, and how many more.
    ``here`` and ``there`` say which is which."""
    wrong = []
    for key in sorted(one.keys() | other.keys()):
        mine, theirs = one.get(key), other.get(key)
        what = f"{key[0].name.lower()} {key[1]!r}"
        if theirs is None:
            if mine is not None and mine.share > often:
                wrong.append(f"{what} is in {here}, not in {there}")
        elif mine is None:
            if theirs.share > often:
                wrong.append(f"{what} is in {there}, not in {here}")
        elif mine.dist is not theirs.dist:
            wrong.append(f"{what} is {_name(mine.dist)} in {here}, {_name(theirs.dist)} in {there}")
        elif mine.size != theirs.size and key[0] is SiteKind.OBSERVE:
            wrong.append(f"{what} has {mine.size} numbers in {here}, {theirs.size} in {there}")
    return [*wrong[:20], f"... and {len(wrong) - 20} more"] if len(wrong) > 20 else wrong


def _name(dist: DistKind | None) -> str:
    return dist.name if dist else "of no distribution"
