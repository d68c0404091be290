"""The page of a trained network: did the training level off, what does the network know, how was it made."""

from __future__ import annotations

import datetime as dt
import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ars.report.charts import Layer, Line, chart
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Code,
    Column,
    Fact,
    Facts,
    Page,
    Section,
    Step,
    Table,
    Text,
    Verdict,
    minus,
    number_cell,
)
from ars.report.run import settings_table, versions

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["training_page", "training_verdict"]

_LATE: Final = 0.2  # share of the evaluations at the end that are compared with as many before them
_STILL: Final = 0.05  # nats per trace: a fall of the held-out loss that is worth more training
_OVER: Final = 0.1  # nats per trace above its lowest value: the network learns the traces instead of the simulator


def training_page(network: Network, *, command: str = "") -> Page:
    """Build the page of a network.

    Parameters
    ----------
    network : Network
    command : str
        Command line that trained it (default: not known).

    Returns
    -------
    Page
    """
    name = Path(network.simulator[0]).name if network.simulator else "a simulator"
    sections = [_curves(network), _sites(network), _made(network, command)]
    about = f"{sum(p.numel() for p in network.network.parameters()):,} weights, {len(network.vocabulary)} latents"
    held = network.history.held_out
    verdict = training_verdict(network.history.loss, held)
    return Page.of(f"Training of a network for {name}", about, verdict, sections)


def training_verdict(loss: list[float], held_out: list[float | None]) -> Verdict:
    """Say whether the training has levelled off, by the loss on traces that are never trained on, if there is one."""
    known = [each for each in held_out if each is not None and math.isfinite(each)]
    curve = known or [each for each in loss if math.isfinite(each)]
    which = "held-out loss" if known else "loss"
    if len(curve) < 4:
        return Verdict("plain", "Too short to assess", f"The training has {len(curve)} evaluations; 4 are needed.")
    late = max(round(len(curve) * _LATE), 1)
    fall = float(np.mean(curve[-2 * late : -late]) - np.mean(curve[-late:]))
    last = f"The {which} ends at {minus(f'{curve[-1]:.3f}')} nats per trace."
    judge = Step(
        "Try the network on your data",
        "Only weights show how good proposals are: check the effective traces and Pareto k.",
        "simulator.posterior(observe, traces=10_000, network=network).report('report.html')",
        "ars infer ... --network FILE --report report.html",
    )
    if known and curve[-1] > min(curve) + _OVER:
        text = f"{last} It was {minus(f'{min(curve):.3f}')} before: the network is memorising individual traces."
        more = Step(
            "Train on fresh traces, or stop earlier",
            "",
            "simulator.train(..., patience=10)",
            "ars train ... --patience 10",
        )
        return Verdict("caution", "The held-out loss rises again", text, (), [more, judge])
    if fall > _STILL:
        text = f"{last} It fell by {fall:.2f} over its last fifth."
        more = Step(
            "Train longer",
            "More traces will give better proposals.",
            "simulator.train(..., resume=True)",
            "ars train ... --resume",
        )
        return Verdict("caution", "The loss still falls", text, (), [more, judge])
    return Verdict("good", "The training has levelled off", f"{last} More traces would change little.", (), [judge])


def _curves(network: Network) -> Section | None:
    history = network.history
    if not len(history):
        return None
    last = history[-1]
    facts = [
        Fact("Traces", f"{last.traces:,}"),
        Fact("Loss", minus(f"{last.loss:.4g}"), "nats per trace"),
        Fact("Time", f"{last.seconds:,.0f} s"),
        Fact("Traces per second", f"{last.traces / last.seconds:,.0f}" if last.seconds else "–"),
    ]
    held = np.array([math.nan if each is None else each for each in history.held_out])
    layers: list[Layer] = [Line(history.traces, history.loss, 1, "training")]
    if np.isfinite(held).any():
        facts.insert(2, Fact("Held-out loss", minus(f"{held[np.isfinite(held)][-1]:.4g}"), "nats per trace"))
        layers.append(Line(np.array(history.traces)[np.isfinite(held)], held[np.isfinite(held)], 2, "held out"))
    loss = chart(
        "Training and held-out loss against the number of traces", layers, x_label="traces", y_label="nats per trace"
    )
    rate = chart(
        "Learning rate against the number of traces",
        [Line(history.traces, history.lr, 1)],
        x_label="traces",
        y_label="learning rate",
    )
    charts = [
        Chart("Loss", loss, "The negative log density that the network gives to the latents."),
        Chart("Learning rate", rate),
    ]
    return Section("Curves", [Facts(facts), Charts(charts), _history(network)])


def _history(network: Network) -> Table:
    columns = [Column(title) for title in ("Traces", "Loss", "Held-out loss", "Learning rate", "Seconds", "Traces/s")]
    rows = [
        [
            number_cell(each.traces, ",d"),
            number_cell(each.loss, ".4f"),
            number_cell(math.nan if each.held_out is None else each.held_out, ".4f"),
            number_cell(each.lr, ".2e"),
            number_cell(each.seconds, ",.1f"),
            number_cell(each.traces_per_second, ",.0f"),
        ]
        for each in network.history
    ]
    return Table("Evaluations", columns, rows)


def _sites(network: Network) -> Section:
    columns = [Column("Latent", numeric=False), Column("Prior", numeric=False), Column("Parameters")]
    rows = [
        [Cell(site.address, code=True), Cell(site.kind.name.replace("_", " ").lower()), number_cell(site.n_params, "d")]
        for site in network.vocabulary
    ]
    observed = ", ".join(
        f"`{name}` ({' x '.join(map(str, shape)) or '1'})" for name, shape in network.observation_shapes.items()
    )
    text = "The prior proposes every latent that is not listed."
    blocks: list[Block] = [Text(f"Observations, with their shapes: {observed}.")] if observed else []
    return Section("Sites", [*blocks, Text(text), Table("Latents that the network knows", columns, rows)])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def _made(network: Network, command: str) -> Section:
    settings = {
        "Simulator": shlex.join(network.simulator),
        **_flat(network.training),
        **versions(),
        "Report made": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    blocks: list[Block] = [Code(command, "Command")] if command else []
    return Section("How it was trained", [*blocks, settings_table("Settings and versions", settings)])
