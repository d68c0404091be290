"""``ars inspect``: what is in a simulator, or in a network."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ars.budget import Budget
from ars.cli.documents import add_json, print_document
from ars.cli.options import add_continuations, add_limits, add_seed, add_simulator, add_workers, at_least, limits
from ars.display.screen import on_screen, print_table, print_text

if TYPE_CHECKING:
    from ars.columns import Site
    from ars.loops import Loops
    from ars.network.facade import Network
    from ars.posterior import Traces
    from ars.simulator import Simulator

_ESTIMATED = 64  # traces whose loops are estimated, to show how
_SMALL = Budget(M=2, N=2)
Table: TypeAlias = tuple[Sequence[str], Sequence[Sequence[object]]]  # titles and rows
HELP = "Show the sites and loops of a simulator, or the contents of a network."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser, "EXE|NETWORK", "; or the file of a network")
    add_workers(parser)
    parser.add_argument(
        "--network", type=Path, metavar="FILE", help="show which of the simulator's sites this network knows"
    )
    parser.add_argument("--traces", type=at_least(1), default=1000, metavar="N", help="traces to run (default: 1,000)")
    add_seed(parser)
    add_continuations(parser)
    add_limits(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    words: list[str] = arguments.command_line
    if len(words) == 1 and words[0].endswith(".safetensors"):
        if arguments.network is not None:
            print("ars inspect: a network, or a simulator and --network, not two networks", file=sys.stderr)
            return 2
        from ars.network.facade import Network

        network = Network.load(words[0])
        if arguments.json:
            print_document(network_document(network))
        else:
            _show_network(network)
        return 0
    return _inspect_simulator(arguments)


# What a narrow terminal leaves out, the least important first.
_DROP = ("pages", "why", "per trace", "parameters", "estimated by", "in traces", "numbers")


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Text on the left, numbers on the right."""
    if not rows:
        return
    cells = [[_cell(value) for value in row] for row in rows]
    if on_screen():
        words = [head for head, value in zip(heads, rows[0], strict=True) if isinstance(value, str)]
        print()
        print_text(title, "bold")
        print_table(heads, cells, drop=_DROP, left=words)
        return
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


def network_document(network: Network) -> dict[str, Any]:
    """A network for programs.

    Parameters
    ----------
    network : Network

    Returns
    -------
    dict
        ``simulator``, ``weights`` (their number), ``config``, ``training``, ``history`` (columns), ``latents`` and
        ``observations``.
    """
    return {
        "simulator": network.simulator,
        "weights": sum(parameter.numel() for parameter in network.network.parameters()),
        "config": network.config,
        "training": network.training,
        "history": network.history.to_dict(),
        "latents": [
            {"address": site.address, "prior": site.kind.name, "parameters": site.n_params}
            for site in network.vocabulary
        ],
        "observations": {name: list(shape) for name, shape in network.observation_shapes.items()},
    }


def _show_network(network: Network) -> None:
    print_text(str(network).strip("<>"))
    settings = {name: value for name, value in network.training.items() if name != "source"}
    if settings:
        print_text("training: " + ", ".join(f"{name} {value}" for name, value in settings.items()))
    print_text(str(network.history).strip("<>"))
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
    tables = _tables(traces, network, estimated, matters)
    if arguments.json:
        print_document(_document(traces, tables, matters, network))
        return 1 if network is not None and network.mismatches(traces.sites) else 0
    print_text(f"{' '.join(sim.command)}: {len(traces):,} traces")
    if traces.failures:
        print_text(str(traces.failures))
    for title, (heads, rows) in tables.items():
        _table(title, heads, rows)
    _show_policy(matters)
    return _compare(network, traces.sites) if network is not None else 0


def _document(
    traces: Traces, tables: Mapping[str, Table], matters: Mapping[str, bool | None], network: Network | None
) -> dict[str, Any]:
    """The same for programs: a list of objects per table, whose names are the titles of its columns."""
    from ars.checks.policy import propose_policy

    words = {"yes": True, "no": False, "?": None}
    found: dict[str, Any] = {
        title: [
            {head.replace(" ", "_"): words.get(str(value), value) for head, value in zip(heads, row, strict=True)}
            for row in rows
        ]
        for title, (heads, rows) in tables.items()
    }
    about = None
    if network is not None:
        here = {site.address for site in traces.sites}
        unseen = [spec.address for spec in network.vocabulary if spec.address not in here]
        about = {"unknown": network.unknown(traces.sites), "unseen": unseen}
        about["mismatches"] = network.mismatches(traces.sites)
    return {
        "simulator": traces.run.simulator,
        "seed": traces.run.seed,
        "traces": len(traces),
        "failures": dict(traces.failures),
        **found,
        "policy": propose_policy(matters),
        "network": about,
    }


_DATA = {True: "yes", False: "no", None: "?"}


def _tables(
    traces: Traces, network: Network | None, estimated: Loops, matters: Mapping[str, bool | None]
) -> dict[str, Table]:
    """Latents, loops, observations and results."""
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
    return {
        "latents": (heads, rows[SiteKind.SAMPLE]),
        "loops": _loops(traces, estimated),
        "observations": (("name", "distribution", "in traces", "numbers"), rows[SiteKind.OBSERVE]),
        "results": (("name", "in traces", "numbers"), rows[SiteKind.RESULT]),
    }


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


def _loops(traces: Traces, estimated: Loops) -> Table:
    n = max(len(traces), 1)
    rows: list[tuple[object, ...]] = []
    for loop in traces.loops.values():
        how = estimated.get(loop.address, loop)
        why = how.reason or ("rewound and forked numbers were equal" if how.method == "both" else "")
        rows.append((loop.address, loop.entries / n, loop.mean_tries, 1 / loop.mean_tries, how.method, how.pages, why))
    return ("address", "per trace", "tries", "acceptance", "estimated by", "pages", "why"), rows


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
