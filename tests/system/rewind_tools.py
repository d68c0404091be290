"""One run under every way to make continuations, and what differs between two runs: nothing may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from build_helpers import Builder, Variant

import ars
from ars._native import ForkReason, LoopMethod
from ars.columns import HOW

FOLDER = Path(__file__).resolve().parent / "rewind"
MODES = ("fork", "auto", "check")
BUDGET = ars.Budget(M=2, N=4)
SEED = 20_261_118

CHEAPER = {ForkReason.COST, ForkReason.PAGES}  # reasons that depend on this machine, not on the program


def run(command: Sequence[str | Path], mode: str, traces: int = 60, **options: Any) -> ars.Posterior:
    """Options: of posterior, and of Simulator (workers, the limits, env)."""
    given = {"observe": {"y": 0.5}, "budget": BUDGET, "seed": SEED, "proposals": None, "on_failure": "raise"}
    asked = {name: options.pop(name, default) for name, default in {**given, "ask_ahead": None}.items()}
    options = {"workers": 1, **options}
    with ars.Simulator([str(word) for word in command], continuations=mode, **options) as sim:
        sim._estimates_the_prior = True  # every loop counts here, also one under which nothing is proposed
        return sim.posterior(traces=traces, **asked)


def compiled(builder: Builder, sources: Sequence[Path], variant: Variant, *, shared: bool = False) -> Path:
    """An executable from sources of rewind/, with libars inside or beside it."""
    variant = variant._replace(flags=(*variant.flags, f"-I{FOLDER}"))
    return builder.program(sources, variant, shared=shared)


# ---- differences -----------------------------------------------------------------------------------------------------


def _addresses(post: ars.Posterior, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    names = {site.id: f"{site.kind.name} {site.address}" for site in post.sites}
    return np.array([names[site] for site in column["site"].tolist()], dtype=object)


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.view(np.uint64) if values.dtype == np.float64 else values


def differences(found: ars.Posterior, right: ars.Posterior) -> list[str]:
    """Empty if every trace is bit for bit the same: draws, densities, loops and their estimates, data, results."""
    wrong: list[str] = []
    for column in ("traces", "samples", "observes", "results", "loops", "failures"):
        a, b = getattr(found.columns, column), getattr(right.columns, column)
        if len(a) != len(b):
            wrong.append(f"{column}: {len(a)} instead of {len(b)}")
            continue
        owner = a["trace"] if "trace" in (a.dtype.names or ()) else None
        if owner is None and len(a):
            counts = found.columns.traces[f"n_{column}"].astype(np.int64)
            owner = np.repeat(found.columns.traces["trace"], counts)
        for field in a.dtype.names or ():
            if field in ("site", *HOW.get(column, ())) or (column == "failures" and field not in ("trace", "kind")):
                continue
            for i in np.flatnonzero(_bits(a[field]) != _bits(b[field]))[:3].tolist():
                wrong.append(f"{column}[{i}].{field} of trace {owner[i]}: {a[field][i]!r} instead of {b[field][i]!r}")
        if "site" in (a.dtype.names or ()) and column != "failures":
            other = _addresses(found, a) != _addresses(right, b)
            wrong += [f"{column}[{i}] is of another site" for i in np.flatnonzero(other)[:3].tolist()]
    if found.columns.values.tobytes() != right.columns.values.tobytes():
        wrong.append("values")
    if not wrong and found.log_weights("ars").tobytes() != right.log_weights("ars").tobytes():
        wrong.append("weights")
    return wrong


def reasons(loops: npt.NDArray[Any]) -> set[tuple[int, int]]:
    """Why these entries were forked, with the detail, where the reason is not this machine's."""
    why = zip(loops["reason"].tolist(), loops["detail"].tolist(), strict=True)
    return {(reason, detail) for reason, detail in why if reason and reason not in CHEAPER}


def assert_rewound(loops: npt.NDArray[Any], mode: str) -> None:
    """These entries were rewound, all of them: in "check" every one was also compared with forks."""
    estimated = loops[(loops["tries_q"] > 0) & (loops["method"] != LoopMethod.IN_PLACE)]
    ways = Counter(estimated["method"].tolist())
    assert ways.keys() <= (
        {LoopMethod.CHECKED} if mode == "check" else {LoopMethod.REWIND, LoopMethod.CHECKED, LoopMethod.FORK}
    ), ways
    assert not reasons(estimated), reasons(estimated)
    assert (estimated["reason"][estimated["method"] == LoopMethod.FORK] != 0).all()
    rewound = estimated["rewinds"][estimated["method"] != LoopMethod.FORK]
    assert len(rewound) and (rewound > 0).all()


def assert_forked(post: ars.Posterior) -> None:
    """Nothing was rewound."""
    assert set(post.columns.loops["method"].tolist()) <= {LoopMethod.NONE, LoopMethod.FORK, LoopMethod.IN_PLACE}
    assert not post.columns.loops["rewinds"].any()
    assert post.stats["rewinds"] == 0
