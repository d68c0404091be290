"""What a benchmark ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["CpuTicks", "cpu_ticks", "describe"]


class CpuTicks(NamedTuple):
    """Of all cores since the machine was started. ``stolen``: a hypervisor had given them to somebody else."""

    total: int
    stolen: int

    def stolen_since(self, before: CpuTicks) -> float:
        """The share of the time that was stolen in between."""
        return (self.stolen - before.stolen) / max(self.total - before.total, 1)


def cpu_ticks(stat: str | os.PathLike[str] = "/proc/stat") -> CpuTicks:
    """proc(5): user, nice, system, idle, iowait, irq, softirq, steal; what comes after is part of the first two."""
    fields = [int(field) for field in Path(stat).read_text().partition("\n")[0].split()[1:9]]
    return CpuTicks(sum(fields), fields[7])


def _line(path: str, key: str) -> str:
    """What follows ``key`` and a colon in a file of /proc; empty if it is not there."""
    try:
        for line in Path(path).read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    except OSError:
        pass
    return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def describe() -> dict[str, Any]:
    """Cores, memory, kernel, versions; and the load, which says whether the machine had something else to do."""
    memory = _line("/proc/meminfo", "MemTotal").split()
    return {
        "cpu": _line("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int(memory[0]) / 2**20, 1) if memory else 0.0,
        "kernel": platform.release(),
        "transparent_hugepage": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
        "libars": _version("libars"),
        "torch": _version("torch"),
        "numpy": _version("numpy"),
        "pyzmq": _version("pyzmq"),
    }
