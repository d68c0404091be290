"""``ars record``: prior traces on disk, for training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from ars.cli.dask_words import add_dask, simulator_of
from ars.cli.documents import add_json, print_document
from ars.cli.options import (
    UsageError,
    add_first_trace,
    add_limits,
    add_listen,
    add_on_failure,
    add_seed,
    add_simulator,
    add_workers,
    at_least,
)

HELP: Final = "Record prior traces for ars train --data."
_TRACES: Final = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser, needed=False)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for the traces; an existing recording is continued",
    )
    parser.add_argument(
        "--traces",
        type=at_least(1),
        default=_TRACES,
        metavar="N",
        help=f"total number of traces in the folder at the end (default: {_TRACES:,})",
    )
    parser.add_argument(
        "--max-rejected",
        type=at_least(0),
        default=0,
        metavar="N",
        help="rejected tries to record per loop entry, for ars train --train-on all (default: 0)",
    )
    add_first_trace(parser, "that of the folder, 0 for a new one")
    add_workers(parser)
    add_on_failure(parser)
    add_seed(parser)
    add_limits(parser)
    add_listen(parser)
    add_dask(parser)
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with simulator_of(arguments) as simulator:
        try:
            recording = simulator.record(
                arguments.traces,
                arguments.out,
                seed=arguments.seed,
                max_rejected=arguments.max_rejected,
                first_trace=arguments.first_trace,
                on_failure=arguments.on_failure,
                progress=not arguments.quiet,
            )
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from error
    size = sum(shard.size for shard in recording.shards)
    traces = sum(shard.traces for shard in recording.shards)
    if arguments.json:
        print_document(
            {
                "folder": arguments.out,
                "traces": traces,
                "shards": len(recording.shards),
                "bytes": size,
                "seed": recording.seed,
                "max_rejected": recording.max_rejected,
            }
        )
        return 0
    print(f"{arguments.out}: {traces:,} traces in {len(recording.shards):,} shards, {size / 1e6:,.1f} MB")
    return 0
