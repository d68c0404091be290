"""The binding: its codes and layouts are those of dist_list.h and wire.h, read independently here."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ars import _native
from ars import distributions as ars

COMMON = Path(__file__).resolve().parents[2] / "bridge" / "common"
HEADER = "".join((COMMON / name).read_text(encoding="utf-8") for name in ("dist_list.h", "wire.h"))
CODE = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)


def enum_of_the_header(name: str) -> dict[str, int]:
    body = re.search(rf"enum {name} {{(.*?)}}", CODE, re.DOTALL)
    assert body
    return {key: int(value, 0) for key, value in re.findall(r"(\w+)\s*=\s*(\w+)", body[1])}


@pytest.mark.parametrize(
    ("cls", "name", "prefix"),
    [
        (_native.Message, "ars_message", "ARS_MSG_"),
        (_native.RunFlag, "ars_run_flags", "ARS_RUN_"),
        (_native.SiteKind, "ars_site_kind", "ARS_SITE_"),
        (_native.DistKind, "ars_dist_kind", "ARS_DIST_"),
        (_native.LoopMethod, "ars_loop_method", "ARS_METHOD_"),
        (_native.ForkReason, "ars_fork_reason", "ARS_REASON_"),
        (_native.ReplyFlag, "ars_reply_flags", "ARS_REPLY_"),
        (_native.FailureKind, "ars_failure_kind", "ARS_FAIL_"),
    ],
)
def test_enums_are_the_headers(cls: type[_native.IntEnum], name: str, prefix: str) -> None:
    wanted = {
        (key.removeprefix(prefix) if key.startswith(prefix) else key.removeprefix("ARS_")): value
        for key, value in enum_of_the_header(name).items()
    }
    assert {member.name: member.value for member in cls} == wanted


def test_limits_are_the_headers() -> None:
    limits = enum_of_the_header("ars_wire_limits")
    for name in ("MAGIC", "VERSION", "VERSION_MIN", "MAX_MESSAGE", "MAX_NAME", "MAX_SITES", "MAX_CATEGORIES"):
        assert getattr(_native, name) == limits[f"ARS_WIRE_{name}"]
    for name in ("MAX_COMPONENTS", "MAX_TOLD", "MAX_STEP"):
        assert getattr(_native, name) == limits[f"ARS_WIRE_{name}"]
    assert limits["ARS_WIRE_TEXT"] == _native.MAX_TEXT
    assert _native.NO_SITE == 0x7FFFFFFF
    assert _native.MAGIC.to_bytes(4, "little") == b"ARS1"


def test_every_struct_has_a_dtype_of_its_size() -> None:
    names = re.findall(r"struct ars_wire_(\w+) {", CODE)
    assert set(_native.DTYPES) == set(names)
    sizes = re.findall(r"sizeof\(struct ars_wire_(\w+)\) == (\d+)", CODE)
    assert len(sizes) >= 13
    for name, size in sizes:
        assert _native.DTYPES[name].itemsize == int(size)


@pytest.mark.parametrize("name", sorted(_native.DTYPES))
def test_layouts_are_packed_and_in_the_headers_order(name: str) -> None:
    """Rebuilt from the header's text by the rule that nothing is hidden: each field follows the last."""
    body = re.search(rf"struct ars_wire_{name} {{(.*?)\n}};", CODE, re.DOTALL)
    assert body
    sizes = {"uint8_t": 1, "char": 1, "uint16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "double": 8}
    sizes |= {"struct ars_wire_header": 24, "struct ars_wire_wanted": 12}
    dtype, at, seen = _native.DTYPES[name], 0, []
    for kind, declared, length in re.findall(r"((?:struct )?\w+) (\w+)(?:\[(\d+)\])?;", body[1]):
        field = {"site_id": "site", "loop_id": "loop"}.get(declared, declared)  # the columns' names in Python
        assert dtype.fields is not None
        assert dtype.fields[field][1] == at, field
        assert dtype.fields[field][0].itemsize == sizes[kind] * int(length or 1), field
        at += sizes[kind] * int(length or 1)
        seen.append(field)
    assert dtype.itemsize == at
    assert dtype.names == tuple(seen)


def test_fields_have_the_right_types() -> None:
    assert _native.DTYPES["hello"]["header"] == _native.DTYPES["header"]
    assert _native.DTYPES["hello"]["token"] == np.dtype(("u1", (32,)))
    assert _native.DTYPES["failure"]["text"] == np.dtype("S512")
    assert _native.DTYPES["failure"]["detail"] == np.dtype("<i4")
    assert _native.DTYPES["sample"]["log_q"] == np.dtype("<f8")
    assert _native.DTYPES["step"]["state"] == np.dtype("<u8")


def test_failure_names() -> None:
    assert _native.failure_name(0) == "ok"
    assert _native.failure_name(_native.FailureKind.TOO_MANY_TRIES) == "too_many_tries"
    assert _native.failure_name(999) == "unknown_999"


def test_philox_known_answers() -> None:
    assert _native.philox([0] * 4, [0] * 2) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert _native.philox([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]) == (
        0xD16CFE09,
        0x94FDCCEB,
        0x5001E420,
        0x24126EA1,
    )


@pytest.mark.parametrize("kind", _native.N_PARAMS)
def test_numbers_of_parameters_are_those_that_the_c_code_takes(kind: _native.DistKind) -> None:
    def said(n: int) -> str:
        header = np.array([(kind, 0, n)], dtype=_native.DTYPES["dist"]).tobytes()
        with pytest.raises(ValueError, match="is") as raised:
            _native.check(header + np.full(n, np.nan).tobytes())
        return str(raised.value)

    n = _native.N_PARAMS[kind]
    assert "nan" in said(n), "the number is right, the values are not"
    assert f" is {n + 1}, must be" in said(n + 1)
    least = 1 if kind is _native.DistKind.CATEGORICAL else n
    assert f" is {least - 1}, must be" in said(least - 1)


def test_check_takes_one_or_many() -> None:
    good, bad = ars.Normal(0, 1).encode(1)[0], bytearray(ars.Normal(0, 1).encode(1)[0])
    bad[2] = 1
    _native.check(good)
    _native.check([good, good])
    _native.check([])
    with pytest.raises(ValueError, match=r"^Normal: reserved is 1, must be 0$"):
        _native.check(bytes(bad))
    with pytest.raises(ValueError, match=r"^row 1: Normal: reserved is 1, must be 0$"):
        _native.check([good, bytes(bad)])
    with pytest.raises(ValueError, match="n is 2, but only 12 bytes follow"):
        _native.check(good[:-4])


def test_density_and_sample_take_one_or_many() -> None:
    one, two = ars.Normal(0, 1).encode(1)[0], ars.Uniform(0, 2).encode(1)[0]
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert _native.log_density(one, x).shape == (2, 2)
    assert _native.log_density(one, 0.5).shape == ()
    np.testing.assert_allclose(_native.log_density([one, two], [0.0, 1.0]), [-0.5 * np.log(2 * np.pi), -np.log(2)])
    with pytest.raises(ValueError, match="2 distributions for 3 values"):
        _native.log_density([one, two], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="n is -1"):
        _native.sample(one, -1, 1)
    assert _native.sample(one, 0, 1).shape == (0,)
    # A strided view is read as what it shows.
    np.testing.assert_array_equal(_native.log_density(one, x.T), _native.log_density(one, x).T)


def test_streams_differ_and_repeat() -> None:
    one = ars.Uniform(0, 1).encode(1)[0]
    draws = {_native.sample(one, 4, *key).tobytes() for key in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (1, 0, 0)]}
    assert len(draws) == 4
