"""The moves of a chain: which latents of a trace are kept, which are drawn again, and from what.

A move has a target, chosen evenly among those that a state has. It names the latents that are drawn again; all others
are offered as given values, and a latent that is new in the next trace is drawn. See docs/mcmc.md for the ratio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from ars._native import DISCRETE, DistKind
from ars.mcmc.states import Key, Kinds, State, keys_within

__all__ = ["Everything", "Group", "Loop", "Move", "Plan", "Rest", "Scales", "Single", "Target", "Walk", "WalkAll"]

Target: TypeAlias = Key | None  # a latent, a loop entry (its address and instance), or nothing to choose
_NOTHING: frozenset[Key] = frozenset()
_ALONE: Sequence[Target] = (None,)


@dataclass(slots=True)
class Plan:
    """The instructions for one chain's next trace: values, and who proposes the latents that are drawn."""

    target: Target
    offered: dict[Key, float]  # values that are given where the latent turns up
    from_base: bool = False  # the network (or the proposals by hand) draw, not the prior
    only: Key | None = None  # it draws this latent alone, and the prior the others; None: all
    proposed: dict[Key, bytes] = field(default_factory=dict)  # filled in on the way

    def by_base(self, key: Key) -> bool:
        """Whether the network draws this latent if it is drawn."""
        return self.from_base and (self.only is None or key == self.only)


class Move(Protocol):
    """One kind of move."""

    @property
    def name(self) -> str:
        """For the table of acceptance."""

    @property
    def asks(self) -> bool:
        """Whether the simulator has to ask: not if the prior draws everything."""

    def targets(self, state: State) -> Sequence[Target]:
        """What can be chosen, each with the same probability."""

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        """The latents of a state that this move draws again."""

    def plan(self, state: State, target: Target, rng: np.random.Generator) -> Plan:
        """The next trace of a chain in this state."""


def _kept(state: State, redrawn: frozenset[Key]) -> dict[Key, float]:
    return {key: value for key, value in zip(state.keys, state.values, strict=True) if key not in redrawn}


# ---- moves that draw again ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Redraw:
    """What they have in common. ``from_base``: the network draws, instead of the prior."""

    name: str
    from_base: bool = False

    @property
    def asks(self) -> bool:
        return True

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        raise NotImplementedError

    def plan(self, state: State, target: Target, rng: np.random.Generator) -> Plan:
        del rng
        return Plan(target, _kept(state, self.redrawn(state, target)), self.from_base)


@dataclass(frozen=True)
class Single(_Redraw):
    """One latent."""

    among: Callable[[str], bool] | None = None  # by address; None: all

    def targets(self, state: State) -> Sequence[Target]:
        return [key for key in state.keys if self.among is None or self.among(key[0])]

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        del state
        return frozenset() if target is None else frozenset((target,))

    def plan(self, state: State, target: Target, rng: np.random.Generator) -> Plan:
        del rng
        return Plan(target, _kept(state, self.redrawn(state, target)), self.from_base, only=target)


@dataclass(frozen=True)
class Rest(_Redraw):
    """One latent, and everything that is drawn after it."""

    def targets(self, state: State) -> Sequence[Target]:
        return state.keys

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        assert target is not None
        return frozenset(state.keys[state.place[target] :]) if target in state.place else _NOTHING


@dataclass(frozen=True)
class Loop(_Redraw):
    """The accepted try of one loop entry, as a whole."""

    def targets(self, state: State) -> Sequence[Target]:
        used: set[int] = set()
        for loop in state.loop:
            while loop >= 0 and loop not in used:
                used.add(loop)
                loop = state.entries[loop].parent
        return [(state.entries[i].address, state.entries[i].instance) for i in sorted(used)]

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        assert target is not None
        entry = state.find(target)
        return keys_within(state, entry) if entry >= 0 else _NOTHING


@dataclass(frozen=True)
class Group(_Redraw):
    """All latents with one of these names or addresses."""

    names: frozenset[str] = frozenset()

    def targets(self, state: State) -> Sequence[Target]:
        return _ALONE if self.redrawn(state, None) else ()

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        del target
        return frozenset(key for key in state.keys if named(key[0], self.names))


@dataclass(frozen=True)
class Everything(_Redraw):
    """All latents: an independence move."""

    @property
    def asks(self) -> bool:
        return self.from_base

    def targets(self, state: State) -> Sequence[Target]:
        del state
        return _ALONE

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        del target
        return frozenset(state.keys)


def named(address: str, names: frozenset[str]) -> bool:
    """Whether a latent has one of these names or addresses."""
    return address in names or address.rpartition("/")[2] in names


# ---- random walks ---------------------------------------------------------------------------------------------------


def _walks(kinds: Kinds, address: str) -> bool:
    """Whether there are small steps between the values of this latent."""
    return kinds[address] is not DistKind.CATEGORICAL


class Scales:
    """How far walks go: a factor per key, adapted while the chains warm up and fixed afterwards."""

    def __init__(self, aim: float) -> None:
        self.aim = aim  # the share of accepted moves to come to
        self._log: dict[str, float] = {}
        self._updates: dict[str, int] = {}

    def start(self, address: str, scale: float) -> None:
        """A first guess."""
        self._log.setdefault(address, math.log(scale))

    def of(self, address: str) -> float:
        return math.exp(self._log.get(address, 0.0))

    def learn(self, address: str, accepted: float) -> None:
        """After a walk that was accepted with this probability."""
        n = self._updates[address] = self._updates.get(address, 0) + 1
        moved = self._log.get(address, 0.0) + (accepted - self.aim) * 2.0 / n**0.6
        self._log[address] = min(max(moved, -300.0), 300.0)


def _step(kind: DistKind, value: float, scale: float, noise: float) -> float:
    """A step that is as likely as the one back."""
    if kind is DistKind.BERNOULLI:
        return 1.0 - value
    if kind in DISCRETE:
        return value + math.copysign(1.0 + math.floor(min(abs(noise) * scale, 1e15)), noise)
    return value + scale * noise


@dataclass(frozen=True)
class Walk:
    """A step of one latent to a value nearby."""

    name: str
    kinds: Kinds
    scales: Scales
    asks = True

    def targets(self, state: State) -> Sequence[Target]:
        return [key for key in state.keys if _walks(self.kinds, key[0])]

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        del state, target
        return _NOTHING

    def plan(self, state: State, target: Target, rng: np.random.Generator) -> Plan:
        assert target is not None
        stretch, noise = rng.normal(size=2).tolist()
        scale = self.scales.of(target[0]) * math.exp(0.5 * stretch)
        offered = _kept(state, _NOTHING)
        offered[target] = _step(self.kinds[target[0]], offered[target], scale, noise)
        return Plan(target, offered)


@dataclass(frozen=True)
class WalkAll:
    """Steps of several latents at once, to values nearby. Without names: of all that are no counts or categories."""

    name: str
    kinds: Kinds
    scales: Scales  # of single walks, times that of the whole
    whole: Scales
    names: frozenset[str] | None = None
    asks = True

    def _walkers(self, state: State) -> list[Key]:
        if self.names is not None:
            return [key for key in state.keys if _walks(self.kinds, key[0]) and named(key[0], self.names)]
        return [key for key in state.keys if self.kinds[key[0]] not in DISCRETE]

    def targets(self, state: State) -> Sequence[Target]:
        return _ALONE if self._walkers(state) else ()

    def redrawn(self, state: State, target: Target) -> frozenset[Key]:
        del state, target
        return _NOTHING

    def plan(self, state: State, target: Target, rng: np.random.Generator) -> Plan:
        walkers = self._walkers(state)
        stretch, *noises = rng.normal(size=1 + len(walkers)).tolist()
        size = self.whole.of(self.name) * math.exp(0.5 * stretch)
        offered = _kept(state, _NOTHING)
        for key, noise in zip(walkers, noises, strict=True):
            offered[key] = _step(self.kinds[key[0]], offered[key], size * self.scales.of(key[0]), noise)
        return Plan(target, offered)
