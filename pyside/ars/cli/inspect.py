"""``ars inspect``: what is in a simulator, or in a network."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ars.budget import Budget
from ars.cli.options import add_continuations, add_limits, add_seed, add_simulator, add_workers, at_least, limits

if TYPE_CHECKING:
    from ars.columns import Site
    from ars.loops import Loops
    from ars.network.facade import Network
    from ars.posterior import Traces
    from ars.simulator import Simulator

_ESTIMATED = 64  # traces whose loops are estimated, to show how
_SMALL = Budget(M=2, N=2)
HELP = "Show a simulator's sites and loops, or what a network knows."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser, "EXE|NETWORK", "; or the file of a network")
    add_workers(parser)
    parser.add_argument("--network", type=Path, metavar="FILE", help="show which of the simulator's sites it knows")
    parser.add_argument("--traces", type=at_least(1), default=1000, metavar="N", help="to run; default: 1,000")
    add_seed(parser)
    add_continuations(parser)
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.command_line
    if len(words) == 1 and words[0].endswith(".safetensors"):
        if arguments.network is not None:
            print("ars inspect: a network, or a simulator and --network, not two networks", file=sys.stderr)
            return 2
        from ars.network.facade import Network

        _show_network(Network.load(words[0]))
        return 0
    return _inspect_simulator(arguments)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Text on the left, numbers on the right."""
    if not rows:
        return
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    print(f"\n{title}")
    for row, values in [(list(heads), rows[0]), *zip(cells, rows, strict=True)]:
        parts = (
            text.ljust(width) if isinstance(value, str) else text.rjust(width)
            for text, width, value in zip(row, widths, values, strict=True)
        )
        print("  " + "  ".join(parts).rstrip())


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# ---- networks -----------------------------------------------------------------------------------------------------


def _show_network(network: Network) -> None:
    print(network)
    settings = {name: value for name, value in network.training.items() if name != "source"}
    if settings:
        print("training: " + ", ".join(f"{name} {value}" for name, value in settings.items()))
    print(network.history)
    _table(
        "latents",
        ("address", "prior", "parameters"),
        [(site.address, site.kind.name, site.n_params) for site in network.vocabulary],
    )
    shapes = network.observation_shapes.items()
    _table("observations", ("name", "shape"), [(name, " x ".join(map(str, shape))) for name, shape in shapes])


# ---- simulators ---------------------------------------------------------------------------------------------------


def _inspect_simulator(arguments: argparse.Namespace) -> int:
    from ars import Simulator

    network = None
    if arguments.network is not None:
        from ars.network.facade import Network

        network = Network.load(arguments.network)
    with Simulator(arguments.command_line, workers=arguments.workers, **limits(arguments)) as sim:
        traces = sim.prior(arguments.traces, seed=arguments.seed, on_failure="zero")
        estimated = _estimate(sim, traces)
        matters = {address: each.matters for address, each in sim._influences(traces.run.seed).items()}
    print(f"{' '.join(sim.command)}: {len(traces):,} traces")
    if traces.failures:
        print(traces.failures)
    _show_sites(traces, network, estimated, matters)
    _show_policy(matters)
    return _compare(network, traces.sites) if network is not None else 0


_DATA = {True: "yes", False: "no", None: "?"}


def _show_sites(traces: Traces, network: Network | None, estimated: Loops, matters: Mapping[str, bool | None]) -> None:
    from ars._native import SiteKind
    from ars.columns import offsets, trace_of

    where = offsets(traces.columns)
    rows: dict[SiteKind, list[tuple[object, ...]]] = {kind: [] for kind in SiteKind}
    n = max(len(traces), 1)
    for site in traces.sites:
        if site.kind is SiteKind.LOOP:
            continue
        items, starts = {
            SiteKind.SAMPLE: (traces.columns.samples, where.samples),
            SiteKind.OBSERVE: (traces.columns.observes, where.observes),
            SiteKind.RESULT: (traces.columns.results, where.results),
        }[site.kind]
        index = np.flatnonzero(items["site"] == site.id)
        share = len(np.unique(trace_of(starts, index))) / n
        kind = site.dist.name if site.dist else ""
        if site.kind is SiteKind.SAMPLE:
            known = () if network is None else ("yes" if site.address in network.vocabulary else "no",)
            used = _DATA[matters.get(site.address)]
            rows[site.kind].append((site.address, kind, share, len(index) / n, used, *known))
        else:
            numbers = float(items["n"][index].sum()) / n
            rows[site.kind].append((site.address, *((kind,) if site.kind is SiteKind.OBSERVE else ()), share, numbers))
    known_head = () if network is None else ("known",)
    heads = ("address", "prior", "in traces", "per trace", "data depend on it", *known_head)
    _table("latents", heads, rows[SiteKind.SAMPLE])
    _show_loops(traces, estimated)
    _table("observations", ("name", "distribution", "in traces", "numbers"), rows[SiteKind.OBSERVE])
    _table("results", ("name", "in traces", "numbers"), rows[SiteKind.RESULT])


def _show_policy(matters: Mapping[str, bool | None]) -> None:
    """Which unnamed draws can be nuisances: the data do not depend on them."""
    from ars.checks.policy import propose_policy

    rules = propose_policy(matters)
    if not rules:
        return
    print("\nproposed policy: the data do not depend on these draws, so the prior may keep them")
    for rule in rules:
        print(f"  --nuisance {shlex.quote(rule.pattern)}  ({rule.draws:,} draw{'' if rule.draws == 1 else 's'})")


def _estimate(sim: Simulator, traces: Traces) -> Loops:
    """The loops of the first traces, estimated with the prior as the proposal: what matters is how."""
    from ars.loops import summarise_loops

    if not traces.loops:
        return traces.loops
    columns, sites = sim._prior_chunk(traces.run.seed, 0, _ESTIMATED, on_failure="zero", budget=_SMALL)
    return summarise_loops(columns, sites)


def _show_loops(traces: Traces, estimated: Loops) -> None:
    n = max(len(traces), 1)
    rows = []
    for loop in traces.loops.values():
        how = estimated.get(loop.address, loop)
        why = how.reason or ("rewound and forked numbers were equal" if how.method == "both" else "")
        rows.append((loop.address, loop.entries / n, loop.mean_tries, 1 / loop.mean_tries, how.method, how.pages, why))
    _table("loops", ("address", "per trace", "tries", "acceptance", "estimated by", "pages", "why"), rows)


def _compare(network: Network, sites: Sequence[Site]) -> int:
    """1 if the network is another simulator's."""
    unseen = [spec.address for spec in network.vocabulary if spec.address not in {site.address for site in sites}]
    unknown = network.unknown(sites)
    print(f"\n{network}")
    if unknown:
        print(f"it does not know {len(unknown)} latents, where the prior will propose: {', '.join(unknown)}")
    if unseen:
        print(f"it knows {len(unseen)} latents that did not occur in these traces: {', '.join(unseen)}")
    wrong = network.mismatches(sites)
    for line in wrong:
        print(f"does not fit: {line}")
    return 1 if wrong else 0
