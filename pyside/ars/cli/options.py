"""What several commands share: the simulator's command line, and numbers."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ars import Limits
from ars._native import LIMITS, Limit
from ars.arguments import LARGEST_SEED, ON_FAILURE, OnFailure
from ars.config import Setting, setting_of
from ars.continuations import MODES
from ars.flat_policy import checked_rule

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = [
    "Help",
    "UsageError",
    "add_continuations",
    "add_first_trace",
    "add_limits",
    "add_listen",
    "add_on_failure",
    "add_out",
    "add_seed",
    "add_settings",
    "add_simulator",
    "add_workers",
    "at_least",
    "check_simulator",
    "given_settings",
    "limits",
    "not_negative",
    "number_of_bytes",
    "open_simulator",
    "positive",
]

_LIMITS = tuple(field.name for field in fields(Limits) if field.name != "startup_timeout")
_WORKERS = (
    f"{LIMITS['workers'].meaning} (default: {LIMITS['workers_per_core'].default} per core, "
    f"{LIMITS['asking_per_core'].default} per core if traces request proposals)"
)


class Help(argparse.HelpFormatter):
    """Wraps the paragraphs of a text; indented lines, such as examples, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(part if part[:1] == " " else fill(part, width, indent) for part in text.split("\n\n"))


class UsageError(Exception):
    """Arguments that do not go together. Exit code 2."""


def at_least(low: int, high: int | None = None) -> Callable[[str], int]:
    """A whole number that is not below low, and not above high, for argparse."""

    def whole(text: str) -> int:
        try:
            number = int(text.replace("_", "").replace(",", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < low:
            raise argparse.ArgumentTypeError(f"{number} is less than {low}")
        if high is not None and number > high:
            raise argparse.ArgumentTypeError(f"{number} is more than {high}")
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


def between(low: float, high: float) -> Callable[[str], float]:
    """A number from low to high, for argparse."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low:g} to {high:g}")
        return value

    return number


def not_negative(text: str) -> float:
    """0 or a positive number, for argparse."""
    return 0.0 if text.strip() in ("0", "0.0") else positive(text)


def number_of_bytes(text: str) -> int:
    """A whole number with K, M, G or T behind it, for argparse."""
    units = {"K": 10, "M": 20, "G": 30, "T": 40}
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in units else (text, "")
    return at_least(0)(digits) << units.get(unit, 0)


def _bounded(limit: Limit) -> Callable[[str], int]:
    return at_least(limit.least, limit.most)


def _option_of(limit: Limit) -> dict[str, Any]:
    """The type, the placeholder and the help of the option that sets this limit."""
    kinds: dict[str, tuple[Callable[[str], float], str]] = {
        "s": (not_negative, "S"),
        "B": (number_of_bytes, "BYTES"),
        "": (_bounded(limit), "N"),
    }
    convert, placeholder = kinds[limit.unit]
    return {"type": convert, "metavar": placeholder, "help": f"{limit.meaning} (default: {limit.default})"}


class _Rule(argparse.Action):
    """Adds to the rules in the order in which they are given: the last one that matches wins."""

    def __call__(self, _: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *__: object) -> None:
        rules = dict(getattr(namespace, self.dest) or {})
        rules.pop(values, None)
        setattr(namespace, self.dest, rules | {values: str(self.const)})


def _pattern(text: str) -> str:
    try:
        checked_rule(text, "latent")
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("flat_policy: ")) from None
    return text


def _add_flat_policy(parser: argparse.ArgumentParser) -> None:
    """Rules for draws without names; ``limits`` makes an argument of Simulator of them."""
    group = parser.add_argument_group("draws without names")
    kinds = {
        "latent": "make draws latents if their address matches",
        "nuisance": "make draws nuisances (from the prior, not recorded) if their address matches",
    }
    for policy, meaning in kinds.items():
        group.add_argument(
            f"--{policy}",
            action=_Rule,
            type=_pattern,
            dest="flat_policy",
            const=policy,
            metavar="PATTERN",
            help=f"{meaning}. PATTERN is a part of the address or, if it contains * or ?, matches all of it. Can be "
            "repeated; the last match wins (default: the program's own rules)",
        )


def add_limits(parser: argparse.ArgumentParser, *, without: str = "") -> None:
    """What the simulator may use; ``limits`` makes Simulator's arguments of it. ``without``: one that has no effect."""
    _add_flat_policy(parser)
    group = parser.add_argument_group("limits")
    for name in _LIMITS:
        if name != without:
            group.add_argument(f"--{name.replace('_', '-')}", **_option_of(LIMITS[name]))


def add_continuations(parser: argparse.ArgumentParser) -> None:
    """How loops are estimated; ``limits`` makes an argument of Simulator of it."""
    parser.add_argument(
        "--continuations",
        choices=MODES,
        help="how loops are estimated: auto rewinds where that is safe and forks elsewhere, fork always forks, check "
        f"does both and compares them; the numbers are the same (default: {MODES[0]})",
    )


def limits(arguments: argparse.Namespace) -> dict[str, Any]:
    """The limits, the mode of continuations and the rules for unnamed draws that were given, as arguments of
    Simulator."""
    given = {name: getattr(arguments, name, None) for name in (*_LIMITS, "continuations", "flat_policy")}
    return {name: value for name, value in given.items() if value is not None}


def add_simulator(parser: argparse.ArgumentParser, what: str = "EXE", more: str = "", needed: bool = True) -> None:
    parser.add_argument(
        "command_line",
        nargs="+" if needed else "*",
        metavar=what,
        help=f"the simulator and its arguments; put -- before arguments that begin with a dash{more}",
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=_bounded(LIMITS["workers"]), metavar="N", help=_WORKERS)


def add_seed(parser: argparse.ArgumentParser, *, required: bool = False, default: int | None = None) -> None:
    otherwise = "required" if required else f"default: {'random' if default is None else default}"
    parser.add_argument(
        "--seed",
        type=at_least(0, LARGEST_SEED),
        required=required,
        default=default,
        metavar="N",
        help=f"random seed, 0 to 2**64 - 1; the same seed gives the same result ({otherwise})",
    )


def add_first_trace(parser: argparse.ArgumentParser, otherwise: str) -> None:
    parser.add_argument(
        "--first-trace",
        type=at_least(0, 2**64 - 2),
        metavar="K",
        help="number of the first trace. Runs with the same seed and separate ranges of numbers are parts of one run, "
        f"which ars merge joins (default: {otherwise})",
    )


def add_on_failure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-failure",
        choices=get_args(OnFailure),
        default=ON_FAILURE,
        help=f"policy for traces that fail (default: {ON_FAILURE})",
    )


def add_settings(parser: argparse.ArgumentParser, config: type, *names: str) -> None:
    """Options for these fields of a configuration, which has their defaults, ranges and meanings. ``given_settings``
    has those that were given."""
    for name in names:
        setting, default = setting_of(config, name)
        shown = f"{default:,}" if setting.whole and not setting.choices else default
        help_ = f"{setting.meaning} (default: {shown})"
        parser.add_argument(f"--{name.replace('_', '-')}", **_kind_of(setting), help=help_)


def _kind_of(setting: Setting) -> dict[str, Any]:
    if setting.choices:
        return {"choices": setting.choices}
    if setting.whole:
        return {"type": at_least(int(setting.least), int(setting.most)), "metavar": "N"}
    return {"type": positive if setting.positive else between(setting.least, setting.most), "metavar": "X"}


def given_settings(arguments: argparse.Namespace, config: type) -> dict[str, Any]:
    """The fields of a configuration that options of ``add_settings`` gave."""
    names = (field.name for field in fields(config))
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


class _Renamed(argparse.Action):
    """An option that has another name now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        parser.error(f"{self.option_strings[0]} is now called {self.metavar}")


def add_out(parser: argparse.ArgumentParser, default: str, help_: str) -> None:
    """``--out`` for a folder; it was called ``--output`` once."""
    parser.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help=help_)
    parser.add_argument("--output", action=_Renamed, metavar="--out", help=argparse.SUPPRESS)


# ---- a simulator that is started elsewhere ---------------------------------------------------------------------------


def add_listen(parser: argparse.ArgumentParser) -> None:
    """For ``open_simulator``; with ``add_simulator(needed=False)`` and ``add_limits``."""
    group = parser.add_argument_group("a simulator on another machine")
    group.add_argument(
        "--listen",
        metavar="tcp://ADDRESS:PORT",
        help="wait for a simulator at this address instead of starting one; tcp://*:5555 means all addresses of this "
        "machine. Prints the command to run on the other machine; EXE, if given, is the path of the executable there",
    )
    group.add_argument(
        "--simulators",
        type=at_least(1, 256),
        metavar="N",
        help="number of simulators to wait for; several share the traces of the run (default: 1)",
    )
    group.add_argument("--key", type=Path, metavar="FILE", help="controller.key from ars keygen")
    group.add_argument(
        "--wait",
        type=positive,
        metavar="S",
        help=f"{LIMITS['listen_timeout'].meaning} (default: {LIMITS['listen_timeout'].default})",
    )
    group.add_argument(
        "--insecure-loopback",
        action="store_true",
        help="use no keys; only for loopback addresses, on a machine without other users",
    )


def check_simulator(arguments: argparse.Namespace) -> None:
    """Raises UsageError unless there is a simulator to start, or all that is needed to wait for one."""
    if arguments.listen is None:
        if not arguments.command_line:
            raise UsageError("give the simulator's command line, or --listen for one on another machine")
        for name in ("key", "wait", "insecure_loopback", "simulators"):
            if getattr(arguments, name):
                raise UsageError(f"--{name.replace('_', '-')} goes with --listen")
        return
    if arguments.key is None and not arguments.insecure_loopback:
        raise UsageError(
            f"--listen {arguments.listen} needs --key controller.key (ars keygen makes the pair). On a machine "
            "without other users, --insecure-loopback allows a loopback address without keys"
        )
    if arguments.key is not None and arguments.insecure_loopback:
        raise UsageError("--key or --insecure-loopback, not both")


def open_simulator(arguments: argparse.Namespace) -> Simulator:
    """The simulator of the command line, which starts at its first run; or the one that comes to --listen."""
    from ars.runtime.remote import ALSO_THERE
    from ars.simulator import Simulator

    check_simulator(arguments)
    if arguments.listen is None:
        return Simulator(arguments.command_line, workers=arguments.workers, **limits(arguments))
    wait = arguments.wait or float(LIMITS["listen_timeout"].standard)
    many = arguments.simulators or 1
    who = "the simulator" if many == 1 else f"{many} simulators"

    def announce(endpoint: str, line: str) -> None:
        copy = "" if arguments.key is None else f", with a copy of {arguments.key.with_name('simulator.key')} there"
        print(
            f"waiting at {endpoint} for {who}, at most {wait:g} s. On its machine{copy}, run\n  {line}\n{ALSO_THERE}",
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
            simulators=many,
            workers=arguments.workers,
            **limits(arguments),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    print(f"{who} {'is' if many == 1 else 'are'} connected", file=sys.stderr, flush=True)
    return simulator
