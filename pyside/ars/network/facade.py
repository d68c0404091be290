"""What a user holds: a trained network, with what it knows, and how it came about."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import nn

from ars._native import SiteKind
from ars.arguments import ON_FAILURE, InLoops, OnFailure, observed_arrays
from ars.columns import Site
from ars.config import NetworkConfig, RefineConfig, chosen
from ars.errors import CheckpointError
from ars.network.checkpoint import load_network, save_network
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import Vocabulary
from ars.network.train.history import TrainingHistory
from ars.progress import Progress
from ars.store.identity import data_identity

if TYPE_CHECKING:
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
        """The sizes of the network."""
        return self.network.config

    @property
    def vocabulary(self) -> Vocabulary:
        """The latents that the network knows."""
        return self.network.vocabulary

    @property
    def observation_shapes(self) -> dict[str, tuple[int, ...]]:
        """The observations that it was trained for."""
        return self.network.observation_shapes

    @property
    def refinement(self) -> Mapping[str, Any] | None:
        """How it was refined for one observation: ``rounds``, ``ess_share`` before and after, ``observation``, and so
        on; None if it was not."""
        found = self.training.get("refinement")
        return found if isinstance(found, Mapping) else None

    def other_data(self, data: Mapping[str, npt.NDArray[np.float64]]) -> list[str]:
        """Compare data with those for which the network was refined.

        Parameters
        ----------
        data : mapping
            Name -> array.

        Returns
        -------
        list of str
            Names of the observations that differ; empty if the network was not refined.
        """
        about = self.refinement
        if about is None or not about.get("improved"):
            return []
        there, mine = dict(about.get("observation", {})), data_identity(data)
        return sorted(name for name in {*there, *mine} if _flat(there.get(name)) != _flat(mine.get(name)))

    # ---- one observation ---------------------------------------------------------------------------------------------

    def refine(
        self,
        simulator: Simulator,
        observe: Mapping[str, npt.ArrayLike],
        traces: int | None = None,
        rounds: int | None = None,
        seed: int | None = None,
        *,
        config: RefineConfig | None = None,
        in_loops: InLoops = "proposal",
        on_failure: OnFailure = ON_FAILURE,
        out: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        progress: bool | Progress | None = None,
    ) -> Network:
        """Return a network that is specialised to one observation. This network does not change.

        Each round draws traces with the latest network, then trains it on the traces of all rounds. Their weights are
        those of draws from the mixture of the rounds' proposals. Use another seed for the posterior that you report;
        ``Simulator.posterior(refine=True)`` does so.

        Parameters
        ----------
        simulator : Simulator
            The simulator that the network was trained on.
        observe : mapping
            The observation, name -> a number or an array.
        traces, rounds, seed
            Single settings, which replace those of ``config``; ``RefineConfig`` explains them.
        config : RefineConfig, optional
            All settings together (default: ``RefineConfig()``).
        in_loops : {"proposal", "prior"}
            "prior" refines for runs with ``in_loops="prior"``, which keep the prior inside loops (default:
            "proposal").
        on_failure : {"raise", "zero", "skip"}
            Stop at a trace that fails, or omit it (default: "raise").
        out : path, optional
            File for the refined network (default: none).
        resume : path, optional
            Folder in which to save every finished round (default: none). After an interruption, the same call continues
            from there and gives the same network.
        threads : int, optional
            Threads (default: as many as torch uses).
        progress : bool or Progress, optional
            True shows a progress bar and the ESS of each round on stderr (default: none).

        Returns
        -------
        Network
            The network of the best round by fresh traces; a copy of this one, with a RefinementWarning, if none was
            better. ``refinement`` describes the rounds.

        Raises
        ------
        StorageError
            If ``out`` or ``resume`` cannot be written, or ``resume`` keeps another refinement. ``partial`` holds the
            refined network if all rounds had finished.
        RunInterrupted
            On Ctrl-C. ``resume`` has the finished rounds.

        Examples
        --------
        >>> best = network.refine(sim, {"y": 0.5}, seed=1)  # doctest: +SKIP
        >>> post = sim.posterior({"y": 0.5}, 10_000, network=best, seed=2)  # doctest: +SKIP
        """
        from ars.network.refine.run import refined

        _check_simulator(simulator)
        settings = {"traces": traces, "rounds": rounds, "seed": seed}
        return refined(
            self,
            simulator,
            observed_arrays(observe),
            chosen(RefineConfig, "config", config, settings),
            in_loops=in_loops,
            on_failure=on_failure,
            out=out,
            resume=resume,
            threads=threads,
            progress=progress,
        )

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write a report: one HTML file with the verdict on the training, its curves, and the sites it knows.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced.

        Raises
        ------
        ImportError
            jinja2 is missing: ``pip install libars[report]``.
        StorageError
            If it cannot be written.
        """
        from ars.report.render import write
        from ars.report.training import training_page

        write(training_page(self), path)

    # ---- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to a safetensors file, completely or not at all.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced. It contains the weights of your own modules, but not their code.
        """
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
        """Read a network that ``save`` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : path
            The file.
        embeddings : mapping, optional
            Your own torch modules with which the network was trained, by observation (default: none).

        Returns
        -------
        Network
            The network, with its training history.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, or not a network.
        """
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
        """Draw from the network's proposals without weights: fast, but biased by an unknown amount.

        Use it for a quick look at the network's proposals, the first step in docs/when-k-is-too-large.md. For results,
        use ``simulator.posterior(observe, traces, network=network)``.

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
            Stop at a trace that fails, or omit it (default: "raise").
        progress : bool or Progress, optional
            True shows a progress bar on stderr (default: none).

        Returns
        -------
        ProposalDraws
            Not a ``Posterior``: it has no weights, evidence or errors. Inside rejection loops, accepted draws.
        """
        from ars.proposal_draws import ProposalDraws

        _check_simulator(simulator)
        post = simulator.posterior(
            observe, traces, network=self, budget=None, seed=seed, on_failure=on_failure, progress=progress
        )
        return ProposalDraws.of(post)

    # ---- whose network -----------------------------------------------------------------------------------------------

    def mismatches(self, sites: Sequence[Site]) -> list[str]:
        """List what does not fit a simulator.

        A site that the network never saw is not listed: the prior proposes there. A network that knows none of the
        simulator's latents belongs to another simulator.

        Parameters
        ----------
        sites
            The simulator's sites.

        Returns
        -------
        list of str
            One sentence per mismatch; empty if the network fits.
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
        """List the latents that the network never saw.

        Parameters
        ----------
        sites
            The simulator's sites.

        Returns
        -------
        list of str
            Their addresses.
        """
        return [s.address for s in sites if s.kind is SiteKind.SAMPLE and s.address not in self.vocabulary]

    def _repr_html_(self) -> str:
        from ars.display.html import network_html

        return network_html(self)

    def __repr__(self) -> str:
        c = self.config
        size = sum(parameter.numel() for parameter in self.network.parameters())
        of = f" of {shlex.join(self.simulator)}" if self.simulator else ""
        trained = f", {self.history[-1].traces:,} traces" if len(self.history) else ", not trained"
        if self.refinement is not None and self.refinement.get("improved"):
            trained += ", refined for one observation"
        return (
            f"<Network{of}: LSTM {c.lstm_dim} x {c.lstm_depth}, {len(self.vocabulary)} sites, "
            f"{size / 1e6:.1f} M weights{trained}>"
        )


def _check_simulator(simulator: object) -> None:
    from ars.simulator import Simulator

    if not isinstance(simulator, Simulator):
        raise TypeError(f"simulator must be an ars.Simulator, not {simulator!r}")


def _flat(identity: Any) -> Any:
    """Of an observation's identity, the part that does not depend on its shape: an image may be given flat."""
    return identity.get("sha256") if isinstance(identity, Mapping) else None
