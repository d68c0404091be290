"""The best possible held-out loss of ``sequence``: that of a network whose proposals are the posterior.

    python -m ars_lab.ablation.optimum RECORDING          # the folder that was given to --recording

The mean over the held-out traces of -log p(latents | data). The total after a row is a Markov chain, so the evidence of
a trace is a forward recursion over totals on a grid; the density of what a row adds is a histogram of draws.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ars.columns import Floats

__all__ = ["Rows", "log_evidence", "log_joint", "main"]

_STEP: Final = 0.05  # of the grid of totals
_DRAWS: Final = 2_000_000
_NOISE: Final = 0.5
_LATENTS: Final = 3  # per row


class Rows(NamedTuple):
    """The latents of rows, of any one shape."""

    a: Floats
    b: Floats
    c: Floats


def _log_normal(z: Floats) -> Floats:
    found: Floats = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    return found


def _log_below(z: Floats) -> Floats:
    """The log of the standard Normal distribution function."""
    import torch  # ``--help`` of the package does without

    found: Floats = torch.special.log_ndtr(torch.from_numpy(z)).numpy()
    return found


def log_joint(rows: Rows, y: Floats) -> Floats:
    """log p of the latents and the data of traces [n], from those of their rows [n, repeats]."""
    a, b, c = rows
    total = np.cumsum(a + b + c, axis=1)
    prior = -a - math.log1p(-math.exp(-2)) + _log_normal(b - a) - _log_below(a - 1)
    prior += _log_normal(c) - _log_below(b - a + 0.5)
    found: Floats = (prior + _log_normal((y - total) / _NOISE) - math.log(_NOISE)).sum(axis=1)
    return found


def log_evidence(y: Floats, seed: int = 1) -> Floats:
    """log p of data [n, repeats], for each trace."""
    begin, density = _added(np.random.default_rng(seed))
    result, at, belief = np.zeros(len(y)), begin, np.tile(density, (len(y), 1))
    for row in range(y.shape[1]):
        if row:
            belief, at = _convolved(belief, density), at + begin
        totals = at + _STEP * np.arange(belief.shape[1])
        belief = belief * np.exp(_log_normal((y[:, row : row + 1] - totals) / _NOISE)) / _NOISE
        mass = belief.sum(axis=1) * _STEP
        result += np.log(mass)
        belief /= mass[:, None]
    return result


def _added(rng: np.random.Generator) -> tuple[float, Floats]:
    """The first point of a grid, and the density there of what a row adds to the total."""
    a = rng.exponential(size=3 * _DRAWS)
    a = a[a < 2][:_DRAWS]
    b = a + _above(rng, 1 - a)
    added = a + b - _above(rng, a - b - 0.5)
    counts = np.bincount(np.floor((added - added.min()) / _STEP).astype(np.int64))
    return float(added.min()) + _STEP / 2, counts / (len(added) * _STEP)


def _above(rng: np.random.Generator, low: Floats) -> Floats:
    """Standard Normal draws above these."""
    found, wrong = np.empty_like(low), np.arange(len(low))
    while len(wrong):
        found[wrong] = rng.normal(size=len(wrong))
        wrong = wrong[found[wrong] <= low[wrong]]
    return found


def _convolved(belief: Floats, density: Floats) -> Floats:
    size = belief.shape[1] + len(density) - 1
    product = np.fft.rfft(belief, size) * np.fft.rfft(density, size)
    return np.clip(np.fft.irfft(product, size), 0, None) * _STEP


def _held_out(folder: Path) -> tuple[Rows, Floats]:
    from ars.network.model.vocabulary import Vocabulary
    from ars.network.train.batches import Batcher, observation_shapes
    from ars.network.train.sources import RecordedTraces
    from ars_lab.ablation.measure import HELD_OUT

    values: list[Any] = []
    data: list[Any] = []
    for part in RecordedTraces(folder, 1).held_out(HELD_OUT):
        batch, _ = Batcher(Vocabulary(), observation_shapes(part.columns, part.sites))(part.columns, part.sites)
        values.append(batch.value.numpy().T)
        data.append(next(iter(batch.observation.values())).numpy().astype(np.float64))
    rows = np.concatenate(values).reshape(-1, data[0].shape[1], _LATENTS)
    return Rows(*np.moveaxis(rows, -1, 0)), np.concatenate(data)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. See the module."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    rows, y = _held_out(Path(folder))
    losses = log_evidence(y) - log_joint(rows, y)
    error = losses.std() / math.sqrt(len(losses))
    sys.stdout.write(f"best held-out loss {losses.mean():.3f}, standard error over {len(losses)} traces {error:.3f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
