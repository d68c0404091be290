"""The golden frames: written with `struct`, read by the C code and by us."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ars import wire
from ars._native import Message
from ars.errors import ProtocolError

GOLDEN = Path(__file__).resolve().parents[1] / "host" / "golden"


def golden() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((GOLDEN / "index.json").read_text())
    return entries


def read_frames(entry: dict[str, Any]) -> list[bytes]:
    raw = (GOLDEN / entry["file"]).read_bytes()
    ends = np.cumsum([0, *entry["frames"]])
    assert ends[-1] == len(raw)
    return [raw[a:b] for a, b in itertools.pairwise(ends)]


def golden_sites() -> wire.SiteTable:
    return wire.SiteTable(wire.decode_sites((GOLDEN / "sites.bin").read_bytes()))


def decode_any(frames: list[bytes]) -> Any:
    """What a receiver of any message does."""
    kind = wire.decode_header(frames[0]).type
    if kind is Message.TRACES:
        return wire.decode_traces(frames, golden_sites())
    assert len(frames) == 1
    decoders: dict[Message, Callable[[bytes], Any]] = {
        Message.HELLO: wire.decode_hello,
        Message.WELCOME: wire.decode_welcome,
        Message.RUN: wire.decode_run,
        Message.SITES: wire.decode_sites,
        Message.STEPS: lambda frame: wire.decode_steps(frame, golden_sites()),
        Message.REPLIES: wire.decode_replies,
        Message.DONE: wire.decode_done,
        Message.CANCEL: wire.decode_bare,
        Message.QUIT: wire.decode_bare,
        Message.ERROR: wire.decode_error,
    }
    return decoders[kind](frames[0])


@pytest.mark.parametrize("entry", golden(), ids=lambda e: e["file"].removesuffix(".bin"))
def test_golden_frames(entry: dict[str, Any]) -> None:
    frames = read_frames(entry)
    if entry["valid"]:
        assert decode_any(frames) is not None
    else:
        with pytest.raises(ProtocolError):
            decode_any(frames)


def test_the_golden_frames_of_a_controller_are_what_we_write() -> None:
    """Read and written again, the bytes are the same."""
    frames = {entry["file"]: read_frames(entry) for entry in golden() if entry["valid"]}
    for name in (name for name in frames if name.startswith("run")):
        number, config = wire.decode_run(frames[name][0])
        assert wire.encode_run(config, number) == frames[name][0]
    header = wire.decode_header(frames["replies.bin"][0])
    tickets, replies = wire.decode_replies(frames["replies.bin"][0])
    assert wire.encode_replies(tickets, replies, header.run) == frames["replies.bin"][0]
    assert wire.encode_welcome(wire.decode_welcome(frames["welcome.bin"][0])) == frames["welcome.bin"][0]
    assert wire.encode_quit() == frames["quit.bin"][0]
    assert wire.encode_cancel(wire.decode_header(frames["cancel.bin"][0]).run) == frames["cancel.bin"][0]
    error = frames["error.bin"][0]
    assert wire.encode_error(wire.decode_error(error), wire.decode_header(error).run) == error
    hello = frames["hello.bin"][0]
    assert wire.encode_hello(wire.decode_hello(hello)) == hello
