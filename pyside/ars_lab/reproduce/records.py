"""A run as arrays that a stage can keep, and back: what weights and loops need, and a few values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from ars._native import DistKind, SiteKind
from ars.columns import Columns, Floats, Site, empty
from ars.posterior import Posterior, RunInfo
from ars_lab.reproduce.workspace import Arrays

__all__ = ["Record", "pack", "unpack"]

_VALUE = "value_"


class Record(Posterior):
    """A posterior without its draws: weights, loops and the values that were kept, by name."""

    kept: Mapping[str, Floats]


def pack(post: Posterior, values: Sequence[str] = ()) -> Arrays:
    """Everything that weights come from, and these values."""
    traces = post.columns.traces.copy()
    for counted in traces.dtype.names or ():
        if counted.startswith("n_") and counted != "n_loops":
            traces[counted] = 0
    sites = [[s.id, int(s.kind), None if s.dist is None else int(s.dist), s.address] for s in post.sites]
    about = {
        "run": post.run._asdict(),
        "sites": sites,
        "stats": {name: float(value) for name, value in post.stats.items()},
    }
    return {
        "traces": traces,
        "loops": post.columns.loops,
        "about": np.array(json.dumps(about)),
        **{_VALUE + name: post[name] for name in values},
    }


def unpack(arrays: Arrays) -> Record:
    about = json.loads(str(arrays["about"]))
    blank = empty()
    loops = np.zeros(len(arrays["loops"]), blank.loops.dtype)  # those of an earlier version have fewer fields
    for name in arrays["loops"].dtype.names or ():
        loops[name] = arrays["loops"][name]
    columns: Columns = blank._replace(traces=arrays["traces"], loops=loops)
    sites = [Site(i, SiteKind(k), None if d is None else DistKind(d), address) for i, k, d, address in about["sites"]]
    run = RunInfo.from_json(about["run"])
    record = Record(columns, sites, run=run, stats=about["stats"], observed={})
    record.kept = {name.removeprefix(_VALUE): array for name, array in arrays.items() if name.startswith(_VALUE)}
    return record
