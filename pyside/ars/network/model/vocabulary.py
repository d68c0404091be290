"""The sites that a network knows, in the order in which it met them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ars._native import MAX_CATEGORIES, DistKind

__all__ = ["SiteSpec", "Vocabulary"]


class SiteSpec(NamedTuple):
    """A latent: its address, the kind of its prior, and the number of the prior's parameters (k for Categorical)."""

    address: str
    kind: DistKind
    n_params: int


class Vocabulary:
    """An append-only list of sites: an index, once given, keeps its meaning. It may grow in mid-training."""

    def __init__(self, sites: Iterable[SiteSpec] = ()) -> None:
        self._sites: list[SiteSpec] = []
        self._index: dict[str, int] = {}
        self._categories = 0
        for site in sites:
            if site.address in self._index:
                raise ValueError(f"{site.address!r} is in the list of sites twice")
            self.add(site)

    def add(self, site: SiteSpec) -> int:
        """The index of this site, which is appended if it is new.

        A Categorical met with more categories than before is widened. Another kind of prior is a ValueError.
        """
        site = SiteSpec(site.address, DistKind(site.kind), int(site.n_params))
        if site.kind is DistKind.CATEGORICAL and not 1 <= site.n_params <= MAX_CATEGORIES:
            raise ValueError(f"{site.address!r}: {site.n_params} categories, must be from 1 to {MAX_CATEGORIES}")
        index = self._place(site)
        if site.kind is DistKind.CATEGORICAL:
            self._categories = max(self._categories, site.n_params)
        return index

    def _place(self, site: SiteSpec) -> int:
        index = self._index.get(site.address)
        if index is None:
            self._index[site.address] = len(self._sites)
            self._sites.append(site)
            return len(self._sites) - 1
        known = self._sites[index]
        if known.kind is not site.kind:
            raise ValueError(
                f"{site.address!r} has a {site.kind.name} prior here, but the network knows it with a "
                f"{known.kind.name} prior; was it trained for another version of the simulator?"
            )
        if site.n_params > known.n_params:
            self._sites[index] = site
        return index

    def index(self, address: str) -> int:
        """The index of an address; -1 if it is not known."""
        return self._index.get(address, -1)

    @property
    def categories(self) -> int:
        """The largest number of categories of any site; 0 if none is Categorical. Asked for while requests wait."""
        return self._categories

    def copy(self) -> Vocabulary:
        return Vocabulary(self._sites)

    def __getitem__(self, index: int) -> SiteSpec:
        return self._sites[index]

    def __iter__(self) -> Iterator[SiteSpec]:
        return iter(self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def __contains__(self, address: object) -> bool:
        return address in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._sites == other._sites

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"Vocabulary({self._sites!r})"
