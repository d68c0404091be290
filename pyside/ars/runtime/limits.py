"""What a simulator may use: time, tries, processes, memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ars._native import LIMITS
from ars.arguments import integer, seconds

__all__ = ["Limits", "half_of_memory", "limited"]

_CGROUP = Path("/sys/fs/cgroup/memory.max")
_OF_THE_PROCESSES = ("max_restarts", "startup_timeout")  # which no trace notices


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
    """Limits of a simulator, for ``Simulator(limits=...)``. Each is also an argument of Simulator.

    Parameters
    ----------
    trace_timeout : float
        Time limit per trace in seconds, 0 for no limit (default: 60 s). Waiting for proposals or for a
        core does not count. Hand-written proposals may take the same time again.
    try_timeout : float
        Time limit per try of a loop in seconds, 0 for no limit (default: no limit).
    max_tries : int
        Tries per loop entry, and per continuation (default: 10,000,000).
    max_snapshots : int or None
        Snapshots per worker, which limits the loops that a trace may enter (default: None, 256, or fewer if many
        workers leave no room).
    max_processes : int
        Workers, snapshots and continuations alive at once (default: 4,096).
    max_memory : int or None
        Bytes that each process may allocate on top of those of the initialised simulator, 0 for no limit
        (default: None, half of RAM).
    max_restarts : int
        Consecutive restarts of a lost simulator without a finished trace (default: 3).
    startup_timeout : float
        Seconds until the simulator begins its first trace (default: 60 s).

    Raises
    ------
    TypeError, ValueError
        If a limit is not a number, or out of range. The message names the field.

    Notes
    -----
    Defaults and ranges come from bridge/common/limits_table.h, which libars and ``--help`` also read.

    Examples
    --------
    >>> Limits(trace_timeout=5, max_memory=2 << 30).max_restarts
    3
    """

    trace_timeout: float = float(LIMITS["trace_timeout"].standard)
    try_timeout: float = float(LIMITS["try_timeout"].standard)
    max_tries: int = LIMITS["max_tries"].standard
    max_snapshots: int | None = None  # None: libars takes the default, or fewer if many workers leave no room
    max_processes: int = LIMITS["max_processes"].standard
    max_memory: int | None = None  # None: half of RAM
    max_restarts: int = LIMITS["max_restarts"].standard
    startup_timeout: float = float(LIMITS["startup_timeout"].standard)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if LIMITS[field.name].unit == "s":
                checked: float = seconds(field.name, value, zero=field.name != "startup_timeout")
            elif value is None and field.default is None:
                continue
            else:
                checked = limited(field.name, value)
            object.__setattr__(self, field.name, checked)

    def of_a_trace(self) -> dict[str, float | int | None]:
        """The limits that can turn a finished trace into a failed one, or the reverse: they belong to a run's identity,
        and to the command that repeats one of its traces."""
        return {name: value for name, value in asdict(self).items() if name not in _OF_THE_PROCESSES}

    def changed(self, given: Mapping[str, Any]) -> Limits:
        """These limits, with the given ones replaced; None leaves a limit unchanged."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment variables for libars; variables that the user has set are kept."""
        memory = half_of_memory() if self.max_memory is None else self.max_memory
        wanted = {"ARS_MAX_PROCESSES": str(self.max_processes)}
        if self.max_snapshots is not None:
            wanted["ARS_SNAPSHOTS"] = str(self.max_snapshots)
        if memory:
            wanted["ARS_MAX_MEMORY"] = str(memory)
        return {name: value for name, value in wanted.items() if not given.get(name)}
