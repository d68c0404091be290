"""Messages as bytes: what we write is read back, what a peer may not write is refused with the field's name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_frames import HELLO, edited, framed, listed, site_item

from ars import wire
from ars._native import MAX_MESSAGE, MAX_NAME, VERSION, DistKind, Message, RunFlag, SiteKind
from ars.columns import Site
from ars.errors import ProtocolError

# ---- headers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "0 bytes, a header has 24"),
        (framed(Message.DONE)[:23], "23 bytes"),
        (framed(Message.DONE, magic=7), "magic 0x00000007"),
        (framed(99), "type 99 is unknown"),
        (framed(Message.DONE, version=1), "DONE: protocol version 1, this package supports 5 to 5"),
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
