"""``ars keygen``: keys for a simulator on another machine."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "Make the two key files for a simulator on another machine and its controller."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory",
        nargs="?",
        default=".",
        metavar="DIR",
        help="folder for controller.key and simulator.key (default: the current one)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def run(arguments: argparse.Namespace) -> int:
    from ars.runtime.keys import make_pair
    from ars.runtime.remote import ALSO_THERE

    controller, simulator = make_pair(Path(arguments.directory), force=arguments.force)
    print(f"{controller}: stays here, for ars infer --listen tcp://*:PORT --key {controller}, ars train, or")
    print(f"  ars.Simulator.listen(endpoint, key={str(controller)!r})")
    print(f"{simulator}: copy it to the simulator's machine (scp), and start the simulator with")
    print("  ARS_ENDPOINT=tcp://HOST:PORT ARS_KEY=simulator.key ./simulator")
    print(f"  {ALSO_THERE}")
    return 0
