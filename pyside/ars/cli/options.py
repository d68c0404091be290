"""What several commands share: the simulator's command line, and numbers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

__all__ = ["add_seed", "add_simulator", "at_least", "positive"]


def at_least(low: int) -> Callable[[str], int]:
    """A whole number, for argparse."""

    def whole(text: str) -> int:
        try:
            number = int(text.replace("_", "").replace(",", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < low:
            raise argparse.ArgumentTypeError(f"{number} is less than {low}")
        return number

    return whole


def positive(text: str) -> float:
    """A positive number, for argparse."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def add_simulator(parser: argparse.ArgumentParser, what: str = "EXE", more: str = "") -> None:
    parser.add_argument(
        "command_line",
        nargs="+",
        metavar=what,
        help=f"the simulator and its arguments; put -- before arguments that begin with a dash{more}",
    )
    parser.add_argument(
        "--workers",
        type=at_least(1),
        metavar="N",
        help="processes that run traces (default: 8 per core, 32 where proposals are asked for)",
    )


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=at_least(0), metavar="N", help="the same seed gives the same result")
