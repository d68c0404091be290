"""The states of Markov chains: finished traces, as a move needs them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from ars._native import DistKind
from ars.columns import Columns, Site, offsets

__all__ = ["Entry", "Key", "Kinds", "State", "enclosing", "keys_within", "states_of"]

Key: TypeAlias = tuple[str, int]  # a latent: its address, and which use of it in the trace
Kinds: TypeAlias = Mapping[str, DistKind]  # the kind of prior of each latent, by address


class Entry(NamedTuple):
    """One entry of a rejection loop, as a trace has recorded it."""

    address: str
    instance: int
    parent: int  # index of the entry that it is inside of, or -1
    tries: int  # of the trace itself, the accepted one included
    runs: int  # M: runs under the prior from its state, each until accepted; 0: not estimated
    tries_p: int  # T: tries that they took together
    abandoned: int = 0  # 1: the trace gave this entry up


@dataclass(slots=True)
class State:
    """A trace. ``log_inverse`` has, per loop entry, the estimate of log 1/p(A) that the chain carries with it."""

    number: int  # of its trace
    keys: tuple[Key, ...]  # its latents, in the order in which they were drawn
    values: list[float]
    log_p: list[float]
    log_q: list[float]
    loop: list[int]  # per latent, the index of the innermost loop entry around it, or -1
    entries: list[Entry]
    log_likelihood: float
    possible: bool  # False: a given value was impossible, or the trace failed
    place: dict[Key, int] = field(default_factory=dict)
    log_inverse: list[float] = field(default_factory=list)
    proposed: Mapping[Key, bytes] = field(default_factory=dict)  # what a network proposed for each latent on its way

    def find(self, entry: tuple[str, int]) -> int:
        """The index of a loop entry by address and instance; -1 if there is none."""
        return next((i for i, e in enumerate(self.entries) if (e.address, e.instance) == entry), -1)


def states_of(columns: Columns, sites: Sequence[Site]) -> list[State]:
    """The traces of a run as states, in their order."""
    where = offsets(columns)
    address = [site.address for site in sites]
    samples, loops = columns.samples, columns.loops
    keys = list(zip((address[i] for i in samples["site"].tolist()), samples["instance"].tolist(), strict=True))
    values, log_p, log_q, loop = (samples[name].tolist() for name in ("value", "log_p", "log_q", "loop"))
    entries = [
        Entry(address[site], *numbers)
        for site, *numbers in zip(
            *(
                loops[name].tolist()
                for name in ("site", "instance", "parent", "tries", "runs_p", "tries_p", "abandoned")
            ),
            strict=True,
        )
    ]
    found = []
    heads = zip(*(columns.traces[name].tolist() for name in _HEAD), strict=True)
    starts, loop_starts = where.samples.tolist(), where.loops.tolist()
    for row, (number, failure, log_likelihood, log_ratio) in enumerate(heads):
        a, b = starts[row], starts[row + 1]
        mine = tuple(keys[a:b])
        found.append(
            State(
                number,
                mine,
                values[a:b],
                log_p[a:b],
                log_q[a:b],
                loop[a:b],
                entries[loop_starts[row] : loop_starts[row + 1]],
                log_likelihood,
                possible=not failure and log_ratio > -math.inf,
                place={key: i for i, key in enumerate(mine)},
            )
        )
    return found


_HEAD = ("trace", "failure", "log_likelihood", "log_ratio_accepted")


def keys_within(state: State, entry: int) -> frozenset[Key]:
    """The latents that were drawn in the accepted try of a loop entry, those of loops inside it included."""
    inside = {entry}
    for i, each in enumerate(state.entries):  # a loop is entered after those around it
        if each.parent in inside:
            inside.add(i)
    return frozenset(key for key, loop in zip(state.keys, state.loop, strict=True) if loop in inside)


@lru_cache(maxsize=4096)
def _above(address: str) -> tuple[str, ...]:
    """The addresses that this one may be inside of."""
    return tuple(address[:at] for at, letter in enumerate(address) if letter == "/")


def enclosing(keys: Iterable[Key]) -> set[str]:
    """The addresses of all loops that these latents are inside of, whichever of their entries it may be."""
    return {above for address in {key[0] for key in keys} for above in _above(address)}
