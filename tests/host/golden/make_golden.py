"""Writes the golden frames: one file per message, valid and broken, and index.json.

Made with ``struct`` from the tables of PROTOCOL.md, so that neither of our codecs is tested against itself. A file is a
message's frames one after another; the index says how long each is. Run it again after a change of the protocol:

    python tests/host/golden/make_golden.py
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MAGIC = 0x31535241
VERSION = 5
(HELLO, WELCOME, RUN, SITES, STEPS, REPLIES, TRACES, DONE, CANCEL, QUIT, ERROR) = range(1, 12)
POSTERIOR, PROPOSE_PRIOR, LOOPS_PRIOR, ESTIMATE, RECORD_PRIORS, RECORD_REJECTED, ASK_AHEAD = 1, 2, 4, 8, 16, 32, 64
REWIND, CHECK, PILOT = 128, 256, 512
SAMPLE, OBSERVE, RESULT, LOOP = 1, 2, 3, 4
UNIFORM, NORMAL, CATEGORICAL, TRUNCATED_NORMAL, SCALED_BETA, MIXTURE, PRIOR, GIVEN = 1, 2, 4, 12, 13, 14, 15, 16
NO_SITE = 0x7FFFFFFF
NAN, INF = float("nan"), float("inf")


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def frame(
    kind: int,
    body: bytes = b"",
    count: int = 0,
    run: int = 0,
    *,
    magic: int = MAGIC,
    version: int = VERSION,
    size: int | None = None,
) -> bytes:
    size = 24 + len(body) if size is None else size
    return struct.pack("<IHHIIQ", magic, version, kind, size, count, run) + body


def hello(
    low: int = VERSION, high: int = VERSION, workers: int = 16, token: bytes = b"0123456789abcdef0123456789abcdef"
) -> bytes:
    return frame(HELLO, struct.pack("<HHIII32s", low, high, workers, 4242, 4243, token))


def welcome(version: int = VERSION, reserved: int = 0) -> bytes:
    return frame(WELCOME, struct.pack("<HHI", version, reserved, 0))


def budget(address: bytes, runs_p: int = 0, tries_q: int = 0, accepted_q: int = 0, *, size: int | None = None) -> bytes:
    return struct.pack("<4I", len(address) if size is None else size, runs_p, tries_q, accepted_q) + pad(address)


def listed(trace: int, *tries: int, n_tries: int | None = None, reserved: int = 0) -> bytes:
    n_tries = len(tries) if n_tries is None else n_tries
    return struct.pack("<QII", trace, n_tries, reserved) + pad(struct.pack(f"<{len(tries)}I", *tries))


def run(
    number: int = 1,
    *,
    seed: int = 7,
    first: int = 0,
    n: int = 100,
    flags: int = POSTERIOR | ESTIMATE,
    tries_q: int = 10,
    runs_p: int = 2,
    accepted_q: int = 0,
    max_workers: int = 0,
    max_tries: int = 1000,
    timeout: float = 60.0,
    try_timeout: float = 5.0,
    max_rejected: int = 0,
    observed: dict[bytes, list[float]] | None = None,
    budgets: list[bytes] | None = None,
    listing: list[bytes] | None = None,
    count: int | None = None,
    n_budgets: int | None = None,
    n_listed: int | None = None,
    tail: bytes = b"",
) -> bytes:
    data, budgets, listing = observed or {}, budgets or [], listing or []
    n_budgets = len(budgets) if n_budgets is None else n_budgets
    n_listed = len(listing) if n_listed is None else n_listed
    body = struct.pack("<QQQIIIIQ", seed, first, n, flags, runs_p, tries_q, accepted_q, max_tries)
    body += struct.pack("<dd", timeout, try_timeout)
    body += struct.pack("<IIII", max_workers, max_rejected, n_budgets, n_listed)
    body += b"".join(struct.pack("<II", len(name), len(values)) for name, values in data.items())
    body += b"".join(pad(name) for name in data)
    body += b"".join(struct.pack(f"<{len(values)}d", *values) for values in data.values())
    body += b"".join(budgets) + b"".join(listing) + tail
    return frame(RUN, body, len(data) if count is None else count, number)


def site(number: int, kind: int, dist: int, name: bytes) -> bytes:
    return struct.pack("<IHHII", number, kind, dist, len(name), 0) + pad(name)


def sites(*items: bytes, count: int | None = None) -> bytes:
    return frame(SITES, b"".join(items), len(items) if count is None else count, 1)


def dist(kind: int, *numbers: float, n: int | None = None) -> bytes:
    return struct.pack("<HHI", kind, 0, len(numbers) if n is None else n) + struct.pack(f"<{len(numbers)}d", *numbers)


def step(
    ticket: int,
    site_id: int,
    prior: bytes,
    told: list[tuple[int, int, float]] | None = None,
    *,
    size: int | None = None,
    n_told: int | None = None,
    n_more: int = 0,
    trace: int = 5,
    state: int = 3,
) -> bytes:
    told = told or []
    body = b"".join(struct.pack("<IId", *entry) for entry in told) + prior
    size = 40 + len(body) if size is None else size
    n_told = len(told) if n_told is None else n_told
    return struct.pack("<IIQQIIII", size, ticket, trace, state, site_id, 0, n_told, n_more) + body


def stream(block: int = 24, used: int = 6, reserved: int = 0) -> bytes:
    return struct.pack("<IIQQII", 0x12345678, 0x9ABCDEF0, 5, block, used, reserved)


def steps(*items: bytes, count: int | None = None) -> bytes:
    return frame(STEPS, b"".join(items), len(items) if count is None else count, 1)


def reply(ticket: int, proposal: bytes, *, flags: int = 0, size: int | None = None, n_more: int = 0) -> bytes:
    return struct.pack("<IIQII", 24 + len(proposal) if size is None else size, ticket, 9, flags, n_more) + proposal


def replies(*items: bytes, count: int | None = None, run_number: int = 1) -> bytes:
    return frame(REPLIES, b"".join(items), len(items) if count is None else count, run_number)


def trace(
    number: int,
    failure: int = 0,
    n_samples: int = 0,
    n_observes: int = 0,
    n_results: int = 0,
    n_loops: int = 0,
    n_values: int = 0,
    n_tries: int = 0,
    log_likelihood: float = -1.5,
) -> bytes:
    counts = (n_samples, n_observes, n_results, n_loops, n_values)
    return struct.pack("<QII5IIddd", number, failure, n_loops, *counts, n_tries, log_likelihood, 0.25, -0.5)


def sample(site_id: int = 0, loop: int = 0, prior: int = NORMAL, n_params: int = 2, value: float = 0.5) -> bytes:
    return struct.pack("<IIiHHddd", site_id, 0, loop, prior, n_params, value, -1.0, -1.25)


def values(site_id: int, n: int, log_p: float) -> bytes:
    return struct.pack("<IId", site_id, n, log_p)


def result(site_id: int, n: int, n_dims: int = 0, reserved: int = 0) -> bytes:
    return struct.pack("<IIII", site_id, n, n_dims, reserved)


def loop(
    site_id: int = 4,
    parent: int = -1,
    tries: int = 3,
    tries_q: int = 10,
    accepted_q: int = 4,
    *,
    method: int = 1,
    reason: int = 2,
    runs_p: int = 2,
    tries_p: int = 5,
    s_pq_main: float = 0.5,
    abandoned: tuple[int, int, int, int] = (0, 1, 2, 7),
) -> bytes:
    body = struct.pack("<IIiIQdQQQQd", site_id, 0, parent, 5, tries, -0.75, tries_q, accepted_q, runs_p, tries_p, 1.5)
    return body + struct.pack("<IHHiIdIIQQ", 3, method, reason, 41, 12, s_pq_main, *abandoned)


def rejected_try(
    parent: int = -1, prefix: int = 1, n_samples: int = 1, recorded: int = 1, total: int = 1, site_id: int = 4
) -> bytes:
    return struct.pack("<IIiIIIQ", site_id, 0, parent, prefix, n_samples, recorded, total)


def failure(
    number: int, kind: int = 1, text: bytes = b"ended by signal 11", loop_id: int = 4, site_id: int = 1
) -> bytes:
    return struct.pack("<QIiII512s", number, kind, 11, loop_id, site_id, text)


def traces(columns: list[bytes], count: int = 2) -> list[bytes]:
    return [frame(TRACES, b"", count, 1), *columns]


GOOD_SITES = [
    site(0, SAMPLE, NORMAL, b"mu"),
    site(1, SAMPLE, UNIFORM, b"loop/x"),
    site(2, OBSERVE, NORMAL, b"y"),
    site(3, RESULT, 0, "r\u00e9sultat".encode()),
    site(4, LOOP, 0, b"loop"),
]


def good_columns() -> list[bytes]:
    return [
        trace(5, n_samples=2, n_observes=1, n_results=1, n_loops=1, n_values=7) + trace(6, failure=1),
        sample() + sample(site_id=1, loop=-1, prior=UNIFORM),
        values(2, 1, -1.5),
        result(3, 2),
        loop(),
        struct.pack("<7d", 0.1, 1.0, 2.0, 0.0, 1.0, -1.0, 1.0),
        failure(6),
        b"",
        b"",
    ]


def shaped_columns(
    axes: tuple[float, ...] = (2.0, 3.0), elements: int = 6, n_dims: int = 2, reserved: int = 0
) -> list[bytes]:
    """A result with a shape, between two without."""
    n = len(axes) + elements
    numbers = [0.1, 7.0, *axes, *map(float, range(elements)), 8.0, 9.0, 0.0, 1.0, -1.0, 1.0]
    columns = good_columns()
    columns[0] = trace(5, n_samples=2, n_observes=1, n_results=3, n_loops=1, n_values=len(numbers)) + trace(
        6, failure=1
    )
    columns[3] = result(3, 1) + result(3, n, n_dims, reserved) + result(3, 2)
    columns[5] = struct.pack(f"<{len(numbers)}d", *numbers)
    return columns


def rejected_columns(tries: list[bytes] | None = None, rejected: list[bytes] | None = None) -> list[bytes]:
    """Trace 5 has three rejected tries: one in the second, which is in none, and another of the same loop."""
    if tries is None:
        tries = [rejected_try(1, 1), rejected_try(-1, 1, 2, 2, 7), rejected_try(-1, 1, 0, 2, 7)]
    if rejected is None:
        x = {"site_id": 1, "prior": UNIFORM}
        rejected = [sample(loop=0, **x), sample(loop=1, **x), sample(loop=1)]
    head = trace(5, n_samples=2, n_observes=1, n_results=1, n_loops=1, n_values=13, n_tries=len(tries))
    return [
        head + trace(6, failure=1),
        *good_columns()[1:5],
        struct.pack("<13d", 0.1, 1.0, 2.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.0, 1.0),
        failure(6),
        b"".join(tries),
        b"".join(rejected),
    ]


def changed(column: int, data: bytes) -> list[bytes]:
    columns = good_columns()
    columns[column] = data
    return columns


def mixture() -> bytes:
    return dist(MIXTURE, 0.25, NORMAL, 0.0, 1.0, 0.0, 0.0, 0.75, SCALED_BETA, 2.0, 3.0, -1.0, 1.0)


def valid() -> Iterator[tuple[str, list[bytes]]]:
    prior = dist(NORMAL, 0.0, 1.0)
    yield "hello", [hello()]
    yield "welcome", [welcome()]
    yield "run", [run(observed={b"y": [0.5, -1.0], "donn\u00e9es".encode(): [3.0]})]
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
    yield "run_missing", [run(9, observed={b"y": [0.5, NAN, other_nan], b"z": [NAN]})]
    yield "run_prior", [run(2, flags=PROPOSE_PRIOR | RECORD_PRIORS, tries_q=0, runs_p=0, timeout=0.0)]
    yield "run_ahead", [run(4, flags=POSTERIOR | ESTIMATE | ASK_AHEAD)]
    recording = PROPOSE_PRIOR | RECORD_PRIORS | RECORD_REJECTED
    yield "run_check", [run(4, flags=POSTERIOR | ESTIMATE | REWIND | CHECK)]
    yield "run_rejected", [run(3, flags=recording, tries_q=0, runs_p=0, max_rejected=64)]
    yield "run_accepted", [run(5, tries_q=0, accepted_q=3)]
    yield "run_none_accepted", [run(5, tries_q=0, runs_p=2**30 - 1, flags=ESTIMATE | PILOT)]
    budgets = [budget(b"loop"), budget(b"loop/a", 1, 7), budget(b"loop2", 2, 0, 5), budget("\u00e9".encode(), 3)]
    yield "run_budgets", [run(6, observed={b"y": [0.5]}, budgets=budgets)]
    listing = [listed(3), listed(4, 1, 0, 2**32 - 1), listed(2**63, 5, 6), listed(2**64 - 2)]
    yield "run_listed", [run(7, first=3, n=4, listing=listing)]
    yield "run_all_parts", [run(8, first=3, n=4, observed={b"y": [0.5]}, budgets=budgets, listing=listing)]
    yield "sites", [sites(*GOOD_SITES)]
    yield "steps", [steps(step(17, 0, prior), step(18, 1, dist(UNIFORM, -1.0, 1.0), [(0, 0, 0.5), (0, 1, -0.5)]))]
    yield "steps_tell_only", [steps(step(19, NO_SITE, b"", [(0, i, float(i)) for i in range(128)]))]
    three = prior + dist(NORMAL, 1.0, 2.0) + dist(NORMAL, -1.0, 0.5)
    yield (
        "steps_vector",
        [
            steps(
                step(17, 0, three + stream(), [(0, 0, 0.5)], n_more=2),
                step(18, 0, prior),
                step(19, 0, prior + prior + stream(block=0, used=32), n_more=1),
            )
        ],
    )
    yield "replies_vector", [replies(reply(17, three, n_more=2), reply(18, prior), reply(19, dist(GIVEN, 0.5)))]
    yield (
        "replies",
        [
            replies(
                reply(17, mixture()),
                reply(18, dist(SCALED_BETA, 2.0, 3.0, -1.0, 1.0)),
                reply(19, b""),
                reply(20, dist(PRIOR), flags=1),
                reply(21, dist(TRUNCATED_NORMAL, 0.0, 1.0, 0.0, INF)),
                reply(22, dist(CATEGORICAL, 0.25, 0.25, 0.5)),
                reply(23, dist(GIVEN, -0.5)),
            )
        ],
    )
    yield "traces", traces(good_columns())
    yield "traces_rejected", traces(rejected_columns())
    yield "traces_shaped", traces(shaped_columns())
    yield "traces_shaped_empty", traces(shaped_columns((0.0, 5.0, 2.0), 0, 3))
    yield "done", [frame(DONE, struct.pack("<6Q", 100, 16, 0, 2, 5, 8), run=1)]
    yield "cancel", [frame(CANCEL, run=1)]
    yield "quit", [frame(QUIT)]
    text = b"the controller is out of memory"
    yield "error", [frame(ERROR, text, len(text))]
    yield "hello_newer", [frame(HELLO, struct.pack("<HHIII32s", 1, 9, 1, 2, 3, b"a" * 32), version=9)]


def broken_frames() -> Iterator[tuple[str, str, bytes]]:
    yield "bad_magic", "magic", frame(QUIT, magic=0x32535241)
    yield "bad_version", "version 4 outside HELLO, WELCOME and ERROR", frame(QUIT, version=4)
    yield "bad_version_older", "version 3 outside HELLO, WELCOME and ERROR", frame(QUIT, version=3)
    yield "bad_type", "type 12", frame(12)
    yield "short_header", "fewer bytes than a header", frame(QUIT)[:23]
    yield "empty", "no bytes", b""
    yield "size_too_large", "the header's size is more than the frame", frame(QUIT, size=32)
    yield "size_too_small", "the header's size is less than the frame", frame(RUN, run()[24:], 0, 1, size=104 - 8)
    yield "hello_truncated", "HELLO is cut", frame(HELLO, hello()[24:64])
    yield "hello_versions_reversed", "version_min above version_max", hello(3, 2)
    yield "hello_no_workers", "0 workers", hello(workers=0)
    yield "welcome_other_version", "a version that we do not speak", welcome(7)
    yield "welcome_reserved", "reserved is not 0", welcome(reserved=1)
    yield "quit_with_count", "a count where there are no items", frame(QUIT, count=1)
    yield "cancel_with_body", "bytes after the header", frame(CANCEL, bytes(8), run=1)
    yield (
        "done_cancelled_2",
        "cancelled is neither 0 nor 1",
        frame(DONE, struct.pack("<6Q", 0, 8, 2, 0, 0, 1), run=1),
    )


def broken_runs() -> Iterator[tuple[str, str, bytes]]:
    yield "run_number_0", "run number 0", run(0)
    yield "run_no_traces", "0 traces", run(n=0)
    yield "run_overflow", "first_trace + n_traces overflows", run(first=2**64 - 2, n=5)
    yield "run_unknown_flag", "an unknown flag", run(flags=1024)
    yield "run_no_budget", "ESTIMATE with M = 0", run(runs_p=0, tries_q=0)
    yield "run_no_runs", "N without M", run(flags=PROPOSE_PRIOR, runs_p=0)
    yield "run_large_runs", "M needs more than 30 bits", run(runs_p=2**30)
    yield "run_large_budget", "N needs more than 30 bits", run(tries_q=2**30)
    yield "run_large_accepted", "R needs more than 30 bits", run(tries_q=0, accepted_q=2**30)
    yield "run_both_budgets", "N and R", run(accepted_q=1)
    yield "run_pilot_alone", "PILOT without ESTIMATE", run(flags=PILOT)
    yield "run_no_tries", "max_tries 0", run(max_tries=0)
    yield "run_rejected_none", "RECORD_REJECTED with max_rejected 0", run(flags=PROPOSE_PRIOR | RECORD_REJECTED)
    yield "run_rejected_unasked", "max_rejected without RECORD_REJECTED", run(flags=PROPOSE_PRIOR, max_rejected=3)
    yield "run_rewind_alone", "REWIND without ESTIMATE", run(flags=REWIND)
    yield "run_check_alone", "CHECK without REWIND", run(flags=ESTIMATE | CHECK)
    yield "run_nan_timeout", "trace_timeout is NaN", run(timeout=NAN)
    yield "run_negative_timeout", "trace_timeout is negative", run(timeout=-1.0)
    yield "run_nan_try_timeout", "try_timeout is NaN", run(try_timeout=NAN)
    yield "run_negative_try_timeout", "try_timeout is negative", run(try_timeout=-1.0)
    yield "run_data_without_posterior", "data without POSTERIOR", run(flags=0, observed={b"y": [1.0]})
    yield "run_count_overflow", "count runs past the frame", run(observed={b"y": [1.0]}, count=0xFFFFFFFF)
    yield "run_name_too_long", "a name of 1025 bytes", run(observed={b"y" * 1025: [1.0]})
    yield "run_name_empty", "a name of 0 bytes", run(observed={b"": [1.0]})
    yield "run_infinite_data", "an observed value is infinite", run(observed={b"y": [0.5, -INF]})
    good = run(observed={b"y": [1.0, 2.0]})
    yield "run_values_missing", "fewer values than announced", frame(RUN, good[24:-8], 1, 1)
    yield "run_tail", "bytes after the last part", run(tail=bytes(8))
    yield from broken_budgets()
    yield from broken_lists()


def broken_budgets() -> Iterator[tuple[str, str, bytes]]:
    a, b = budget(b"a", 1, 2), budget(b"b", 1, 2)
    yield "run_budget_twice", "a budget comes twice", run(budgets=[a, b, b])
    yield "run_budget_order", "budgets out of order", run(budgets=[b, a])
    yield "run_budget_prefix", "a longer address first", run(budgets=[budget(b"a/b"), a])
    yield "run_budget_missing", "fewer budgets than announced", run(budgets=[a], n_budgets=2)
    yield "run_budget_more", "more budgets than announced", run(budgets=[a, b], n_budgets=1)
    yield "run_budget_many", "65537 budgets", run(budgets=[a], n_budgets=65537)
    yield "run_budget_both", "N and R in a budget", run(budgets=[budget(b"a", 1, 2, 3)])
    yield "run_budget_no_runs", "R without M in a budget", run(budgets=[budget(b"a", 0, 0, 3)])
    yield "run_budget_large", "M of a budget needs more than 30 bits", run(budgets=[budget(b"a", 2**30, 1)])
    yield "run_budget_name_empty", "an address of 0 bytes", run(budgets=[budget(b"", 1, 2)])
    yield "run_budget_name_long", "an address of 1025 bytes", run(budgets=[budget(b"a" * 1025, 1, 2)])
    yield "run_budget_name_cut", "an address runs past the frame", run(budgets=[budget(b"a", 1, 2, size=9)])
    yield "run_budget_name_not_utf8", "an address that is not UTF-8", run(budgets=[budget(b"a\xff", 1, 2)])
    yield "run_budget_padding", "padding that is not 0", run(budgets=[a[:-1] + b"!"])


def broken_lists() -> Iterator[tuple[str, str, bytes]]:
    def of(*listing: bytes, first: int = 3, n: int | None = None, n_listed: int | None = None) -> bytes:
        return run(first=first, n=len(listing) if n is None else n, listing=list(listing), n_listed=n_listed)

    a, b = listed(3, 1, 2), listed(5, 4)
    yield "run_listed_fewer", "not all traces are listed", of(a, b, n=3)
    yield "run_listed_missing", "fewer listed traces than announced", of(a, b, n=3, n_listed=3)
    yield "run_listed_more", "more listed traces than announced", of(a, b, n=1, n_listed=1)
    yield "run_listed_twice", "a listed trace comes twice", of(a, a)
    yield "run_listed_order", "listed traces descend", of(a, b, listed(4))
    yield "run_listed_first", "first_trace is not the first of the list", of(a, b, first=2)
    yield "run_listed_overflow", "trace number 2^64 - 1", of(a, listed(2**64 - 1))
    yield "run_listed_reserved", "reserved is not 0", of(listed(3, reserved=1))
    yield "run_listed_tries_missing", "fewer tries than announced", of(listed(3, 1, 2, n_tries=4))
    yield "run_listed_tries_overflow", "n_tries runs past the frame", of(listed(3, n_tries=2**32 - 1))
    yield "run_listed_padding", "padding that is not 0", of(listed(3, 1, 2, n_tries=1))


def broken_sites() -> Iterator[tuple[str, str, bytes]]:
    yield "sites_id_too_large", "an id over the limit", sites(site(65536, SAMPLE, NORMAL, b"x"))
    yield "sites_unknown_kind", "site kind 5", sites(site(0, 5, 0, b"x"))
    yield "sites_sample_without_dist", "a sample site without a distribution", sites(site(0, SAMPLE, 0, b"x"))
    yield "sites_loop_with_dist", "a loop with a distribution", sites(site(0, LOOP, NORMAL, b"x"))
    yield "sites_proposal_dist", "a site of a kind that is only a proposal", sites(site(0, SAMPLE, MIXTURE, b"x"))
    yield "sites_name_too_long", "a name of 1025 bytes", sites(site(0, SAMPLE, NORMAL, b"x" * 1025))
    yield "sites_name_zero", "a zero byte in a name", sites(site(0, SAMPLE, NORMAL, b"x\0y"))
    yield "sites_name_not_utf8", "a name that is not UTF-8", sites(site(0, SAMPLE, NORMAL, b"x\xff"))
    yield "sites_count_overflow", "count runs past the frame", sites(site(0, SAMPLE, NORMAL, b"x"), count=2)
    yield "sites_bad_padding", "padding that is not 0", sites(site(0, SAMPLE, NORMAL, b"x")[:-1] + b"!")


def broken_steps() -> Iterator[tuple[str, str, bytes]]:
    prior = dist(NORMAL, 0.0, 1.0)
    many = [(0, i, 0.0) for i in range(129)]
    yield "steps_none", "0 items", steps()
    yield "steps_truncated", "the last item is cut", frame(STEPS, step(1, 0, prior)[:-8], 1, 1)
    yield "steps_count_overflow", "count runs past the frame", steps(step(1, 0, prior), count=0xFFFFFFFF)
    yield "steps_count_too_small", "bytes after the last item", steps(step(1, 0, prior), step(2, 0, prior), count=1)
    told = [(0, i, 0.0) for i in range(128)]
    yield "steps_count_too_large", "fewer items than counted", steps(step(1, NO_SITE, b"", told), count=2)
    yield "steps_size_0", "an item of size 0", steps(step(1, 0, prior, size=0))
    yield "steps_size_odd", "an item size that is no multiple of 8", steps(step(1, 0, prior, size=60))
    yield "steps_item_too_large", "an item over the limit", steps(step(1, 0, prior + bytes(8192)))
    yield "steps_told_too_many", "129 values told", steps(step(1, 0, prior, many))
    yield "steps_told_overflow", "n_told runs past the item", steps(step(1, 0, prior, n_told=100))
    yield "steps_told_nan", "a told value is NaN", steps(step(1, 0, prior, [(0, 0, NAN)]))
    yield "steps_unknown_site", "a site that was never announced", steps(step(1, 70, prior))
    yield "steps_not_a_sample", "a site that is no sample site", steps(step(1, 4, prior))
    yield "steps_other_dist", "another distribution than announced", steps(step(1, 0, dist(UNIFORM, 0.0, 1.0)))
    yield "steps_unknown_dist", "distribution kind 99", steps(step(1, 0, dist(99, 0.0, 1.0)))
    yield "steps_nan_parameter", "a prior's parameter is NaN", steps(step(1, 0, dist(NORMAL, NAN, 1.0)))
    yield "steps_no_prior", "a request without its prior", steps(step(1, 0, b""))
    yield "steps_tell_only_with_prior", "a prior in a request that only tells", steps(step(1, NO_SITE, prior))
    yield "steps_dist_overflow", "a prior's n runs past the item", steps(step(1, 0, dist(NORMAL, 0.0, 1.0, n=2**31)))
    yield "steps_more_without_stream", "two priors without a stream", steps(step(1, 0, prior + prior, n_more=1))
    yield "steps_more_priors_missing", "3 draws, 2 priors", steps(step(1, 0, prior + prior + stream(), n_more=2))
    yield "steps_more_tell_only", "tells, and asks for more", steps(step(1, NO_SITE, b"", n_more=1))
    other = dist(UNIFORM, 0.0, 1.0)
    yield "steps_more_other_dist", "priors of two kinds", steps(step(1, 0, prior + other + stream(), n_more=1))
    yield "steps_more_too_many", "257 draws", steps(step(1, 0, prior * 257 + stream(), n_more=256))
    odd, long, early = stream(used=7), stream(used=34), stream(block=0, used=2)
    yield "steps_stream_odd", "an odd number of words used", steps(step(1, 0, prior + prior + odd, n_more=1))
    yield "steps_stream_long", "more words used than there are", steps(step(1, 0, prior + prior + long, n_more=1))
    yield "steps_stream_early", "words of no block", steps(step(1, 0, prior + prior + early, n_more=1))
    kept = stream(reserved=1)
    yield "steps_stream_reserved", "reserved is not 0", steps(step(1, 0, prior + prior + kept, n_more=1))


def broken_replies() -> Iterator[tuple[str, str, bytes]]:
    normal = dist(NORMAL, 0.0, 1.0)
    component = (1.0, NORMAL, 0.0, 1.0, 0.0, 0.0)
    yield "replies_none", "0 items", replies()
    yield "replies_unknown_dist", "distribution kind 999", replies(reply(1, dist(999)))
    yield "replies_nan_parameter", "a parameter is NaN", replies(reply(1, dist(NORMAL, NAN, 1.0)))
    yield "replies_infinite_parameter", "a mean is infinite", replies(reply(1, dist(NORMAL, INF, 1.0)))
    yield "replies_too_few_parameters", "a Normal with one number", replies(reply(1, dist(NORMAL, 0.0)))
    yield "replies_unknown_flag", "an unknown flag", replies(reply(1, normal, flags=2))
    yield "replies_always_prior_normal", "ALWAYS_PRIOR with a Normal", replies(reply(1, normal, flags=1))
    yield "replies_prior_with_parameters", "PRIOR with a parameter", replies(reply(1, dist(PRIOR, 1.0)))
    yield "replies_given_infinite", "a given value is infinite", replies(reply(1, dist(GIVEN, INF)))
    yield "replies_given_nothing", "a Given without a value", replies(reply(1, dist(GIVEN)))
    of_given = [1.0, GIVEN, 0.5, 0.0, 0.0, 0.0]
    yield "replies_mixture_of_given", "a given value in a mixture", replies(reply(1, dist(MIXTURE, *of_given)))
    yield "replies_mixture_ragged", "a mixture of 7 numbers", replies(reply(1, dist(MIXTURE, *component, 0.0)))
    yield "replies_mixture_empty", "a mixture of no components", replies(reply(1, dist(MIXTURE)))
    yield "replies_mixture_too_large", "65 components", replies(reply(1, dist(MIXTURE, *(component * 65))))
    nested = (1.0, MIXTURE, 0.0, 1.0, 0.0, 0.0)
    yield "replies_mixture_nested", "a mixture in a mixture", replies(reply(1, dist(MIXTURE, *nested)))
    negative = (-1.0, NORMAL, 0.0, 1.0, 0.0, 0.0)
    yield "replies_mixture_negative", "a negative weight", replies(reply(1, dist(MIXTURE, *negative)))
    yield "replies_categories_too_many", "513 categories", replies(reply(1, dist(CATEGORICAL, *([1 / 513] * 513))))
    yield "replies_categories_none", "0 categories", replies(reply(1, dist(CATEGORICAL)))
    yield "replies_more_missing", "3 proposals, 2 there", replies(reply(1, normal + normal, n_more=2))
    yield "replies_more_flags", "several, and ALWAYS_PRIOR", replies(reply(1, dist(PRIOR) * 2, flags=1, n_more=1))
    yield "replies_more_uncounted", "2 proposals, 1 counted", replies(reply(1, normal + normal))
    yield "replies_more_than_none", "more proposals than none", replies(reply(1, b"", n_more=1))
    yield "replies_size_past_end", "an item runs past the frame", replies(reply(1, normal, size=80))
    yield "replies_count_too_small", "bytes after the last item", replies(reply(1, normal), reply(2, normal), count=1)


def broken_tries() -> Iterator[tuple[str, str, list[bytes]]]:
    inner, outer, again = rejected_try(1, 1), rejected_try(-1, 1, 2, 2, 7), rejected_try(-1, 1, 0, 2, 7)

    def tries(first: bytes = inner, second: bytes = outer, third: bytes = again) -> list[bytes]:
        return traces(rejected_columns([first, second, third]))

    yield "traces_try_site", "a try of a sample's site", tries(rejected_try(1, 1, site_id=1))
    yield "traces_try_parent_itself", "a try that is in itself", tries(rejected_try(0, 1))
    yield "traces_try_parent_earlier", "a try in one that was over before", tries(third=rejected_try(1, 1, 0, 2, 7))
    yield "traces_try_parent_missing", "a try in one that is not there", tries(rejected_try(3, 1))
    yield "traces_try_parent_negative", "parent -2", tries(rejected_try(-2, 1))
    yield "traces_try_prefix", "a try after more samples than its parent has", tries(rejected_try(1, 3))
    yield "traces_try_prefix_trace", "a try after more samples than the trace has", tries(rejected_try(-1, 3))
    yield "traces_try_recorded", "recorded is 0", tries(rejected_try(1, 1, 1, 0, 1))
    yield "traces_try_rejected", "fewer rejected than recorded", tries(rejected_try(1, 1, 1, 2, 1))
    yield "traces_try_samples", "more rejected samples than there are", tries(third=rejected_try(-1, 1, 2**32 - 1))
    yield "traces_try_samples_few", "rejected samples that belong to nobody", tries(rejected_try(1, 1, 0))
    x = {"site_id": 1, "prior": UNIFORM}
    last = [sample(loop=1, **x), sample(loop=1)]
    yield "traces_rejected_try", "a sample of another try", traces(rejected_columns(None, [sample(loop=1, **x), *last]))
    nan = sample(loop=0, value=NAN, **x)
    yield "traces_rejected_nan", "a rejected latent is NaN", traces(rejected_columns(None, [nan, *last]))
    loop_site = sample(loop=0, site_id=4, prior=UNIFORM)
    yield (
        "traces_rejected_site",
        "a rejected sample of a loop's site",
        traces(rejected_columns(None, [loop_site, *last])),
    )
    long = rejected_columns()
    long[7] += again
    yield "traces_tries_long", "a column of tries that is too long", traces(long)
    failed = rejected_columns()
    failed[0] = failed[0][:64] + trace(6, failure=1, n_tries=1)
    failed[7] += rejected_try(-1, 0, 0)
    yield "traces_failed_with_tries", "a failed trace with tries", traces(failed)


def broken_traces() -> Iterator[tuple[str, str, list[bytes]]]:
    first = trace(5, n_samples=2, n_observes=1, n_results=1, n_loops=1, n_values=7)
    second = sample(site_id=1, loop=-1, prior=UNIFORM)
    yield "traces_count", "count differs from the column", traces(good_columns(), 3)
    yield "traces_short_samples", "a column is too short", traces(changed(1, sample()))
    yield "traces_long_loops", "a column is too long", traces(changed(4, loop() * 2))
    yield "traces_ragged", "a column that is no whole number of items", traces(changed(2, values(2, 1, 0.0)[:-8]))
    yield "traces_unknown_failure", "failure 21", traces(changed(0, first + trace(6, failure=21)))
    yield "traces_failed_with_samples", "a failed trace with samples", traces(changed(0, first + trace(6, 1, 1)))
    yield "traces_failure_missing", "no record of a failure", traces(changed(6, b""))
    yield "traces_failure_of_other", "a failure of another trace", traces(changed(6, failure(7)))
    yield "traces_failure_loop", "a failure in a loop that is a sample", traces(changed(6, failure(6, loop_id=1)))
    yield "traces_failure_site", "a failure at a site that is a loop", traces(changed(6, failure(6, site_id=4)))
    yield "traces_failure_site_unknown", "a failure at an unknown site", traces(changed(6, failure(6, site_id=70)))
    yield "traces_failure_text", "a text without its zero", traces(changed(6, failure(6, text=b"x" * 512)))
    yield "traces_sample_loop", "a sample in a loop that is not there", traces(changed(1, sample(loop=1) + second))
    yield "traces_sample_site", "a sample of a loop's site", traces(changed(1, sample(site_id=4) + second))
    yield "traces_sample_nan", "a latent is NaN", traces(changed(1, sample(value=NAN) + second))
    yield "traces_loop_parent", "a loop that is its own parent", traces(changed(4, loop(parent=0)))
    yield "traces_loop_tries", "a loop of 0 tries", traces(changed(4, loop(tries=0)))
    yield "traces_loop_accepted", "more accepted than tried", traces(changed(4, loop(accepted_q=11)))
    yield "traces_loop_no_runs", "tries under q without a run", traces(changed(4, loop(runs_p=0, tries_p=0)))
    yield "traces_loop_main", "s_pq_main is NaN", traces(changed(4, loop(s_pq_main=NAN)))
    yield "traces_loop_abandoned", "two abandoned main runs", traces(changed(4, loop(abandoned=(2, 0, 0, 0))))
    yield "traces_loop_abandoned_estimated", "estimates", traces(changed(4, loop(abandoned=(1, 0, 0, 0))))
    yield "traces_loop_abandoned_p", "more abandoned runs than runs", traces(changed(4, loop(abandoned=(0, 3, 0, 0))))
    yield "traces_loop_abandoned_q", "abandoned without a try", traces(changed(4, loop(abandoned=(0, 0, 1, 0))))
    yield "traces_loop_abandoned_tries", "tries, none abandoned", traces(changed(4, loop(abandoned=(0, 0, 0, 3))))
    yield "traces_loop_main_negative", "s_pq_main is negative", traces(changed(4, loop(s_pq_main=-1.0)))
    yield "traces_loop_method", "method 6", traces(changed(4, loop(method=6)))
    yield "traces_loop_reason", "reason 12", traces(changed(4, loop(reason=12)))
    yield "traces_values", "values that belong to nobody", traces(changed(2, values(2, 0, 0.0)))
    yield "traces_value_nan", "a value is NaN", traces(changed(5, struct.pack("<7d", *[NAN] * 7)))
    yield "traces_result_axes", "more axes than numbers", traces(shaped_columns((), 1, 2))
    yield "traces_result_axes_many", "33 axes", traces(shaped_columns((1.0,) * 33, 1, 33))
    yield "traces_result_shape", "6 elements of a shape of 8", traces(shaped_columns((2.0, 4.0)))
    yield "traces_result_fraction", "an axis of length 1.5", traces(shaped_columns((4.0, 1.5)))
    yield "traces_result_negative", "axes of negative lengths", traces(shaped_columns((-2.0, -3.0)))
    yield "traces_result_infinite", "an axis of infinite length", traces(shaped_columns((INF, 3.0)))
    yield "traces_result_reserved", "reserved is not 0", traces(shaped_columns(reserved=1))
    yield from broken_tries()
    likely = trace(5, n_samples=2, n_observes=1, n_results=1, n_loops=1, n_values=7, log_likelihood=INF)
    yield "traces_infinite_likelihood", "a log likelihood of +inf", traces(changed(0, likely + trace(6, failure=1)))


def broken() -> Iterator[tuple[str, str, list[bytes]]]:
    for group in (broken_frames, broken_runs, broken_sites, broken_steps, broken_replies):
        for name, reason, data in group():
            yield name, reason, [data]
    yield from broken_traces()


def main() -> int:
    here = Path(__file__).parent
    for old in here.glob("*.bin"):
        old.unlink()
    lines = []
    entries = [(name, True, "", frames) for name, frames in valid()]
    entries += [(f"bad_{name.removeprefix('bad_')}", False, reason, frames) for name, reason, frames in broken()]
    for name, good, reason, frames in entries:
        (here / f"{name}.bin").write_bytes(b"".join(frames))
        entry = {"file": f"{name}.bin", "valid": good, "frames": [len(part) for part in frames], "reason": reason}
        lines.append(json.dumps(entry))
    (here / "index.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")  # one entry per line: test_wire.c reads lines
    return 0


if __name__ == "__main__":
    sys.exit(main())
