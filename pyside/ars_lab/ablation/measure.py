"""One variant after another: train, judge on held-out traces, infer."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import ars
from ars_lab.ablation.subjects import Subject, Variant
from ars_lab.bench.measure import find_simulator

if TYPE_CHECKING:
    from ars.network.model.core import ProposalNetwork
    from ars.network.train.sources import Source

__all__ = ["HELD_OUT", "Outcome", "run"]

HELD_OUT: Final = 2048
_TRAINING: Final = {"batch_size": 128, "lr": 2e-3, "held_out": HELD_OUT}
_SIZES: Final = {"lstm_dim": 64, "head_hidden": 64, "observe_hidden": 64, "components": 5}
_BUDGET: Final = ars.Budget(M=2, N=10)
_DATA_SEED: Final = 77  # of the data that are inferred from
_RECORDING_SEED: Final = 1
_NAN: Final = float("nan")


@dataclass(frozen=True)
class Outcome:
    """What came of one variant. Times are CPU seconds of this process."""

    name: str
    seed: int
    traces: int
    held_out: float
    ess: float  # share, median over data; NaN if there were none, or the variant cannot be served
    ess_reference: float  # share, for the subject's own data; NaN if it has none
    training_seconds: float  # per 1,000 traces
    serving_seconds: float  # per 1,000 traces
    by_latent: Mapping[str, float] = field(default_factory=dict)  # the held-out loss of each address


@dataclass(frozen=True)
class _Plan:
    """What all variants have in common."""

    simulator: ars.Simulator
    subject: Subject
    observed: Sequence[Mapping[str, Any]]
    traces: int
    draws: int
    recording: Path | None


@dataclass(frozen=True)
class _Trained:
    variant: Variant  # without what changes nothing in the training
    network: ars.Network
    seconds: float


def run(
    subject: Subject,
    *,
    traces: int,
    data: int,
    draws: int,
    only: Sequence[str] = (),
    simulators: str | None = None,
    seeds: Sequence[int] = (1,),
    recording: Path | None = None,
    done: Collection[tuple[str, int]] = (),
) -> Iterator[Outcome]:
    """Trains the variants, one after another, and infers with each.

    Parameters
    ----------
    subject : Subject
        What is tried.
    traces : int
        Traces to train on.
    data : int
        Observations from the prior predictive to infer from.
    draws : int
        Posterior traces per observation.
    only : sequence of str
        Names of variants (default: all).
    simulators : str, optional
        Folder of the simulators (default: the package's own).
    seeds : sequence of int
        Of training and inference: every variant runs with each (default: 1 alone).
    recording : path, optional
        Folder for the training traces, which are recorded once (default: every training draws them again).
    done : collection of (str, int)
        Names and seeds to leave out (default: none).

    Yields
    ------
    Outcome
        One per seed and variant, in the order of the variants.
    """
    known = {variant.name for variant in subject.variants}
    if unknown := sorted(set(only) - known):
        raise ValueError(f"there is no variant {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    chosen = [variant for variant in subject.variants if not only or variant.name in only]
    command = [find_simulator(subject.command[0], simulators), *subject.command[1:]]
    with ars.Simulator(command) as simulator:
        if recording is not None:
            most = max(variant.longer for variant in subject.variants)  # whichever are chosen: the order depends on it
            simulator.record(int(most * traces) + HELD_OUT, recording, seed=_RECORDING_SEED)
        plan = _Plan(simulator, subject, _observed(simulator, subject, data), traces, draws, recording)
        for seed in seeds:
            trained: list[_Trained] = []
            for variant in chosen:
                if (variant.name, seed) not in done:
                    yield _outcome(plan, variant, seed, trained)


def _observed(simulator: ars.Simulator, subject: Subject, n: int) -> list[dict[str, Any]]:
    if not n:
        return []
    drawn = simulator.prior(n, seed=_DATA_SEED).observations
    shape = {name: subject.shapes.get(name, values.shape[1:]) for name, values in drawn.items()}
    return [{name: values[i].reshape(shape[name]) for name, values in drawn.items()} for i in range(n)]


def _outcome(plan: _Plan, variant: Variant, seed: int, trained: list[_Trained]) -> Outcome:
    network, seconds = _trained(plan, variant, seed, trained)
    by_latent = _losses(plan, network, seed)
    began, observed = time.process_time(), () if variant.network else plan.observed
    shares = [_share(plan, one, network, seed) for one in observed]
    served = time.process_time() - began
    own = plan.subject.data if shares else {}
    return Outcome(
        variant.name,
        seed,
        int(variant.longer * plan.traces),
        sum(by_latent.values()),
        float(np.median(shares)) if shares else _NAN,
        _share(plan, own, network, seed) if own else _NAN,
        1000 * seconds / int(variant.longer * plan.traces),
        1000 * served / (plan.draws * len(shares)) if shares else _NAN,
        by_latent,
    )


def _trained(plan: _Plan, variant: Variant, seed: int, trained: list[_Trained]) -> tuple[ars.Network, float]:
    """The network, with what is changed after the training, and the seconds that the training took."""
    key = dataclasses.replace(variant, name="", served={})
    found = next((each for each in trained if each.variant == key), None)
    if found is None:
        found = _Trained(key, *_train(plan, variant, seed))
        trained.append(found)
    if not variant.served:
        return found.network, found.seconds
    model = copy.deepcopy(found.network.network)
    model.config = dataclasses.replace(model.config, **variant.served)
    return ars.Network(model, found.network.history, found.network.simulator), found.seconds


def _train(plan: _Plan, variant: Variant, seed: int) -> tuple[ars.Network, float]:
    from ars.network.train.fit import train_simulator  # torch: ``--help`` does without

    wanted = int(variant.longer * plan.traces)
    began = time.process_time()
    network = train_simulator(
        plan.simulator,
        ars.TrainingConfig(**{**_TRAINING, **variant.training, "traces": wanted, "seed": seed}),
        ars.NetworkConfig(**{**_SIZES, **variant.sizes}),
        data=plan.recording,
        shapes=plan.subject.shapes,
        threads=1,
        make=_network_class(variant.network),
    )
    return network, time.process_time() - began


def _network_class(name: str) -> type[ProposalNetwork]:
    from ars.network.model.core import ProposalNetwork
    from ars_lab.ablation import blocks, splines

    if not name:
        return ProposalNetwork
    found: type[ProposalNetwork] = getattr(splines if hasattr(splines, name) else blocks, name)
    return found


def _losses(plan: _Plan, network: ars.Network, seed: int) -> dict[str, float]:
    """The held-out loss by latent: the mean over traces of -log q, summed over the draws of one address."""
    import torch

    from ars.network.train.batches import Batcher
    from ars.network.train.sources import FreshTraces, RecordedTraces

    model = network.network
    source: Source = (
        FreshTraces(plan.simulator, seed) if plan.recording is None else RecordedTraces(plan.recording, seed)
    )
    batcher = Batcher(model.vocabulary.copy(), model.observation_shapes)
    sums, traces = np.zeros(len(model.vocabulary)), 0
    for part in source.held_out(HELD_OUT):
        batch, _ = batcher(part.columns, part.sites)
        traces += batch.traces
        for some in batch.slices(1 + batch.traces // 256):
            with torch.no_grad():
                log_q = model.log_probs(some).flatten().numpy()
            site = some.site.flatten().numpy()
            sums -= np.bincount(site[site >= 0], weights=log_q[site >= 0], minlength=len(sums))
    return {site.address: float(total) / traces for site, total in zip(model.vocabulary, sums, strict=True)}


def _share(plan: _Plan, observe: Mapping[str, Any], network: ars.Network, seed: int) -> float:
    post = plan.simulator.posterior(observe, plan.draws, network=network, budget=_BUDGET, seed=seed)
    return post.ess() / plan.draws
