"""How a run went, in numbers that only the controller and its host know."""

from __future__ import annotations

from typing import NamedTuple

from ars.wire import Done

__all__ = ["RunSummary"]


class RunSummary(NamedTuple):
    """How a run, or a part of one, went. What traces say of themselves is not here: it is in them."""

    done: Done | None  # the host's counters; None if it was lost, and they with it
    lost_traces: int  # that had come when the host was lost
    seconds: float
    messages_sent: int
    messages_received: int
    steps_messages: int
    requests: int

    def stats(self) -> dict[str, float]:
        """The counters under the names of ``post.stats``."""
        known = {}
        if self.done is not None:
            known = {
                "workers_started": self.done.workers_started,
                "replays": self.done.replays,
                "forks_refused": self.done.forks_refused,
                "fewest_workers": self.done.fewest_workers,
            }
        return known | {
            "traces_of_lost_hosts": self.lost_traces,
            "requests": self.requests,
            "steps_messages": self.steps_messages,
            "zmq_messages_sent": self.messages_sent,
            "zmq_messages_received": self.messages_received,
            "seconds": self.seconds,
        }

    def __add__(self, other: object) -> RunSummary:
        """One after the other."""
        if not isinstance(other, RunSummary):
            return NotImplemented
        return RunSummary(
            _both(self.done, other.done),
            self.lost_traces + other.lost_traces,
            self.seconds + other.seconds,
            self.messages_sent + other.messages_sent,
            self.messages_received + other.messages_received,
            self.steps_messages + other.steps_messages,
            self.requests + other.requests,
        )


def _both(a: Done | None, b: Done | None) -> Done | None:
    if a is None or b is None:
        return a or b
    counters = {name: getattr(a, name) + getattr(b, name) for name in Done._fields}
    counters["cancelled"] = a.cancelled or b.cancelled
    counters["fewest_workers"] = min(a.fewest_workers, b.fewest_workers)
    return Done(**counters)
