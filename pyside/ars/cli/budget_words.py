"""Budgets as words of a command line: ``--budget`` and the options of ``--budget auto``, read and written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ars.budget import AutoBudget, Budget, ChosenBudget, Costs
from ars.cli.options import UsageError, at_least, positive
from ars.errors import StorageError

__all__ = ["FORMS", "MOST_TRACES_UNTIL", "add_auto", "add_budget", "budget_of", "joined", "parsed", "words_of"]

FORMS: Final = "auto, 'M N' such as '1 10', M=1,R=2, M=1,N=10, M=1,N=10,reuse, the .nc file of a result, or none"
MOST_TRACES_UNTIL: Final = 1_000_000  # unless --traces says otherwise, where --error or --seconds ends the run
_OPTION: Final = "--budget"
_AUTO: Final = "auto"
_NONE: Final = "none"
_OF_AUTO: Final = ("error", "seconds", "error_of", "phases", "costs")


# ---- one budget ------------------------------------------------------------------------------------------------------


def _wrong(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a budget: use {FORMS}")


def _fields(text: str) -> dict[str, Any]:
    """The arguments of Budget that "M=1,N=10,reuse" names."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if name in found:
            raise ValueError(f"{text!r} has {name} more than once")
        if name == "reuse" and not equals:
            found[name] = True
        elif name in ("M", "N", "R") and number.strip().isdecimal():
            found[name] = int(number)
        else:
            raise _wrong(text)
    return found


def parsed(text: str) -> Budget | AutoBudget | ChosenBudget | None:
    """Read a budget.

    Parameters
    ----------
    text : str
        One of ``FORMS``. "M N" are two numbers in one text, as ``joined`` makes them.

    Returns
    -------
    Budget, AutoBudget, ChosenBudget or None
        None for "none": no loop is estimated. Of a .nc file: the budget that its run had.

    Raises
    ------
    ValueError
        If it is none of the forms, or Budget refuses it. The message names the field.
    StorageError
        If the file cannot be read.
    """
    text = text.strip()
    if text.endswith(".nc"):
        from ars.posterior import Posterior

        return Posterior.load(text).budget
    if text in (_AUTO, _NONE):
        return Budget.auto() if text == _AUTO else None
    numbers = text.split()
    if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
        return Budget(int(numbers[0]), int(numbers[1]))
    return Budget(**_fields(text))


def words_of(budget: Budget | None) -> tuple[str, ...]:
    """Write a fixed budget as options, which ``ars infer`` and ``ars replay`` read back as the same budget.

    Parameters
    ----------
    budget : Budget or None

    Returns
    -------
    tuple of str
        "--budget" and its words. The paper's budget is M and N, as it always was.
    """
    if budget is None:
        return (_OPTION, _NONE)
    if budget.R is not None:
        return (_OPTION, f"M={budget.M},R={budget.R}")
    if budget.reuse:
        return (_OPTION, f"M={budget.M},N={budget.N},reuse")
    return (_OPTION, str(budget.M), str(budget.N))


# ---- the options -----------------------------------------------------------------------------------------------------


def joined(words: Sequence[str]) -> list[str]:
    """The command line with the two numbers of ``--budget M N`` in one word, so that the option takes one word in every
    form and the simulator may follow it."""
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        found.append(word)
        if word == "--":
            break
        if word == _OPTION and len(left) >= 2 and left[0].isdecimal() and left[1].isdecimal():
            found.append(f"{left.pop(0)} {left.pop(0)}")
    return [*found, *left]


def _text(text: str) -> str:
    """A budget that can be read, for argparse. It stays text, so that None means that the option was not given."""
    try:
        parsed(text)
    except (TypeError, ValueError, StorageError, ImportError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def add_budget(parser: argparse.ArgumentParser, standard: str) -> None:
    """``--budget``, of which ``budget_of`` makes a budget. ``standard``: what it says about the default."""
    parser.add_argument(
        _OPTION,
        type=_text,
        metavar="BUDGET",
        help="continuations of every loop: auto; two numbers M N (M runs under the prior until accepted, N tries under "
        "the proposal, as in the paper); M=1,R=2 (R runs under the proposal until accepted); M=1,N=10,reuse (also uses "
        f"the first try of the trace); the .nc file of a result, to reuse its budget; or none ({standard}). Has no "
        "effect without --network",
    )


def add_auto(parser: argparse.ArgumentParser) -> None:
    """The options that only ``--budget auto`` has."""
    group = parser.add_argument_group("with --budget auto")
    group.add_argument(
        "--error",
        type=positive,
        metavar="X",
        help="run as many traces as the evidence needs for this relative error, e.g. 0.01; --traces is the maximum",
    )
    group.add_argument(
        "--seconds",
        type=positive,
        metavar="S",
        help="run as many traces as fit into this time, in seconds; --traces is the maximum",
    )
    group.add_argument(
        "--error-of", metavar="NAME", help="apply --error to the mean of this result or latent instead of the evidence"
    )
    group.add_argument(
        "--phases",
        type=at_least(1, 2),
        metavar="1|2",
        help="1: estimate every trace as it runs; 2: estimate afterwards, and only the traces that matter (default: "
        "whichever is cheaper)",
    )
    group.add_argument("--costs", type=Path, metavar="FILE", help="relative costs measured by ars bench costs")


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of ``add_auto`` that were given."""
    found = {name: getattr(arguments, name, None) for name in _OF_AUTO}
    return {name: value for name, value in found.items() if value is not None}


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def budget_of(arguments: argparse.Namespace, standard: str = _AUTO) -> Budget | AutoBudget | ChosenBudget | None:
    """The budget of a command line.

    Parameters
    ----------
    arguments : argparse.Namespace
        With the options of ``add_budget``, and perhaps those of ``add_auto``.
    standard : str
        Budget if ``--budget`` is not given (default: "auto").

    Returns
    -------
    Budget, AutoBudget, ChosenBudget or None

    Raises
    ------
    UsageError
        If options do not go together. The message names the option.
    """
    given = _given(arguments)
    budget = parsed(standard if arguments.budget is None else arguments.budget)
    if not isinstance(budget, AutoBudget):
        for name in given:
            raise UsageError(f"{_option(name)} goes with --budget auto, not with --budget {arguments.budget}")
        return budget
    if "error_of" in given and "error" not in given:
        raise UsageError("--error-of goes with --error, such as --error 0.01")
    if "costs" in given:
        try:
            given["costs"] = Costs.load(given["costs"])
        except StorageError as error:
            raise UsageError(f"--costs {error}") from None
    try:
        return Budget.auto(**{"of" if name == "error_of" else name: value for name, value in given.items()})
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
