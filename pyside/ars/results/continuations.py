"""How the loops of a run were estimated: by continuations that ran in place and were undone, or in forks; and why."""

from __future__ import annotations

import errno
import logging
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from ars._native import ForkReason, LoopMethod, failure_name
from ars.columns import Array, Booleans, Columns, Site
from ars.errors import ContinuationWarning
from ars.outside import outside
from ars.results.system_calls import system_call

__all__ = ["Estimation", "continuation_line", "how_estimated", "refused", "report_continuations"]

_log = logging.getLogger(__name__)

_MOST_REASONS: Final = 3  # that are written out for one loop


class Estimation(NamedTuple):
    """How one loop was estimated, over all its entries."""

    method: str  # "rewind", "fork", "both", "in place" or "not estimated"
    reason: str  # why entries were forked although rewinding was allowed; "" if none was
    pages: float  # median number of memory pages put back per rewind; NaN if nothing was rewound


# ---- in words --------------------------------------------------------------------------------------------------------


def _system(detail: int) -> str:
    code = errno.errorcode.get(detail)
    why = f" ({code}: {os.strerror(detail)})" if code else f" (error {detail})" if detail else ""
    return f"this system does not allow rewinding{why}"


_WORDS: Final[Mapping[ForkReason, Callable[[int], str]]] = {
    ForkReason.SYSTEM: _system,
    ForkReason.SYSCALL: lambda detail: f"{system_call(detail)} cannot be undone",
    ForkReason.CRASH: lambda _: "a process ended while it ran a continuation in place",
    ForkReason.FAILURE: lambda detail: f"a continuation failed in place ({failure_name(detail)})",
    ForkReason.MISMATCH: lambda _: "rewinding and forking gave different numbers",
    ForkReason.COST: lambda _: "forking was measured to be cheaper",
    ForkReason.PAGES: lambda _: "a continuation writes to too many memory pages",
    ForkReason.THREADS: lambda _: "the simulator has more than one thread",
    ForkReason.SHADOW_STACK: lambda _: "the processor's shadow stack is in use",
}


def reason_in_words(reason: int, detail: int) -> str:
    """Why a loop entry was forked: a clause, without a full stop."""
    try:
        return _WORDS[ForkReason(reason)](detail)
    except (KeyError, ValueError):
        return f"reason {reason} (detail {detail})"


# ---- one loop --------------------------------------------------------------------------------------------------------


def _methods(loops: Array) -> Array:
    """The method of every entry. Files of earlier versions do not have it: there, what was estimated without forks was
    estimated in place."""
    unknown = (loops["method"] == LoopMethod.NONE) & (loops["runs_p"] > 0)
    before = np.where(loops["forks"] > 0, LoopMethod.FORK, LoopMethod.IN_PLACE)
    return np.where(unknown, before, loops["method"])


def refused(loops: Array) -> Booleans:
    """For every loop entry, whether it was forked, or its forked numbers were used, although rewinding was allowed."""
    forked = (loops["method"] == LoopMethod.FORK) & (loops["reason"] != ForkReason.NONE)
    return np.asarray(forked | (loops["method"] == LoopMethod.MISMATCH))


def how_estimated(loops: Array) -> Estimation:
    """Say how a loop was estimated.

    Parameters
    ----------
    loops : array of struct ars_wire_loop
        The entries of one loop.

    Returns
    -------
    Estimation
        "both": some entries were rewound and others forked, or every entry was estimated both ways.
    """
    there = set(_methods(loops).tolist())
    rewound = LoopMethod.REWIND in there
    forked = bool(there & {LoopMethod.FORK, LoopMethod.MISMATCH})
    if (rewound and forked) or (not rewound and LoopMethod.CHECKED in there):
        method = "both"
    elif rewound or forked:
        method = "rewind" if rewound else "fork"
    else:
        method = "in place" if LoopMethod.IN_PLACE in there else "not estimated"
    pages = loops["pages"][loops["rewinds"] > 0]
    return Estimation(method, _reasons(loops), float(np.median(pages)) if len(pages) else math.nan)


def _reasons(loops: Array) -> str:
    """The reasons for forks, the most frequent first, with the number of entries unless one reason holds for all."""
    forked = loops[refused(loops)]
    reason = np.where(forked["method"] == LoopMethod.MISMATCH, ForkReason.MISMATCH, forked["reason"])
    pairs, counts = np.unique(np.stack([reason, forked["detail"]]).astype(np.int64), axis=1, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    words = [reason_in_words(*pairs[:, i].tolist()) for i in order]
    if len(words) == 1 and len(forked) == np.count_nonzero(_methods(loops) != LoopMethod.NONE):
        return words[0]
    listed = [
        f"{text} ({count:,} of {len(loops):,} entries)"
        for text, count in zip(words, counts[order].tolist(), strict=True)
    ]
    more = [f"{len(listed) - _MOST_REASONS} more"] if len(listed) > _MOST_REASONS else []
    return "; ".join([*listed[:_MOST_REASONS], *more])


# ---- a run -----------------------------------------------------------------------------------------------------------


def _refusal_by_the_system(loops: Array) -> str:
    """Why this system does not allow rewinding, in words; "" if it does, or was not asked to."""
    details = loops["detail"][loops["reason"] == ForkReason.SYSTEM]
    return _system(int(details[0])) if len(details) else ""


def continuation_line(stats: Mapping[str, float], loops: Array) -> str:
    """A line for a run's summary: how many continuations were rewound and forked; "" if there were none."""
    counts = {name: int(stats.get(name, 0)) for name in ("rewinds", "forks", "rewinds_refused")}
    if not counts["rewinds"] and not counts["forks"]:
        return ""
    line = f"continuations: {counts['rewinds']:,} rewound, {counts['forks']:,} forked"
    refusal = _refusal_by_the_system(loops)
    if not refusal and counts["rewinds_refused"]:
        refusal = f"loop entries that could not be rewound: {counts['rewinds_refused']:,}"
    return f"{line} ({refusal})" if refusal else line


def report_continuations(columns: Columns, sites: Sequence[Site]) -> None:
    """Log once that the system does not allow rewinding; warn of loops whose rewound and forked estimates differ."""
    loops = columns.loops
    if refusal := _refusal_by_the_system(loops):
        _log.info("%s: continuations were forked, which takes longer and gives the same numbers", refusal)
    odd = loops["site"][loops["method"] == LoopMethod.MISMATCH]
    if not len(odd):
        return
    numbers, counts = np.unique(odd, return_counts=True)
    entries = {number: int(np.count_nonzero(loops["site"] == number)) for number in numbers.tolist()}
    listed = ", ".join(
        f'"{sites[number].address}" ({count:,} of {entries[number]:,} entries)'
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
    )
    warnings.warn(
        f"rewound and forked continuations gave different numbers in loop {listed}. The forked numbers were used, and "
        "the loop was forked from then on. Either this is a bug in libars, worth reporting, or the simulator has "
        'undefined behaviour, such as reading memory that it never wrote. continuations="fork" avoids rewinding '
        "altogether",
        ContinuationWarning,
        stacklevel=outside(),
    )
