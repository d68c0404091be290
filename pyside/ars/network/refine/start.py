"""A network to begin with where there is none: it proposes nearly the prior."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ars.config import NetworkConfig
from ars.errors import BatchError, NetworkError
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import Vocabulary
from ars.network.refine.learner import Material
from ars.network.train.batches import Batcher, observation_shapes

__all__ = ["untrained"]


def untrained(
    material: Material, data: Mapping[str, npt.NDArray[np.float64]], config: NetworkConfig, seed: int
) -> ProposalNetwork:
    """A network that knows the latents and observations of these prior traces, and has learnt nothing else.

    Parameters
    ----------
    material : Material
        Complete traces of the prior.
    data : mapping
        The observation. An array of two dimensions is an image for the network, too.
    config : NetworkConfig
        Its sizes.
    seed : int
        Of its initial weights.

    Returns
    -------
    ProposalNetwork
        Its observations are standardised by those of the traces.

    Raises
    ------
    NetworkError
        The simulator has no latents, or observes something else than the data.
    """
    columns, sites = material
    if not len(columns.traces):
        raise BatchError("all prior traces failed; run sim.prior(100) to see why")
    shapes = observation_shapes(columns, sites)
    if set(shapes) != set(data):
        theirs, ours = (", ".join(sorted(map(repr, names))) for names in (shapes, data))
        text = f"the simulator observes {theirs or 'nothing'}, but "
        text += f"the data given are {ours}" if data else "no data are given"
        if set(shapes) - set(data):
            text += (
                ". If the program itself holds its data (ars_observe_value), give them as well: the network needs them"
            )
        raise NetworkError(text)
    wanted = {name: array.shape for name, array in data.items() if math.prod(array.shape) == math.prod(shapes[name])}
    shapes = observation_shapes(columns, sites, {name: shape for name, shape in wanted.items() if len(shape) > 1})
    batcher = Batcher(Vocabulary(), shapes)
    batch, _ = batcher(columns, sites)
    if not len(batcher.vocabulary):
        raise NetworkError("the simulator has no latents that could be proposed (ars_sample)")
    network = ProposalNetwork(config, batcher.vocabulary, shapes, None, seed)
    network.learn_scales(batch.observation)
    return network.eval()
