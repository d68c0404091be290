"""Whether weights are unbiased: z-scores of the evidence over many seeds, and the test that they have to pass.

An estimate of the evidence is exact if its z-scores are standard normal. Biased ones shift all of them, by an amount
that grows with the number of traces; wrong standard errors change their spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

ALPHA = 1e-3  # probability that an exact estimate fails; the seeds are fixed, so it does so once or never
STANDARD_ERRORS = 3.0  # of the evidence of all seeds together


def z_scores(log_weights_per_seed: Iterable[npt.ArrayLike], log_evidence: float) -> Floats:
    """(estimate - evidence) / standard error for the log weights of each seed. Constant weights have no z-score."""
    scores = []
    for log_weights in log_weights_per_seed:
        ratios = np.exp(np.asarray(log_weights, dtype=np.float64) - log_evidence)
        error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        if not error > 0.0:
            raise ValueError("all weights of a seed are equal, or not numbers: compare them with the evidence directly")
        scores.append((float(np.mean(ratios)) - 1.0) / error)
    return np.array(scores)


def findings(z: Floats) -> list[str]:
    """What speaks against z-scores being independent and standard normal; nothing if they pass."""
    z = np.asarray(z, dtype=np.float64)
    if len(z) < 20:
        raise ValueError(f"{len(z)} z-scores say too little: use at least 20 seeds")
    if not np.isfinite(z).all():
        return ["some z-scores are not finite"]
    found = []
    together = float(np.mean(z)) * math.sqrt(len(z))
    if abs(together) > STANDARD_ERRORS:
        found.append(f"all seeds together are off by {together:+.1f} standard errors (mean z {np.mean(z):+.2f})")
    tail = float(stats.chi2.cdf(np.sum(z**2), len(z)))
    if min(tail, 1.0 - tail) < ALPHA / 2:
        found.append(f"the spread is {math.sqrt(np.mean(z**2)):.2f} standard errors, not 1")
    probability = float(stats.kstest(z, "norm").pvalue)
    if probability < ALPHA:
        found.append(f"not normal: Kolmogorov-Smirnov p = {probability:.1e} (mean {z.mean():+.2f}, sd {z.std():.2f})")
    return found


def is_exact(z: Floats) -> bool:
    """Whether the z-scores pass: their mean is within 3 standard errors of 0, and they look standard normal."""
    return not findings(z)


def assert_exact(z: Floats) -> None:
    """Fails with everything that speaks against these z-scores."""
    found = findings(z)
    assert not found, "; ".join(found)
