"""From a network and an observation to a network for that observation: ``Network.refine`` and its likes."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import torch

from ars.arguments import ON_FAILURE, InLoops, OnFailure, check_on_failure, check_path, choice, integer, seed_or_random
from ars.config import NetworkConfig, RefineConfig
from ars.errors import RefinementWarning, RunInterrupted, StorageError
from ars.network.facade import Network
from ars.network.refine.kept import KeptRounds, kept_refinement_seed, report_to_dict
from ars.network.refine.learner import Learner, Material
from ars.network.refine.rounds import Kept, Outcome, RoundReport, Rounds
from ars.network.refine.source import SimulatorSource
from ars.network.refine.start import untrained
from ars.network.train.batches import complete
from ars.network.train.training import keep_freed_memory, one_torch_thread
from ars.outside import outside
from ars.progress import Progress, StreamProgress, make_progress, part_of
from ars.seeds import named_seed
from ars.store.identity import data_identity, network_identity

if TYPE_CHECKING:
    from ars.simulator import Simulator

__all__ = ["ADAPT_NETWORK", "adapted", "refined"]

# Sizes of a network that learns one observation from nothing: there are few traces to learn from.
ADAPT_NETWORK: Final = NetworkConfig(lstm_dim=64, observe_hidden=64, head_hidden=64, value_dim=32, defensive=0.002)
_PROBE: Final = 1000  # prior traces from which a network learns which latents and observations there are
_LISTED: Final = 10_000  # numbers of an observation that are written into a header
_MOST_THREADS: Final = 1024


_Data = Mapping[str, npt.NDArray[np.float64]]


def refined(start: Network, simulator: Simulator, data: _Data, config: RefineConfig, **options: Any) -> Network:
    """A network for these data, which starts from another one. ``options``: those of ``_run``."""
    found = _run(start, simulator, data, config, from_prior=False, **options)
    assert found is not None
    return found


def adapted(simulator: Simulator, data: _Data, config: RefineConfig, **options: Any) -> Network | None:
    """A network for these data that starts from the prior; None if the prior itself is no worse.

    ``options``: those of ``_run``, and ``sizes``, the NetworkConfig of the network (default: ``ADAPT_NETWORK``).
    """
    sizes = options.pop("sizes", None) or ADAPT_NETWORK
    if any(np.isnan(array).any() for array in data.values()):
        sizes = dataclasses.replace(sizes, missing_data="masked")
    config = _seeded(config, options.get("resume"))
    assert config.seed is not None
    on_failure: OnFailure = options.get("on_failure", ON_FAILURE)
    columns, sites = simulator._prior_chunk(
        named_seed(config.seed, "probe"), 0, min(_PROBE, config.traces), on_failure=on_failure
    )
    core = untrained(Material(complete(columns), sites), data, sizes, config.seed)
    start = Network(core, simulator=simulator.command, training={"untrained": True, "seed": config.seed})
    return _run(start, simulator, data, config, from_prior=True, **options)


def _seeded(config: RefineConfig, resume: str | os.PathLike[str] | None) -> RefineConfig:
    """With a seed: the one given, that of the folder to resume, or a random one."""
    seed = config.seed
    if seed is None and resume is not None:
        seed = kept_refinement_seed(resume)
    return dataclasses.replace(config, seed=seed_or_random(seed))


def _run(
    start: Network,
    simulator: Simulator,
    data: _Data,
    config: RefineConfig,
    *,
    from_prior: bool,
    in_loops: InLoops = "proposal",
    on_failure: OnFailure = ON_FAILURE,
    out: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: bool | Progress | None = None,
    reported: int | None = None,
) -> Network | None:
    """A network for these data; ``Network.refine`` explains the arguments. ``reported``: the seed of a run that
    follows, which the folder of ``resume`` is to remember."""
    choice("in_loops", in_loops, ("proposal", "prior"))
    check_on_failure(on_failure)
    threads = torch.get_num_threads() if threads is None else integer("threads", threads, 1, _MOST_THREADS)
    _check_out(out)
    check_path("resume", resume)
    config = _seeded(config, resume)
    shown = make_progress(progress)
    told = _Shown(shown, config)
    source = SimulatorSource(simulator, data, config, in_loops=in_loops, on_failure=on_failure, progress=told)
    keep_freed_memory()
    began = time.monotonic()
    try:
        with one_torch_thread():
            kept: Kept | None = None
            if resume is not None:
                identity = _identity(start, simulator, data, config, in_loops)
                kept = KeptRounds(resume, identity | {"reported": reported}, start.network)
            learner = Learner(data, config, 1 if start.network.custom_embeddings else threads, in_loops)
            with learner.parallel():
                rounds = Rounds(start.network, source, learner, config, kept, told, from_prior=from_prior)
                outcome = rounds.run()
    except KeyboardInterrupt as error:
        raise _interrupted(told.round, config, resume) from error
    finally:
        shown.close()
    _warn(outcome, from_prior)
    if outcome.network is None:
        if out is not None:
            _warn_of_no_file(out)
        return None
    about = _about(outcome, start, data, config, in_loops, time.monotonic() - began)
    network = Network(outcome.network, start.history, start.simulator or simulator.command, start.training | about)
    if out is not None:
        try:
            network.save(out)
        except StorageError as error:
            lost = StorageError(f"{error}; .partial holds the refined network")
            lost.partial = network
            raise lost from error
    return network


# ---- before and after ------------------------------------------------------------------------------------------------


def _check_out(out: str | os.PathLike[str] | None) -> None:
    """Better now than after a quarter of an hour."""
    check_path("out", out)
    if out is None:
        return
    file = Path(out)
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise StorageError(f"{out} cannot be written: it must be a file in a folder that exists and can be written to")


def _identity(start: Network, simulator: Simulator, data: _Data, config: RefineConfig, in_loops: str) -> dict[str, Any]:
    """What makes a refinement the one that it is. It may go on for more rounds than it was begun with."""
    settings = dataclasses.asdict(config)
    for name in ("rounds", "patience", "enough"):
        del settings[name]
    if not config.aim:  # as in folders of versions that did not have it
        del settings["aim"]
    return {
        "simulator": simulator._runs.identity(simulator._lease()),
        "observe": data_identity(data),
        "network": network_identity(start),
        "in_loops": in_loops,
        "config": settings,
    }


def _about(
    outcome: Outcome, start: Network, data: _Data, config: RefineConfig, in_loops: str, spent: float
) -> dict[str, Any]:
    """What the refined network's header says about its refinement; JSON."""
    few = {name: array.reshape(-1).tolist() for name, array in data.items() if array.size <= _LISTED}
    return {
        "refinement": {
            "observation": data_identity(data),
            "values": few,
            "improved": outcome.improved,
            "best_round": outcome.best,
            "ess_share": (outcome.refined if outcome.improved else outcome.start).ess_share,
            "ess_share_before": outcome.start.ess_share,
            "rounds": [report_to_dict(report) for report in outcome.reports],
            "config": dataclasses.asdict(config),
            "in_loops": in_loops,
            "started_from": network_identity(start)["sha256"],
            "problem": outcome.problem,
            "seconds": spent,
        }
    }


def _warn(outcome: Outcome, from_prior: bool) -> None:
    """Says what a caller should know: that it ended early, or was in vain."""
    if (outcome.improved or len(outcome.reports) == 1) and not outcome.problem:
        return  # a single report: the start was good enough
    share = f"an effective share of {outcome.start.ess_share:.2g}"
    start = f"the prior proposes ({share})" if from_prior else f"the initial network is returned ({share})"
    if outcome.problem:
        kept = f"The network of round {outcome.best} is used" if outcome.improved else f"{start.capitalize()}"
        text = f"the refinement ended early: {outcome.problem}. {kept}"
    else:
        text = (
            f"no round was better than the start, so {start}; the best round has {outcome.refined.ess_share:.2g} on "
            f"fresh traces{_but_lost(outcome)}. More traces per round may help"
        )
    warnings.warn(text, RefinementWarning, stacklevel=outside())


def _but_lost(outcome: Outcome) -> str:
    """Why a round with a larger effective share than the start is no better."""
    if outcome.refined.ess_share <= outcome.start.ess_share:
        return ""
    return ", but finds less of the evidence, so it has lost a part of the posterior"


def _warn_of_no_file(out: str | os.PathLike[str]) -> None:
    """Says that nothing was written, and that a file with this name is something else."""
    there = f"; {out} is an older file and was not changed" if Path(out).exists() else ""
    text = f"there is no refined network to write: the prior itself proposes, so {out} was not written{there}"
    warnings.warn(text, RefinementWarning, stacklevel=outside())


def _interrupted(number: int, config: RefineConfig, resume: str | os.PathLike[str] | None) -> RunInterrupted:
    """Without ``partial``: traces that a network was trained on are no posterior."""
    on = "" if resume is None else f"; {resume} keeps the finished rounds, and the same call continues with them"
    return RunInterrupted(f"the refinement was interrupted in round {number} of {config.rounds}{on}")


# ---- showing ---------------------------------------------------------------------------------------------------------


class _Shown:
    """The progress of all rounds: their traces, and in words the latest round."""

    def __init__(self, shown: Progress, config: RefineConfig) -> None:
        self._shown = shown
        self._config = config
        self._total = config.traces * (config.most + config.rounds)
        self._before = 0  # traces of earlier runs
        self._done = 0  # of the present one
        self._drawn = 0  # of finished rounds
        self.round = 0
        self._said = ""
        self._training = part_of(shown, "training steps")
        self._note("drawing")

    def update(self, done: int, total: int) -> None:
        if done == 0 or done < self._done:  # another run of the same round
            self._before += self._done
        self._done = done
        self._total = max(self._total, self._before + total)
        self._shown.update(self._before + done, self._total)

    def close(self) -> None:
        """Of one run; there are more."""

    def report(self, report: RoundReport) -> None:
        """A round has drawn its traces."""
        self._training.close()  # one that stopped early left it open
        self._drawn += report.traces
        self._before, self._done = self._drawn, 0
        left = (self._config.rounds - report.round) * self._config.traces
        self._total = self._before + max(left, 0)
        self.round = report.round + 1
        self._said = f"ESS/N {report.ess_share:.3g}, log evidence {report.log_evidence:.4g}"
        name = "the start" if report.round == 0 else f"round {report.round} of {self._config.rounds}"
        if isinstance(self._shown, StreamProgress):
            self._shown.line(f"{name}: {self._said}")
        if report.round < self._config.rounds:
            self._note("training")
        elif isinstance(self._shown, StreamProgress):
            self._shown.note("comparing the best round with the start")
        self._shown.update(self._before, self._total)

    def training(self, step: int, steps: int) -> None:
        """A training has made so many steps."""
        self._note(f"training {100 * step // steps} %")
        self._training.update(step, steps)
        if step >= steps:
            self._training.close()
            self._training = part_of(self._shown, "training steps")
        self._shown.update(self._before, self._total)

    def _note(self, doing: str) -> None:
        if isinstance(self._shown, StreamProgress):
            self._shown.note(f"round {self.round}, {doing}")
