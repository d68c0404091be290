"""One numbering of sites for traces that come from several families of processes.

A family numbers its sites in the order in which its workers reach them, which depends on timing. Traces of two families
can be put together when the sites of both have the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ars._native import SiteKind
from ars.columns import Array, Columns, Integers, Site

__all__ = ["SiteNumbers", "renumber"]


class SiteNumbers:
    """A table of sites that only grows."""

    def __init__(self) -> None:
        self._sites: list[Site] = []
        self._number: dict[tuple[SiteKind, str], int] = {}

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(self._sites)

    def adopt(self, sites: Sequence[Site]) -> Integers | None:
        """Adds the sites that are not in the table yet.

        Returns
        -------
        array or None
            The number in the table of each of ``sites``; None if all have their own.
        """
        numbers = []
        for site in sites:
            number = self._number.setdefault((site.kind, site.address), len(self._sites))
            if number == len(self._sites):
                self._sites.append(site._replace(id=number))
            numbers.append(number)
        return None if numbers == list(range(len(sites))) else np.array(numbers, dtype=np.int64)


def renumber(columns: Columns, numbers: Integers | None) -> Columns:
    """The same traces with other numbers for their sites; without numbers, the columns as they are."""
    if numbers is None:
        return columns
    items = ("samples", "observes", "results", "loops", "tries", "rejected")
    changed = {name: _renumbered(getattr(columns, name), ("site",), numbers) for name in items}
    return columns._replace(**changed, failures=_renumbered(columns.failures, ("site", "loop"), numbers))


def _renumbered(items: Array, fields: Sequence[str], numbers: Integers) -> Array:
    changed = items.copy()
    for field in fields:
        known = items[field] < len(numbers)  # a failure may name none, or one that was not announced
        changed[field][known] = numbers[items[field][known]]
    return changed
