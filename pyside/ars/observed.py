"""Data are data: observations become doubles without losing anything, or are refused.

NumPy converts almost everything to float64 without a word: masked arrays lose their mask, dates become counts, complex
numbers their real part, text is parsed, large integers are rounded. Every refusal here names the observation and says
what to do.

NaN means "not observed". So do masked elements, ``None`` in a list and ``pandas.NA``, which become NaN.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from ars.errors import ObservationWarning
from ars.outside import outside

__all__ = ["plain_numbers", "warn_of_nothing_observed"]

_MOST_DIMENSIONS = 32
_EXACT = 2**53  # every integer up to this one is a double
_REFUSED = {  # by NumPy's kind of dtype
    "M": "dates: subtract a reference date and divide by a unit, (dates - start) / np.timedelta64(1, 's')",
    "m": "time differences: divide by a unit, differences / np.timedelta64(1, 's')",
    "c": "complex numbers: observe real and imaginary parts under two names",
    "U": "text: convert it to numbers first",
    "S": "text: convert it to numbers first",
    "T": "text: convert it to numbers first",
    "V": "records or a type that NumPy does not know: observe each field under its own name, as plain numbers",
}


def plain_numbers(name: str, value: object) -> npt.NDArray[np.float64]:
    """Convert one observation to doubles, without losing anything.

    Numbers, lists of numbers, and whatever has ``__array__`` (NumPy, torch, pandas, xarray) are converted. Booleans
    count as 0 and 1; Fraction and Decimal are rounded to the nearest double, like a number in a program. NaN stays: it
    means "not observed". Masked elements, None in a list or an array, and pandas.NA become NaN.

    Parameters
    ----------
    name : str
        Name of the observation, for messages.
    value : object
        The data.

    Returns
    -------
    array
        float64, in the shape of the data; NaN where a number was not observed.

    Raises
    ------
    TypeError
        If the data are not plain numbers: dates, complex, text, records, sparse, or any other object.
    ValueError
        If the data are ragged, empty, infinite, or lose precision as doubles.
    """
    where = f"observe[{name!r}]"
    if value is None:
        raise TypeError(f"{where} is None: give float('nan') if it was not observed")
    value = _unmasked(where, value, 0)
    try:
        array = np.asanyarray(value)
    except ValueError as error:
        raise ValueError(
            f"{where} must be a number or an array of numbers, with rows of equal length: {error}"
        ) from None
    except Exception as error:  # whatever __array__ of somebody's class raises
        raise TypeError(f"{where} must be a number or an array of numbers: {error}") from None
    array = np.asarray(_unmasked(where, array, 0))  # a mask that only __array__ knew of
    found = _doubles(where, array)
    if found.size == 0:
        raise ValueError(f"{where} is empty")
    if np.isinf(found).any():
        raise ValueError(
            f"{where} has a value that is infinite: observe finite numbers, and NaN where there is no observation"
        )
    found[np.isnan(found)] = np.nan  # one NaN of the many, so that equal data have equal bytes
    return found


def warn_of_nothing_observed(data: Mapping[str, npt.NDArray[np.float64]], met: Iterable[str]) -> None:
    """Warn, after a run, of data without a single observed number: they say nothing about the latents.

    Parameters
    ----------
    data : mapping
        From names to arrays, NaN where a number was not observed.
    met : iterable of str
        Names that the simulator observed. For those that are not in ``data`` the program holds its own data, which
        do say something: then there is nothing to warn of.
    """
    if data and all(np.isnan(array).all() for array in data.values()) and set(met) <= data.keys():
        warnings.warn(
            "every number in observe is NaN, so nothing was observed and the result is the prior (times the "
            "simulator's ars_factor terms, if it has any)",
            ObservationWarning,
            stacklevel=outside(),
        )


def _unmasked(where: str, value: Any, depth: int) -> Any:
    """The same with NaN for masked elements, and for None in lists.

    Refuses what NumPy would hide when it joins the items of a list: text, and integers among floats.
    """
    if isinstance(value, np.ma.MaskedArray):
        plain = value.data if value.dtype.kind in _REFUSED else value.filled(0)  # below the mask are no data
        found = _doubles(where, np.asarray(plain))
        found[np.ma.getmaskarray(value)] = np.nan
        return found
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{where} must be a number or an array of numbers, not {_REFUSED['U']}")
    if isinstance(value, (list, tuple)):
        if depth == _MOST_DIMENSIONS:
            raise ValueError(f"{where} is nested more than {_MOST_DIMENSIONS} deep")
        return [
            item  # nearly all, and there may be millions
            if type(item) is float or (type(item) is int and -_EXACT <= item <= _EXACT)
            else math.nan
            if item is None
            else _unmasked(where, item, depth + 1)
            for item in value
        ]
    if isinstance(value, int):
        _check_exact(where, value)
    elif isinstance(value, np.integer) and value.dtype.kind in "iu":  # a timedelta64 is one, too
        _check_exact(where, int(value))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iufO":
        return _doubles(where, value)
    return value


def _check_exact(where: str, number: int) -> None:
    if abs(number) > _EXACT:
        try:
            exact = int(float(number)) == number
        except OverflowError:
            exact = False
        if not exact:
            raise ValueError(
                f"{where} has the integer {number}, which is no longer exact as a double (beyond 2**53): "
                "observe a difference to a reference, or float(x) if rounding does not matter"
            )


def _doubles(where: str, array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    kind = array.dtype.kind
    if kind in _REFUSED:
        raise TypeError(f"{where} must be a number or an array of numbers, not {_REFUSED[kind]}")
    if kind == "O":
        return _from_objects(where, array)
    if kind in "iu":
        for number in array[(array > _EXACT) | (array < -_EXACT)].ravel().tolist() if array.dtype.itemsize > 4 else ():
            _check_exact(where, number)
    elif kind not in "bf":
        raise TypeError(f"{where} has values of type {array.dtype}, must have numbers")
    with np.errstate(over="ignore"):
        found = array.astype(np.float64)
    if kind == "f" and array.dtype.itemsize > 8 and not np.array_equal(found, array, equal_nan=True):
        raise ValueError(
            f"{where} has values of type {array.dtype} that a double cannot hold exactly: convert with .astype(float)"
        )
    return found


def _from_objects(where: str, array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """From Python objects, each of which must be one real number."""
    found = np.empty(array.shape, dtype=np.float64)
    for index in np.ndindex(array.shape):
        item: Any = array[index]
        found[index] = _doubles(where, np.asarray(item)) if isinstance(item, np.generic) else _double(where, item)
    return found


def _double(where: str, item: Any) -> float:
    if item is None or (type(item).__name__ == "NAType" and type(item).__module__.startswith("pandas.")):
        return math.nan
    if not isinstance(item, (numbers.Real, Decimal)):
        kind = f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
        raise TypeError(
            f"{where} has an object of type {kind}, must have plain numbers: give a list, or a dense array such as "
            ".to_numpy() or .toarray() returns, with NaN for what was not observed"
        )
    if isinstance(item, numbers.Integral):
        _check_exact(where, int(item))
    try:
        number = float(item)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where} has {item!r}, which is not a double: {error}") from None
    if math.isfinite(number) and item == (whole := math.trunc(item)):
        _check_exact(where, whole)  # type: ignore[arg-type]
    return number
