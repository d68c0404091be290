"""The command line: see the package."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ars_lab.scaling.simulated import Costs, Fleet, Outcome, Training, run_fleet, training_efficiency

__all__ = ["costs_of", "main", "simulate"]

_NODES: Final = (1, 4, 16, 64, 256, 1000)
_RANKS: Final = (1, 2, 4, 16, 64, 256, 1024)
_TRACE_SECONDS: Final = (0.001, 0.01, 0.1, 1.0)
_TASK_SECONDS: Final = (2.0, 10.0, 60.0)


def costs_of(document: Mapping[str, Any]) -> Costs:
    """Of a document that ``main`` wrote."""
    boundary = document["boundaries"]["worker to client, Dask"]
    names = ("task_seconds", "take_seconds", "task_bytes", "parameters", "step_seconds")
    return Costs(trace_bytes=boundary["bytes"], **{name: document[name] for name in names})


def simulate(costs: Costs, *, quick: bool) -> dict[str, Any]:
    """Runs of growing clusters, and trainings of growing numbers of ranks."""
    base = Fleet(1, tasks_per_node=5 if quick else 50)
    nodes = _NODES[:3] if quick else _NODES
    runs: list[dict[str, Any]] = []
    for trace_seconds in _TRACE_SECONDS:
        for task_seconds in _TASK_SECONDS:
            for count in nodes:
                fleet = replace(base, nodes=count, trace_seconds=trace_seconds, task_seconds=task_seconds)
                found = run_fleet(fleet, costs)
                runs.append(_row(fleet, found))
    training = [
        {"ranks": ranks, "kind": kind, "network": speed, "efficiency": training_efficiency(asked, costs, kind)}
        for speed, rate in (("10 Gbit/s", 1.25e9), ("100 Gbit/s", 12.5e9))
        for kind in ("ring", "tree")
        for ranks in (_RANKS[:3] if quick else _RANKS)
        for asked in (Training(ranks, bytes_per_second=rate),)
    ]
    return {"runs": runs, "training": training}


def _row(fleet: Fleet, found: Outcome) -> dict[str, Any]:
    asked = {"nodes": fleet.nodes, "trace_seconds": fleet.trace_seconds, "task_seconds": fleet.task_seconds}
    return {**asked, **found._asdict(), "binds": found.binds}


def _table(simulated: Mapping[str, Any]) -> str:
    lines = ["ms/trace  s/task  nodes  efficiency  traces/s  binds"]
    for row in simulated["runs"]:
        lines.append(
            f"{1e3 * row['trace_seconds']:8g}  {row['task_seconds']:6g}  {row['nodes']:5d}  {row['efficiency']:10.2f}  "
            f"{row['traces_per_second']:8,.0f}  {row['binds']}"
        )
    lines += ["", "network     kind  ranks  efficiency"]
    for row in simulated["training"]:
        lines.append(f"{row['network']:10}  {row['kind']}  {row['ranks']:5d}  {row['efficiency']:10.2f}")
    return "\n".join(lines)


def _draw(simulated: Mapping[str, Any], path: Path) -> None:
    from ars.plots import OKABE_ITO
    from ars_lab.reproduce.figures import need_matplotlib, new_figure

    need_matplotlib()
    figure = new_figure(9.0, 3.6)
    left, right = figure.subplots(1, 2)
    colours = [OKABE_ITO[name] for name in ("blue", "orange", "green", "vermillion")]
    for colour, trace_seconds in zip(colours, _TRACE_SECONDS, strict=True):
        for style, task_seconds in (("-", _TASK_SECONDS[0]), ("--", _TASK_SECONDS[-1])):
            rows = [
                row
                for row in simulated["runs"]
                if (row["trace_seconds"], row["task_seconds"]) == (trace_seconds, task_seconds)
            ]
            label = f"{1e3 * trace_seconds:g} ms per trace" if style == "-" else None
            points = [row["nodes"] for row in rows], [row["efficiency"] for row in rows]
            left.plot(*points, style, color=colour, marker="o", markersize=3, label=label)
    left.set(
        xscale="log", xlabel="nodes of 32 cores", ylabel="efficiency", ylim=(0, 1.05), title="simulation, inference"
    )
    left.legend(frameon=False, fontsize=8)
    for colour, speed in zip(colours, ("10 Gbit/s", "100 Gbit/s"), strict=False):
        for style, kind in (("-", "ring"), ("--", "tree")):
            rows = [row for row in simulated["training"] if (row["network"], row["kind"]) == (speed, kind)]
            points = [row["ranks"] for row in rows], [row["efficiency"] for row in rows]
            right.plot(*points, style, color=colour, marker="o", markersize=3, label=f"{kind}, {speed}")
    right.set(xscale="log", xlabel="ranks", ylim=(0, 1.05), title="training")
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, simulates, draws and prints. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ars_lab.scaling", description="How far runs and trainings scale.")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it works")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="a scaling.json, to simulate without measuring")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="for scaling.json and scaling.png")
    arguments = parser.parse_args(argv)
    if arguments.costs is not None:
        measured = json.loads(arguments.costs.read_text())["measured"]
    else:
        from ars_lab.scaling.measured import measure

        measured = measure(quick=arguments.quick).document()
    simulated = simulate(costs_of(measured), quick=arguments.quick)
    arguments.out.mkdir(parents=True, exist_ok=True)
    document = {"measured": measured, "simulated": simulated}
    (arguments.out / "scaling.json").write_text(json.dumps(document, indent=1) + "\n")
    _draw(simulated, arguments.out / "scaling.png")
    sys.stdout.write(json.dumps(measured, indent=1) + "\n" + _table(simulated) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
