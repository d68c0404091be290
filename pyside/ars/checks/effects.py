"""Do the tries of a loop reach outside the process? Continuations repeat a loop's body, system calls included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ars._native import ForkReason, LoopMethod, SiteKind
from ars.checks.findings import Finding
from ars.columns import Columns, Site
from ars.results.system_calls import system_call

__all__ = ["check_effects"]

_GUARD: Final = "Guard side effects with ars_in_continuation(), or move them out of the loop."


def check_effects(columns: Columns, sites: Sequence[Site]) -> list[Finding]:
    """Look at how the loops were estimated.

    Parameters
    ----------
    columns : Columns
        Traces whose loops were estimated both ways, rewound and forked.
    sites : sequence of Site
        Their sites.

    Returns
    -------
    list of Finding
        At least one per loop that was entered.
    """
    found = []
    for site in sites:
        entries = columns.loops[columns.loops["site"] == site.id]
        if site.kind is not SiteKind.LOOP or not len(entries):
            continue
        where = f'loop "{site.address}"'
        if np.any(entries["method"] == LoopMethod.MISMATCH):
            text = (
                f"{where}: a rewound and a forked continuation of the same entry gave different numbers. The body has "
                "undefined behaviour, such as reading memory that it never wrote, or reads something that changes "
                "outside the process."
            )
            found.append(Finding("effects", "broken", text, site.address))
            continue
        calls = entries["detail"][entries["reason"] == ForkReason.SYSCALL]
        if len(calls):
            listed = ", ".join(sorted({system_call(int(number)) for number in calls}))
            text = f"{where}: its tries make calls that cannot be undone: {listed}. {_GUARD}"
            found.append(Finding("effects", "suspect", text, site.address))
        elif not np.any(entries["runs_p"] > 0):
            found.append(Finding("effects", "not checked", f"{where} was not estimated.", site.address))
        else:
            found.append(Finding("effects", "kept", "", site.address))
    return found
