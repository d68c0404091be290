"""Who may include whom in bridge/: common knows neither libars nor ars-host, and those two do not know each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BRIDGE = Path(__file__).resolve().parents[2] / "bridge"
MAY_INCLUDE = {
    "include": {"include"},
    "common": {"common", "include"},
    "lib": {"lib", "common", "include"},
    "host": {"host", "common", "include"},
    "python": {"python", "common", "include"},
}
WITHOUT_HEADER = {"lib/loop_in_place.c", "lib/observe.c", "lib/vector.c", "host/main.c"}  # ars.h declares theirs


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include "(.+?)"', path.read_text(encoding="utf-8"), re.MULTILINE)


def sources(room: str) -> list[Path]:
    return sorted(path for path in (BRIDGE / room).iterdir() if path.suffix in (".c", ".h", ".hpp"))


def found(name: str, room: str) -> list[Path]:
    """The file that `#include "name"` in this room means, as the build's include directories have it."""
    rooms = [room, *sorted(MAY_INCLUDE[room] - {room})]
    return [BRIDGE / other / name for other in rooms if (BRIDGE / other / name).is_file()]


@pytest.mark.parametrize("room", MAY_INCLUDE)
def test_a_room_includes_only_what_it_may_know(room: str) -> None:
    assert sources(room)
    for path in sources(room):
        for name in includes(path):
            assert "/" not in name, f"{path.name} includes {name} by its path, around the build's include directories"
            assert len(found(name, room)) == 1, f"{path.name} includes {name}, which {room} does not know, or has twice"


def test_adapters_include_the_installed_names_only() -> None:
    """A header of include/ars is copied beside ars.h, wherever that is."""
    adapters = sorted(path for path in (BRIDGE / "include" / "ars").rglob("*") if path.is_file())
    assert adapters
    for path in adapters:
        assert includes(path) == [], f"{path.name}: <ars.h> and <ars/...>, which -I finds"


@pytest.mark.parametrize("room", ["lib", "host"])
def test_every_module_has_a_header_of_its_own_and_includes_it(room: str) -> None:
    for path in (path for path in sources(room) if path.suffix == ".c"):
        if f"{room}/{path.name}" not in WITHOUT_HEADER:
            assert f"{path.stem}.h" in includes(path)


def test_no_header_includes_itself_by_way_of_others() -> None:
    def walk(path: Path, above: tuple[Path, ...]) -> None:
        assert path not in above, " -> ".join(step.name for step in (*above, path))
        for name in includes(path):
            walk(found(name, path.parent.name)[0], (*above, path))

    for room in MAY_INCLUDE:
        for path in sources(room):
            walk(path, ())


@pytest.mark.parametrize("room", MAY_INCLUDE)
def test_files_fit_in_a_head(room: str) -> None:
    assert [path.name for path in sources(room) if len(path.read_text(encoding="utf-8").splitlines()) > 450] == []
