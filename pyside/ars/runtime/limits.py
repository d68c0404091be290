"""What a simulator may use: time, tries, processes, memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ars._native import LIMITS
from ars.arguments import integer, seconds

__all__ = ["Limits", "half_of_memory", "limited"]

_CGROUP = Path("/sys/fs/cgroup/memory.max")


def half_of_memory() -> int:
    """Half of what this machine, or this container, has, in bytes."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CGROUP.read_text()))
    return total // 2


def limited(name: str, value: object) -> int:
    """The value as an integer within the bounds that the table has for this setting."""
    return integer(name, value, LIMITS[name].least, LIMITS[name].most)


@dataclass(frozen=True)
class Limits:
    """The limits of a Simulator; each is an argument of it, and an option of the commands that start one.

    Their defaults and meanings are in bridge/common/limits_table.h.
    """

    trace_timeout: float = float(LIMITS["trace_timeout"].standard)
    try_timeout: float = float(LIMITS["try_timeout"].standard)
    max_tries: int = LIMITS["max_tries"].standard
    max_snapshots: int | None = None  # None: libars takes the default, or fewer if many workers leave no room
    max_processes: int = LIMITS["max_processes"].standard
    max_memory: int | None = None  # bytes, on top of what the initialised simulator has; None: half of RAM

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "trace_timeout", seconds("trace_timeout", self.trace_timeout, zero=True))
        set_(self, "try_timeout", seconds("try_timeout", self.try_timeout, zero=True))
        set_(self, "max_tries", limited("max_tries", self.max_tries))
        set_(self, "max_processes", limited("max_processes", self.max_processes))
        if self.max_snapshots is not None:
            set_(self, "max_snapshots", limited("max_snapshots", self.max_snapshots))
        if self.max_memory is not None:
            set_(self, "max_memory", limited("max_memory", self.max_memory))

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variables that tell libars; what the user has set already stays."""
        memory = half_of_memory() if self.max_memory is None else self.max_memory
        wanted = {"ARS_MAX_PROCESSES": str(self.max_processes)}
        if self.max_snapshots is not None:
            wanted["ARS_SNAPSHOTS"] = str(self.max_snapshots)
        if memory:
            wanted["ARS_MAX_MEMORY"] = str(memory)
        return {name: value for name, value in wanted.items() if not given.get(name)}
