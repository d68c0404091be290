"""``observe`` takes numbers and nothing that only looks like them."""

from __future__ import annotations

import array
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from ars.arguments import observed_arrays
from ars.errors import ObservationWarning
from ars.observed import warn_of_nothing_observed


class Wrapped:
    """Somebody's class around an array."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.inside


class Broken:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no data today")


masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
record = np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)])
LOST = 2**53 + 1
NAN = float("nan")

NOT_DATA: list[tuple[str, Any, str]] = [
    ("masked dates", np.ma.masked_array(np.array(["2024-01-01"], dtype="datetime64[D]"), [True]), "dates"),
    ("masked text", np.ma.masked_array(["1.0", "x"], [False, True]), "text"),
    ("masked records", np.ma.masked_array(record, [(True, False)]), "records"),
    ("an infinity beside the mask", np.ma.masked_array([np.inf, 2.0], [False, True]), "infinite"),
    ("an integer beyond 2**53 beside the mask", np.ma.masked_array([LOST, 2], [False, True]), "2\\*\\*53"),
    ("datetime64", np.array(["2024-01-01"], dtype="datetime64[D]"), "dates"),
    ("a datetime64", np.datetime64("2024-01-01"), "dates"),
    ("datetime", dt.datetime(2024, 1, 1), "datetime.datetime"),
    ("timedelta64", np.array([5], dtype="timedelta64[s]"), "time differences"),
    ("timedelta64 among numbers", [np.timedelta64(1, "s"), 2], "time differences|object"),
    ("timedelta", [dt.timedelta(1)], "datetime.timedelta"),
    ("complex array", np.array([1.0 + 2.0j]), "complex"),
    ("complex number", 1j, "complex"),
    ("complex with a zero imaginary part", [1.0, 2.0 + 0.0j], "complex"),
    ("text", "1.0", "text"),
    ("text of a boolean", "True", "text"),
    ("text in a list", [1.0, "2.0"], "text"),
    ("text in an array", np.array(["1.0"]), "text"),
    ("bytes", b"12", "text"),
    ("bytes in a list", [b"1"], "text"),
    ("bytearray", bytearray(b"12"), "text"),
    ("array of bytes", np.array([b"1.0"]), "text"),
    ("objects that are text", np.array(["1.0", 2.0], dtype=object), "text|object of type str"),
    ("None", None, r"is None: give float\('nan'\)"),
    ("records", record, "records"),
    ("sparse matrix", sparse.csr_matrix(np.eye(2)), r"toarray\(\)"),
    ("sparse array", sparse.coo_array(np.eye(2)), r"toarray\(\)"),
    ("dictionary", {"a": 1.0}, "object of type dict"),
    ("set", {1.0, 2.0}, "object of type set"),
    ("generator", (x for x in [1.0]), "object of type generator"),
    ("objects that are lists", np.array([[1.0], [1.0, 2.0], 3.0], dtype=object), "object of type list"),
    ("broken __array__", Broken(), "no data today"),
    ("ragged rows", [[1.0, 2.0], [3.0]], "equal length"),
    ("nested too deep", (lambda x: [x := [x] for _ in range(100)][-1])(1.0), "nested"),
    ("inf", [1.0, float("inf")], "infinite"),
    ("-inf among missing ones", [NAN, -float("inf")], "infinite"),
    ("inf in float16", np.array([np.inf], dtype=np.float16), "infinite"),
    ("signalling nan", [Decimal("sNaN")], "not a double"),
    ("empty", [], "is empty"),
    ("integer beyond 2**53", LOST, "2\\*\\*53"),
    ("integer beyond 2**53 in a list of floats", [0.5, LOST], "2\\*\\*53"),
    ("negative integer beyond 2**53", [-LOST], "2\\*\\*53"),
    ("integer beyond 2**63", 2**80 + 1, "2\\*\\*53"),
    ("integer beyond every double", 10**400, "2\\*\\*53"),
    ("int64 beyond 2**53", np.array([LOST]), "2\\*\\*53"),
    ("a numpy integer among floats", [0.5, np.int64(LOST)], "2\\*\\*53"),
    ("int64 arrays among float arrays", [np.array([LOST]), np.array([0.5])], "2\\*\\*53"),
    ("uint64 beyond 2**53", np.array([2**64 - 1], dtype=np.uint64), "2\\*\\*53"),
    ("Decimal beyond 2**53", [Decimal(LOST)], "2\\*\\*53"),
    ("object integers beyond 2**53", np.array([LOST, 1], dtype=object), "2\\*\\*53"),
]


@pytest.mark.parametrize(("value", "message"), [case[1:] for case in NOT_DATA], ids=[case[0] for case in NOT_DATA])
def test_what_is_not_data_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"observe\['spectrum'\].*(?:{message})"):
        observed_arrays({"spectrum": value})


DATA: list[tuple[str, Any, Any]] = [
    ("float", 0.5, 0.5),
    ("int", 3, 3.0),
    ("bool", True, 1.0),
    ("list", [[1, 2.5], [True, 4]], [[1.0, 2.5], [1.0, 4.0]]),
    ("tuple", (1, 2), [1.0, 2.0]),
    ("bool array", np.array([True, False]), [1.0, 0.0]),
    ("float32", np.array([0.1], dtype=np.float32), [float(np.float32(0.1))]),
    ("float16", np.float16(0.5), 0.5),
    ("uint8", np.array([255], dtype=np.uint8), [255.0]),
    ("int64", np.array([2**53, -(2**53), 2**60]), [2.0**53, -(2.0**53), 2.0**60]),
    ("large integers that are exact", [2**60, 2**80], [2.0**60, 2.0**80]),
    ("long double that is exact", np.array([0.5], dtype=np.longdouble), [0.5]),
    ("Fraction", [Fraction(1, 4), Fraction(1, 3)], [0.25, 1 / 3]),
    ("Decimal", [Decimal("0.1")], [0.1]),
    ("objects", np.array([1, 2.5, np.float32(0.5), np.bool_(True)], dtype=object), [1.0, 2.5, 0.5, 1.0]),
    ("array module", array.array("d", [1.0, 2.0]), [1.0, 2.0]),
    ("matrix", np.array([[1.0, 2.0]]).view(), [[1.0, 2.0]]),
    ("range", range(3), [0.0, 1.0, 2.0]),
    ("__array__", Wrapped(np.array([1, 2])), [1.0, 2.0]),
]
# What was not observed is NaN.
MISSING: list[tuple[str, Any, Any]] = [
    ("nan", NAN, NAN),
    ("nan in a list", [1, NAN], [1.0, NAN]),
    ("nan in an array", np.array([1.0, np.nan]), [1.0, NAN]),
    ("nan in float32", np.array([1.0, np.nan], dtype=np.float32), [1.0, NAN]),
    ("nan in long double", np.array([1.0, np.nan], dtype=np.longdouble), [1.0, NAN]),
    ("nan in Decimal", [Decimal("NaN"), Decimal("0.5")], [NAN, 0.5]),
    ("None in a list", [1.0, None], [1.0, NAN]),
    ("None in nested lists", [[1.0, None], (None, 2)], [[1.0, NAN], [NAN, 2.0]]),
    ("None in an array", np.array([1.0, None]), [1.0, NAN]),
    ("masked array", masked, [1.0, NAN]),
    ("masked array without a mask", np.ma.masked_array([1.0, 2.0]), [1.0, 2.0]),
    (
        "masked integers",
        np.ma.masked_array([[1, 2], [3, 4]], [[0, 1], [0, 0]]),
        [[1.0, NAN], [3.0, 4.0]],
    ),
    ("masked booleans", np.ma.masked_array([True, False], [False, True]), [1.0, NAN]),
    ("masked objects", np.ma.masked_array([1, "x"], [False, True], dtype=object), [1.0, NAN]),
    ("junk below the mask", np.ma.masked_array([1.0, np.inf], [False, True]), [1.0, NAN]),
    ("an integer beyond 2**53 below the mask", np.ma.masked_array([1, LOST], [False, True]), [1.0, NAN]),
    ("masked arrays in a list", [masked, masked], [[1.0, NAN], [1.0, NAN]]),
    ("the masked constant", [1.0, np.ma.masked], [1.0, NAN]),
    ("masked behind __array__", Wrapped(masked), [1.0, NAN]),
    ("all of them", np.full((2, 2), np.nan), [[NAN, NAN], [NAN, NAN]]),
]


ALL = DATA + MISSING


@pytest.mark.parametrize(("value", "expected"), [case[1:] for case in ALL], ids=[case[0] for case in ALL])
def test_numbers_are_taken_as_they_are(value: Any, expected: Any) -> None:
    found = observed_arrays({"y": value})["y"]
    assert type(found) is np.ndarray and found.dtype == np.float64
    np.testing.assert_array_equal(found, np.array(expected))


def test_every_nan_is_the_same_nan() -> None:
    """Equal data have equal bytes, by which a run is known."""
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000123, 0x7FF0000000000001], dtype=np.uint64)
    found = observed_arrays({"y": bits.view(np.float64)})["y"]
    assert found.tobytes() == np.full(3, np.nan).tobytes()


def test_only_data_without_any_number_are_worth_a_warning() -> None:
    nothing = {"y": np.array([NAN, NAN]), "z": np.array(NAN)}
    warn_of_nothing_observed({"y": np.array([NAN, 0.5]), "z": np.array(NAN)}, ["y", "z"])
    warn_of_nothing_observed({}, [])  # a simulator that observes nothing is asked for nothing
    warn_of_nothing_observed(nothing, ["y", "z", "own"])  # the program holds the data of "own"
    with pytest.warns(ObservationWarning, match="every number in observe is NaN, so .* the result is the prior"):
        warn_of_nothing_observed(nothing, ["y", "z"])


@pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="long double is a double here")
def test_long_doubles_that_lose_digits_are_refused() -> None:
    for value in (np.array([np.longdouble(1) / 3]), [np.longdouble(1) / 3], np.longdouble(1) / 3):
        with pytest.raises(ValueError, match=r"observe\['y'\].*astype\(float\)"):
            observed_arrays({"y": value})


def test_the_data_are_a_copy() -> None:
    mine = np.array([1.0, 2.0])
    found = observed_arrays({"y": mine})["y"]
    mine[0] = 7.0
    assert found.tolist() == [1.0, 2.0]


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(observed_arrays({"y": torch.tensor([[1.0, 2.0]])})["y"], [[1.0, 2.0]])
    assert observed_arrays({"y": torch.tensor(True)})["y"] == 1.0
    np.testing.assert_array_equal(observed_arrays({"y": torch.tensor([1.0, NAN])})["y"], [1.0, NAN])
    refused: list[Callable[[], Any]] = [
        lambda: torch.tensor([1.0 + 2.0j]),
        lambda: torch.tensor([1.0], requires_grad=True),
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.tensor([float("inf")]),
    ]
    for make in refused:
        with pytest.raises((TypeError, ValueError), match=r"observe\['y'\]"):
            observed_arrays({"y": make()})


def test_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    for series in (pandas.Series([1.0, 2.0]), pandas.Series([1, 2], dtype="Int64"), pandas.Series([1.0, 2.0]).array):
        np.testing.assert_array_equal(observed_arrays({"y": series})["y"], [1.0, 2.0])
    for series in (
        pandas.Series([1.0, None]),
        pandas.Series([1, None], dtype="Int64"),
        pandas.Series([1, None], dtype="Int64").array,
        pandas.Series([1.0, pandas.NA], dtype=object),
        [1.0, pandas.NA],
    ):
        np.testing.assert_array_equal(observed_arrays({"y": series})["y"], [1.0, NAN])
    refused = [
        pandas.Series(["1.0"]),
        pandas.Series([pandas.NaT]),
        [1.0, pandas.NaT],
        pandas.Series(pandas.to_datetime(["2024-01-01"])),
        pandas.Series(pandas.to_datetime(["2024-01-01"]).tz_localize("UTC")),
        pandas.DataFrame({"a": [1.0], "b": ["x"]}),
    ]
    for series in refused:
        with pytest.raises((TypeError, ValueError), match=r"observe\['y'\]"):
            observed_arrays({"y": series})


def test_xarray() -> None:
    xarray = pytest.importorskip("xarray")
    good = xarray.DataArray([[1.0, 2.0]], dims=("a", "b"))
    np.testing.assert_array_equal(observed_arrays({"y": good})["y"], [[1.0, 2.0]])
    for missing in (good.where(good > 1.5), xarray.DataArray(np.ma.masked_array([[1.0, 2.0]], [[True, False]]))):
        np.testing.assert_array_equal(observed_arrays({"y": missing})["y"], [[NAN, 2.0]])
    with pytest.raises((TypeError, ValueError), match=r"observe\['y'\]"):
        observed_arrays({"y": xarray.Dataset({"a": good})})
