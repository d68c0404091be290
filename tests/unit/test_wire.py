"""Messages as bytes: what we write is read back, what a peer may not write is refused with the field's name."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ars
from ars import wire
from ars._native import (
    DTYPES,
    MAGIC,
    MAX_MESSAGE,
    MAX_NAME,
    NO_SITE,
    VERSION,
    DistKind,
    FailureKind,
    Message,
    ReplyFlag,
    RunFlag,
    SiteKind,
)
from ars.columns import Columns, Site
from ars.errors import ProtocolError

GOLDEN = Path(__file__).resolve().parents[1] / "host" / "golden"
TABLE = wire.SiteTable(
    [
        Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
        Site(1, SiteKind.SAMPLE, DistKind.UNIFORM, "loop/u"),
        Site(2, SiteKind.OBSERVE, DistKind.NORMAL, "y"),
        Site(3, SiteKind.RESULT, None, "mu"),
        Site(4, SiteKind.LOOP, None, "loop"),
    ]
)
NORMAL = ars.Normal(0.0, 1.0).encode(1)[0]
UNIFORM = ars.Uniform(0.0, 1.0).encode(1)[0]


def framed(kind: int, body: bytes = b"", count: int = 0, run: int = 1, **wrong: int) -> bytes:
    """A message with a good header, but for the fields given as wrong."""
    header = np.array([(MAGIC, VERSION, kind, 24 + len(body), count, run)], dtype=DTYPES["header"])
    for field, value in wrong.items():
        header[field] = value
    return header.tobytes() + body


def edited(frame: bytes, dtype: str, field: str, value: object, at: int = 0) -> bytes:
    """The frame with one field of the struct at this offset changed."""
    raw = bytearray(frame)
    np.frombuffer(raw, DTYPES[dtype], 1, at)[field] = value
    return bytes(raw)


# ---- headers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "0 bytes, a header has 24"),
        (framed(Message.DONE)[:23], "23 bytes"),
        (framed(Message.DONE, magic=7), "magic 0x00000007"),
        (framed(99), "type 99 is unknown"),
        (framed(Message.DONE, version=1), "DONE: protocol version 1, we speak 5 to 5"),
        (framed(Message.DONE, version=0), "DONE: protocol version 0"),
        (framed(Message.DONE, size=25), "DONE: size 25, but the frame has 24 bytes"),
    ],
)
def test_a_wrong_header_is_refused(frame: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        wire.decode_header(frame)


def test_bare_messages() -> None:
    assert wire.decode_header(wire.encode_quit()) == wire.Header(Message.QUIT, 24, 0, 0, VERSION)
    assert wire.decode_header(wire.encode_cancel(7)) == wire.Header(Message.CANCEL, 24, 0, 7, VERSION)
    assert wire.decode_error(wire.encode_error("pourquoi: é" * 100)).startswith("pourquoi: é")
    assert len(wire.encode_error("x" * 5000)) == 24 + 511


# ---- the handshake ---------------------------------------------------------------------------------------------------

HELLO = wire.Hello(VERSION, VERSION, 16, 123, 124, "0123456789abcdef" * 2)


def test_hello_and_welcome() -> None:
    assert wire.decode_hello(wire.encode_hello(HELLO)) == HELLO
    assert wire.choose_version(HELLO) == VERSION
    assert wire.decode_welcome(wire.encode_welcome(VERSION)) == VERSION


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("version_min", 6, "version_min 6 is above version_max 5"),
        ("workers", 0, "workers is 0"),
        ("token", 7, "token is not 32 hex digits"),
    ],
)
def test_a_wrong_hello_is_refused(field: str, value: int, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        wire.decode_hello(edited(wire.encode_hello(HELLO), "hello", field, value))


@pytest.mark.parametrize("versions", [(6, 7), (1, 4)])
def test_versions_that_do_not_meet(versions: tuple[int, int]) -> None:
    hello = HELLO._replace(version_min=versions[0], version_max=versions[1])
    with pytest.raises(ProtocolError, match=f"versions {versions[0]} to {versions[1]}, this package 5 to 5: rebuild"):
        wire.choose_version(hello)


# ---- RUN -------------------------------------------------------------------------------------------------------------

observed_numbers = st.floats(allow_nan=True, allow_infinity=False)  # NaN: not observed
names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=40)


numbers_wanted = st.integers(0, 2**30 - 1)
wanted = st.one_of(
    st.just(wire.Wanted()),
    st.builds(lambda m, n: wire.Wanted(m + 1, n), st.integers(0, 2**30 - 2), numbers_wanted),
    st.builds(lambda m, r: wire.Wanted(m + 1, 0, r), st.integers(0, 2**30 - 2), numbers_wanted),
)


def listed(known: dict[int, list[int]]) -> wire.Listed:
    """These traces, with the tries of their loop entries."""
    tries = [known[trace] for trace in sorted(known)]
    return wire.Listed(
        np.array(sorted(known), dtype=np.uint64),
        np.array([len(each) for each in tries], dtype=np.uint32),
        np.array([x for each in tries for x in each], dtype=np.uint32),
    )


def assert_same_run(read: wire.RunConfig, config: wire.RunConfig) -> None:
    assert read._replace(observed={}, listed=None) == config._replace(observed={}, listed=None)
    assert list(read.observed) == list(config.observed)
    for name, values in config.observed.items():
        np.testing.assert_array_equal(read.observed[name], values)
    assert (read.listed is None) == (config.listed is None)
    for mine, theirs in zip(read.listed or (), config.listed or (), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


@settings(max_examples=50, deadline=None)
@given(
    observed=st.dictionaries(names, st.lists(observed_numbers, min_size=1, max_size=5), max_size=4),
    seed=st.integers(0, 2**64 - 1),
    n=st.integers(1, 2**40),
    budgets=st.dictionaries(names, wanted, max_size=4),
    known=st.dictionaries(st.integers(0, 2**64 - 2), st.lists(st.integers(0, 2**32 - 1), max_size=4), max_size=4),
)
def test_a_run_is_read_back(
    observed: dict[str, list[float]],
    seed: int,
    n: int,
    budgets: dict[str, wire.Wanted],
    known: dict[int, list[int]],
) -> None:
    data = {name: np.array(values) for name, values in observed.items()}
    flags = RunFlag.POSTERIOR | RunFlag.ESTIMATE
    config = wire.RunConfig(seed, n, flags, 3, wire.Wanted(2, 10), 4, 99, 1.5, 0.25, data, budgets=budgets)
    if known:
        config = config._replace(n_traces=len(known), first_trace=min(known), listed=listed(known))
    frame = wire.encode_run(config, 5)
    assert len(frame) % 8 == 0
    run, read = wire.decode_run(frame)
    assert run == 5
    assert_same_run(read, config)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("n_traces", 0, "n_traces is 0"),
        ("flags", 1024, "flags 0x400 has bits"),
        ("flags", RunFlag.REWIND, "the flag REWIND without ESTIMATE"),
        ("flags", RunFlag.ESTIMATE | RunFlag.CHECK, "the flag CHECK without REWIND"),
        ("flags", RunFlag.POSTERIOR | RunFlag.PILOT, "the flag PILOT without ESTIMATE"),
        ("wanted", (0, 0, 0), "runs_p 0, must be at least 1 to estimate"),
        ("wanted", (1, 2, 3), "tries_q 2 and accepted_q 3, one of them must be 0"),
        ("wanted", (2**30, 0, 3), "must be at most 1073741823"),
        ("n_listed", 1, "n_listed 1, but the frame ends"),
        ("n_listed", 2, "n_listed 2, must be 0 or n_traces, 1"),
        ("n_budgets", 1, "n_budgets 1, but the frame ends"),
        ("n_budgets", 65537, "n_budgets 65537, must be at most 65536"),
        ("max_tries", 0, "max_tries is 0"),
        ("trace_timeout", np.nan, "trace_timeout nan"),
        ("trace_timeout", -1, "trace_timeout -1"),
        ("try_timeout", np.inf, "try_timeout inf"),
        ("try_timeout", -1, "try_timeout -1"),
        ("flags", 2, "without the POSTERIOR flag"),
    ],
)
def test_a_wrong_run_is_refused(field: str, value: float, says: str) -> None:
    flags = RunFlag.POSTERIOR | RunFlag.ESTIMATE
    frame = wire.encode_run(wire.RunConfig(1, 1, flags, wanted=wire.Wanted(1, 1), observed={"y": np.ones(2)}), 1)
    with pytest.raises(ProtocolError, match=says):
        wire.decode_run(edited(frame, "run", field, value))


def test_an_infinite_observation_is_refused() -> None:
    for value in (np.inf, -np.inf):
        frame = wire.encode_run(wire.RunConfig(1, 1, RunFlag.POSTERIOR, observed={"y": np.array([np.nan, value])}), 1)
        with pytest.raises(ProtocolError, match="an observed value is infinite"):
            wire.decode_run(frame)


def test_where_traces_are_in_a_run() -> None:
    """Also at the largest numbers: nothing wraps around."""
    top = 2**64 - 2
    plain = wire.RunConfig(1, 4, RunFlag(0), first_trace=top - 3)
    some = np.array([0, 3, top - 4, top - 3, top, top + 1], dtype=np.uint64)
    assert plain.places(some).tolist() == [-1, -1, -1, 0, 3, -1]
    config = wire.RunConfig(1, 3, RunFlag(0), first_trace=3, listed=listed({3: [1, 2], 5: [], top: [4]}))
    assert config.places(some).tolist() == [-1, 0, -1, -1, 2, -1]
    assert config.places(np.array([5, 3], dtype=np.uint64)).tolist() == [1, 0]
    assert config.places(np.zeros(0, dtype=np.uint64)).tolist() == []


def test_parts_of_a_run() -> None:
    plain = wire.RunConfig(1, 4, RunFlag(0), first_trace=10)
    assert plain.part(11, 2) == plain._replace(first_trace=11, n_traces=2)
    some = plain.only(np.array([False, True, False, True]))
    assert_same_run(some, plain._replace(first_trace=11, n_traces=2, listed=listed({11: [], 13: []})))
    config = wire.RunConfig(1, 3, RunFlag(0), first_trace=3, listed=listed({3: [1, 2], 5: [7], 9: [4, 0, 5]}))
    left = config.only(np.array([True, False, True]))
    assert_same_run(left, config._replace(n_traces=2, listed=listed({3: [1, 2], 9: [4, 0, 5]})))
    later = config.part(4, 6)
    assert_same_run(later, config._replace(n_traces=2, first_trace=5, listed=listed({5: [7], 9: [4, 0, 5]})))


def test_a_list_that_is_too_long_for_a_message_is_split() -> None:
    """A million traces with 64 loops each are such a list."""
    short = wire.RunConfig(1, 2, RunFlag(0), first_trace=3, listed=listed({3: [1, 2], 5: []}))
    plain = wire.RunConfig(1, 10**9, RunFlag(0))
    assert short.messages() == [short] and plain.messages() == [plain]
    n, each = 40, 2**18
    numbers, tries = np.arange(7, 7 + n, dtype=np.uint64), np.arange(n * each, dtype=np.uint32)
    known = wire.Listed(numbers, np.full(n, each, np.uint32), tries)
    parts = wire.RunConfig(1, n, RunFlag(0), first_trace=7, listed=known).messages()
    assert len(parts) > 1
    assert max(len(wire.encode_run(part, 1)) for part in parts) <= MAX_MESSAGE // 4
    lists = [part.listed for part in parts if part.listed is not None]
    for column, joined in zip(known, map(np.concatenate, zip(*lists, strict=True)), strict=True):
        assert np.array_equal(column, joined)
    assert [(part.first_trace, part.n_traces) for part in parts] == [(int(x.traces[0]), len(x.traces)) for x in lists]


# ---- SITES -----------------------------------------------------------------------------------------------------------


def site_item(number: int, kind: int, dist: int, name: bytes, size: int | None = None) -> bytes:
    head = np.array([(number, kind, dist, len(name) if size is None else size, 0)], dtype=DTYPES["site"])
    return head.tobytes() + name.ljust(-(-len(name) // 8) * 8, b"\0")


def test_sites_are_read_and_added_in_order() -> None:
    items = [site_item(0, 1, 2, b"x"), site_item(1, 4, 0, "schleife é".encode()), site_item(2, 2, 0, b"a factor")]
    sites = wire.decode_sites(framed(Message.SITES, b"".join(items), 3))
    assert sites == [
        Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
        Site(1, SiteKind.LOOP, None, "schleife é"),
        Site(2, SiteKind.OBSERVE, None, "a factor"),
    ]
    table = wire.SiteTable(sites[:1])
    table.add(sites[1:])
    assert table.all() == tuple(sites)
    with pytest.raises(ProtocolError, match="id 1, the next one is 3"):
        table.add(sites[1:])
    with pytest.raises(ProtocolError, match="'x' comes twice"):
        table.add([sites[0]._replace(id=3)])


@pytest.mark.parametrize(
    ("body", "count", "says"),
    [
        (site_item(0, 9, 0, b"x"), 1, "kind 9 is unknown"),
        (site_item(0, 1, 0, b"x"), 1, "dist 0 is not a simulator's"),
        (site_item(0, 1, 14, b"x"), 1, "dist 14 is not a simulator's"),
        (site_item(0, 4, 2, b"x"), 1, "dist 2, a loop has none"),
        (site_item(70000, 4, 0, b"x"), 1, "id 70000"),
        (site_item(0, 4, 0, b""), 1, "name_size 0"),
        (site_item(0, 4, 0, b"x" * (MAX_NAME + 1)), 1, "name_size 1025"),
        (site_item(0, 4, 0, b"x", 100), 1, "ends inside a name"),
        (site_item(0, 4, 0, b"x\0y"), 1, "zero byte"),
        (site_item(0, 4, 0, b"xy", 1), 1, "padding is not zero"),
        (site_item(0, 4, 0, b"\xff\xfe"), 1, "not UTF-8"),
        (site_item(0, 4, 0, b"x"), 2, "ends after 1 sites"),
        (site_item(0, 4, 0, b"x") + b"12345678", 1, "8 bytes after the last site"),
        (b"", 1 << 20, "must be 1 to 65536"),
        (b"", 0, "must be 1 to 65536"),
    ],
)
def test_wrong_sites_are_refused(body: bytes, count: int, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        wire.decode_sites(framed(Message.SITES, body, count))


# ---- STEPS and REPLIES -----------------------------------------------------------------------------------------------


def step_item(
    ticket: int = 0,
    trace: int = 0,
    state: int = 0,
    site: int = 0,
    told: list[tuple[int, int, float]] | None = None,
    prior: bytes = NORMAL,
    **wrong: int,
) -> bytes:
    told = told or []
    body = np.array(told, dtype=DTYPES["told"]).tobytes() + prior
    head = np.array([(40 + len(body), ticket, trace, state, site, 2, len(told), 0)], dtype=DTYPES["step"])
    for field, value in wrong.items():
        head[field] = value
    return head.tobytes() + body


def steps(*items: bytes, count: int | None = None) -> bytes:
    return framed(Message.STEPS, b"".join(items), len(items) if count is None else count)


def test_steps_of_all_sizes_are_read() -> None:
    batch = wire.decode_steps(
        steps(
            step_item(5, 10, 0, 0),
            step_item(6, 11, 77, 1, [(0, 0, 1.5), (0, 1, -2.5)], UNIFORM),
            step_item(7, 2**63, 2**40, NO_SITE, [(1, 0, 0.25)], b""),
        ),
        TABLE,
    )
    assert len(batch) == 3
    assert batch.ticket.tolist() == [5, 6, 7]
    assert batch.trace.tolist() == [10, 11, 2**63]
    assert batch.state.tolist() == [0, 77, 2**40]
    assert batch.site.tolist() == [0, 1, NO_SITE]
    assert batch.instance.tolist() == [2, 2, 2]
    assert batch.asks.tolist() == [True, True, False]
    assert batch.told_offsets.tolist() == [0, 0, 2, 3]
    assert batch.told_site.tolist() == [0, 0, 1]
    assert batch.told_instance.tolist() == [0, 1, 0]
    assert batch.told_value.tolist() == [1.5, -2.5, 0.25]
    assert batch.priors == [NORMAL, UNIFORM, b""]
    assert batch.prior_kind.tolist() == [DistKind.NORMAL, DistKind.UNIFORM, 0]
    assert batch.prior_offsets.tolist() == [0, 2, 4, 4]
    assert batch.prior_values.tobytes() == NORMAL[8:] + UNIFORM[8:]


def test_equal_questions_are_known_by_their_bytes() -> None:
    told = [(0, 0, 1.5)]
    rows = [step_item(1, 10, 5, 0, told), step_item(2, 11, 5, 0, told)]  # another ticket and another trace
    others = [
        step_item(3, 10, 6, 0, told),
        step_item(4, 10, 5, 1, told, UNIFORM),
        step_item(5, 10, 5, 0, []),
        step_item(6, 10, 5, 0, [(0, 0, 1.25)]),
        step_item(7, 10, 5, 0, told, NORMAL[:-8] + np.array([2.5]).tobytes()),
        step_item(8, 10, 5, 0, told, instance=7),
    ]
    questions = wire.decode_steps(steps(*rows, *others), TABLE).questions
    assert questions[0] == questions[1]
    assert len(set(questions)) == 1 + len(others)


def test_several_messages_make_one_batch() -> None:
    one = wire.decode_steps(steps(step_item(1, 1, told=[(0, 0, 1.0)]), step_item(2, 2)), TABLE)
    two = wire.decode_steps(steps(step_item(3, 3, told=[(0, 0, 2.0), (0, 1, 3.0)])), TABLE)
    both = wire.concatenate_steps([one, two])
    whole = wire.decode_steps(
        steps(step_item(1, 1, told=[(0, 0, 1.0)]), step_item(2, 2), step_item(3, 3, told=[(0, 0, 2.0), (0, 1, 3.0)])),
        TABLE,
    )
    for field in wire.StepBatch.__slots__:
        if field not in ("items", "item_offsets"):
            np.testing.assert_array_equal(getattr(both, field), getattr(whole, field))
    assert both.questions == whole.questions and both.priors == whole.priors
    assert wire.concatenate_steps([one]) is one
    with pytest.raises(ProtocolError, match="ticket comes twice"):
        wire.concatenate_steps([one, one])


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (steps(), "count is 0"),
        (steps(step_item(), count=2), "count 2, but the frame has only 88 bytes"),
        (steps(step_item(), step_item(1), count=1), "bytes after the last item"),
        (steps(step_item(size=64 - 4)), "item 0: an item's size 60 is not a multiple of 8"),
        (steps(step_item(size=0)), "item 0: an item's size 0 is not"),
        (steps(step_item(size=9000)), "item 0: an item's size 9000 is not"),
        (steps(step_item(), step_item(1, size=4096)), "item 1: an item of 4096 bytes is cut short to 64"),
        (steps(step_item(), step_item()), "ticket comes twice"),
        (steps(step_item(n_more=256)), "asks for 256 draws more"),
        (steps(step_item(n_more=1)), "too few for a distribution"),
        (steps(step_item(prior=NORMAL + NORMAL, n_more=1)), "too few for a stream"),
        (steps(step_item(site=9)), "asked about 9, which is no sample site"),
        (steps(step_item(site=4)), "asked about 4, which is no sample site"),
        (steps(step_item(told=[(2, 0, 1.0)])), "told of 2, which is no sample site"),
        (steps(step_item(told=[(0, 0, np.inf)])), "told of a value that is not finite"),
        (steps(step_item(told=[(0, k, 0.0) for k in range(129)])), "129 values told: at most 128"),
        (steps(step_item(n_told=2)), "2 values told do not fit"),
        (steps(step_item(n_told=2**31)), "2147483648 values told: at most"),
        (steps(step_item(site=NO_SITE)), "a step request of 64 bytes has content for 40"),
        (steps(step_item(prior=b"")), "0 bytes are too few for a distribution"),
        (steps(step_item(prior=UNIFORM)), "site 0 has distribution kind 1, and was announced with 2"),
        (steps(step_item(prior=NORMAL + bytes(8))), "72 bytes has content for 64"),
        (steps(step_item(prior=edited(NORMAL, "dist", "n", 2**31))), "2147483648 numbers does not fit"),
        (
            steps(step_item(prior=NORMAL[:8] + np.array([np.nan, 1.0]).tobytes())),
            "parameter 0 of distribution kind 2 is NaN",
        ),
        (steps(step_item()) + b"1234", "size"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_wrong_steps_are_refused(frame: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        wire.decode_steps(frame, TABLE)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_bytes_of_a_peer_do_worse_than_a_protocol_error(data: st.DataObject) -> None:
    frames: list[tuple[bytes, Callable[[bytes], Any]]] = [
        (
            steps(step_item(told=[(0, 0, 1.0)]), step_item(1, site=1, prior=UNIFORM)),
            lambda f: wire.decode_steps(f, TABLE),
        ),
        (framed(Message.SITES, site_item(0, 1, 2, b"some/x"), 1), wire.decode_sites),
        (wire.encode_hello(HELLO), wire.decode_hello),
        (wire.encode_run(wire.RunConfig(1, 1, RunFlag.POSTERIOR, observed={"y": np.ones(2)}), 1), wire.decode_run),
        (
            wire.encode_replies(np.arange(2), wire.Replies(np.ones(2), np.zeros(2), [NORMAL, b""]), 1),
            wire.decode_replies,
        ),
    ]
    frame, decode = data.draw(st.sampled_from(frames))
    raw = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for mangled in (bytes(raw), bytes(raw[:cut])):
        with contextlib.suppress(ProtocolError):
            decode(mangled)


def test_replies_are_read_back() -> None:
    replies = wire.Replies(
        np.array([1, 2, 3], dtype=np.uint64),
        np.array([0, ReplyFlag.ALWAYS_PRIOR, 0], dtype=np.uint32),
        [NORMAL, wire.PRIOR, b""],
    )
    frame = wire.encode_replies(np.array([9, 8, 7], dtype=np.uint32), replies, 4)
    assert wire.decode_header(frame) == wire.Header(Message.REPLIES, 24 + 3 * 24 + 24 + 8, 3, 4, VERSION)
    tickets, read = wire.decode_replies(frame)
    assert tickets.tolist() == [9, 8, 7]
    assert read.state.tolist() == [1, 2, 3]
    assert read.flags.tolist() == replies.flags.tolist()
    assert list(read.proposals) == list(replies.proposals)


# ---- TRACES ----------------------------------------------------------------------------------------------------------


def columns() -> dict[str, Any]:
    """Three traces; the second failed. x outside the loop, u inside, y observed, mu (2 values). The last has
    two rejected tries, the first of them inside the second."""
    traces = np.zeros(3, dtype=DTYPES["trace"])
    traces["trace"] = [4, 2, 9]
    traces["failure"] = [0, FailureKind.TIMEOUT, 0]
    for field, count in (("n_samples", 2), ("n_observes", 1), ("n_results", 1), ("n_loops", 2), ("n_values", 5)):
        traces[field] = [count, 0, count]
    samples = np.zeros(4, dtype=DTYPES["sample"])
    samples["site"], samples["loop"] = [0, 1, 0, 1], [-1, 1, -1, 1]
    samples["prior"], samples["n_params"] = [2, 1, 2, 1], [2, 0, 2, 0]
    samples["log_p"] = [-1.0, -np.inf, -1.0, 0.0]
    observes = np.zeros(2, dtype=DTYPES["values"])
    observes["site"], observes["n"] = 2, 1
    results = np.zeros(2, dtype=DTYPES["result"])
    results["site"], results["n"] = 3, 2
    loops = np.zeros(4, dtype=DTYPES["loop"])
    loops["site"], loops["parent"], loops["tries"] = 4, [-1, 0, -1, 0], 3
    loops["tries_q"], loops["accepted_q"], loops["runs_p"], loops["tries_p"] = 10, 4, 1, 2
    failures = np.zeros(1, dtype=DTYPES["failure"])
    failures["trace"], failures["kind"], failures["text"] = 2, FailureKind.TIMEOUT, b"60 s are over"
    failures["loop"], failures["site"] = 4, NO_SITE
    traces["n_tries"] = [0, 0, 2]
    tries = np.zeros(2, dtype=DTYPES["try"])
    tries["site"], tries["parent"], tries["prefix"], tries["n_samples"] = 4, [1, -1], [2, 1], [1, 2]
    tries["recorded"], tries["rejected"] = [1, 2], [1, 7]
    rejected = np.zeros(3, dtype=DTYPES["sample"])
    rejected["site"], rejected["loop"], rejected["prior"], rejected["n_params"] = 1, [0, 1, 1], 1, [2, 0, 0]
    traces["n_values"][2] += 2
    values = np.arange(12.0)
    return {
        "traces": traces,
        "samples": samples,
        "observes": observes,
        "results": results,
        "loops": loops,
        "values": values,
        "failures": failures,
        "tries": tries,
        "rejected": rejected,
    }


def trace_message(parts: dict[str, Any], count: int | None = None) -> list[bytes]:
    head = framed(Message.TRACES, count=len(parts["traces"]) if count is None else count)
    return [head, *(part.tobytes() for part in parts.values())]


TEN = wire.RunConfig(1, 10, RunFlag(0))


def test_traces_are_read() -> None:
    parts = columns()
    read = wire.decode_traces(trace_message(parts), TABLE, TEN)
    assert isinstance(read, Columns)
    for name, part in parts.items():
        np.testing.assert_array_equal(getattr(read, name), part)
        assert getattr(read, name).flags.writeable  # a copy


@pytest.mark.parametrize(
    ("column", "row", "field", "value", "says"),
    [
        ("traces", 0, "trace", 10, "trace 10 is outside the run"),
        ("traces", 0, "trace", 9, "traces: a trace comes twice"),
        ("traces", 0, "n_tries", 1, "tries: the traces' counts add up to 3, not 2"),
        ("tries", 0, "site", 0, "tries: site 'x' is a latent, not a loop"),
        ("tries", 0, "parent", 0, "tries: parent is not the index of a later try"),
        ("tries", 0, "parent", 2, "tries: parent is not the index of a later try"),
        ("tries", 1, "parent", 0, "tries: parent is not the index of a later try"),
        ("tries", 1, "parent", -2, "tries: parent is not the index of a later try"),
        ("tries", 0, "prefix", 3, "tries: prefix is more than the samples"),
        ("tries", 1, "prefix", 3, "tries: prefix is more than the samples"),
        ("tries", 0, "n_samples", 2, "rejected: the tries' counts add up to 4, not 3"),
        ("tries", 0, "recorded", 0, "tries: recorded is 0"),
        ("tries", 1, "rejected", 1, "tries: recorded is 0, or above rejected"),
        ("rejected", 0, "loop", 1, "rejected: loop is not the index of the try"),
        ("rejected", 0, "site", 4, "rejected: site 'loop' is a loop, not a latent"),
        ("rejected", 0, "value", np.inf, "rejected: value is not finite"),
        ("rejected", 0, "log_p", np.nan, "rejected: log_p is NaN"),
        ("rejected", 0, "prior", 2, "rejected: a prior's kind"),
        ("rejected", 0, "n_params", 0, "values: n_values differs"),
        ("traces", 1, "failure", 99, "failure 99 is unknown"),
        ("traces", 0, "log_likelihood", np.nan, "log_likelihood is NaN"),
        ("traces", 0, "log_ratio_all", np.inf, r"log_ratio_all is NaN or \+inf"),
        ("traces", 0, "n_samples", 3, "samples: the traces' counts add up to 5, not 4"),
        ("traces", 0, "n_loops", 2**32 - 1, "loops: the traces' counts"),
        ("traces", 0, "failure", 3, "samples: a failed trace has some"),
        ("traces", 1, "failure", 0, "failures: 1 records for 0 failed traces"),
        ("results", 0, "n", 1, "values: n_values differs"),
        ("samples", 0, "n_params", 1, "values: n_values differs"),
        ("samples", 0, "site", 5, "samples: site 5 is unknown"),
        ("samples", 0, "site", 4, "samples: site 'loop' is a loop, not a latent"),
        ("samples", 0, "value", np.nan, "samples: value is not finite"),
        ("samples", 0, "log_q", -np.inf, "samples: log_q is not finite"),
        ("samples", 0, "log_p", np.nan, "samples: log_p is NaN"),
        ("samples", 1, "loop", 2, "samples: loop is not the index"),
        ("samples", 1, "loop", -2, "samples: loop is not the index"),
        ("samples", 1, "prior", 2, "samples: a prior's kind"),
        ("observes", 0, "site", 3, "observes: site 'mu' is a result"),
        ("observes", 0, "log_p", np.nan, "observes: log_p is NaN"),
        ("results", 0, "site", 2, "results: site 'y' is an observation"),
        ("loops", 0, "site", 0, "loops: site 'x' is a latent, not a loop"),
        ("loops", 1, "parent", 1, "loops: parent"),
        ("loops", 0, "parent", 2, "loops: parent"),
        ("loops", 0, "tries", 0, "loops: tries is 0"),
        ("loops", 0, "accepted_q", 11, "accepted_q is above tries_q"),
        ("loops", 0, "tries_p", 0, "tries_p is below runs_p"),
        ("loops", 0, "runs_p", 0, "runs_p is 0, but tries_q or tries_p is not"),
        ("loops", 0, "log_ratio_rejected", np.nan, "log_ratio_rejected is NaN"),
        ("loops", 0, "s_pq_sum", -1.0, "s_pq_sum is negative"),
        ("loops", 0, "s_pq_main", np.nan, "s_pq_main is negative or NaN"),
        ("loops", 0, "abandoned", 2, "abandoned is above 1, or 1 in a loop with estimates"),
        ("loops", 0, "abandoned", 1, "abandoned is above 1, or 1 in a loop with estimates"),
        ("loops", 0, "abandoned_p", 9, "abandoned_p is above runs_p"),
        ("loops", 0, "abandoned_q", 1, "abandoned_tries does not fit abandoned_q"),
        ("loops", 0, "abandoned_tries", 1, "abandoned_tries does not fit abandoned_q"),
        ("failures", 0, "trace", 3, "record's trace or kind differs"),
        ("failures", 0, "kind", 1, "record's trace or kind differs"),
        ("failures", 0, "text", b"x" * 512, "no terminating zero"),
        ("failures", 0, "loop", 3, "failures: site 'mu' is a result, not a loop"),
        ("failures", 0, "loop", 99, "failures: site 99 is unknown"),
        ("failures", 0, "site", 4, "failures: site 4 is unknown, or a loop"),
        ("failures", 0, "site", 99, "failures: site 99 is unknown, or a loop"),
    ],
)
def test_wrong_traces_are_refused(column: str, row: int, field: str, value: object, says: str) -> None:
    parts = columns()
    parts[column][field][row] = value
    with pytest.raises(ProtocolError, match=says):
        wire.decode_traces(trace_message(parts), TABLE, TEN)


def test_traces_that_a_run_does_not_list_are_refused() -> None:
    config = TEN._replace(n_traces=3, first_trace=2, listed=listed({2: [], 4: [], 9: []}))
    wire.decode_traces(trace_message(columns()), TABLE, config)
    with pytest.raises(ProtocolError, match="trace 4 is outside the run"):
        wire.decode_traces(trace_message(columns()), TABLE, config._replace(listed=listed({2: [], 5: [], 9: []})))


def test_wrong_frames_of_traces_are_refused() -> None:
    good = trace_message(columns())
    for frames, says in (
        ([], "no frames"),
        (good[:-1], "9 frames, must be 10"),
        ([good[0], good[1][:-1], *good[2:]], "traces: 191 bytes"),
        (trace_message(columns(), count=2), "count 2, but the traces column has 3"),
        (trace_message(columns(), count=0), "count 0"),
        ([framed(Message.TRACES, b"12345678", 3), *good[1:]], "header frame of 32 bytes"),
    ):
        with pytest.raises(ProtocolError, match=says):
            wire.decode_traces(frames, TABLE, TEN)
    parts = columns()
    parts["values"][3] = np.nan
    with pytest.raises(ProtocolError, match="values: a value is NaN"):
        wire.decode_traces(trace_message(parts), TABLE, TEN)


# ---- DONE ------------------------------------------------------------------------------------------------------------


def test_done() -> None:
    message = np.zeros(1, dtype=DTYPES["done"])
    message["header"] = np.frombuffer(framed(Message.DONE, size=72), DTYPES["header"])
    counters = [field for field in wire.Done._fields if field != "cancelled"]
    for value, field in enumerate(counters):
        message[field] = value + 1
    done = wire.decode_done(message.tobytes())
    assert done == wire.Done(1, 2, False, 3, 4, 5)
    with pytest.raises(ProtocolError, match="cancelled is 2"):
        wire.decode_done(edited(message.tobytes(), "done", "cancelled", 2))
    with pytest.raises(ProtocolError, match="DONE: 24 bytes, must be 72"):
        wire.decode_done(framed(Message.DONE))
    with pytest.raises(ProtocolError, match="DONE: expected, but this is QUIT"):
        wire.decode_done(wire.encode_quit())


# ---- golden frames: written with `struct`, read by the C code and by us ----------------------------------------------


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
