"""What proposals by hand cost: lines of Python that are executed per draw.

Run as a program, it prints the lines per draw of a trace of each size::

    python hand_cost.py draws function | draws distribution | draws elsewhere | sites | continuations
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from step_builder import Request, steps_of

import ars
from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.distributions import Distribution
from ars.proposers import HandProposer, hand, hand_states
from ars.proposers.hand_states import Drawn
from ars.wire import SiteTable

ADDRESSES = ("theta", "x", "z", "left/z", "right/z", "loop/x", "ask")
SITES = SiteTable([Site(i, SiteKind.SAMPLE, DistKind.NORMAL, address) for i, address in enumerate(ADDRESSES)])
THETA, X, Z, LEFT, RIGHT, LOOP_X, ASK = range(len(ADDRESSES))
PRIOR = ars.Normal(0.0, 1.0).encode(1)[0]

SIZES = (100, 1_000, 10_000)
LAST = 50  # draws whose lines are counted

Told = tuple[int, int, float]


class Lines:
    """How many lines of the package's Python were executed."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Lines:
        files = {hand_states.__file__, hand.__file__}

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            del frame, argument
            self.count += event == "line"
            return line

        def call(frame: FrameType, event: str, argument: Any) -> Any:
            del event, argument
            return line if frame.f_code.co_filename in files else None

        sys.settrace(call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def one_trace(proposer: HandProposer, draws: int, trace: int = 0, counted: Lines | None = None) -> int:
    """A trace that draws theta, then x again and again, and asks before each draw; the state before the last.

    ``counted``: counts the lines of the last ``LAST`` draws.
    """
    state = 0
    told: list[Told] = []
    with contextlib.ExitStack() as stack:
        for i in range(draws):
            if counted is not None and i == draws - LAST:
                stack.enter_context(counted)
            site, instance = (THETA, 0) if i == 0 else (X, i - 1)
            reply = proposer.step(steps_of([Request(trace, state, site, instance, told, PRIOR)], SITES), SITES)
            state, told = int(reply.state[0]), [(site, instance, float(instance))]
    return state


def middle(draws: int) -> Callable[[Drawn], Distribution]:
    """A proposal that looks at the first, the last and the middle one of the draws before it."""

    def propose(t: Drawn) -> Distribution:
        if "x" not in t:
            return ars.Normal(t["theta"], 1.0)
        mean = t["theta"] + t["x"] + t["x", int(t["x"][0]) // 2]
        assert "nothing" not in t
        assert t.get("z") is None
        return ars.Normal(mean, float(draws))

    return propose


def of_draws(size: int, proposed: str) -> float:
    given: dict[str, Any] = {
        "function": {"x": middle(size)},
        "distribution": {"x": ars.Normal(0.0, 1.0)},
        "elsewhere": {"z": middle(size)},
    }[proposed]
    lines = Lines()
    one_trace(HandProposer(given), size, counted=lines)
    return lines.count / LAST


def of_sites(size: int) -> float:
    sites = SiteTable([Site(i, SiteKind.SAMPLE, DistKind.NORMAL, f"loop/s{i}") for i in range(size + 1)])
    given = {f"s{i}": lambda t: ars.Normal(t["s0"], 1.0) for i in range(size - LAST, size + 1)}
    proposer = HandProposer(given)

    def ask(state: int, site: int) -> int:
        replies = proposer.step(steps_of([Request(0, state, site + 1, 0, [(site, 0, 0.5)], PRIOR)], sites), sites)
        return int(replies.state[0])

    state = 0
    for i in range(size - LAST):
        state = ask(state, i)
    with Lines() as lines:
        for i in range(size - LAST, size):
            state = ask(state, i)
    return lines.count / LAST


def of_continuations(size: int) -> float:
    """Per continuation; ``size`` is the depth of the loop that they come from."""
    proposer = HandProposer({"ask": lambda t: ars.Normal(t["theta"] + t["z"], 1.0)})
    entry = one_trace(proposer, size)
    proposer.step(steps_of([Request(0, entry, ASK, 0, [(Z, 0, 0.0)], PRIOR)], SITES), SITES)  # indexes the trunk
    with Lines() as lines:
        for i in range(200):
            told = [(LEFT if i & 1 << k else RIGHT, k, 0.1) for k in range(8)] + [(Z, 0, 0.0)]
            proposer.step(steps_of([Request(0, entry, ASK, 0, told, PRIOR)], SITES), SITES)
    return lines.count / 200


def main(of: str, *arguments: str) -> None:
    count: Callable[..., float] = {"draws": of_draws, "sites": of_sites, "continuations": of_continuations}[of]
    for size in SIZES:
        print(count(size, *arguments))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
