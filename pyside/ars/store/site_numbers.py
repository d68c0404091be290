"""One numbering of sites for traces that come from several families of processes.

A family numbers its sites in the order in which its workers reach them, which depends on timing. Traces of two families
can be put together when the sites of both have the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ars._native import SiteKind
from ars.columns import Integers, Site, renumber

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
