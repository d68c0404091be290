"""Parameters of distributions: numbers, or arrays with one number per row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["as_array", "common_rows", "show"]

Array = npt.NDArray[np.float64]


def as_array(owner: str, name: str, value: npt.ArrayLike, per_row: int = 0) -> Array:
    """A private, read-only copy; `per_row` is the number of dimensions that one row has."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} is {value!r}, must be a number or an array of numbers") from None
    if not per_row <= array.ndim <= per_row + 1:
        wanted = "a number, or an array of one per row" if per_row == 0 else "an array, or one array per row"
        raise ValueError(f"{owner}: {name} has shape {array.shape}, must be {wanted}")
    array.setflags(write=False)
    return array


def common_rows(owner: str, rows: Mapping[str, int | None]) -> int | None:
    """The number of rows that all parameters with rows agree on."""
    given = {name: n for name, n in rows.items() if n is not None}
    if len(set(given.values())) > 1:
        lengths = ", ".join(f"{name} has {n} rows" for name, n in given.items())
        raise ValueError(f"{owner}: {lengths}; give scalars or equally many rows")
    return next(iter(given.values()), None)


def show(value: Array) -> str:
    if value.ndim == 0:
        return repr(float(value))
    return np.array2string(value, separator=", ", threshold=8, edgeitems=2)
