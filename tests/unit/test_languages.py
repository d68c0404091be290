"""Every call of ars.h exists in C++ and in Fortran, and the Fortran test makes every call."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "bridge/include/ars.h").read_text()
CPP = (ROOT / "bridge/include/ars.hpp").read_text()
FORTRAN = (ROOT / "bridge/fortran/ars.f90").read_text()
PROGRAM = (ROOT / "tests/system/fortran/everything.f90").read_text()

CALLS = set(re.findall(r"^ARS_API [^(]*?\b(ars_[a-z]\w*)\(", HEADER, re.MULTILINE))
# Calls that another language replaces by something of its own.
IN_CPP = {"ars_loop_abandon": "loop::abandon", "ars_scope_push": "scope", "ars_scope_pop": "scope"}
IN_FORTRAN = {"ars_main": "ars_run", "ars_loop_named": "ars_loop"}
MACROS = {"ars_reject_named": "ars_reject"}


def offered() -> set[str]:
    statements = re.sub(r"&\s*\n\s*&?", " ", FORTRAN)
    lists = re.findall(r"^\s*public ::(.*)$", statements, re.MULTILINE)
    return set(re.findall(r"\w+", " ".join(lists)))


def test_ars_h_is_read() -> None:
    assert len(CALLS) > 40 and {"ars_sample", "ars_in_trace", "ars_given", "ars_version"} < CALLS


def test_cpp_has_every_call() -> None:
    called = set(re.findall(r"\bars_\w+(?=\()", CPP))
    assert CALLS - called - set(IN_CPP) == set()


def test_fortran_has_every_call() -> None:
    missing = CALLS - offered()
    assert missing == set(IN_FORTRAN)
    assert {*IN_FORTRAN.values(), *MACROS.values()} <= offered()


def test_fortran_has_the_values_of_the_policies() -> None:
    for name in ("LATENT", "NUISANCE"):
        in_c = re.search(rf"\bARS_{name} = (\d+)", HEADER)
        in_fortran = re.search(rf"\bars_{name.lower()} = (\d+)", FORTRAN)
        assert in_c and in_fortran and in_c[1] == in_fortran[1]


def test_the_fortran_test_makes_every_call() -> None:
    used = set(re.findall(r"\bars_\w+", PROGRAM))
    elsewhere = {"ars_run", "ars_loop_abandon"}  # csim/capped_fortran.f90
    types = {"ars_accepts", "ars_accepts_with"}  # interfaces, for declarations
    assert offered() - used - elsewhere - types == set()
    capped = (ROOT / "csim/capped_fortran.f90").read_text()
    assert all(name in capped for name in elsewhere)
