"""What a simulator may use: time, tries, processes, memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ars.arguments import integer, seconds

__all__ = ["Limits", "half_of_memory"]

_MOST_SNAPSHOTS = 1024  # ARS__MAX_SNAPSHOTS
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def half_of_memory() -> int:
    """Half of what this machine, or this container, has, in bytes."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP.read_text()))
    return total // 2


@dataclass(frozen=True)
class Limits:
    """The limits of a Simulator; each is an argument of it, and an option of the commands that start one."""

    trace_timeout: float = 60.0  # seconds of a trace's own time (no waiting for proposals or a core); 0: none
    try_timeout: float = 0.0  # seconds of one try of a loop; 0: none but that of the trace
    max_tries: int = 10_000_000  # of one entry of a loop, and of one continuation
    max_snapshots: int | None = None  # per worker, so loops that one trace may enter; None: 256
    max_processes: int = 4096  # workers, snapshots and continuations alive at once
    max_memory: int | None = (
        None  # bytes per process, on top of what the initialised simulator has; 0: none; None: half
    )

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "trace_timeout", seconds("trace_timeout", self.trace_timeout, zero=True))
        set_(self, "try_timeout", seconds("try_timeout", self.try_timeout, zero=True))
        set_(self, "max_tries", integer("max_tries", self.max_tries, 1, 2**63))
        set_(self, "max_processes", integer("max_processes", self.max_processes, 3, 2**31))
        if self.max_snapshots is not None:
            set_(self, "max_snapshots", integer("max_snapshots", self.max_snapshots, 1, _MOST_SNAPSHOTS))
        if self.max_memory is not None:
            set_(self, "max_memory", integer("max_memory", self.max_memory, 0, 2**61))

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables that tell libars; what the user has set already stays."""
        memory = half_of_memory() if self.max_memory is None else self.max_memory
        wanted = {"ARS_MAX_PROCESSES": str(self.max_processes)}
        if self.max_snapshots is not None:
            wanted["ARS_SNAPSHOTS"] = str(self.max_snapshots)
        if memory:
            wanted["ARS_MAX_MEMORY"] = str(memory)
        return {name: value for name, value in wanted.items() if not given.get(name)}
