"""``ars merge``: what several machines have recorded or inferred, as one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from ars.cli.documents import add_json, print_document

HELP: Final = "Merge recordings (by reference), or results of consecutive ranges of traces."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "out",
        type=Path,
        metavar="OUT",
        help="for recordings: a folder that refers to them, for ars train --data; for results: a .nc file",
    )
    parser.add_argument(
        "parts",
        type=Path,
        nargs="+",
        metavar="PART",
        help="folders of ars record, which stay where they are; or .nc files of ars infer --first-trace",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    from ars.posterior import Posterior
    from ars.store.merging import merge

    whole = merge(arguments.parts, arguments.out)
    if isinstance(whole, Posterior):
        if arguments.json:
            from ars.cli.show import document

            print(document(whole, whole.diagnostics()))
            return 0
        print(whole.summary("command line"))
        print(f"seed {whole.run.seed}; written to {arguments.out}")
    elif arguments.json:
        print_document({"folder": arguments.out, "traces": whole.traces, "recordings": len(whole.parts)})
    else:
        print(f"{arguments.out}: {whole.traces:,} traces in {len(whole.parts):,} recordings")
    return 0
