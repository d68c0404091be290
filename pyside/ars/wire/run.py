"""RUN: what the host is asked to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import DTYPES, LIMITS, Message, RunFlag
from ars.wire.frames import Bytes, expect, header_bytes, pad, read_name, refuse

MOST_WANTED: Final = 2**30 - 1  # continuations are numbered with 30 bits
LARGEST_LIST: Final = native.MAX_MESSAGE // 8  # bytes of a list: data and budgets must have room beside it


class Wanted(NamedTuple):
    """What is wanted of the continuations of a loop's entry; all 0: the loop is not estimated."""

    runs_p: int = 0  # M
    tries_q: int = 0  # N; 0: see accepted_q
    accepted_q: int = 0  # R, possibly 0; it is 0 where tries_q is not


class Listed(NamedTuple):
    """Traces by number, with the tries that their loop entries are known to take; 0: not known."""

    traces: npt.NDArray[np.uint64]  # ascending
    n_tries: npt.NDArray[np.uint32]  # how many of ``tries`` belong to each trace
    tries: npt.NDArray[np.uint32]

    @staticmethod
    def of(traces: npt.NDArray[np.uint64]) -> Listed:
        """Traces of which nothing is known."""
        numbers = np.ascontiguousarray(traces, dtype=np.uint64)
        return Listed(numbers, np.zeros(len(numbers), dtype=np.uint32), np.zeros(0, dtype=np.uint32))

    def only(self, places: npt.NDArray[np.bool_]) -> Listed:
        """Some of them, by a mask."""
        return Listed(self.traces[places], self.n_tries[places], self.tries[np.repeat(places, self.n_tries)])


class RunConfig(NamedTuple):
    """One run. Its traces are those of ``listed``, or else first_trace to first_trace + n_traces - 1."""

    seed: int
    n_traces: int
    flags: RunFlag
    first_trace: int = 0
    wanted: Wanted = Wanted()  # of loops that have no budget of their own
    max_workers: int = 0
    max_tries: int = LIMITS["max_tries"].standard
    trace_timeout: float = float(LIMITS["trace_timeout"].standard)
    try_timeout: float = float(LIMITS["try_timeout"].standard)
    observed: Mapping[str, npt.NDArray[np.float64]] = {}  # NaN: not observed
    max_rejected: int = 0  # at least 1 with RECORD_REJECTED
    budgets: Mapping[str, Wanted] = {}  # by the loop's address
    listed: Listed | None = None  # then n_traces is their number, and first_trace the first of them

    def places(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The position of each trace number within the run; -1 if it is not part of it."""
        numbers = np.asarray(numbers, dtype=np.uint64)
        if self.listed is None:
            after = numbers - np.uint64(self.first_trace)  # a number below the first one wraps around
            inside = (numbers >= np.uint64(self.first_trace)) & (after < np.uint64(self.n_traces))
            return np.where(inside, after, 0).astype(np.int64) - ~inside
        places = np.searchsorted(self.listed.traces, numbers)
        inside = self.listed.traces[np.minimum(places, self.n_traces - 1)] == numbers
        return np.where(inside, places, -1)

    def part(self, first: int, count: int) -> RunConfig:
        """The same run of those of its traces whose numbers are first to first + count - 1; at least one is."""
        if self.listed is None:
            return self._replace(first_trace=first, n_traces=count)
        low, high = np.searchsorted(self.listed.traces, np.array([first, first + count], dtype=np.uint64))
        inside = np.zeros(self.n_traces, dtype=np.bool_)
        inside[low:high] = True
        return self.only(inside)

    def only(self, places: npt.NDArray[np.bool_]) -> RunConfig:
        """The same run of some of its traces, by a mask over their positions; at least one is taken."""
        if self.listed is None:
            numbers = np.uint64(self.first_trace) + np.flatnonzero(places).astype(np.uint64)
            some = Listed.of(numbers)
        else:
            some = self.listed.only(places)
        return self._replace(listed=some, n_traces=len(some.traces), first_trace=int(some.traces[0]))

    def messages(self) -> list[RunConfig]:
        """The same run as runs that fit into a message each. Long lists are split."""
        if self.listed is None:
            return [self]
        part = np.cumsum(4 * _listed_words(self.listed.n_tries.astype(np.int64))) // LARGEST_LIST
        return [self] if part[-1] == part[0] else [self.only(part == i) for i in np.unique(part)]


# ---- as bytes --------------------------------------------------------------------------------------------------------


def encode_run(config: RunConfig, run: int) -> bytes:
    dtype = DTYPES["run"]
    body = _encode_observed(config.observed) + _encode_budgets(config.budgets) + _encode_listed(config.listed)
    out = np.zeros(1, dtype=dtype)
    out["header"] = header_bytes(Message.RUN, dtype.itemsize + len(body), len(config.observed), run)
    for field in ("seed", "first_trace", "n_traces", "flags", "max_workers", "max_tries", "max_rejected"):
        out[field] = int(getattr(config, field))
    out["wanted"] = tuple(config.wanted)
    out["trace_timeout"] = config.trace_timeout
    out["try_timeout"] = config.try_timeout
    out["n_budgets"] = len(config.budgets)
    out["n_listed"] = 0 if config.listed is None else len(config.listed.traces)
    return out.tobytes() + body


def _padded(name: bytes) -> bytes:
    return name.ljust(pad(len(name)), b"\0")


def _encode_observed(data: Mapping[str, npt.NDArray[np.float64]]) -> bytes:
    names = [name.encode("utf-8") for name in data]
    values = [np.ascontiguousarray(v, dtype="<f8").reshape(-1) for v in data.values()]
    observed = np.zeros(len(names), dtype=DTYPES["observed"])
    observed["name_size"] = [len(name) for name in names]
    observed["n_values"] = [v.size for v in values]
    return b"".join([observed.tobytes(), *map(_padded, names), *(v.tobytes() for v in values)])


def _encode_budgets(budgets: Mapping[str, Wanted]) -> bytes:
    named = sorted((address.encode("utf-8"), wanted) for address, wanted in budgets.items())
    heads = np.zeros(len(named), dtype=DTYPES["budget"])
    for head, (name, wanted) in zip(heads, named, strict=True):
        head["name_size"], head["wanted"] = len(name), tuple(wanted)
    return b"".join(head.tobytes() + _padded(name) for head, (name, _) in zip(heads, named, strict=True))


def _listed_words(n_tries: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many 4-byte words each listed trace takes, with its padding."""
    return DTYPES["listed"].itemsize // 4 + n_tries + n_tries % 2


def _encode_listed(listed: Listed | None) -> bytes:
    if listed is None:
        return b""
    n_tries = listed.n_tries.astype(np.int64)
    words = _listed_words(n_tries)
    starts = np.cumsum(words) - words
    out = np.zeros(int(words.sum()), dtype="<u4")
    heads = np.zeros(len(n_tries), dtype=DTYPES["listed"])
    heads["trace"], heads["n_tries"] = listed.traces, n_tries
    head_words = DTYPES["listed"].itemsize // 4
    out[starts[:, None] + np.arange(head_words)] = heads.view("<u4").reshape(-1, head_words)
    within = np.arange(int(n_tries.sum())) - np.repeat(np.cumsum(n_tries) - n_tries, n_tries)
    out[np.repeat(starts, n_tries) + head_words + within] = listed.tries
    return out.tobytes()


def decode_run(frame: Bytes) -> tuple[int, RunConfig]:
    """The run's number and its settings (for tests and tools: the host's side)."""
    kind = Message.RUN
    header = expect(frame, kind)
    dtype = DTYPES["run"]
    if header.size < dtype.itemsize:
        refuse(kind, f"{header.size} bytes, must be at least {dtype.itemsize}")
    raw = np.frombuffer(frame, dtype=dtype, count=1)[0]
    if header.run == 0:
        refuse(kind, "run is 0")
    _check_settings(raw)
    if header.count and not int(raw["flags"]) & RunFlag.POSTERIOR:
        refuse(kind, "observed data in a run without the POSTERIOR flag")
    body = memoryview(frame)[dtype.itemsize :]
    observed, at = _decode_observed(body, header.count)
    budgets, at = _decode_budgets(body, at, int(raw["n_budgets"]))
    listed, at = _decode_listed(body, at, int(raw["n_listed"]), int(raw["first_trace"]))
    if at != len(body):
        refuse(kind, f"{len(body) - at} bytes after the last part")
    config = RunConfig(
        seed=int(raw["seed"]),
        n_traces=int(raw["n_traces"]),
        flags=RunFlag(int(raw["flags"])),
        first_trace=int(raw["first_trace"]),
        wanted=Wanted(*raw["wanted"].item()),
        max_workers=int(raw["max_workers"]),
        max_tries=int(raw["max_tries"]),
        trace_timeout=float(raw["trace_timeout"]),
        try_timeout=float(raw["try_timeout"]),
        observed=observed,
        max_rejected=int(raw["max_rejected"]),
        budgets=budgets,
        listed=listed,
    )
    return header.run, config


def _check_flags(flags: int, max_rejected: int) -> None:
    kind = Message.RUN
    if flags & ~int(sum(RunFlag)):
        refuse(kind, f"flags 0x{flags:x} has bits that are unknown")
    for flag, needed in (
        (RunFlag.REWIND, RunFlag.ESTIMATE),
        (RunFlag.CHECK, RunFlag.REWIND),
        (RunFlag.PILOT, RunFlag.ESTIMATE),
    ):
        if flags & flag and not flags & needed:
            refuse(kind, f"the flag {flag.name} without {needed.name}")
    if bool(flags & RunFlag.RECORD_REJECTED) != bool(max_rejected):
        refuse(kind, f"max_rejected {max_rejected}, must be above 0 with RECORD_REJECTED, and only then")


def _check_wanted(wanted: Wanted) -> None:
    if wanted.tries_q and wanted.accepted_q:
        refuse(Message.RUN, f"tries_q {wanted.tries_q} and accepted_q {wanted.accepted_q}, one of them must be 0")
    if not wanted.runs_p and any(wanted):
        refuse(Message.RUN, f"runs_p 0 with tries_q {wanted.tries_q} and accepted_q {wanted.accepted_q}, must be 0 too")
    if max(wanted) > MOST_WANTED:
        refuse(Message.RUN, f"{wanted}, must be at most {MOST_WANTED}")


def _check_settings(raw: Any) -> None:
    kind = Message.RUN
    flags, wanted = int(raw["flags"]), Wanted(*raw["wanted"].item())
    _check_flags(flags, int(raw["max_rejected"]))
    if flags & RunFlag.ESTIMATE and not wanted.runs_p:
        refuse(kind, "runs_p 0, must be at least 1 to estimate")
    _check_wanted(wanted)
    if raw["n_traces"] < 1:
        refuse(kind, "n_traces is 0")
    if int(raw["first_trace"]) + int(raw["n_traces"]) >= 1 << 64:
        refuse(kind, "first_trace + n_traces does not fit 64 bits")
    if raw["max_tries"] < 1:
        refuse(kind, "max_tries is 0")
    for field in ("trace_timeout", "try_timeout"):
        if not math.isfinite(raw[field]) or raw[field] < 0:
            refuse(kind, f"{field} {raw[field]}, must be finite and not negative")
    if raw["n_budgets"] > native.MAX_SITES:
        refuse(kind, f"n_budgets {raw['n_budgets']}, must be at most {native.MAX_SITES}")
    if raw["n_listed"] and raw["n_listed"] != raw["n_traces"]:
        refuse(kind, f"n_listed {raw['n_listed']}, must be 0 or n_traces, {raw['n_traces']}")


def _decode_observed(body: memoryview, count: int) -> tuple[dict[str, npt.NDArray[np.float64]], int]:
    """The data, and where they end."""
    dtype = DTYPES["observed"]
    if count * dtype.itemsize > len(body):
        refuse(Message.RUN, f"count {count}, but the frame ends before that many observed names")
    entries = np.frombuffer(body, dtype=dtype, count=count)
    names: list[str] = []
    at = count * dtype.itemsize
    for size in entries["name_size"].tolist():
        name, at = read_name(Message.RUN, body, at, size)
        names.append(name)
    if len(set(names)) != count:
        refuse(Message.RUN, "an observed name comes twice")
    sizes = entries["n_values"].astype(np.int64)
    n = int(sizes.sum())
    if at + 8 * n > len(body):
        refuse(Message.RUN, f"n_values add up to {n}, more than the frame has")
    values = np.frombuffer(body, dtype="<f8", offset=at, count=n) if n else np.zeros(0)
    if np.isinf(values).any():
        refuse(Message.RUN, "an observed value is infinite")
    found = dict(zip(names, np.split(values.copy(), np.cumsum(sizes)[:-1]), strict=True)) if count else {}
    return found, at + 8 * n


def _decode_budgets(body: memoryview, at: int, n: int) -> tuple[dict[str, Wanted], int]:
    dtype = DTYPES["budget"]
    budgets: dict[str, Wanted] = {}
    before = b""
    for _ in range(n):
        if at + dtype.itemsize > len(body):
            refuse(Message.RUN, f"n_budgets {n}, but the frame ends before that many")
        raw = np.frombuffer(body, dtype=dtype, count=1, offset=at)[0]
        address, at = read_name(Message.RUN, body, at + dtype.itemsize, int(raw["name_size"]))
        wanted = Wanted(*raw["wanted"].item())
        _check_wanted(wanted)
        if address.encode("utf-8") <= before:
            refuse(Message.RUN, f"the budget of {address!r} comes twice, or not in the order of the addresses")
        before = address.encode("utf-8")
        budgets[address] = wanted
    return budgets, at


def _decode_listed(body: memoryview, at: int, n: int, first_trace: int) -> tuple[Listed | None, int]:
    if not n:
        return None, at
    dtype = DTYPES["listed"]
    heads: list[tuple[int, int]] = []
    tries: list[npt.NDArray[np.uint32]] = []
    for _ in range(n):
        if at + dtype.itemsize > len(body):
            refuse(Message.RUN, f"n_listed {n}, but the frame ends before that many")
        trace, n_tries, reserved = np.frombuffer(body, dtype=dtype, count=1, offset=at)[0].item()
        if reserved:
            refuse(Message.RUN, "reserved of a listed trace is not 0")
        if trace <= heads[-1][0] if heads else trace != first_trace:
            refuse(Message.RUN, f"listed trace {trace}: they must ascend from first_trace {first_trace}")
        at += dtype.itemsize
        end = at + pad(4 * n_tries)
        if end > len(body):
            refuse(Message.RUN, f"the {n_tries} tries of listed trace {trace} do not fit")
        words = np.frombuffer(body[at:end], dtype="<u4")
        if words[n_tries:].any():
            refuse(Message.RUN, f"the padding of listed trace {trace} is not zero")
        heads.append((trace, n_tries))
        tries.append(words[:n_tries].copy())
        at = end
    if heads[-1][0] == (1 << 64) - 1:
        refuse(Message.RUN, f"listed trace {heads[-1][0]} does not fit")
    numbers, counts = zip(*heads, strict=True)
    return Listed(np.array(numbers, np.uint64), np.array(counts, np.uint32), np.concatenate(tries)), at
