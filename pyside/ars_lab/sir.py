"""The data with which the documentation and the ablations run csim/sir.c: an epidemic of its own prior.

They are trace 3 of the prior with seed 1, drawn with a transmission rate of 0.48 per day, a recovery rate of 0.13
per day and 51% of the infections reported.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ars.columns import Floats

__all__ = ["CASES", "DAYS", "SEED", "SHAPES", "TRACE", "observation"]

SEED: Final = 1
TRACE: Final = 3
DAYS: Final = 20
SHAPES: Final = {"cases": (DAYS,)}
CASES: Final = (4, 7, 11, 3, 6, 7, 22, 14, 23, 21, 29, 20, 40, 36, 39, 30, 28, 39, 32, 25)


def observation() -> dict[str, Floats]:
    """The reference observation of ``sir``, for ``Simulator.posterior(observe=...)``.

    Returns
    -------
    dict
        ``{"cases": array}``: the cases reported on each of 20 days.

    Examples
    --------
    >>> int(observation()["cases"].sum())
    436
    """
    return {"cases": np.array(CASES, dtype=np.float64)}
