"""``ars.calibrate``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ars.arguments import ON_FAILURE, InLoops, OnFailure
from ars.calibration.result import Calibration
from ars.calibration.run import calibrate_simulator
from ars.config import RefineConfig
from ars.inference.options import AnyBudget, PosteriorOptions
from ars.progress import Progress
from ars.proposers import Proposal
from ars.simulator import Simulator

if TYPE_CHECKING:
    from distributed import Client

    from ars.network.facade import Network

__all__ = ["calibrate"]


def calibrate(
    simulator: Simulator | Sequence[str] | str | os.PathLike[str],
    network: Network | str | os.PathLike[str] | None = None,
    datasets: int = 200,
    traces: int = 1000,
    *,
    proposals: Mapping[str, Proposal] | None = None,
    values: Sequence[str] | None = None,
    weighting: str | None = None,
    budget: AnyBudget = PosteriorOptions.budget,
    in_loops: InLoops = PosteriorOptions.in_loops,
    refine: bool | RefineConfig = False,
    adapt: bool | RefineConfig = False,
    on_failure: OnFailure = ON_FAILURE,
    seed: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    progress: bool | Progress | None = None,
) -> Calibration:
    """Check posteriors against known truths: draw data sets from the prior, infer each, and compare.

    If posteriors are right, the truth's rank among the weighted traces is uniform over data sets (simulation-based
    calibration), and 90% intervals contain 90% of the truths. The same holds for distances to random points, which
    depend on all values together (TARP). docs/calibration.md explains which errors each test can find.

    Parameters
    ----------
    simulator : Simulator, or str, path or sequence of str
        The simulator; or its executable, or a list of the executable and its arguments.
    network : Network or path, optional
        Network that makes the proposals (default: the prior).
    datasets : int
        Number of data sets to draw (default: 200; at least 10).
    traces : int
        Traces per data set (default: 1,000).
    proposals : mapping, optional
        Hand-written proposals instead of a network, as for ``Simulator.posterior`` (default: none).
    values : sequence of str, optional
        Results and latents to compare, one number each (default: all results, or all latents if there are no results;
        at most 40).
    weighting : str, optional
        Weights to use, such as "biased", which fails if loops need their correction (default: those of the run).
    budget, in_loops, refine, adapt, on_failure
        As for ``Simulator.posterior``. ``refine`` and ``adapt`` specialise a network to each data set.
    seed : int, optional
        Random seed; the same seed gives the same result with any number of workers (default: the folder's, or random).
    resume : path, optional
        Folder that keeps the result of every data set. If it holds some of the same calibration already, only the
        others are inferred; a larger ``datasets`` adds to them (default: none).
    client : distributed.Client, optional
        Infer data sets on the workers of this cluster, one task each (default: on this machine).
    progress : bool or Progress, optional
        True shows bars on stderr (default: none).

    Returns
    -------
    Calibration
        ``ok``, ``verdict``, ``values``, ``efficiency`` and ``records``; ``print`` shows a readable summary.

    Raises
    ------
    TypeError, ValueError
        If an argument cannot be used. The message names it.
    StorageError
        If the folder holds another calibration, or cannot be written.
    RunInterrupted
        On Ctrl-C. Finished data sets are in the folder.

    Examples
    --------
    >>> found = ars.calibrate(["./decay"], network="decay.safetensors", seed=1, progress=True)  # doctest: +SKIP
    >>> found.ok  # doctest: +SKIP
    True
    """
    options: dict[str, Any] = {"budget": budget, "in_loops": in_loops, "on_failure": on_failure}
    options |= {"refine": refine, "adapt": adapt, "proposals": proposals}
    with _opened(simulator, client) as sim:
        return calibrate_simulator(
            sim,
            datasets,
            traces,
            _loaded(network),
            values=values,
            weighting=weighting,
            seed=seed,
            resume=resume,
            progress=progress,
            options=options,
        )


@contextlib.contextmanager
def _opened(
    simulator: Simulator | Sequence[str] | str | os.PathLike[str], client: Client | None
) -> Iterator[Simulator]:
    if isinstance(simulator, Simulator):
        if client is not None:
            raise ValueError("client= needs the simulator's command, not a Simulator, which runs where it was made for")
        yield simulator
        return
    if client is None:
        with Simulator(simulator) as made:
            yield made
        return
    import ars.cluster

    with ars.cluster.simulator(client, simulator) as made:
        yield made


def _loaded(network: Network | str | os.PathLike[str] | None) -> Network | None:
    if network is None or not isinstance(network, str | os.PathLike):
        return network
    from ars.extras import torch_needed

    with torch_needed("network="):
        from ars.network.facade import Network

    return Network.load(network)
