"""Proposals that adapt: what ``Simulator.posterior(refine=..., adapt=...)`` does before its run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ars.arguments import InLoops, OnFailure, check_path, seed_or_random
from ars.config import RefineConfig
from ars.extras import torch_needed
from ars.progress import Progress
from ars.proposers import Proposal
from ars.seeds import named_seed

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.simulator import Simulator

__all__ = ["adapted_network"]

FOLDER: Final = "refinement"  # in the folder of ``resume``


def adapted_network(
    simulator: Simulator,
    data: Mapping[str, npt.NDArray[np.float64]],
    refine: bool | RefineConfig,
    adapt: bool | RefineConfig,
    network: Network | None,
    proposals: Mapping[str, Proposal] | None,
    seed: int | None,
    in_loops: InLoops,
    on_failure: OnFailure,
    resume: str | os.PathLike[str] | None,
    progress: bool | Progress | None,
    out: str | os.PathLike[str] | None,
) -> tuple[int, Network | None]:
    """The seed of the run that is reported, and the network that proposes in it; None: the prior.

    The rounds have seeds of their own, derived from the same seed, so the run shares no random stream with them.

    Raises
    ------
    TypeError, ValueError
        The arguments contradict each other. The message says how.
    """
    check_path("resume", resume)
    check_path("refined_out", out)
    given = _checked(refine, adapt, network, proposals)
    with torch_needed("refine= and adapt="):
        from ars.network.refine.kept import kept_refinement_seed
        from ars.network.refine.run import adapted, refined
        from ars.network.serve.fitting import check_network
    start = None if network is None else check_network(network)
    folder = None if resume is None else os.path.join(os.fspath(resume), FOLDER)
    if seed is None and folder is not None:
        seed = kept_refinement_seed(folder, reported=True)
    seed = seed_or_random(seed)
    config = given if given.seed is not None else dataclasses.replace(given, seed=named_seed(seed, "refinement"))
    options: dict[str, Any] = {"in_loops": in_loops, "on_failure": on_failure, "resume": folder, "out": out}
    options |= {"progress": progress, "reported": seed}
    if start is None:
        return seed, adapted(simulator, data, config, **options)
    return seed, refined(start, simulator, data, config, **options)


def _checked(
    refine: bool | RefineConfig,
    adapt: bool | RefineConfig,
    network: Network | None,
    proposals: Mapping[str, Proposal] | None,
) -> RefineConfig:
    """The settings, if the arguments can be combined."""
    for name, value in (("refine", refine), ("adapt", adapt)):
        if not isinstance(value, bool | RefineConfig):
            raise TypeError(f"{name} must be True, False or an ars.RefineConfig, not {value!r}")
    if refine is not False and adapt is not False:
        raise ValueError("give refine= or adapt=, not both: refine starts from a network, adapt from the prior")
    if proposals:
        which = "refine" if refine is not False else "adapt"
        raise ValueError(f"{which}= cannot be combined with proposals=: proposals written by hand are not trained")
    if refine is not False and network is None:
        raise ValueError("refine= needs network=, which it starts from; adapt= starts from the prior")
    if adapt is not False and network is not None:
        raise ValueError("adapt= starts from the prior and takes no network=; to start from a network, use refine=")
    wanted = refine if refine is not False else adapt
    return wanted if isinstance(wanted, RefineConfig) else RefineConfig()
