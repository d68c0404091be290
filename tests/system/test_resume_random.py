"""200 random edits of a run's folder, and of its simulator: each resume is refused, or right to the last bit."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from resume_tools import Bits, compile_library, compile_simulator, in_pieces, put, run

import ars
from ars.errors import StorageError

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

ENDS = (8, 16, 24)
TRACES = 32
ROUNDS = 200


class Place(NamedTuple):
    """A run's folder, the simulator beside it, and what the edits take from elsewhere."""

    folder: Path
    builds: Path
    others: tuple[Path, ...]  # folders of other runs
    random: random.Random

    def chunks(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("chunk-*") if path.is_file())

    def file(self) -> Path:
        """A chunk, or run.json if it is there."""
        return self.random.choice([self.chunk(), self.chunk(), *self.folder.glob("run.json")])

    def chunk(self) -> Path:
        return self.random.choice(self.chunks())


def delete(place: Place) -> None:
    place.chunk().unlink()


def truncate(place: Place) -> None:
    path = place.file()
    os.truncate(path, place.random.randrange(max(path.stat().st_size, 1)))


def flip(place: Place) -> None:
    path = place.file()
    raw = bytearray(path.read_bytes() or b"0")
    for _ in range(place.random.choice([1, 1, 1, 2, 40])):
        raw[place.random.randrange(len(raw))] ^= 1 << place.random.randrange(8)
    path.write_bytes(raw)


def swap(place: Place) -> None:
    one, other = place.chunk(), place.chunk()
    raw = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(raw)


def copy_in(place: Place) -> None:
    """A chunk of another run, or of a longer one of the same run."""
    source = place.random.choice(sorted(place.random.choice(place.others).glob("chunk-*")))
    target = place.random.choice([place.folder / "chunk-000017.ars", place.chunk()])
    shutil.copy(source, target)


def duplicate(place: Place) -> None:
    name = place.random.choice(["chunk-000009.ars", "chunk-copy.ars", "chunk-0000001.ars", "chunk-000001.ars.bak"])
    shutil.copy(place.chunk(), place.folder / name)


def rename(place: Place) -> None:
    name = place.random.choice(["chunk-000042.ars", "chunk-.ars", "chunk-1.ars", "old.ars", "chunk-0x0001.ars"])
    place.chunk().rename(place.folder / name)


def edit_json(place: Place) -> None:
    path = place.folder / "run.json"
    try:
        about = json.loads(path.read_bytes())
        about["identity"]["observe"]["y"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return  # an earlier edit has been here
    change = place.random.choice(["seed", "drop", "data", "version", "digest", "deep", "other", "layout", "gone"])
    if change == "seed":
        about["identity"]["seed"] = place.random.choice([8, -1, "7", None])
    elif change == "drop":
        del about["identity"][place.random.choice(sorted(about["identity"]))]
    elif change == "data":
        about["identity"]["observe"]["y"]["sha256"] = "0" * 64
    elif change == "version":
        about["version"] = place.random.choice([1, 3, None])
    elif change == "digest":
        about["digest"] = "0" * 64
    path.write_text(json.dumps(about, indent=None if change == "layout" else 1))
    if change == "deep":
        path.write_text("[" * 100_000)
    elif change == "other":
        shutil.copy(place.random.choice(place.others) / "run.json", path)
    elif change == "gone":
        path.unlink()


def clutter(place: Place) -> None:
    """Directories and files where nobody expects them."""
    what = place.random.choice(["directory", "empty", "log", "text", "link"])
    if (place.folder / "chunk-000011.ars").is_symlink() or (place.folder / "chunk-000011.ars").exists():
        return
    if what == "directory":
        (place.folder / "chunk-000011.ars").mkdir()
    elif what == "empty":
        (place.folder / "chunk-000011.ars").write_bytes(b"")
    elif what == "log":
        (place.folder / "controllers.jsonl").write_bytes(b'{"id": [' + b"[" * 50_000 + b"\n\xff\n{}\n")
    elif what == "text":
        (place.folder / ".notes.tmp").write_text("mine")
    else:
        (place.folder / "chunk-000011.ars").symlink_to("/nonexistent")


def rebuild(place: Place) -> None:
    put(place.builds / place.random.choice(["sim0", "sim5"]), place.folder.parent / "sim")


def rebuild_library(place: Place) -> None:
    put(place.builds / place.random.choice(["lib0.so", "lib5.so"]), place.folder.parent / "libshift.so")


EDITS: tuple[Callable[[Place], None], ...] = (
    delete,
    truncate,
    flip,
    flip,
    swap,
    copy_in,
    copy_in,
    duplicate,
    rename,
    edit_json,
    edit_json,
    clutter,
    rebuild,
    rebuild_library,
)


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("builds")
    compile_library(folder / "lib" / "libshift.so", 0)
    link = ("-L" + str(folder / "lib"), "-lshift", "-Wl,-rpath,$ORIGIN")
    for mean in (0, 5):
        shutil.copy(compile_library(folder / f"shift{mean}" / "libshift.so", mean), folder / f"lib{mean}.so")
        compile_simulator(folder, f"sim{mean}", "-DWITH_LIBRARY", f"-DMEAN={mean}", link=link)
    return folder


@pytest.fixture
def sim(builds: Path, tmp_path: Path) -> Iterator[ars.Simulator]:
    put(builds / "sim0", tmp_path / "sim")
    put(builds / "lib0.so", tmp_path / "libshift.so")
    with ars.Simulator([tmp_path / "sim"], workers=1) as simulator:
        yield simulator


@pytest.mark.filterwarnings("ignore")
def test_every_edit_is_refused_or_changes_nothing(sim: ars.Simulator, builds: Path, tmp_path: Path) -> None:
    right = Bits.of(run(sim, TRACES))
    source = tmp_path / "source"
    in_pieces(sim, source, ENDS)
    others = []
    for i, options in enumerate(({"seed": 8}, {"observe": {"y": 1.5}}, {})):
        in_pieces(sim, tmp_path / f"other{i}", (5, TRACES), **options)
        others.append(tmp_path / f"other{i}")
    folder = tmp_path / "run"
    draw = random.Random(20260)
    place = Place(folder, builds, tuple(others), draw)
    outcomes: dict[str, int] = {"refused": 0, "right": 0}
    for number in range(ROUNDS):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        edits = [draw.choice(EDITS) for _ in range(draw.choice([1, 1, 1, 2, 3]))]
        for edit in edits:
            if place.chunks():
                edit(place)
        names = [edit.__name__ for edit in edits]
        try:
            found = Bits.of(run(sim, TRACES, folder, seed=draw.choice([7, None])))
        except StorageError:
            outcomes["refused"] += 1
        except Exception as error:
            raise AssertionError(f"round {number}, {names}: {error!r}") from error
        else:
            assert found == right, f"round {number}, {names}: a wrong number"
            outcomes["right"] += 1
        for build, path in (("sim0", "sim"), ("lib0.so", "libshift.so")):
            if (builds / build).read_bytes() != (tmp_path / path).read_bytes():
                put(builds / build, tmp_path / path)
    assert min(outcomes.values()) > ROUNDS // 5, outcomes
