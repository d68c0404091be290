"""Writes the seeds of the fuzz targets, one folder each, from the golden frames: make_corpus.py DIRECTORY."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "host" / "golden"
sys.path.insert(0, str(GOLDEN))
sys.dont_write_bytecode = True

import make_golden as g  # noqa: E402

PARKED, DONE, FAILED = 1, 3, 4
ASK_STEP, ASK_SITE, ASK_PATH = 1, 2, 4
NO_SLOT = 0xFFFFFFFF


def golden() -> Iterator[tuple[str, list[bytes]]]:
    for entry in json.loads((GOLDEN / "index.json").read_text()):
        data, frames = (GOLDEN / entry["file"]).read_bytes(), []
        for size in entry["frames"]:
            frames.append(data[:size])
            data = data[size:]
        yield Path(entry["file"]).stem, frames


def part(data: bytes) -> bytes:
    """Bytes with their size in front: script_part in fuzz.h."""
    return struct.pack("<H", len(data)) + data


# ---- libars: answers in a mailbox, and data ------------------------------------------------------------------------


def replies() -> Iterator[tuple[str, bytes]]:
    """A draw is its prior's kind less 1, the answer, and a byte that is not 0xff."""
    parameters = {
        1: (0.0, 1.0),
        2: (0.5, 2.0),
        3: (0.25,),
        4: (0.25, 0.25, 0.5),
        5: (3.0,),
        6: (10.0, 0.5),
        7: (2.0, 3.0),
        8: (2.0, 1.0),
        9: (1.5,),
        10: (1.0, 2.0),
        11: (0.0, 1.0),
        12: (0.0, 1.0, 0.0, g.INF),
        13: (2.0, 3.0, -1.0, 2.0),
    }
    proposals = [g.dist(kind, *numbers) for kind, numbers in parameters.items()]
    proposals += [g.mixture(), g.dist(g.PRIOR)]
    for i, proposal in enumerate(proposals):
        answer = part(g.reply(0, proposal)) + b"\0"
        for prior in {i % 12, 1}:
            yield f"reply_{i}_{prior}", b"\0\1" + bytes([prior]) + answer + bytes([0]) + answer


# ---- ars-host: scripts for fuzz_segment.c --------------------------------------------------------------------------


def ring(worker: int, record: bytes) -> bytes:
    return bytes([0, worker]) + part(record)


def ask(channel: int, kind: int, body: bytes) -> bytes:
    return bytes([2, channel]) + part(body) + bytes([kind, 0]) + (b"\1" if kind == ASK_STEP else b"")


def path(*offsets: int, module: bytes = b"/proc/self/exe", model: int = 0, at: int | None = None) -> bytes:
    """A question about a call path: an ars__path_question, a frame per return address, and their module."""
    strings = 8 + 16 * len(offsets)
    frames = b"".join(struct.pack("<QII", offset, strings if at is None else at, 0) for offset in offsets)
    return struct.pack("<II", len(offsets), model) + frames + module + b"\0"


def slot(worker: int, number: int, status: int, *more: int) -> bytes:
    return bytes([4, worker + 2 * number, status, *more])


def words(worker: int, which: int, word: int = 0) -> bytes:
    return bytes([6, worker, which]) + struct.pack("<Q", word)


TRUTH, ANSWER, WAIT, FULL, FREE = bytes([8, 0]), bytes([9, 0]), bytes([10, 30]), bytes([11, 1]), bytes([11, 0])
BEGIN = bytes([10, 0]) * 2  # the workers are forked and get their orders
ORDER_DONE = 3


def record(trace: bytes, *parts: bytes, slots: tuple[int, ...] = (), tail: bytes = b"") -> bytes:
    body = trace + b"".join(parts) + g.pad(struct.pack(f"<{len(slots)}I", *slots)) + tail
    return struct.pack("<II", 8 + len(body), 0) + body


def whole(number: int, slots: tuple[int, ...] = (), tries: bytes = b"", n_tries: int = 0) -> bytes:
    """A trace with something of everything."""
    n = len(slots)
    head = g.trace(number, n_samples=2, n_observes=1, n_results=1, n_loops=n, n_values=5, n_tries=n_tries)
    samples = g.sample(loop=n - 1) + g.sample(site_id=1, loop=-1, prior=g.UNIFORM, n_params=0)
    loops = b"".join(g.loop(parent=i - 1, tries_q=0, accepted_q=0, runs_p=0, tries_p=0) for i in range(n))
    rest = g.values(2, 1, -1.5) + g.result(3, 2)
    return record(head, samples, rest, loops, slots=slots, tail=struct.pack("<5d", 0.1, 1.0, 2.0, 0.0, 1.0) + tries)


def scripts() -> Iterator[tuple[str, bytes]]:
    """The first byte: run flags (2 prior, 8 estimate, 16 priors recorded), 1 restless, 4 tries under q until accepted,
    32 first trace 1000, 64 more."""
    failed = record(g.trace(0, failure=6), tail=g.failure(0, 6))
    yield "truth", bytes([2]) + BEGIN + TRUTH + words(0, ORDER_DONE)
    yield (
        "truths",
        bytes([2 + 64]) + BEGIN + TRUTH + words(0, ORDER_DONE) + TRUTH + words(0, ORDER_DONE) + bytes([12, 5]),
    )
    yield "whole", bytes([2 + 16]) + BEGIN + ring(0, whole(0)) + words(0, ORDER_DONE)
    tries = g.rejected_try(recorded=1, total=2) + g.sample(loop=-1, n_params=0)
    yield "rejected", bytes([2 + 32]) + BEGIN + ring(0, whole(1000, (NO_SLOT,), tries, 1)) + words(0, ORDER_DONE)
    yield "whole_1000", bytes([2 + 32]) + BEGIN + ring(0, whole(1000)) + words(0, ORDER_DONE)
    yield "in_pieces", bytes([2]) + BEGIN + ring(0, whole(0)[:100]) + WAIT + ring(0, whole(0)[100:]) + words(0, 3)
    yield "failed", bytes([2]) + BEGIN + ring(0, failed)
    yield "full", bytes([2 + 128]) + BEGIN + FULL + ring(0, whole(0)) + ring(1, whole(1)) + FREE + words(0, ORDER_DONE)
    site = g.site(0, g.SAMPLE, g.NORMAL, b"new")
    yield (
        "site",
        bytes([64]) + BEGIN + ask(0, ASK_SITE, site) + ask(1, ASK_SITE, site) + ask(0, ASK_SITE, g.GOOD_SITES[3]),
    )
    # Offsets in the fuzz target itself: return addresses or not, and beyond its end. Then what is no question at all.
    paths = [path(0x4000, 0x8123, 0x20010), path(0x5000, 0x9000, model=1), path(0, 1 << 40, module=b""), path()]
    paths += [path(0x4000, module=b"/nowhere"), path(0x4000, at=0), path(0x4000, at=4000), path(1)[:-1], b"\xff" * 8]
    for i, question in enumerate(paths):
        asks = ask(0, ASK_PATH, question) + WAIT + ask(1, ASK_PATH, question)
        yield f"path_{i}", bytes([64]) + BEGIN + asks + TRUTH + words(0, ORDER_DONE)
    step = g.step(0, 0, g.dist(g.NORMAL, 0.0, 1.0), [(1, 0, 0.5)], trace=0, state=0)
    tells = g.step(0, g.NO_SITE, b"", [(1, 0, 0.5)], trace=0, state=0)
    after = g.step(0, 0, g.dist(g.NORMAL, 0.0, 1.0), [(1, 0, 0.5)], trace=0, state=1)  # the state of every ANSWER
    yield "step", bytes([1]) + BEGIN + ask(0, ASK_STEP, step) + ANSWER + ring(0, whole(0)) + words(0, ORDER_DONE)
    two = ask(0, ASK_STEP, step) + ANSWER + ask(0, ASK_STEP, after) + ANSWER
    yield "two_steps", bytes([1]) + BEGIN + two + ring(0, whole(0)) + words(0, ORDER_DONE)
    yield "state_of_nobody", bytes([1]) + BEGIN + ask(0, ASK_STEP, after) + ANSWER + WAIT
    gone = ask(0, ASK_STEP, step) + TRUTH + words(0, ORDER_DONE)  # it does not wait for the answer
    yield "asked_and_gone", bytes([0]) + BEGIN + gone + bytes([12, 0]) + WAIT
    yield "tells", bytes([64]) + BEGIN + ask(0, ASK_STEP, tells) + ask(1, ASK_STEP, step) + ANSWER + WAIT
    parked = b"".join(slot(0, i, PARKED) for i in range(3))
    going = BEGIN + parked + ring(0, whole(0, (0, 1, NO_SLOT, 2)))
    ended = b"".join(slot(0, i, 0x40 | DONE, 1, 5) for i in range(3))
    yield "slots", bytes([8]) + going + ended + words(0, ORDER_DONE)
    until = b"".join(slot(0, i, 0x40 | DONE, 4, 5) for i in range(3))
    yield "slots_until_accepted", bytes([8 + 4]) + going + until + words(0, ORDER_DONE)
    yield "slots_ask", bytes([8 + 1]) + going + ask(2, ASK_STEP, step) + ask(3, ASK_STEP, step) + ANSWER + ended + WAIT
    report = struct.pack("<4Qd2I", 4, 1, 2, 7, 1.5, 3, 1) + g.failure(0, 5)
    yield "slot_fails", bytes([8]) + going + slot(0, 1, 0x80 | FAILED) + part(report) + ended + ended
    lie = struct.pack("<4Qd2I", 5, 1, 2, 7, 1.5, 3, 1)  # a try more than was asked for
    yield "slot_lies", bytes([8]) + going + slot(0, 1, 0x80 | DONE) + part(lie) + ended + ended
    yield "slot_lies_until", bytes([8 + 4]) + going + slot(0, 1, 0x80 | DONE) + part(lie) + until + until
    yield "dies", bytes([2 + 64]) + BEGIN + ring(0, whole(0)) + bytes([13, 0]) + WAIT + bytes([13, 1]) + TRUTH
    yield "dies_with_slots", bytes([8 + 64]) + going + bytes([13, 0]) + WAIT + WAIT
    for name, frames in golden():
        if len(frames) == 1 and len(frames[0]) < 600:
            yield (
                f"says_{name}",
                bytes([64]) + BEGIN + bytes([14, 0]) + part(frames[0]) + ask(0, ASK_STEP, step) + ANSWER,
            )
    truths = b"".join(TRUTH + words(0, ORDER_DONE) + WAIT for _ in range(3))
    parts = {"budgets": [g.budget(b"loop"), g.budget(b"new", 1, 0, 2)], "listing": [g.listed(3, 1, 0, 2), g.listed(9)]}
    for flags in (g.PROPOSE_PRIOR, g.ESTIMATE):
        listing = g.run(2, first=3, n=2, flags=flags, **parts)
        yield f"lists_{flags}", bytes([2]) + BEGIN + truths + bytes([14, 0]) + part(listing) + BEGIN + truths
    told = struct.pack("<IIii", 5, 1, 0, 11)
    yield "zygote", bytes([2]) + BEGIN + bytes([15, 0]) + told + WAIT


def main() -> int:
    out = Path(sys.argv[1])
    seeds: dict[str, dict[str, bytes]] = {name: {} for name in ("message", "steps", "traces", "reply", "segment")}
    for name, frames in golden():
        if len(frames) == 1:
            seeds["message"][name] = frames[0]
            if name.startswith(("steps", "bad_steps")):
                seeds["steps"][name] = frames[0]
            if name.startswith(("run", "bad_run")):
                seeds["reply"][name] = b"\1" + frames[0]
        else:
            seeds["traces"][name] = struct.pack(f"<{len(frames)}H", *map(len, frames)) + b"".join(frames)
    seeds["reply"].update(replies())
    seeds["segment"].update(scripts())
    for target, files in seeds.items():
        folder = out / f"fuzz_{target}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    (out / "made").write_text("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
