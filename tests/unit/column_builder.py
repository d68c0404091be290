"""Columns written by hand, for tests: traces as plain Python objects, packed as the host packs them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ars._native import DTYPES, NO_SITE, DistKind, SiteKind
from ars.columns import Columns, Site


@dataclass
class Loop:
    site: int
    instance: int = 0
    parent: int = -1
    tries: int = 1
    log_ratio_rejected: float = 0.0
    tries_q: int = 0
    accepted_q: int = 0
    runs_p: int = 0
    tries_p: int = 0
    s_pq_sum: float = 0.0
    forks: int = 0
    rewinds: int = 0
    method: int = 0
    reason: int = 0
    detail: int = 0
    pages: int = 0
    s_pq_main: float = math.nan  # as in files of earlier versions
    abandoned: int = 0
    abandoned_p: int = 0
    abandoned_q: int = 0
    abandoned_tries: int = 0


@dataclass
class Sample:
    site: int
    value: float
    instance: int = 0
    loop: int = -1
    log_p: float = 0.0
    log_q: float = 0.0
    params: tuple[float, ...] = ()
    kind: DistKind = DistKind.NORMAL


@dataclass
class Try:
    """A rejected try: its own draws, and after how many of its parent's (or of the trace's) its loop was entered."""

    site: int
    samples: list[Sample]
    prefix: int = 0
    parent: int = -1
    recorded: int = 1
    rejected: int = 1
    instance: int = 0


@dataclass
class Trace:
    number: int
    log_likelihood: float = 0.0
    failure: int = 0
    text: str = ""
    samples: list[Sample] = field(default_factory=list)
    observes: list[tuple[int, list[float]]] = field(default_factory=list)
    results: list[tuple[int, list[float]]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)


def pack(traces: list[Trace]) -> Columns:
    rows: dict[str, list[Any]] = {name: [] for name in Columns._fields}
    for t in traces:
        values = [x for _, xs in [*t.observes, *t.results] for x in xs] + [x for s in t.samples for x in s.params]
        values += [x for one in t.tries for s in one.samples for x in s.params]
        accepted = sum(s.log_p - s.log_q for s in t.samples)
        rejected = sum(loop.log_ratio_rejected for loop in t.loops)
        counts = (len(t.samples), len(t.observes), len(t.results), len(t.loops), len(values))
        rows["traces"].append(
            (t.number, t.failure, 0, *counts, len(t.tries), t.log_likelihood, accepted, accepted + rejected)
        )
        rows["samples"] += [
            (s.site, s.instance, s.loop, s.kind, len(s.params), s.value, s.log_p, s.log_q) for s in t.samples
        ]
        rows["observes"] += [(site, len(xs), 0.0) for site, xs in t.observes]
        rows["results"] += [(site, len(xs), 0, 0) for site, xs in t.results]
        rows["loops"] += [
            (
                *(loop.site, loop.instance, loop.parent, loop.forks, loop.tries, loop.log_ratio_rejected),
                *(loop.tries_q, loop.accepted_q, loop.runs_p, loop.tries_p, loop.s_pq_sum),
                *(loop.rewinds, loop.method, loop.reason, loop.detail, loop.pages, loop.s_pq_main),
                *(loop.abandoned, loop.abandoned_p, loop.abandoned_q, loop.abandoned_tries),
            )
            for loop in t.loops
        ]
        rows["values"] += values
        rows["tries"] += [
            (one.site, one.instance, one.parent, one.prefix, len(one.samples), one.recorded, one.rejected)
            for one in t.tries
        ]
        rows["rejected"] += [
            (s.site, s.instance, i, s.kind, len(s.params), s.value, s.log_p, s.log_q)
            for i, one in enumerate(t.tries)
            for s in one.samples
        ]
        if t.failure:
            rows["failures"].append((t.number, t.failure, 0, NO_SITE, NO_SITE, t.text.encode()))
    items = {
        "traces": "trace",
        "samples": "sample",
        "observes": "values",
        "results": "result",
        "loops": "loop",
        "failures": "failure",
        "tries": "try",
        "rejected": "sample",
    }
    dtypes = {name: DTYPES[item] for name, item in items.items()} | {"values": np.dtype(np.float64)}
    return Columns(**{name: np.array(rows[name], dtype=dtypes[name]) for name in Columns._fields})


def latent(number: int, address: str) -> Site:
    return Site(number, SiteKind.SAMPLE, DistKind.NORMAL, address)


def observation(number: int, address: str) -> Site:
    return Site(number, SiteKind.OBSERVE, DistKind.NORMAL, address)


def result(number: int, address: str) -> Site:
    return Site(number, SiteKind.RESULT, None, address)


def loop_site(number: int, address: str) -> Site:
    return Site(number, SiteKind.LOOP, None, address)
