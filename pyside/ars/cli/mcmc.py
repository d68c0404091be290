"""``ars mcmc``: Markov chains over a simulator's latents, given data."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ars.cli.dask_words import add_dask, check_place, on_cluster, simulator_of
from ars.cli.documents import add_json, print_document
from ars.cli.infer import add_data, read_data, read_network
from ars.cli.options import (
    UsageError,
    add_continuations,
    add_limits,
    add_listen,
    add_on_failure,
    add_seed,
    add_simulator,
    add_workers,
    at_least,
)
from ars.cli.report_words import add_report, command_of, write_files
from ars.display.screen import on_screen, print_table, print_text
from ars.mcmc.options import CHAINS
from ars.progress import make_progress
from ars.store.saved import check_netcdf

if TYPE_CHECKING:
    from ars.errors import ArsError, RunInterrupted
    from ars.mcmc.chains import Chains

HELP = "Check a posterior with Markov chains."
_STEPS = 1000  # unless told otherwise

_CODES = """exit codes: 0 the chains have mixed; 1 the run failed; 2 wrong arguments; 3 the chains have not mixed (all
files are written, and the table is printed); 130 interrupted"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _CODES
    add_simulator(parser, needed=False)
    add_workers(parser)
    add_data(parser, in_loops=False)
    parser.add_argument(
        "--steps", type=at_least(1), default=_STEPS, metavar="N", help=f"draws per chain (default: {_STEPS:,})"
    )
    parser.add_argument(
        "--chains", type=at_least(1), default=CHAINS, metavar="N", help=f"number of chains (default: {CHAINS})"
    )
    parser.add_argument(
        "--warmup",
        type=at_least(0),
        metavar="N",
        help="warm-up steps to discard (default: half of --steps, at least 100)",
    )
    parser.add_argument(
        "--thin", type=at_least(1), metavar="N", help="moves per step (default: one per latent, at most 50)"
    )
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="NAME,NAME...",
        help="also move these latents together; can be repeated",
    )
    parser.add_argument(
        "--M",
        type=at_least(1),
        metavar="M",
        help="runs under the prior per loop entry (default: 2 to 50, chosen automatically)",
    )
    add_on_failure(parser)
    add_seed(parser)
    parser.add_argument("--out", type=_out, metavar="FILE", help="write the draws: .nc (for ArviZ and ars.Chains.load)")
    add_report(parser, "a report, with a verdict on whether the chains have mixed,")
    add_continuations(parser)
    add_limits(parser)
    add_listen(parser)
    add_dask(parser)
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")
    add_json(parser)


def _out(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".nc":
        raise argparse.ArgumentTypeError(f"{text} must end in .nc")
    try:
        check_netcdf()
    except ImportError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return path


def _chains(arguments: argparse.Namespace, data: dict[str, Any]) -> Chains:
    network = read_network(arguments)
    with simulator_of(arguments) as sim:
        try:
            if on_cluster(arguments):
                from ars.cluster.groups import chains_in_groups

                options = {"warmup": arguments.warmup, "thin": arguments.thin, "M": arguments.M}
                options["blocks"] = [block.split(",") for block in arguments.block]
                options["on_failure"] = arguments.on_failure
                return chains_in_groups(
                    sim,
                    data,
                    arguments.steps,
                    arguments.chains,
                    network,
                    arguments.seed,
                    None,
                    options,
                    make_progress(not arguments.quiet),
                )
            return sim.mcmc(
                data,
                arguments.steps,
                arguments.chains,
                network,
                seed=arguments.seed,
                warmup=arguments.warmup,
                thin=arguments.thin,
                blocks=[block.split(",") for block in arguments.block],
                M=arguments.M,
                on_failure=arguments.on_failure,
                progress=not arguments.quiet,
            )
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from error


# What a narrow terminal leaves out, the least important first.
_DROP = ("std", "50%", "tail", ("5%", "95%"), "s.e.")


def _print(chains: Chains, arguments: argparse.Namespace) -> None:
    """The summary: as plain text to a pipe, fitted to its width on a terminal."""
    from ars.mcmc.summary import assess, cells, move_cells

    summary = arguments.wording(chains.summary())
    if not on_screen():
        print(summary)
        return
    heading = summary.partition("\n\n")[0]
    print_text(heading)
    print()
    print_table(*cells(assess(chains).rows), drop=_DROP)
    print()
    print_table(*move_cells(chains))
    if chains.failures:
        print_text(f"\n{chains.failures!r}")


def _report(chains: Chains, path: Path, command: str) -> None:
    from ars.report.chains import chains_page
    from ars.report.render import write

    write(chains_page(chains, command=command), path)


def _show(chains: Chains, arguments: argparse.Namespace) -> None:
    from ars.mcmc.summary import document

    failed = write_files(arguments, chains.save, lambda path: _report(chains, path, command_of(arguments)))
    if arguments.json:
        shown = document(chains)
        print_document(shown | {"verdict": arguments.wording(shown["verdict"])}, indent=1)
    else:
        _print(chains, arguments)
    if failed is not None:
        raise failed
    if arguments.out is not None and not arguments.json:
        print(f"written to {arguments.out}")
    if arguments.report is not None and not arguments.json:
        print(f"report: {arguments.report}")


def _show_partial(error: ArsError | RunInterrupted, arguments: argparse.Namespace) -> None:
    """The draws up to what ended the chains early, if there are any."""
    partial = cast("Chains | None", error.partial)
    steps = 0 if partial is None else partial.shape[1]
    why = "interrupted" if isinstance(error, KeyboardInterrupt) else "ended"
    print(f"ars mcmc: {why} after {steps:,} of {arguments.steps:,} steps", file=sys.stderr)
    if partial is not None:
        _show(partial, arguments)


def run(arguments: argparse.Namespace) -> int:
    from ars.errors import ArsError, RunInterrupted

    check_place(arguments)
    data = read_data(arguments)
    try:
        chains = _chains(arguments, data)
    except RunInterrupted as interrupt:
        _show_partial(interrupt, arguments)
        return 130
    except ArsError as error:
        if error.partial is not None:
            _show_partial(error, arguments)
        raise
    _show(chains, arguments)
    return 0 if chains.trusted else 3
