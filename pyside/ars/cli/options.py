"""What several commands share: the simulator's command line, and numbers."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = [
    "UsageError",
    "add_limits",
    "add_listen",
    "add_out",
    "add_seed",
    "add_simulator",
    "at_least",
    "check_simulator",
    "limits",
    "not_negative",
    "number_of_bytes",
    "open_simulator",
    "positive",
]

_WAIT = 600.0  # seconds: somebody has to go to the other machine first


class UsageError(Exception):
    """Arguments that do not go together. Exit code 2."""


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
    group.add_argument(
        "--trace-timeout",
        type=not_negative,
        metavar="S",
        help="seconds of a trace's own time (60); 0: no limit",
    )
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


def add_simulator(parser: argparse.ArgumentParser, what: str = "EXE", more: str = "", needed: bool = True) -> None:
    parser.add_argument(
        "command_line",
        nargs="+" if needed else "*",
        metavar=what,
        help=f"the simulator and its arguments; put -- before arguments that begin with a dash{more}",
    )
    parser.add_argument(
        "--workers",
        type=at_least(1),
        metavar="N",
        help="processes that run traces (default: 8 per core, 32 where proposals are asked for)",
    )


class _Renamed(argparse.Action):
    """An option that has another name now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        parser.error(f"{self.option_strings[0]} is now called {self.metavar}")


def add_out(parser: argparse.ArgumentParser, default: str, help_: str) -> None:
    """``--out`` for a folder; it was called ``--output`` once."""
    parser.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help=help_)
    parser.add_argument("--output", action=_Renamed, metavar="--out", help=argparse.SUPPRESS)


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=at_least(0), metavar="N", help="the same seed gives the same result")


# ---- a simulator that is started elsewhere ---------------------------------------------------------------------------


def add_listen(parser: argparse.ArgumentParser) -> None:
    """For ``open_simulator``; with ``add_simulator(needed=False)`` and ``add_limits``."""
    group = parser.add_argument_group("a simulator that is started elsewhere")
    group.add_argument(
        "--listen",
        metavar="tcp://ADDRESS:PORT",
        help="start no simulator, but wait for one here; tcp://*:5555 is all addresses of this machine. The command to "
        "run on the other machine is printed; EXE, if given, is its executable there",
    )
    group.add_argument("--key", type=Path, metavar="FILE", help="the controller.key of a pair that ars keygen made")
    group.add_argument(
        "--wait", type=positive, metavar="S", help=f"seconds to wait for it, each time (default: {_WAIT:g})"
    )
    group.add_argument(
        "--insecure-loopback",
        action="store_true",
        help="no keys; at a loopback address, on a machine without other users",
    )


def check_simulator(arguments: argparse.Namespace) -> None:
    """Raises UsageError unless there is a simulator to start, or all that is needed to wait for one."""
    if arguments.listen is None:
        if not arguments.command_line:
            raise UsageError("give the simulator's command line, or --listen for one that is started elsewhere")
        for name in ("key", "wait", "insecure_loopback"):
            if getattr(arguments, name):
                raise UsageError(f"--{name.replace('_', '-')} goes with --listen")
        return
    if arguments.key is None and not arguments.insecure_loopback:
        raise UsageError(
            f"--listen {arguments.listen} needs --key controller.key, of a pair that ars keygen makes. At a loopback "
            "address of a machine that is yours alone, --insecure-loopback does without"
        )
    if arguments.key is not None and arguments.insecure_loopback:
        raise UsageError("--key or --insecure-loopback, not both")


def open_simulator(arguments: argparse.Namespace) -> Simulator:
    """The simulator of the command line, which starts at its first run; or the one that comes to --listen."""
    from ars.simulator import Simulator

    check_simulator(arguments)
    if arguments.listen is None:
        return Simulator(arguments.command_line, workers=arguments.workers, **limits(arguments))
    wait = arguments.wait or _WAIT

    def announce(endpoint: str, line: str) -> None:
        copy = "" if arguments.key is None else f", with a copy of {arguments.key.with_name('simulator.key')} there"
        print(
            f"waiting at {endpoint} for the simulator, at most {wait:g} s. On its machine{copy}, run\n  {line}",
            file=sys.stderr,
            flush=True,
        )

    try:
        simulator = Simulator.listen(
            arguments.listen,
            key=arguments.key,
            insecure_loopback=arguments.insecure_loopback,
            startup_timeout=wait,
            command=arguments.command_line or None,
            announce=announce,
            workers=arguments.workers,
            **limits(arguments),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    print("the simulator is there", file=sys.stderr, flush=True)
    return simulator
