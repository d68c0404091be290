"""What several commands share: the simulator's command line, and numbers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

__all__ = ["add_limits", "add_seed", "add_simulator", "at_least", "limits", "number_of_bytes", "positive"]


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


def not_negative(text: str) -> float:
    """0 or a positive number, for argparse."""
    return 0.0 if text.strip() in ("0", "0.0") else positive(text)


def number_of_bytes(text: str) -> int:
    """A whole number with K, M, G or T behind it, for argparse."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in units else (text, "")
    return at_least(0)(digits) << units.get(unit, 0)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """What the simulator may use; ``limits`` makes Simulator's arguments of it."""
    group = parser.add_argument_group("limits")
    group.add_argument("--trace-timeout", type=not_negative, metavar="S", help="seconds of a trace's own time (60)")
    group.add_argument("--try-timeout", type=not_negative, metavar="S", help="seconds of one try of a loop (none)")
    group.add_argument("--max-tries", type=at_least(1), metavar="N", help="of one entry of a loop (10,000,000)")
    group.add_argument("--max-snapshots", type=at_least(1), metavar="N", help="loops that one trace may enter (256)")
    group.add_argument("--max-processes", type=at_least(3), metavar="N", help="alive at once (4,096)")
    group.add_argument("--max-memory", type=number_of_bytes, metavar="BYTES", help="per process, such as 2G (half)")
    group.add_argument("--max-restarts", type=at_least(0), metavar="N", help="of a simulator that is lost (3)")


def limits(arguments: argparse.Namespace) -> dict[str, Any]:
    """The limits that were given, as arguments of Simulator."""
    names = ("trace_timeout", "try_timeout", "max_tries", "max_snapshots", "max_processes", "max_memory")
    given = {name: getattr(arguments, name) for name in (*names, "max_restarts")}
    return {name: value for name, value in given.items() if value is not None}


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
