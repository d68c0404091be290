"""A simulator in a few lines of Python, run by plans as libars runs one: for tests of moves and of their ratio.

A switch x decides how likely a loop is to accept, and whether a latent more is drawn. The loop of the second model has
another one inside. Only x matters for the data, so its posterior is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ars._native import DistKind
from ars.mcmc.moves import Move, Plan
from ars.mcmc.ratio import log_ratio
from ars.mcmc.states import Entry, Key, State

KINDS = {
    "x": DistKind.BERNOULLI,
    "first/a": DistKind.UNIFORM,
    "more": DistKind.UNIFORM,
    "outer/u": DistKind.UNIFORM,
    "outer/inner/v": DistKind.UNIFORM,
}
P_FIRST = (0.25, 0.9)  # p(A) of the first loop, by x
POSTERIOR = 0.4  # of x = 1


class Rejected(Exception):
    """A try that used a given value was rejected."""


@dataclass
class Trace:
    """A trace under way. Uniform latents, and one switch."""

    plan: Plan
    rng: np.random.Generator
    runs: int  # M
    samples: list[tuple[Key, float, float, int]] = field(default_factory=list)
    entries: list[list[int | str]] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    open: list[int] = field(default_factory=list)
    given: list[bool] = field(default_factory=list)  # per open loop: a value was given in the present try

    def sample(self, name: str) -> float:
        key = (name, self.used.get(name, 0))
        self.used[name] = key[1] + 1
        value = self.plan.offered.get(key)
        if value is None:
            value = self.rng.random() if name != "x" else float(self.rng.random() < 0.5)
        else:
            if not 0.0 <= value <= 1.0:
                raise Rejected
            self.given = [True] * len(self.given)
        log_p = math.log(0.5) if name == "x" else 0.0
        self.samples.append((key, value, log_p, self.open[-1] if self.open else -1))
        return value

    def loop(self, address: str, body: Callable[[Trace], bool]) -> None:
        index = len(self.entries)
        instance = self.used.get(address, 0)
        tries_p = 0
        for _ in range(self.runs):
            while True:
                tries_p += 1
                if body(Trace(Plan(None, {}), self.rng, 0)):
                    break
        self.used[address] = instance + 1
        self.entries.append([address, instance, self.open[-1] if self.open else -1, 1, self.runs, tries_p])
        self.open.append(index)
        self.given.append(False)
        marks = len(self.samples), dict(self.used)
        while not body(self):
            if self.given[-1]:
                raise Rejected
            del self.samples[marks[0] :], self.entries[index + 1 :]
            self.used = dict(marks[1])
            self.entries[index][3] = int(self.entries[index][3]) + 1
        self.open.pop()
        inside = self.given.pop()
        if inside:
            self.given = [True] * len(self.given)


Model = Callable[[Trace], float]


def one_loop(t: Trace) -> float:
    """A loop, and a latent more where x is 1. Returns the log likelihood."""
    x = int(t.sample("x"))
    t.loop("first", lambda t: t.sample("first/a") < P_FIRST[x])
    if x:
        t.sample("more")
    return math.log(POSTERIOR if x else 1.0 - POSTERIOR)


def two_loops(t: Trace) -> float:
    """A loop with another one inside. Returns the log likelihood."""
    x = int(t.sample("x"))

    def outer(t: Trace) -> bool:
        u = t.sample("outer/u")
        t.loop("outer/inner", lambda t: t.sample("outer/inner/v") < 0.3 + 0.6 * u)
        return u + t.samples[-1][1] > (0.3 if x else 1.1)

    t.loop("outer", outer)
    return math.log(POSTERIOR if x else 1.0 - POSTERIOR)


def run(model: Model, plan: Plan, rng: np.random.Generator, runs: int) -> State:
    """A trace of the model as a state."""
    t = Trace(plan, rng, runs)
    possible, log_likelihood = True, -math.inf
    try:
        log_likelihood = model(t)
    except Rejected:
        possible = False
    keys = tuple(sample[0] for sample in t.samples)
    return State(
        0,
        keys,
        [sample[1] for sample in t.samples],
        [sample[2] for sample in t.samples],
        [0.0] * len(keys),
        [sample[3] for sample in t.samples],
        [Entry(*entry) for entry in t.entries],  # type: ignore[arg-type]
        log_likelihood,
        possible,
        place={key: i for i, key in enumerate(keys)},
    )


def chain(model: Model, moves: list[Move], steps: int, runs: int, seed: int) -> np.ndarray:
    """The value of x after every move of a chain."""
    rng = np.random.default_rng(seed)
    state = run(model, Plan(None, {}), rng, runs)
    state.log_inverse = [math.log((e.tries_p + e.tries - 1) / e.runs) for e in state.entries]
    found = np.empty(steps)
    for step in range(steps):
        move = moves[int(rng.integers(len(moves)))]
        targets = move.targets(state)
        if targets:
            plan = move.plan(state, targets[int(rng.integers(len(targets)))], rng)
            new = run(model, plan, rng, runs)
            ratio = log_ratio(state, new, move, plan)
            if math.log(1.0 - rng.random()) < ratio.log:
                new.log_inverse = ratio.log_inverse
                state = new
        found[step] = state.values[0]
    return found
