"""The weightings that the paper compares, all from one run with the largest budget."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from ars import weights
from ars.columns import Floats
from ars.posterior import Posterior
from ars_lab.reproduce.settings import BUDGETS
from ars_lab.reproduce.thinning import thin

__all__ = ["LABELS", "METHODS", "Acceptances", "Naive", "log_weights"]

LABELS: Final[Mapping[str, str]] = {
    "ic": "IC",
    "prior": "Prior",
    **{f"ars-{M}": f"ARS, M={M}" for M in BUDGETS},
    "biased": "Biased",
    "collapsed": "Collapsed",
}
METHODS: Final = ("ic", *(f"ars-{M}" for M in BUDGETS), "biased", "collapsed")


class Acceptances(NamedTuple):
    """p(A) and q(A) of the only loop, where they are known or very precisely estimated."""

    p: float
    q: float


class Naive(NamedTuple):
    """The log weights of a run without estimates."""

    ic: Floats
    biased: Floats

    @classmethod
    def of(cls, post: Posterior) -> Naive:
        return cls(weights.log_weight_ic(post.columns), weights.log_weight_biased(post.columns))

    def log_weights(self, acceptances: Acceptances | None = None) -> dict[str, Floats]:
        """By method. Every trace enters the loop whose acceptances are given once."""
        found = self._asdict()
        if acceptances is not None:
            found["collapsed"] = self.biased + math.log(acceptances.q / acceptances.p)
        return found


def log_weights(post: Posterior, acceptances: Acceptances | None = None) -> dict[str, Floats]:
    """By method. The draws that thin the budget are fixed by the run's seed."""
    found = {"ic": weights.log_weight_ic(post.columns)}
    for M in BUDGETS:
        seed = zlib.crc32(f"{post.run.seed} {M}".encode())
        found[f"ars-{M}"] = weights.log_weight_ars(thin(post.columns, M, seed), post.sites)
    found["biased"] = weights.log_weight_biased(post.columns)
    if acceptances is not None:
        loops = list(post.loops)
        p, q = (dict.fromkeys(loops, value) for value in acceptances)
        found["collapsed"] = weights.log_weight_collapsed(post.columns, post.sites, p, q)
    return found
