"""Every parameter of what users call is in the docstring, which is where the reference and ``help`` take it from."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("sphinx")
pytest.importorskip("torch")  # ars.Network is public

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tools")]

import site_check  # noqa: E402

# Made by libars.
_RETURNED = [
    "Advice",
    "AutoBudget",
    "Chains",
    "CheckReport",
    "DataCheck",
    "Drawn",
    "EntryValues",
    "Evidence",
    "Failure",
    "Failures",
    "Finding",
    "GeneralisedPareto",
    "LoopSummary",
    "Loops",
    "Network",
    "ParetoK",
    "Posterior",
    "ProposalDraws",
    "RunInfo",
    "Traces",
]
_INNER = [
    "CheckReport.verdict",
    "Failures.counted",
    "Limits.changed",
    "Limits.environment",
    "RunInfo.from_json",
    "TrainingConfig.lr_at",
]


def called_by_users() -> Iterator[tuple[str, object]]:
    for name, each in site_check.public_objects().items():
        short = name.rpartition(".")[2]
        error = inspect.isclass(each) and issubclass(each, BaseException)
        if not error and short not in _RETURNED:
            yield name, each
        if inspect.isclass(each):
            for full, method in site_check.methods(name, each):
                if ".".join(full.split(".")[-2:]) not in _INNER:
                    yield full, method


def missing(each: object) -> list[str]:
    _, found, listed = (inspect.getdoc(each) or "").partition("Parameters\n----------\n")
    names = re.findall(r"^(\*{0,2}\w+(?:, \w+)*)(?: :.*)?$", listed, re.MULTILINE) if found else []
    documented = {name.strip("* ") for line in names for name in line.split(",")}
    return [name for name in site_check.parameters(each) if name not in documented]


def test_every_parameter_of_what_users_call_is_documented() -> None:
    assert {name: absent for name, each in called_by_users() if (absent := missing(each))} == {}


def test_a_parameter_that_is_missing_is_found() -> None:
    def half(a: int, b: int) -> None:
        """Do half.

        Parameters
        ----------
        a : int
            A number.
        """

    assert missing(half) == ["b"] and missing(missing) == ["each"]
