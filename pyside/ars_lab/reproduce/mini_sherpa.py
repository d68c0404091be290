"""Mini-SHERPA: a much simplified event generator, observed through a calorimeter; one observation per decay channel.

The evidence has no closed form. It is estimated twice: as the paper does, with the prior inside the loops, where no
correction is needed, and a network outside; and without the simulator (reference.py). The runs are held against the one
with more effective draws. Any network will do outside: a small one gives more effective traces per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ars import diagnostics
from ars.columns import Floats
from ars.simulator import Simulator
from ars_lab.reproduce import reference
from ars_lab.reproduce.networks import Trained, trained
from ars_lab.reproduce.records import Record
from ars_lab.reproduce.repeated import Observed, Outcome, Truth, outcome, runs
from ars_lab.reproduce.settings import MiniSherpa as MiniSherpaSettings
from ars_lab.reproduce.settings import Repeats
from ars_lab.reproduce.workspace import Arrays, Workspace

__all__ = ["BINS", "CHANNELS", "SHAPES", "Channel", "Event", "events", "mini_sherpa", "truth"]

CHANNELS: Final = (1, 2, 3)  # as the paper counts; the simulator's result "channel" is one less
BINS: Final = 20
SHAPES: Final = {"calorimeter": (BINS, BINS)}
_KEPT: Final = ("channel", "momentum", "thetas", "phis")
_CANDIDATES: Final = 400  # prior traces among which the observations are chosen


class Event(NamedTuple):
    """One event of the prior: what was drawn, and the noisy counts that it left."""

    channel: int  # 1, 2 or 3: how many particles
    momentum: Floats  # of the mother
    thetas: Floats
    phis: Floats
    calorimeter: Floats  # 400


class Channel(NamedTuple):
    """All that came of one channel's observation."""

    event: Event
    native: Truth  # with the prior inside the loops
    native_traces: int
    native_ess: float
    reference: reference.Estimate
    outcome: Outcome
    records: list[Record]

    @property
    def disagreement(self) -> float:
        """Of the two estimates of the evidence, in standard errors."""
        difference = self.native.log_evidence - self.reference.log_evidence
        return difference / math.hypot(self.native.error, self.reference.error)


# ---- observations -----------------------------------------------------------------------------------------------


def _middle(values: Floats) -> int:
    """The row that is least far from the middle of all, in units of their spread: a typical one."""
    centre, spread = np.median(values, axis=0), values.std(axis=0) + 1e-12
    return int(np.argmin(np.square((values - centre) / spread).sum(axis=1)))


def events(sim: Simulator, work: Workspace) -> list[Event]:
    """An event of each channel: of several hundred of the prior, one with middling momentum and angles."""

    def make(seed: int) -> Arrays:
        traces = sim.prior(_CANDIDATES, seed=seed)
        chosen: Arrays = {}
        for channel in CHANNELS:
            rows = np.flatnonzero(traces["channel"] == channel - 1)
            n = channel - 1
            momentum = traces["momentum"][rows]
            if n:
                thetas = traces["thetas"].reshape(len(traces), -1)[rows, :n]
                features = np.hstack([momentum, np.abs(thetas)])
            else:
                features = momentum
            row = int(rows[_middle(features)])
            chosen[f"calorimeter{channel}"] = traces.observations["calorimeter"][row]
            chosen[f"momentum{channel}"] = traces["momentum"][row]
            for name in ("thetas", "phis"):
                chosen[f"{name}{channel}"] = traces[name].reshape(len(traces), -1)[row, :n]
        return chosen

    found = work.arrays("mini-sherpa-events", {"candidates": _CANDIDATES}, make)
    return [
        Event(
            channel,
            *(np.asarray(found[f"{name}{channel}"]) for name in ("momentum", "thetas", "phis", "calorimeter")),
        )
        for channel in CHANNELS
    ]


def _observed(event: Event) -> Observed:
    data = {"calorimeter": event.calorimeter.reshape(BINS, BINS)}
    return Observed(f"mini-sherpa-{event.channel}", f"Mini-SHERPA, channel {event.channel}", data, _KEPT)


# ---- the evidence -----------------------------------------------------------------------------------------------


def truth(
    sim: Simulator, network: Trained, event: Event, settings: MiniSherpaSettings, work: Workspace
) -> tuple[Truth, int, float]:
    """The log evidence with its error, from how many traces, and how many effective ones.

    Chunks are stages, until the relative error is small enough or the traces are used up."""
    observed = _observed(event)
    log_weights: list[Floats] = []
    error = math.inf
    for i in range(-(-settings.truth_traces // settings.truth_chunk)):

        def make(seed: int, i: int = i, error: float = error) -> Arrays:
            work.reporter.say(f"evidence of {observed.title}: chunk {i + 1}, relative error so far {error:.2g}")
            post = sim.posterior(
                observed.data,
                settings.truth_chunk,
                network=network.network,
                in_loops="prior",
                seed=seed,
                progress=work.reporter.progress(f"traces, evidence of {observed.title}"),
            )
            return {"log_weights": post.log_weights("prior")}

        about = {"network": network.about, "traces": settings.truth_chunk, "data": event.calorimeter.tolist()}
        log_weights.append(work.arrays(f"{observed.name}-truth-{i:03d}", about, make)["log_weights"])
        # at least two chunks: one alone may have missed what matters
        error = diagnostics.log_evidence(np.concatenate(log_weights)).relative_error
        if i and error < settings.truth_error:
            break
    pooled = np.concatenate(log_weights)
    found = diagnostics.log_evidence(pooled)
    return Truth(found.log_estimate, found.relative_error), len(pooled), diagnostics.ess(pooled)


def _reference(event: Event, settings: MiniSherpaSettings, work: Workspace) -> reference.Estimate:
    """The evidence without the simulator."""

    def make(seed: int) -> Any:
        work.reporter.say(f"evidence of channel {event.channel} without the simulator")
        return list(reference.evidence(event.calorimeter, settings.reference_points, seed))

    about = {"points": settings.reference_points, "data": event.calorimeter.tolist()}
    return reference.Estimate(*work.json(f"mini-sherpa-{event.channel}-reference", about, make))


# ---- all --------------------------------------------------------------------------------------------------------


def _repeats(settings: MiniSherpaSettings, channel: int) -> Repeats:
    """The paper's epsilon is larger for the channel that converges slowly."""
    epsilon = max(settings.runs.epsilon, settings.hardest_epsilon) if channel == CHANNELS[-1] else settings.runs.epsilon
    return Repeats(**{**asdict(settings.runs), "epsilon": epsilon})


def mini_sherpa(executable: Path, settings: MiniSherpaSettings, work: Workspace) -> tuple[Trained, list[Channel]]:
    """The network, and all that came of each channel."""
    with Simulator([str(executable)], **work.simulator) as sim:
        chosen = events(sim, work)
        network = trained(work, sim, "mini-sherpa", settings.network, shapes=SHAPES)
        outside = network
        if settings.truth_network is not None:
            outside = trained(work, sim, "mini-sherpa-truth", settings.truth_network, shapes=SHAPES)
        found = []
        for event in chosen:
            native, traces, effective = truth(sim, outside, event, settings, work)
            second = _reference(event, settings, work)
            better = native if effective > second.ess else Truth(second.log_evidence, second.error)
            repeats = _repeats(settings, event.channel)
            done = runs(sim, network, _observed(event), repeats, work)
            came = outcome(_observed(event), done, better, repeats, logarithmic=True)
            found.append(Channel(event, native, traces, effective, second, came, done.records))
    return network, found


def posterior_samples(channel: Channel, method: str = "ars") -> Mapping[str, Any]:
    """The values that the runs kept, with weights that sum to 1."""
    log_weights = np.concatenate([record.log_weights(method) for record in channel.records])
    kept = {name: [record.kept[name] for record in channel.records] for name in _KEPT}
    widths = {name: max(1 if a.ndim == 1 else a.shape[1] for a in arrays) for name, arrays in kept.items()}
    values = {
        name: np.concatenate([_widened(a.reshape(len(a), -1), widths[name]) for a in arrays])
        for name, arrays in kept.items()
    }
    return {**values, "weights": diagnostics.normalised_weights(log_weights)}


def _widened(values: Floats, width: int) -> Floats:
    """With columns of NaN up to a width: a run in which no trace had a second angle has one column."""
    missing = width - values.shape[1]
    return np.hstack([values, np.full((len(values), missing), np.nan)]) if missing else values
