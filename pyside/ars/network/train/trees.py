"""Which draw came after which: traces with their rejected tries as trees. No loop over traces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ars.columns import Columns, Floats, Integers, offsets

__all__ = ["Tree", "tree_of"]


class Tree(NamedTuple):
    """Per draw: first those of the samples column, then those of the rejected column."""

    trace: Integers  # the row of its trace
    previous: Integers  # the draw before it, -1 at the start of a trace
    depth: Integers  # how many come before it
    weight: Floats  # for how many draws of its kind it stands


def tree_of(columns: Columns) -> Tree:
    """A try goes on from where its loop was entered: from the last of the first ``prefix`` draws of its parent, or, if
    that is none, from where the parent goes on. All tries of one entry are alike, so if only the first of them were
    recorded, each stands for rejected / recorded."""
    where = offsets(columns)
    counts = np.diff(where.samples)
    rows = np.arange(len(counts))
    tries = columns.tries
    n_samples = len(columns.samples)
    step = np.arange(n_samples) - np.repeat(where.samples[:-1], counts)
    previous = np.where(step > 0, np.arange(n_samples) - 1, -1)
    trace = np.repeat(rows, counts)
    if not len(tries):
        return Tree(trace, previous, step, np.ones(n_samples))

    try_trace = np.repeat(rows, np.diff(where.tries))
    own = tries["n_samples"].astype(np.int64)
    begin = n_samples + np.cumsum(own) - own  # the first draw of a try
    parent = tries["parent"].astype(np.int64)
    parent = np.where(parent < 0, -1, parent + where.tries[try_trace])
    prefix = tries["prefix"].astype(np.int64)
    entry = np.full(len(tries), -1)  # the draw before the loop's entry
    depth = np.zeros(len(tries), np.int64)
    weight = np.ones(len(tries))
    around = np.arange(len(tries))  # the try itself, then those around it; -1: all done
    share = tries["rejected"] / tries["recorded"]
    while (open_ := around >= 0).any():
        at = np.where(open_, around, 0)
        outer = parent[at]
        origin = np.where(outer < 0, where.samples[try_trace], begin[outer])
        found = open_ & (entry < 0) & (prefix[at] > 0)
        entry = np.where(found, origin + prefix[at] - 1, entry)
        depth += np.where(open_, prefix[at], 0)
        weight *= np.where(open_, share[at], 1.0)
        around = np.where(open_, outer, -1)

    place = np.arange(int(own.sum())) - np.repeat(begin - n_samples, own)
    before = np.where(place > 0, n_samples + np.arange(len(place)) - 1, np.repeat(entry, own))
    return Tree(
        np.concatenate([trace, np.repeat(try_trace, own)]),
        np.concatenate([previous, before]),
        np.concatenate([step, np.repeat(depth, own) + place]),
        np.concatenate([np.ones(n_samples), np.repeat(weight, own)]),
    )
