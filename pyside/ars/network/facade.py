"""What a user holds: a trained network, with what it knows, and how it came about."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from torch import nn

from ars._native import SiteKind
from ars.arguments import ON_FAILURE, OnFailure
from ars.columns import Site
from ars.config import NetworkConfig
from ars.errors import CheckpointError
from ars.network.checkpoint import load_network, save_network
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import Vocabulary
from ars.network.train.history import TrainingHistory

if TYPE_CHECKING:
    from ars.progress import Progress
    from ars.proposal_draws import ProposalDraws
    from ars.simulator import Simulator

__all__ = ["Network"]


class Network:
    """Learnt proposals for one simulator; from ``Simulator.train`` or ``Network.load``.

    ``network`` is the torch module, ``history`` how the training went, ``simulator`` the command that it was trained
    on, and ``training`` its settings.
    """

    def __init__(
        self,
        network: ProposalNetwork,
        history: TrainingHistory | None = None,
        simulator: Sequence[str] = (),
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.network = network
        self.history = history if history is not None else TrainingHistory()
        self.simulator = tuple(simulator)
        self.training = dict(training or {})

    @property
    def config(self) -> NetworkConfig:
        return self.network.config

    @property
    def vocabulary(self) -> Vocabulary:
        """The latents that it knows."""
        return self.network.vocabulary

    @property
    def observation_shapes(self) -> dict[str, tuple[int, ...]]:
        """The observations that it was trained for."""
        return self.network.observation_shapes

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a safetensors file, whole or not at all. Modules of the user's: their weights, not their code."""
        try:
            made_by = version("libars")
        except PackageNotFoundError:
            made_by = "unknown"
        about = {
            "made_by": made_by,
            "simulator": list(self.simulator),
            "training": self.training,
            "history": self.history.to_dict(),
        }
        save_network(path, self.network, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str], embeddings: Mapping[str, nn.Module] | None = None) -> Network:
        """Reads what ``save`` wrote; nothing in the file is executed. ``embeddings`` are the modules of your own that
        the network was trained with, if any."""
        network, header = load_network(path, embeddings)
        try:
            history = TrainingHistory.from_dict(header["history"])
            return cls(network, history, [str(word) for word in header["simulator"]], header["training"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: its header is incomplete: {error!r}") from error

    # ---- draws without weights ---------------------------------------------------------------------------------------

    def posterior_without_weights(
        self,
        simulator: Simulator,
        observe: Mapping[str, npt.ArrayLike],
        traces: int,
        seed: int | None = None,
        *,
        on_failure: OnFailure = ON_FAILURE,
        progress: bool | Progress | None = None,
    ) -> ProposalDraws:
        """Draw from the network's proposals and leave out the weights: fast, and biased by an unknown amount.

        The first rung of the ladder in docs/when-k-is-too-large.md, for a look at what the network believes. Use
        ``simulator.posterior(observe, traces, network=network)`` for anything that counts.

        Parameters
        ----------
        simulator : Simulator
            The simulator that the network was trained for.
        observe : mapping
            Name -> a number or an array.
        traces : int
            Number of draws.
        seed : int, optional
            Seed (default: random). The draws are those of ``simulator.posterior`` with the same seed.
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or leave it out (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Returns
        -------
        ProposalDraws
            Not a ``Posterior``: it has no weights, evidence or errors. Inside rejection loops, accepted draws.
        """
        from ars.proposal_draws import ProposalDraws

        post = simulator.posterior(
            observe, traces, network=self, budget=None, seed=seed, on_failure=on_failure, progress=progress
        )
        return ProposalDraws.of(post)

    # ---- whose network -----------------------------------------------------------------------------------------------

    def mismatches(self, sites: Sequence[Site]) -> list[str]:
        """What does not fit a simulator with these sites, in words; empty if all is well.

        A site that the network never saw is not listed: the prior proposes there. A network that knows none of the
        simulator's latents is another simulator's.
        """
        wrong = []
        latents = [site for site in sites if site.kind is SiteKind.SAMPLE]
        for site in latents:
            index = self.vocabulary.index(site.address)
            if index >= 0 and self.vocabulary[index].kind is not site.dist:
                here = site.dist.name if site.dist else "unknown"
                there = self.vocabulary[index].kind.name
                wrong.append(f"{site.address!r} has a {here} prior in the simulator, {there} in the network")
        if latents and not any(site.address in self.vocabulary for site in latents):
            theirs = ", ".join(repr(site.address) for site in self.vocabulary)
            ours = ", ".join(repr(site.address) for site in latents)
            wrong.append(f"the network knows {theirs or 'no latents'}; the simulator has {ours}")
        return wrong

    def unknown(self, sites: Sequence[Site]) -> list[str]:
        """The addresses of latents that the network never saw."""
        return [s.address for s in sites if s.kind is SiteKind.SAMPLE and s.address not in self.vocabulary]

    def __repr__(self) -> str:
        c = self.config
        size = sum(parameter.numel() for parameter in self.network.parameters())
        of = f" of {shlex.join(self.simulator)}" if self.simulator else ""
        trained = f", {self.history[-1].traces:,} traces" if len(self.history) else ", not trained"
        return (
            f"<Network{of}: LSTM {c.lstm_dim} x {c.lstm_depth}, {len(self.vocabulary)} sites, "
            f"{size / 1e6:.1f} M weights{trained}>"
        )
