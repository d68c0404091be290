"""Layouts, codes, densities and samplers of the C code. Only this module and _kernels.py touch ffi and lib.

Every number below comes from bridge/common/wire.h and limits_table.h through cffi. The names of the members are written
out so that type checkers and readers see them; the tests compare them with the header.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars._bridge import ffi, lib

if sys.byteorder != "little":
    raise ImportError("ars needs a little-endian machine: the wire format is the memory layout of one")

MAGIC: Final[int] = lib.ARS_WIRE_MAGIC
VERSION: Final[int] = lib.ARS_WIRE_VERSION
VERSION_MIN: Final[int] = lib.ARS_WIRE_VERSION_MIN
MAX_MESSAGE: Final[int] = lib.ARS_WIRE_MAX_MESSAGE
MAX_NAME: Final[int] = lib.ARS_WIRE_MAX_NAME
MAX_SITES: Final[int] = lib.ARS_WIRE_MAX_SITES
MAX_CATEGORIES: Final[int] = lib.ARS_WIRE_MAX_CATEGORIES
MAX_COMPONENTS: Final[int] = lib.ARS_WIRE_MAX_COMPONENTS
MAX_TOLD: Final[int] = lib.ARS_WIRE_MAX_TOLD
MAX_DIMS: Final[int] = lib.ARS_WIRE_MAX_DIMS
MAX_STEP: Final[int] = lib.ARS_WIRE_MAX_STEP
MAX_TEXT: Final[int] = lib.ARS_WIRE_TEXT
NO_SITE: Final[int] = lib.ARS_NO_SITE


class Limit(NamedTuple):
    """A row of limits_table.h: a setting, its default and its bounds."""

    name: str
    standard: int  # the default, as a number
    least: int
    most: int
    unit: str  # "s", "B" for bytes, or "" for a count
    words: str  # for the default, if its number does not say it
    meaning: str

    @property
    def default(self) -> str:
        """The default, as people read it: "60 s", "4,096", "half of RAM"."""
        return self.words or f"{self.standard:,}{f' {self.unit}' if self.unit else ''}"


def _limits() -> dict[str, Limit]:
    found: dict[str, Limit] = {}
    while row := lib.ars__limit_at(len(found)):
        name, unit, words, meaning = (
            ffi.string(text).decode("utf-8") for text in (row.name, row.unit, row.words, row.meaning)
        )
        found[name] = Limit(name, row.standard, row.least, row.most, unit, words, meaning)
    return found


LIMITS: Final[Mapping[str, Limit]] = MappingProxyType(_limits())


def _codes_after(prefix: str, last: int) -> dict[str, int]:
    """The codes of the header that begin like this and are larger than the last one that is written out here."""
    codes = {name.removeprefix(prefix): getattr(lib, name) for name in dir(lib) if name.startswith(prefix)}
    return {name: code for name, code in sorted(codes.items(), key=lambda item: item[1]) if code > last}


class Message(IntEnum):
    """enum ars_message"""

    HELLO = lib.ARS_MSG_HELLO
    WELCOME = lib.ARS_MSG_WELCOME
    RUN = lib.ARS_MSG_RUN
    SITES = lib.ARS_MSG_SITES
    STEPS = lib.ARS_MSG_STEPS
    REPLIES = lib.ARS_MSG_REPLIES
    TRACES = lib.ARS_MSG_TRACES
    DONE = lib.ARS_MSG_DONE
    CANCEL = lib.ARS_MSG_CANCEL
    QUIT = lib.ARS_MSG_QUIT
    ERROR = lib.ARS_MSG_ERROR


class RunFlag(IntFlag):
    """enum ars_run_flags"""

    POSTERIOR = lib.ARS_RUN_POSTERIOR
    PROPOSE_PRIOR = lib.ARS_RUN_PROPOSE_PRIOR
    LOOPS_PRIOR = lib.ARS_RUN_LOOPS_PRIOR
    ESTIMATE = lib.ARS_RUN_ESTIMATE
    RECORD_PRIORS = lib.ARS_RUN_RECORD_PRIORS
    RECORD_REJECTED = lib.ARS_RUN_RECORD_REJECTED
    ASK_AHEAD = lib.ARS_RUN_ASK_AHEAD
    REWIND = lib.ARS_RUN_REWIND
    CHECK = lib.ARS_RUN_CHECK
    PILOT = lib.ARS_RUN_PILOT


class LoopMethod(IntEnum):
    """enum ars_loop_method"""

    NONE = lib.ARS_METHOD_NONE
    FORK = lib.ARS_METHOD_FORK
    REWIND = lib.ARS_METHOD_REWIND
    CHECKED = lib.ARS_METHOD_CHECKED
    MISMATCH = lib.ARS_METHOD_MISMATCH
    IN_PLACE = lib.ARS_METHOD_IN_PLACE


class ForkReason(IntEnum):
    """enum ars_fork_reason"""

    NONE = lib.ARS_REASON_NONE
    SYSTEM = lib.ARS_REASON_SYSTEM
    SYSCALL = lib.ARS_REASON_SYSCALL
    CRASH = lib.ARS_REASON_CRASH
    FAILURE = lib.ARS_REASON_FAILURE
    MISMATCH = lib.ARS_REASON_MISMATCH
    COST = lib.ARS_REASON_COST
    PAGES = lib.ARS_REASON_PAGES
    THREADS = lib.ARS_REASON_THREADS
    SHADOW_STACK = lib.ARS_REASON_SHADOW_STACK


class SiteKind(IntEnum):
    """enum ars_site_kind"""

    SAMPLE = lib.ARS_SITE_SAMPLE
    OBSERVE = lib.ARS_SITE_OBSERVE
    RESULT = lib.ARS_SITE_RESULT
    LOOP = lib.ARS_SITE_LOOP


class DistKind(IntEnum):
    """enum ars_dist_kind"""

    UNIFORM = lib.ARS_DIST_UNIFORM
    NORMAL = lib.ARS_DIST_NORMAL
    BERNOULLI = lib.ARS_DIST_BERNOULLI
    CATEGORICAL = lib.ARS_DIST_CATEGORICAL
    POISSON = lib.ARS_DIST_POISSON
    BINOMIAL = lib.ARS_DIST_BINOMIAL
    BETA = lib.ARS_DIST_BETA
    GAMMA = lib.ARS_DIST_GAMMA
    EXPONENTIAL = lib.ARS_DIST_EXPONENTIAL
    WEIBULL = lib.ARS_DIST_WEIBULL
    LOGNORMAL = lib.ARS_DIST_LOGNORMAL
    TRUNCATED_NORMAL = lib.ARS_DIST_TRUNCATED_NORMAL
    SCALED_BETA = lib.ARS_DIST_SCALED_BETA
    MIXTURE = lib.ARS_DIST_MIXTURE
    PRIOR = lib.ARS_DIST_PRIOR
    GIVEN = lib.ARS_DIST_GIVEN
    NEGATIVE_BINOMIAL = lib.ARS_DIST_NEGATIVE_BINOMIAL
    STUDENT_T = lib.ARS_DIST_STUDENT_T
    MULTIVARIATE_NORMAL = lib.ARS_DIST_MULTIVARIATE_NORMAL
    DIRICHLET = lib.ARS_DIST_DIRICHLET
    vars().update(_codes_after("ARS_DIST_", lib.ARS_DIST_DIRICHLET))  # kinds that no module names


# The doubles that describe a distribution that a simulator can draw from; a Categorical has at most these many.
N_PARAMS: Final[Mapping[DistKind, int]] = MappingProxyType(
    {
        kind: MAX_CATEGORIES if kind is DistKind.CATEGORICAL else lib.ars__dist_parameters(kind)
        for kind in DistKind
        if lib.ars__dist_is_prior(kind)
    }
)

# Kinds whose values are whole numbers.
DISCRETE: Final[frozenset[DistKind]] = frozenset(kind for kind in DistKind if lib.ars__dist_is_discrete(kind))


class ReplyFlag(IntFlag):
    """enum ars_reply_flags"""

    ALWAYS_PRIOR = lib.ARS_REPLY_ALWAYS_PRIOR


class FailureKind(IntEnum):
    """enum ars_failure_kind"""

    OK = lib.ARS_OK
    CRASH = lib.ARS_FAIL_CRASH
    EXIT = lib.ARS_FAIL_EXIT
    TIMEOUT = lib.ARS_FAIL_TIMEOUT
    TOO_MANY_TRIES = lib.ARS_FAIL_TOO_MANY_TRIES
    NAN = lib.ARS_FAIL_NAN
    MISUSE = lib.ARS_FAIL_MISUSE
    LOOP_LEFT = lib.ARS_FAIL_LOOP_LEFT
    RS_END = lib.ARS_FAIL_RS_END
    OBSERVE_IN_LOOP = lib.ARS_FAIL_OBSERVE_IN_LOOP
    PARAMETER = lib.ARS_FAIL_PARAMETER
    SITE_CHANGED = lib.ARS_FAIL_SITE_CHANGED
    OBSERVATION = lib.ARS_FAIL_OBSERVATION
    FORK = lib.ARS_FAIL_FORK
    THREADS = lib.ARS_FAIL_THREADS
    MEMORY = lib.ARS_FAIL_MEMORY
    LIMIT = lib.ARS_FAIL_LIMIT
    PROTOCOL = lib.ARS_FAIL_PROTOCOL
    OUTSIDE_TRACE = lib.ARS_FAIL_OUTSIDE_TRACE
    LOST = lib.ARS_FAIL_LOST
    TRY_TIMEOUT = lib.ARS_FAIL_TRY_TIMEOUT


def failure_name(code: int) -> str:
    """The name under which failures of this kind are counted: "crash", "too_many_tries", ..."""
    try:
        return FailureKind(code).name.lower()
    except ValueError:
        return f"unknown_{code}"


# What ``post.columns`` and files on disk call a field, where the header has another name for it.
_FIELD_NAMES: Final = {"site_id": "site", "loop_id": "loop"}


def _dtype(ctype: Any) -> np.dtype[Any]:
    if ctype.kind == "primitive":
        codes = {"char": "S1", "double": "<f8", "float": "<f4"}
        kind = "u" if ctype.cname.startswith("u") else "i"
        return np.dtype(codes.get(ctype.cname, f"<{kind}{ffi.sizeof(ctype)}"))
    if ctype.kind == "array":
        if ctype.item.cname == "char":
            return np.dtype(f"S{ctype.length}")
        return np.dtype((_dtype(ctype.item), (ctype.length,)))
    if ctype.kind == "struct":
        return np.dtype(
            {
                "names": [_FIELD_NAMES.get(name, name) for name, _ in ctype.fields],
                "formats": [_dtype(field.type) for _, field in ctype.fields],
                "offsets": [field.offset for _, field in ctype.fields],
                "itemsize": ffi.sizeof(ctype),
            }
        )
    raise TypeError(f"{ctype.cname}: not a type that crosses the wire")


_PREFIX: Final = "ars_wire_"

# One dtype per struct ars_wire_X, under "X": "header", "hello", ..., "done". A nested header is a nested dtype.
DTYPES: Final[Mapping[str, np.dtype[Any]]] = MappingProxyType(
    {
        name.removeprefix(_PREFIX): _dtype(ffi.typeof(f"struct {name}"))
        for name in ffi.list_types()[1]
        if name.startswith(_PREFIX)
    }
)


# Encoded distributions (ars_wire_dist): one, several, or the rows of a table of 8-byte words.
Encoded = bytes | Sequence[bytes] | npt.NDArray[np.uint64]


def _joined(encoded: Encoded) -> tuple[npt.NDArray[np.uint8], int]:
    """All encoded distributions in one aligned buffer, and how many there are."""
    if isinstance(encoded, np.ndarray):
        return np.ascontiguousarray(encoded).view(np.uint8).reshape(-1), len(encoded)
    items = [encoded] if isinstance(encoded, bytes) else encoded
    joined = b"".join(items)
    buffer = np.zeros(-(-len(joined) // 8), dtype=np.uint64).view(np.uint8)[: len(joined)]
    buffer[:] = np.frombuffer(joined, dtype=np.uint8)
    return buffer, len(items)


def _call(function: Any, encoded: Encoded, *arguments: Any) -> None:
    buffer, count = _joined(encoded)
    text = ffi.new("char[]", 512)
    if function(ffi.from_buffer(buffer), len(buffer), count, *arguments, text, len(text)):
        raise ValueError(ffi.string(text).decode("utf-8", "replace"))


def doubles(array: npt.NDArray[np.float64], *, writable: bool = False) -> Any:
    """The array for C code."""
    if array.dtype != np.float64:
        raise TypeError(f"an array of {array.dtype} was given where the C code wants float64")
    return ffi.from_buffer("double[]", array, require_writable=writable)


def _bytes(array: npt.NDArray[np.uint8]) -> Any:
    return ffi.from_buffer("uint8_t[]", array)


def check(encoded: Encoded) -> None:
    """Raises ValueError, with what is wrong, unless these are valid encoded distributions."""
    _call(lib.ars__batch_check, encoded)


def log_density(encoded: Encoded, x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The log density of every x under its distribution; a single distribution serves all."""
    values = np.asarray(x, dtype=np.float64, order="C")
    out = np.empty(values.shape, dtype=np.float64)
    _call(
        lib.ars__batch_log_density,
        encoded,
        doubles(values.reshape(-1)),
        values.size,
        doubles(out.reshape(-1), writable=True),
    )
    return out


def _check_words(**numbers: int) -> None:
    for name, number in numbers.items():
        if not 0 <= number < 1 << 64:
            raise ValueError(f"{name} is {number}, must be from 0 to 2**64 - 1")


def named_uniforms(seed: int, traces: npt.NDArray[np.uint64], stream: int) -> npt.NDArray[np.float64]:
    """The first uniform, in (0, 1), of each stream (seed, trace, stream)."""
    _check_words(seed=seed, stream=stream)
    numbers = np.ascontiguousarray(traces)
    if numbers.dtype != np.uint64 or numbers.ndim != 1:
        raise TypeError(f"traces must be a vector of uint64, not {numbers.dtype} {numbers.shape}")
    out = np.empty(len(numbers), dtype=np.float64)
    lib.ars__named_uniforms(seed, ffi.from_buffer("uint64_t[]", numbers), len(out), stream, doubles(out, writable=True))
    return out


def sample(encoded: Encoded, n: int, seed: int, trace: int = 0, stream: int = 0) -> npt.NDArray[np.float64]:
    """n values, one per distribution or all from a single one, drawn from the stream (seed, trace, stream)."""
    _check_words(seed=seed, trace=trace, stream=stream)
    if n < 0:
        raise ValueError(f"n is {n}, must not be negative")
    out = np.empty(n, dtype=np.float64)
    _call(lib.ars__batch_sample, encoded, seed, trace, stream, n, doubles(out, writable=True))
    return out


# ---- STEPS and REPLIES ---------------------------------------------------------------------------------------------


class StepArrays(NamedTuple):
    """The requests of one STEPS message; see struct ars__steps."""

    begin: npt.NDArray[np.int64]
    ticket: npt.NDArray[np.uint32]
    trace: npt.NDArray[np.uint64]
    state: npt.NDArray[np.uint64]
    site: npt.NDArray[np.uint32]
    instance: npt.NDArray[np.uint32]
    told_begin: npt.NDArray[np.int64]
    told_site: npt.NDArray[np.uint32]
    told_instance: npt.NDArray[np.uint32]
    told_value: npt.NDArray[np.float64]
    prior_kind: npt.NDArray[np.uint16]
    prior_begin: npt.NDArray[np.int64]
    prior: npt.NDArray[np.float64]
    n_more: npt.NDArray[np.uint32]


class StepError(ValueError):
    """A request that is not right, and which one it is."""

    def __init__(self, item: int, what: str) -> None:
        super().__init__(what)
        self.item = item


# The arrays of struct ars__steps: name -> C type of a pointer to it, and what an entry is.
_STEP_TYPES: Final = {
    name: (f"{field.type.item.cname}[]", _dtype(field.type.item))
    for name, field in ffi.typeof("struct ars__steps").fields
}


def decode_steps(frame: bytes, count: int, kinds: npt.NDArray[np.uint8], dists: npt.NDArray[np.uint8]) -> StepArrays:
    """The count items of a frame whose header has been checked, and which has room for so many. kinds, dists: of the
    sites, by number. Raises StepError."""
    body = (
        len(frame) - DTYPES["header"].itemsize
    )  # count may be a lie, so no room is taken off for the items themselves
    sizes = dict.fromkeys(_STEP_TYPES, count)
    sizes |= dict.fromkeys(("begin", "told_begin", "prior_begin"), count + 1)
    sizes |= dict.fromkeys(("told_site", "told_instance", "told_value"), body // DTYPES["told"].itemsize)
    sizes["prior"] = body // 8
    arrays = {name: np.empty(sizes[name], dtype) for name, (_, dtype) in _STEP_TYPES.items()}
    pointers = {name: ffi.from_buffer(_STEP_TYPES[name][0], array) for name, array in arrays.items()}
    out = ffi.new("struct ars__steps *", pointers)
    item, text = ffi.new("uint32_t *"), ffi.new("char[]", 512)
    if lib.ars__steps_decode(
        frame, len(frame), count, _bytes(kinds), _bytes(dists), len(kinds), out, item, text, len(text)
    ):
        raise StepError(item[0], ffi.string(text).decode("utf-8", "replace"))
    n_told, n_prior = arrays["told_begin"][-1], arrays["prior_begin"][-1]
    for name in ("told_site", "told_instance", "told_value"):
        arrays[name] = arrays[name][:n_told]
    arrays["prior"] = arrays["prior"][:n_prior]
    return StepArrays(**arrays)


def encode_replies(
    ticket: npt.NDArray[np.uint32],
    state: npt.NDArray[np.uint64],
    flags: npt.NDArray[np.uint32],
    n_more: npt.NDArray[np.uint32],
    sizes: npt.NDArray[np.int64],
    proposals: bytes,
    out: npt.NDArray[np.uint8],
) -> None:
    """Writes the items of a REPLIES message; out has just the room that they take."""
    n = len(ticket)
    room = n * DTYPES["reply"].itemsize + len(proposals)
    columns = (state, flags, n_more, sizes)
    if not ({len(column) for column in columns} == {n} and int(sizes.sum()) == len(proposals) and len(out) == room):
        raise ValueError("the columns of REPLIES do not fit each other")
    lib.ars__replies_encode(
        n,
        ffi.from_buffer("uint32_t[]", ticket),
        ffi.from_buffer("uint64_t[]", state),
        ffi.from_buffer("uint32_t[]", flags),
        ffi.from_buffer("uint32_t[]", n_more),
        ffi.from_buffer("int64_t[]", sizes),
        proposals,
        ffi.from_buffer(out, require_writable=True),
    )


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """One block of Philox4x32-10."""
    out = ffi.new("uint32_t[4]")
    lib.ars__philox(ffi.new("uint32_t[4]", list(counter)), ffi.new("uint32_t[2]", list(key)), out)
    return out[0], out[1], out[2], out[3]


def dist_name(kind: int) -> str:
    """ "Normal" for DistKind.NORMAL; "unknown" for a code that the C code does not know."""
    name: str = ffi.string(lib.ars__dist_name(kind)).decode("ascii")
    return name
