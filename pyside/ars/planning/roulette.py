"""Which traces are kept: one uniform per trace, from a random stream that nothing else uses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ars import _native
from ars.columns import Booleans, Floats

__all__ = ["STREAM", "kept"]

STREAM = 1  # 0 is the main run; the streams of continuations begin at 2**32


def kept(seed: int, traces: npt.NDArray[np.uint64], log_keep: Floats) -> Booleans:
    """True with probability exp(log_keep). It depends on the seed and the trace's number, not on the other traces."""
    return np.asarray(_native.named_uniforms(seed, traces, STREAM) < np.exp(log_keep))
