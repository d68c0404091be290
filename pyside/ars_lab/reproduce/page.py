"""The Markdown page of an experiment: method, data and results."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ars_lab.reproduce.workspace import write_atomically

__all__ = ["Page", "hardware", "publish", "settings_lines"]


def hardware() -> dict[str, Any]:
    """The machine, as far as it tells."""
    model = platform.processor() or platform.machine()
    memory = None
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
        total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
        memory = round(int(total.split()[1]) / 2**20, 1)
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "libars": _version("libars"),
        "torch": _version("torch"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def settings_lines(settings: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Nested settings as a list."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from settings_lines(value, f"{prefix}{name}.")
        else:
            yield f"- `{prefix}{name}`: {value}"


def publish(folder: Path, to: Path) -> None:
    """Copies what a reader wants of an experiment's folder: all but the stages."""
    to.mkdir(parents=True, exist_ok=True)
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            write_atomically(to / file.name, partial(_copy, file))


def _copy(file: Path, to: Path) -> None:
    to.write_bytes(file.read_bytes())


class Page:
    """Collects sections, then is written whole."""

    def __init__(self, title: str) -> None:
        self._parts = [f"# {title}"]

    def text(self, *paragraphs: str) -> None:
        self._parts += paragraphs

    def section(self, title: str, *paragraphs: str) -> None:
        self._parts += [f"## {title}", *paragraphs]

    def figure(self, name: str, caption: str) -> None:
        self._parts.append(f"![{caption}]({name}.png)\n\n*{caption}* ([PDF]({name}.pdf))")

    def write(self, path: Path) -> None:
        text = "\n\n".join(self._parts) + "\n"

        def write(file: Path) -> None:
            file.write_text(text)

        write_atomically(path, write)
