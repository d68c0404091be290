"""SITES, and the table that they fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, DistKind, Message, SiteKind
from ars.columns import Site
from ars.wire.frames import HEADER, Array, Bytes, expect, header_bytes, pad, read_name, refuse

_SITE = DTYPES["site"]
SIMULATED = frozenset(native.N_PARAMS)  # kinds that a simulator can draw from
SITE_KINDS = {
    SiteKind.SAMPLE: "a latent",
    SiteKind.OBSERVE: "an observation",
    SiteKind.RESULT: "a result",
    SiteKind.LOOP: "a loop",
}


class SiteTable:
    """The sites announced so far; ids count up from 0."""

    def __init__(self, sites: Sequence[Site] = ()) -> None:
        self._sites: list[Site] = []
        self._known: set[tuple[SiteKind, str]] = set()
        self.kinds: npt.NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)  # by number
        self.dists: npt.NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)  # 0: none
        self.add(sites)

    def add(self, sites: Sequence[Site]) -> None:
        """Appends; an id out of order or an address that is already there is refused."""
        for site in sites:
            if site.id != len(self._sites):
                refuse(Message.SITES, f"id {site.id}, the next one is {len(self._sites)}")
            if (site.kind, site.address) in self._known:
                refuse(Message.SITES, f"{site.kind.name.lower()} site {site.address!r} comes twice")
            self._known.add((site.kind, site.address))
            self._sites.append(site)
        self.kinds = np.concatenate([self.kinds, np.array([site.kind for site in sites], dtype=np.uint8)])
        self.dists = np.concatenate([self.dists, np.array([site.dist or 0 for site in sites], dtype=np.uint8)])

    def __len__(self) -> int:
        return len(self._sites)

    def __getitem__(self, site: int) -> Site:
        return self._sites[site]

    def all(self) -> tuple[Site, ...]:
        return tuple(self._sites)

    def check(self, message: Message, what: str, ids: Array, kind: SiteKind) -> None:
        """Refuses ids that are unknown or name a site of another kind."""
        if ids.size == 0:
            return
        if int(ids.max()) >= len(self._sites):
            refuse(message, f"{what}: site {int(ids.max())} is unknown ({len(self._sites)} are known)")
        wrong = np.flatnonzero(self.kinds[ids] != kind)
        if wrong.size:
            site = self._sites[int(ids[wrong[0]])]
            refuse(message, f"{what}: site {site.address!r} is {SITE_KINDS[site.kind]}, not {SITE_KINDS[kind]}")


def encode_sites(sites: Sequence[Site], run: int = 0) -> bytes:
    """What a host sends; and what a controller sends to a new host of the same simulator."""
    parts: list[bytes] = []
    for site in sites:
        name = site.address.encode("utf-8")
        parts.append(np.array([(site.id, site.kind, site.dist or 0, len(name), 0)], dtype=_SITE).tobytes())
        parts.append(name.ljust(pad(len(name)), b"\0"))
    body = b"".join(parts)
    return header_bytes(Message.SITES, HEADER.itemsize + len(body), len(sites), run).tobytes() + body


def decode_sites(frame: Bytes) -> list[Site]:
    kind = Message.SITES
    header = expect(frame, kind)
    body = memoryview(frame)
    if not 1 <= header.count <= native.MAX_SITES:
        refuse(kind, f"count {header.count}, must be 1 to {native.MAX_SITES}")
    sites: list[Site] = []
    at = HEADER.itemsize
    for _ in range(header.count):
        if at + _SITE.itemsize > len(body):
            refuse(kind, f"count {header.count}, but the frame ends after {len(sites)} sites")
        raw = np.frombuffer(body, dtype=_SITE, count=1, offset=at)[0]
        name, at = read_name(kind, body, at + _SITE.itemsize, int(raw["name_size"]))
        sites.append(_site(raw, name))
    if at != len(body):
        refuse(kind, f"{len(body) - at} bytes after the last site")
    return sites


def _site(raw: Any, name: str) -> Site:
    number, dist = int(raw["id"]), int(raw["dist"])
    if number >= native.MAX_SITES:
        refuse(Message.SITES, f"id {number}, there are at most {native.MAX_SITES} sites")
    try:
        kind = SiteKind(int(raw["kind"]))
    except ValueError:
        refuse(Message.SITES, f"site {name!r}: kind {int(raw['kind'])} is unknown")
    if kind is SiteKind.SAMPLE and dist not in SIMULATED:
        refuse(Message.SITES, f"site {name!r}: dist {dist} is not a simulator's distribution")
    if kind is SiteKind.OBSERVE and dist and dist not in SIMULATED:  # a factor has none
        refuse(Message.SITES, f"site {name!r}: dist {dist} is not a simulator's distribution")
    if kind in (SiteKind.RESULT, SiteKind.LOOP) and dist:
        refuse(Message.SITES, f"site {name!r}: dist {dist}, a {kind.name.lower()} has none")
    if raw["reserved"]:
        refuse(Message.SITES, f"site {name!r}: reserved is not 0")
    return Site(number, kind, DistKind(dist) if dist else None, name)
