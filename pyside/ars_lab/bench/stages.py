"""Where the controller's time goes: its stages, timed from outside while a benchmark looks.

The controller itself has no instrumentation, so none of it costs anything otherwise: ``watch`` wraps a few functions
and puts them back. Times are CPU seconds of the thread, so waiting does not count, and a stage's own: what it
calls that is another stage is that one's.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["STAGES", "Stages", "watch"]

# stage -> the functions that belong to it: module, name in it
STAGES: dict[str, tuple[tuple[str, str], ...]] = {
    "receive": (("ars.runtime.session", "Session._inbox"),),
    "embed": (
        ("ars.network.model.core", "ProposalNetwork.inputs"),
        ("ars.network.serve.serving", "ServingNetwork.questions"),
        ("ars.network.serve.serving", "ServingNetwork.value"),
    ),
    "lstm": (
        ("ars.network.model.core", "ProposalNetwork.advance"),
        ("ars.network.serve.serving", "ServingNetwork.advance"),
    ),
    "heads": (
        ("ars.network.model.core", "ProposalNetwork.propose"),
        ("ars.network.serve.serving", "ServingNetwork.propose"),
    ),
    "states": (
        ("ars.network.serve.proposer", "NetworkProposer.step"),
        ("ars.network.serve.proposer", "NetworkProposer.end_trace"),
    ),
    "reply": (("ars.wire", "encode_replies"), ("ars.runtime.session", "Session._send")),
}


class Stages:
    """What was seen: seconds and calls by stage, and how large the batches were."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self.batches: Counter[int] = Counter()
        self.total = 0.0
        self._open: list[float] = []  # time that stages within the open ones have taken

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        counts_rows = stage == "states" and function.__name__ == "step"

        @functools.wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            self._open.append(0.0)
            began = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.thread_time() - began
                self.seconds[stage] += spent - self._open.pop()
                self.calls[stage] += 1
                if self._open:
                    self._open[-1] += spent
                if counts_rows:
                    self.batches[len(arguments[1])] += 1

        return wrapper


def _place(module: str, name: str) -> tuple[Any, str] | None:
    """The object that holds the function, and its name there; None if this version has none."""
    try:
        holder: Any = importlib.import_module(module)
    except ImportError:
        return None
    *path, last = name.split(".")
    for part in path:
        holder = getattr(holder, part, None)
    return (holder, last) if holder is not None and last in vars(holder) else None


@contextlib.contextmanager
def watch() -> Iterator[Stages]:
    """Times the stages of everything that this thread's controller does meanwhile."""
    stages = Stages()
    began = time.thread_time()
    with contextlib.ExitStack() as stack:
        for stage, functions in STAGES.items():
            for module, name in functions:
                if (place := _place(module, name)) is None:
                    continue
                holder, last = place
                original = vars(holder)[last]
                setattr(holder, last, stages.timed(stage, original))
                stack.callback(setattr, holder, last, original)
        yield stages
        stages.total = time.thread_time() - began
