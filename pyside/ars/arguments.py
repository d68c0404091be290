"""The user's arguments, checked: every complaint names the argument."""

from __future__ import annotations

import functools
import math
import operator
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, ParamSpec, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars.observed import plain_numbers

__all__ = [
    "LARGEST_SEED",
    "MOST_TRACES",
    "ON_FAILURE",
    "InLoops",
    "OnFailure",
    "check_on_failure",
    "check_path",
    "choice",
    "command_words",
    "environment_variables",
    "first_of",
    "integer",
    "number_of_traces",
    "observed_arrays",
    "renamed",
    "seconds",
    "seed_or_random",
]

LARGEST_SEED = 2**64 - 1
MOST_TRACES = 2**40  # in one run

InLoops = Literal["proposal", "prior"]
OnFailure = Literal["raise", "zero", "skip"]
ON_FAILURE: Final[OnFailure] = "raise"  # unless told otherwise

_Parameters = ParamSpec("_Parameters")
_Value = TypeVar("_Value")


def renamed(**names: str) -> Callable[[Callable[_Parameters, _Value]], Callable[_Parameters, _Value]]:
    """For a function whose arguments had other names once, old=new: an old one is refused with the new one named."""

    def decorate(function: Callable[_Parameters, _Value]) -> Callable[_Parameters, _Value]:
        @functools.wraps(function)
        def checked(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Value:
            for old, new in names.items():
                if old in kwargs:
                    raise TypeError(f"{function.__name__}: {old}= is now called {new}=")
            return function(*args, **kwargs)

        return checked

    return decorate


def integer(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {number}")
    return number


def first_of(name: str, value: object, count: int) -> int:
    """The number of the first of ``count`` traces; numbers go up to 2**64 - 2."""
    first = integer(name, value, 0, 2**64 - 2)
    if first + count > 2**64 - 1:
        raise ValueError(
            f"{name} is {first}, and {count} traces from there on would need numbers above 2**64 - 2: give a smaller "
            f"{name}, or ask for at most {2**64 - 1 - first} traces"
        )
    return first


def seconds(name: str, value: object, *, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name} must be a finite, {'non-negative' if zero else 'positive'} number, not {value!r}")
    return number


def choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be {' or '.join(repr(a) for a in allowed)}, not {value!r}")


def check_on_failure(value: object) -> None:
    choice("on_failure", value, get_args(OnFailure))


def check_path(name: str, value: object) -> None:
    """Of a file or folder; None: not given."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {value!r}")


def number_of_traces(value: object) -> int:
    return integer("traces", value, 1, MOST_TRACES)


def seed_or_random(seed: int | None) -> int:
    return secrets.randbits(63) if seed is None else integer("seed", seed, 0, LARGEST_SEED)


def command_words(command: Sequence[str] | str | os.PathLike[str]) -> tuple[str, ...]:
    if isinstance(command, (str, os.PathLike)):
        given: list[Any] = [command]
    else:
        try:
            given = list(command)
        except TypeError:
            raise TypeError(f"command must be a path, or a list of a path and arguments, not {command!r}") from None
    if not given:
        raise ValueError("command is empty: give the path of an executable, and its arguments")
    try:
        words = tuple(os.fspath(word) for word in given)
    except TypeError:
        raise TypeError(f"command must consist of strings, not {command!r}") from None
    if not all(isinstance(word, str) for word in words) or not words[0] or any("\0" in word for word in words):
        raise TypeError(f"command must be non-empty text without zero bytes, not {command!r}")
    return words


def environment_variables(env: object) -> dict[str, str]:
    if env is None:
        return {}
    if not isinstance(env, Mapping):
        raise TypeError(f"env must map names of variables to text, such as {{'OMP_NUM_THREADS': '1'}}, not {env!r}")
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise TypeError(f"env: names of variables are non-empty text without '=', not {name!r}")
        if not isinstance(value, str) or "\0" in value:
            raise TypeError(f"env[{name!r}] must be text without zero bytes, such as '1', not {value!r}")
    return dict(env)


def observed_arrays(observe: object) -> dict[str, npt.NDArray[np.float64]]:
    """The data as arrays that keep their shape; every complaint names the observation.

    Parameters
    ----------
    observe : mapping
        From names to numbers or arrays of numbers (``ars.observed``).

    Returns
    -------
    dict
        From names to float64 arrays.

    Raises
    ------
    TypeError, ValueError
        If a name or a value cannot be used.
    """
    if not isinstance(observe, Mapping):
        raise TypeError(f"observe must map names to values, such as {{'y': 0.5}}, not {observe!r}")
    data: dict[str, npt.NDArray[np.float64]] = {}
    for name, value in observe.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"observe: names are non-empty text, not {name!r}")
        if len(name.encode("utf-8")) > native.MAX_NAME or "\0" in name:
            raise ValueError(
                f"observe: the name {name[:40]!r}... is longer than {native.MAX_NAME} bytes or has a zero byte"
            )
        data[name] = plain_numbers(name, value)
    if sum(array.nbytes for array in data.values()) > native.MAX_MESSAGE // 8:
        raise ValueError(f"observe: more than {native.MAX_MESSAGE // 8} bytes of data")
    return data
