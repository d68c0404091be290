"""Numbers hidden from a network in training, so that it learns what to propose when data are missing.

A hidden number is NaN in a batch, as one that was not observed is NaN in ``observe``. Which ones are hidden depends on
the seed and on the place of the batch in the training, and on nothing else: a training that is resumed hides the same.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from ars.network.model.trace_batch import Batch
from ars.network.train.turns import Rows

__all__ = ["HELD_OUT", "TRAINED_ON", "hidden", "hidden_places"]

TRAINED_ON: Final = 0  # streams of random numbers: those of batches that are trained on,
HELD_OUT: Final = 1  # and those of batches that are held out
_SPREAD: Final = 2.0  # of the shares about their mean: most traces miss little, a few nearly everything
_PATTERNS: Final = 4


def hidden(batch: Batch, share: float, seed: int, stream: int, place: int, rows: Rows | None = None) -> Batch:
    """The batch with NaN for the numbers that are hidden.

    Parameters
    ----------
    batch : TraceBatch or TreeBatch
        With complete observations.
    share : float
        The mean share of numbers to hide, 0 to 1.
    seed, stream, place : int
        Which numbers: the training's seed, TRAINED_ON or HELD_OUT, and where the batch stands there.
    rows : Rows, optional
        Which traces of a larger batch these are (default: all). The same numbers of a trace are hidden in both.
    """
    if not share or not batch.observation:
        return batch
    rng = np.random.default_rng([seed, stream, place])
    shapes = {name: tuple(x.shape[1:]) for name, x in batch.observation.items()}
    first, of = rows or (0, batch.traces)
    places = hidden_places(rng, of, share, {name: math.prod(shape) for name, shape in shapes.items()})
    mine = slice(first, first + batch.traces)
    observation = {
        name: torch.where(torch.from_numpy(places[name][mine]).reshape(x.shape), torch.nan, x)
        for name, x in batch.observation.items()
    }
    return batch._replace(observation=observation)


def hidden_places(
    rng: np.random.Generator, traces: int, share: float, sizes: dict[str, int]
) -> dict[str, npt.NDArray[np.bool_]]:
    """Which numbers of which trace are hidden, name -> [traces, size].

    Each trace draws a share of its own from Beta(2 share, 2 (1 - share)), whose mean is ``share``, and one of four
    patterns: single numbers independently of each other, observations as a whole, a gap in each observation, or the end
    of each. In all four, the trace hides the share that it drew on average.
    """
    chance = rng.beta(_SPREAD * share, _SPREAD * (1 - share), traces)[:, None]
    pattern = rng.integers(_PATTERNS, size=(traces, 1))
    places: dict[str, npt.NDArray[np.bool_]] = {}
    for name in sorted(sizes):  # the order in which a simulator observes them is not always the same
        size = sizes[name]
        single = rng.random((traces, size), dtype=np.float32) < chance
        whole = rng.random((traces, 1)) < chance
        length = np.floor(chance * size + rng.random((traces, 1)))
        # The gap may begin anywhere on a circle, so that every number is as likely to be in it.
        begin = np.where(pattern == 2, rng.integers(size, size=(traces, 1)), size - length)
        gap = (np.arange(size) - begin) % size < length
        places[name] = np.where(pattern == 0, single, np.where(pattern == 1, whole, gap))
    return places
