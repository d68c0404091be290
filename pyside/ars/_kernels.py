"""What a proposal network needs besides matrix products: the C code of bridge/python/serve.h, for arrays."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ars._bridge import ffi, lib
from ars._native import DistKind, doubles


def _floats(array: npt.NDArray[np.float32], *, writable: bool = False) -> Any:
    if array.dtype != np.float32:
        raise TypeError(f"an array of {array.dtype} was given where the C code wants float32")
    return ffi.from_buffer("float[]", array, require_writable=writable)


def _floats_of(array: npt.NDArray[np.float32], shape: tuple[int, ...]) -> Any:
    if array.shape != shape:
        raise ValueError(f"an array of shape {array.shape} was given where the C code wants {shape}")
    return _floats(array, writable=True)


def _rows(index: npt.NDArray[np.int64]) -> Any:
    """Row numbers for C code. A struct that points to them does not hold them: keep what this returns."""
    return ffi.from_buffer("int64_t[]", np.ascontiguousarray(index, np.int64))


def component_densities(
    kind: DistKind, params: npt.NDArray[np.float64], x: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The log density [n, k] of every x [n] under each component of its row, params [n, k, 4], all of one kind.

    Parameters are not checked, and none is an error.
    """
    n, k, width = params.shape
    if width != 4 or x.shape != (n,) or kind in (DistKind.CATEGORICAL, DistKind.MIXTURE, DistKind.PRIOR):
        raise ValueError(
            f"{params.shape} are not the parameters of {DistKind(kind).name} components for {x.shape} values"
        )
    out = np.empty((n, k))
    params, x = np.ascontiguousarray(params), np.ascontiguousarray(x)
    lib.ars__component_densities(int(kind), n, k, doubles(params), doubles(x), doubles(out, writable=True))
    return out


VALUE_FEATURES: Final[int] = lib.ARS__VALUE_FEATURES


PAIR_FEATURES: Final[int] = lib.ARS__PAIR_FEATURES

# Kinds of priors [n], their parameters [n, 4], and the values [n] that were drawn from them.
DrawnValues: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]


def value_features(drawn: DrawnValues, *, wrap: bool) -> npt.NDArray[np.float32]:
    """[n, VALUE_FEATURES] of values. ``wrap``: those of angles go around with them."""
    n = len(drawn[0])
    struct, _held = _drawn(drawn, n)
    out = np.empty((n, VALUE_FEATURES), np.float32)
    lib.ars__value_features(n, wrap, struct, _floats(out, writable=True))
    return out


def pair_features(first: DrawnValues, second: DrawnValues, *, wrap: bool) -> npt.NDArray[np.float32]:
    """[n, PAIR_FEATURES] of values that were drawn one after the other; 0 where they are no pair, and with ``wrap``
    where one of them is an angle."""
    n = len(second[0])
    (one, _held), (other, _held_too) = _drawn(first, n), _drawn(second, n)
    out = np.empty((n, PAIR_FEATURES), np.float32)
    lib.ars__pair_features(n, wrap, one, other, _floats(out, writable=True))
    return out


def _drawn(values: DrawnValues, n: int) -> tuple[Any, Any]:
    """The struct of n values, and what must be held until the call is over."""
    kind, prior, value = values
    if kind.shape != (n,) or prior.shape != (n, 4) or value.shape != (n,):
        raise ValueError(f"kinds {kind.shape}, priors {prior.shape} and values {value.shape} do not fit {n} rows")
    fields = {"kind": _rows(kind)}
    for name, array in (("prior", prior), ("value", value)):
        fields[name] = doubles(np.ascontiguousarray(array, np.float64))
    return ffi.new("struct ars__drawn *", fields), fields


class StepTables(NamedTuple):
    """What lstm_cells reads: a row's gates are the sum of a row of each of three tables."""

    product: npt.NDArray[np.float32]  # [n, 4 width]: row by row
    recurrent: npt.NDArray[np.float32]  # [.., 4 width]: rows recurrent_row
    recurrent_row: npt.NDArray[np.int64]  # [n]
    added: npt.NDArray[np.float32]  # [.., 4 width]: rows added_row, or its one row
    added_row: npt.NDArray[np.int64] | None  # [n]


def lstm_cells(
    tables: StepTables,
    h: npt.NDArray[np.float32],
    c: npt.NDArray[np.float32],
    state_row: npt.NDArray[np.int64],
    kept_row: npt.NDArray[np.int64],
    out: npt.NDArray[np.float32],
) -> None:
    """One step of a layer from the states in rows state_row [n] of c [.., width]. The new h is written to out [n, width
    or more], and of the first len(kept_row) rows h and c to those rows of h and c, which are nobody's state_row."""
    product, recurrent, recurrent_row, added, added_row = tables
    n, width = len(product), h.shape[1]
    if not (
        product.shape == (n, 4 * width)
        and recurrent.shape[1:] == added.shape[1:] == (4 * width,)
        and h.shape == c.shape
        and all(index is None or index.shape == (n,) for index in (recurrent_row, added_row, state_row))
        and out.ndim == 2
        and len(out) == n
    ):
        raise ValueError("the arrays of a step do not fit each other")
    recurrent_rows, state_rows, kept_rows = _rows(recurrent_row), _rows(state_row), _rows(kept_row)
    added_rows = ffi.NULL if added_row is None else _rows(added_row)
    step = ffi.new(
        "struct ars__cells *",
        {
            "n": n,
            "width": width,
            "product": _floats(product),
            "recurrent": _floats(recurrent),
            "recurrent_row": recurrent_rows,
            "recurrent_rows": len(recurrent),
            "added": _floats(added),
            "added_row": added_rows,
            "added_rows": len(added),
            "h": _floats(h, writable=True),
            "c": _floats(c, writable=True),
            "state_row": state_rows,
            "states": len(c),
            "kept_row": kept_rows,
            "n_kept": len(kept_row),
            "out": _floats(out, writable=True),
            "out_stride": out.shape[1],
        },
    )
    if lib.ars__lstm_cells(step):
        raise ValueError("a row of a step is not in its table")


class Before(NamedTuple):
    """Where the rows of a training step go on from."""

    cells: npt.NDArray[np.float32]  # [.., width]
    row: npt.NDArray[np.int64] | None  # of the cells, [n]; None: the first n


def lstm_forward(
    gates: npt.NDArray[np.float32],
    before: Before | None,
    cells: npt.NDArray[np.float32],
    tanh_cells: npt.NDArray[np.float32],
    hidden: npt.NDArray[np.float32],
) -> None:
    """A step of one layer. gates [n, 4 width] hold the sums that go into them, and get their functions; cells, their
    tanh and the output, [n, width], are made. Without ``before`` it is the first step."""
    step, _held = _training_step(gates, before, tanh_cells)
    step.c, step.h = _floats_of(cells, tanh_cells.shape), _floats_of(hidden, tanh_cells.shape)
    if lib.ars__cells_forward(step):
        raise ValueError("a row of a step is not in its table")


def lstm_backward(
    gates: npt.NDArray[np.float32],
    before: Before | None,
    tanh_cells: npt.NDArray[np.float32],
    d_hidden: npt.NDArray[np.float32],
    d_cells: npt.NDArray[np.float32],
    d_gates: npt.NDArray[np.float32],
    d_before: npt.NDArray[np.float32] | None,
) -> None:
    """Derivatives by the sums, d_gates, from those by output and cells. Those by the cells before are added to
    d_before, which is as large as before.cells."""
    step, _held = _training_step(gates, before, tanh_cells)
    step.d_h, step.d_c = _floats_of(d_hidden, tanh_cells.shape), _floats_of(d_cells, tanh_cells.shape)
    step.d_gates = _floats_of(d_gates, gates.shape)
    if before is not None:
        if d_before is None:
            raise ValueError("there are cells before, but no room for their derivatives")
        step.d_before = _floats_of(d_before, before.cells.shape)
    if lib.ars__cells_backward(step):
        raise ValueError("a row of a step is not in its table")


def _training_step(
    gates: npt.NDArray[np.float32], before: Before | None, tanh_cells: npt.NDArray[np.float32]
) -> tuple[Any, Any]:
    """What both have, and what must be held until the call is over."""
    n, width = tanh_cells.shape
    step = ffi.new("struct ars__training_step *", {"n": n, "width": width})
    step.gates, step.tanh_c = _floats_of(gates, (n, 4 * width)), _floats_of(tanh_cells, (n, width))
    if before is not None:
        step.before, step.before_rows = _floats_of(before.cells, (len(before.cells), width)), len(before.cells)
        if before.row is not None:
            if before.row.shape != (n,):
                raise ValueError(f"{before.row.shape} rows before for {n} rows")
            step.before_row = rows = _rows(before.row)
            return step, rows
    return step, None


def propose(
    kind: DistKind,
    components: int,
    defensive: float,
    raw: npt.NDArray[np.float32],
    prior: npt.NDArray[np.float64],
    probabilities: npt.NDArray[np.float64],
    n_categories: npt.NDArray[np.int64],
    *,
    wrap: bool = False,
) -> list[bytes]:
    """The proposals, encoded, that raw numbers [n, R] of a network mean for priors of one kind [n, 4]. Categorical ones
    have probabilities [n, C], of which n_categories [n] count. ``wrap``: those of angles go around. A
    FloatingPointError means that there is a NaN."""
    n, categories = len(raw), probabilities.shape[1]
    head = ffi.new("struct ars__head *", (int(kind), components, defensive, wrap))
    width = lib.ars__proposal_width(head, categories) + 1
    shapes = (raw.ndim, prior.shape, probabilities.shape, n_categories.shape)
    if shapes != (2, (n, 4), (n, categories), (n,)):
        raise ValueError(f"{n} rows of raw numbers, and arrays of shapes {shapes[1:]}")
    out, sizes = np.empty((n, width), np.uint64), np.empty(n, np.int64)
    failed = lib.ars__propose_encoded(
        head,
        n,
        _floats(raw),
        raw.shape[1],
        doubles(prior),
        doubles(probabilities),
        categories,
        ffi.from_buffer("int64_t[]", n_categories),
        ffi.from_buffer("uint64_t[]", out, require_writable=True),
        width,
        ffi.from_buffer("int64_t[]", sizes, require_writable=True),
    )
    if failed == -1:
        raise FloatingPointError("a proposal has a parameter that is not a number")
    if failed:
        raise ValueError(f"{raw.shape[1]} raw numbers or {categories} categories are wrong for a {kind.name} prior")
    whole = out.tobytes()
    begins = range(0, len(whole), 8 * width) if n else ()
    return [whole[begin : begin + size] for begin, size in zip(begins, sizes.tolist(), strict=True)]
