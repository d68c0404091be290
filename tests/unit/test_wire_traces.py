"""TRACES and DONE as bytes: what a host writes is read, what it may not write is refused with the field's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wire_frames import TABLE, edited, framed, listed

from ars import wire
from ars._native import DTYPES, NO_SITE, FailureKind, Message, RunFlag
from ars.columns import Columns
from ars.errors import ProtocolError


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
