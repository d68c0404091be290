"""Any bytes through the controller's decoders: a ProtocolError or a message, never anything else.

What Python accepts the C checks of ars-host must accept too, and the other way round, but for the rules that only one
side can know (DIFFERENCES).

    python fuzz_decoders.py --runs 10000000 [DECODER...]     mutations of the golden frames, from a seed
    python fuzz_decoders.py --atheris DECODER [libFuzzer's options]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ars import wire
from ars._native import DTYPES, DistKind, SiteKind
from ars.columns import Site
from ars.errors import ProtocolError

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "host" / "golden"
HEADER = 24
SITES = [
    Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
    Site(1, SiteKind.SAMPLE, DistKind.UNIFORM, "loop/u"),
    Site(2, SiteKind.OBSERVE, DistKind.NORMAL, "y"),
    Site(3, SiteKind.RESULT, None, "r"),
    Site(4, SiteKind.LOOP, None, "loop"),
]
TABLE = wire.SiteTable(SITES)
Frames = list[bytes]

DECODERS: dict[str, Callable[[Frames], object]] = {
    "hello": lambda frames: wire.decode_hello(frames[0]),
    "run": lambda frames: wire.decode_run(frames[0]),
    "sites": lambda frames: wire.decode_sites(frames[0]),
    "steps": lambda frames: wire.decode_steps(frames[0], TABLE),
    "traces": lambda frames: wire.decode_traces(frames, TABLE),
    "done": lambda frames: wire.decode_done(frames[0]),
    "error": lambda frames: wire.decode_error(frames[0]),
}
# Refused by Python alone: what a single frame cannot show, or what only the controller knows.
DIFFERENCES = {
    "hello": ("run ", "the token is not 32 hex digits"),
    "run": ("an observed name comes twice",),
    "sites": (),
    "steps": ("a ticket comes twice",),
    "traces": ("traces: a trace comes twice", "is outside the run"),
    "done": (),
    "error": (),
}


class Finding(AssertionError):
    """A decoder did what it must not."""


# ---- the other side's opinion ----------------------------------------------------------------------------------------


class _Sites(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint32), ("kinds", ctypes.c_char_p), ("dists", ctypes.c_char_p)]


class _Bytes(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class CChecks:
    """bridge/common as a library of its own."""

    def __init__(self, directory: Path) -> None:
        path = directory / "wire.so"
        sources = sorted((ROOT / "bridge" / "common").glob("*.c"))
        compiler = [*os.environ.get("CC", "cc").split(), "-std=gnu11", "-O2", "-fPIC", "-shared", "-DARS__NO_REGISTER"]
        subprocess.run([*compiler, f"-I{ROOT}/bridge/include", *sources, "-lm", "-o", path], check=True)
        library = ctypes.CDLL(str(path))
        self._message = library.ars__check_message
        self._message.argtypes = [ctypes.c_char_p, ctypes.c_size_t, _Sites, ctypes.c_char_p]
        self._traces = library.ars__check_traces
        self._traces.argtypes = [_Bytes, ctypes.POINTER(_Bytes), _Sites, ctypes.c_char_p]
        self._message.restype = self._traces.restype = ctypes.c_bool
        kinds, dists = bytes(site.kind for site in SITES), bytes(site.dist or 0 for site in SITES)
        self._sites = _Sites(len(SITES), kinds, dists)
        self._why = ctypes.create_string_buffer(256)

    def accepts(self, frames: Frames) -> bool:
        if len(frames) == 1:
            return bool(self._message(frames[0], len(frames[0]), self._sites, self._why))
        parts = [_Bytes(frame, len(frame)) for frame in frames]
        return bool(self._traces(parts[0], (_Bytes * (len(parts) - 1))(*parts[1:]), self._sites, self._why))

    @property
    def why(self) -> str:
        return self._why.value.decode("utf-8", "replace")


# ---- one input -------------------------------------------------------------------------------------------------------

_TYPES = {"hello": 1, "run": 3, "sites": 4, "steps": 5, "traces": 7, "done": 8, "error": 11}


def check(name: str, frames: Frames, checks: CChecks) -> bool:
    """Raises Finding if the decoder breaks its promise. Returns whether it accepted."""
    refused = ""
    try:
        DECODERS[name](frames)
    except ProtocolError as error:
        refused = str(error)
    except Exception as error:
        raise Finding(f"{name}: {type(error).__name__}: {error}: {frames!r}") from error
    if len(frames) != (len(_COLUMNS) if name == "traces" else 1) or len(frames[0]) < 8:
        if not refused:
            raise Finding(f"{name}: {len(frames)} frames accepted: {frames!r}")
        return False
    (kind,) = struct.unpack_from("<H", frames[0], 6)
    agrees = checks.accepts(frames) and kind == _TYPES[name]
    if not refused and not agrees:
        raise Finding(f"{name}: Python accepts what C refuses ({checks.why}): {frames!r}")
    if refused and agrees and not any(words in refused for words in DIFFERENCES[name]):
        raise Finding(f"{name}: Python refuses what C accepts ({refused}): {frames!r}")
    return not refused


# ---- mutations -------------------------------------------------------------------------------------------------------

_WORDS = [struct.pack("<I", n) for n in (0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 15, 24, 40, 128, 129, 0x7FFFFFFF, 0xFFFFFFFF)]
_NUMBERS = [struct.pack("<d", x) for x in (0.0, 1.0, -1.0, 0.5, 1e308, float("inf"), float("-inf"), float("nan"))]
_NUMBERS += [struct.pack("<Q", n) for n in (1, 5, 6, 8, 2**32, 2**63, 2**64 - 1)]
_COLUMNS = ("header", "trace", "sample", "values", "result", "loop", None, "failure", "try", "sample")
_ITEMS = tuple(DTYPES[column].itemsize if column else 8 for column in _COLUMNS)


class Mutator:
    """Frames that are nearly right. The same seed gives the same ones."""

    def __init__(self, good: Sequence[Frames], bad: Sequence[Frames], seed: int) -> None:
        self._good = list(good)
        self._all = [*good, *bad]
        self._random = random.Random(seed)

    def frames(self) -> Frames:
        pick = self._random.random
        seeds = self._good if pick() < 0.7 else self._all
        frames = list(seeds[int(pick() * len(seeds))])
        for _ in range(1 + int(pick() * 3)):
            i = int(pick() * len(frames))
            frames[i] = self._changed(frames[i], _ITEMS[i] if len(frames) > 1 else 8)
        if pick() < 0.8 and len(frames[0]) >= HEADER:  # or little gets past the header
            frames[0] = frames[0][:8] + struct.pack("<I", len(frames[0])) + frames[0][12:]
        return frames

    def _changed(self, frame: bytes, item: int) -> bytes:
        pick = self._random.random
        size, how = len(frame), int(pick() * 10)
        if how < 3 and size >= 4:
            at = int(pick() * (size // 4)) * 4
            return frame[:at] + _WORDS[int(pick() * len(_WORDS))] + frame[at + 4 :]
        if how < 5 and size >= 8:
            at = int(pick() * (size // 8)) * 8
            return frame[:at] + _NUMBERS[int(pick() * len(_NUMBERS))] + frame[at + 8 :]
        if how < 7 and size:
            at = int(pick() * size)
            return frame[:at] + bytes([frame[at] ^ (1 << int(pick() * 8))]) + frame[at + 1 :]
        if how == 7:
            return frame[: int(pick() * (size + 1))]
        at = int(pick() * (size // item + 1)) * item
        if how == 8:  # an item more, or one less
            return frame[:at] + frame[at : at + item] + frame[at:]
        return frame[:at] + frame[at + item :]


def golden(name: str) -> tuple[list[Frames], list[Frames]]:
    """The golden frames of one type: valid ones, and broken ones."""
    good: list[Frames] = []
    bad: list[Frames] = []
    for entry in json.loads((GOLDEN / "index.json").read_text()):
        data, frames = (GOLDEN / entry["file"]).read_bytes(), []
        for size in entry["frames"]:
            frames.append(data[:size])
            data = data[size:]
        if len(frames[0]) >= 8 and struct.unpack_from("<H", frames[0], 6)[0] == _TYPES[name]:
            (good if entry["valid"] else bad).append(frames)
    return good, bad


def fuzz(name: str, runs: int, seed: int, checks: CChecks) -> int:
    """How many of the inputs were accepted."""
    mutator = Mutator(*golden(name), seed)
    return sum(check(name, mutator.frames(), checks) for _ in range(runs))


# ---- the command line ------------------------------------------------------------------------------------------------


def _atheris(name: str, options: list[str], checks: CChecks) -> None:
    import atheris

    def one(data: bytes) -> None:
        if name != "traces":
            check(name, [data], checks)
            return
        at = 2 * len(_COLUMNS)
        sizes, frames = struct.unpack_from(f"<{len(_COLUMNS)}H", data.ljust(at, b"\0")), []
        for size in sizes:
            frames.append(data[at : at + size])
            at += size
        check(name, frames, checks)

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the controller's decoders.")
    parser.add_argument("decoder", nargs="*", default=list(DECODERS), help=f"of {', '.join(DECODERS)}; default: all")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs per decoder (default 100,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="print the names of the decoders")
    parser.add_argument("--atheris", action="store_true", help="with atheris, if it is installed")
    arguments, options = parser.parse_known_args()
    if arguments.list:
        sys.stdout.write("\n".join(DECODERS) + "\n")
        return 0
    directory = Path(tempfile.mkdtemp(prefix="fuzz-decoders-"))
    try:
        checks = CChecks(directory)
        if arguments.atheris:
            _atheris(arguments.decoder[0], options, checks)
        for name in arguments.decoder:
            began = time.monotonic()
            accepted = fuzz(name, arguments.runs, arguments.seed, checks)
            took = time.monotonic() - began
            sys.stdout.write(
                f"{name}: {arguments.runs:,} inputs without a finding in {took:.0f} s, {accepted:,} accepted\n"
            )
            sys.stdout.flush()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
