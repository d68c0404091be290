"""Options of ``ars infer`` for proposals that adapt to the data."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ars.cli.options import UsageError, at_least
from ars.config import RefineConfig, setting_of

__all__ = ["add_refinement", "refinement_of"]

_OPTIONS = {"refine_rounds": "rounds", "refine_traces": "traces", "refine_steps": "steps"}


def add_refinement(parser: argparse.ArgumentParser) -> None:
    """--refine, --adapt and their settings."""
    group = parser.add_argument_group("proposals that adapt to the data (docs/refinement.md)")
    either = group.add_mutually_exclusive_group()
    either.add_argument("--refine", action="store_true", help="first specialise the network to these data")
    either.add_argument("--adapt", action="store_true", help="do the same without a network, starting from the prior")
    for option, name in _OPTIONS.items():
        setting, default = setting_of(RefineConfig, name)
        group.add_argument(
            f"--{option.replace('_', '-')}",
            type=at_least(int(setting.least), int(setting.most)),
            metavar="N",
            help=f"{setting.meaning} (default: {default:,})",
        )
    group.add_argument(
        "--refined-out",
        type=Path,
        metavar="FILE",
        help="file for the refined network, for use with --network (default: not written)",
    )


def refinement_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``Simulator.posterior`` that these options name."""
    settings = {name: value for option, name in _OPTIONS.items() if (value := getattr(arguments, option)) is not None}
    if not arguments.refine and not arguments.adapt:
        given = [*(f"--refine-{name}" for name in settings), *(["--refined-out"] if arguments.refined_out else [])]
        if given:
            raise UsageError(f"{given[0]} needs --refine, with a network, or --adapt, without one")
        return {}
    if arguments.refine and arguments.network is None:
        raise UsageError("--refine needs --network, which it starts from; --adapt starts from the prior")
    if arguments.adapt and arguments.network is not None:
        raise UsageError("--adapt starts from the prior and takes no --network; to start from a network, use --refine")
    which = "refine" if arguments.refine else "adapt"
    return {which: RefineConfig(**settings), "refined_out": arguments.refined_out}
