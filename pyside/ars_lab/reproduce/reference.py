"""The evidence of Mini-SHERPA a second time, without the simulator: its collapsed model, integrated in numpy.

A channel's latents become numbers in the unit cube, each by the cumulative distribution of its prior (of an accepted
angle, density |x| / s^2: no loop is left), so that the evidence is the integral of the likelihood over the cube. It is
found by adaptive importance sampling: points are drawn from Normal kernels around earlier points that fit the data, and
from the whole cube. The data do not tell the particles apart, so there are six modes to find. Early rounds flatten the
weights, so that enough points are left to go on from. The last round is weighed on its own, so that the estimate is
unbiased however good the kernels are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from ars import diagnostics
from ars.columns import Floats

__all__ = ["Estimate", "channel_evidence", "evidence", "log_likelihood"]

_SCALE: Final = math.pi / 4.0
_BINS: Final = 20
_MOMENTUM: Final = 3  # its dimensions come first
_PLANE: Final = 3.0
_DEFENSIVE: Final = 0.1  # the share of the whole cube in the mixture
_KERNELS: Final = 400
_LEAST_EFFECTIVE: Final = 200.0
_FACTORS: Final = (0.6, 1.0, 1.6)  # of the neighbourhoods' width
_CHUNK: Final = 4_000


class Estimate(NamedTuple):
    """The log of an evidence, and its standard error."""

    log_evidence: float
    error: float
    ess: float


# ---- the model --------------------------------------------------------------------------------------------------


class _Decay(NamedTuple):
    """What points of the cube stand for, and the momenta of the particles that come of it."""

    momentum: Floats  # of the mother
    thetas: Floats
    phis: Floats
    particles: list[Floats]


def _decay(u: Floats, channel: int) -> _Decay:
    """The cube has two coordinates that the simulator does not have, so that the likelihood is smooth in them.

    Of an angle theta, the absolute value: (-theta, phi) and (theta, phi + pi) are the same decay, equally likely. Of
    phi, the azimuth in the laboratory: phi itself is measured from the plane of the momentum that is split, which is
    nearly along z, so that the smallest change of it turns the event around. phi is uniform whatever came before, and
    so is the azimuth."""
    n = channel
    momentum = np.stack([u[:, 0] - 0.5, u[:, 1] - 0.5, 10.0 + 10.0 * u[:, 2]], axis=1)
    thetas = _SCALE * np.sqrt(u[:, _MOMENTUM : _MOMENTUM + n - 1])
    azimuths = 2.0 * math.pi * u[:, _MOMENTUM + n - 1 :]
    phis = np.empty_like(azimuths)
    rest, particles = momentum, []
    for i in range(n - 1):
        turn = np.arctan2(rest[:, 1], rest[:, 0])
        phis[:, i] = (azimuths[:, i] - turn) % (2.0 * math.pi)
        size = np.linalg.norm(rest, axis=1)
        along = rest / size[:, None]
        # unit vectors across: the images of x and y under the rotation that takes z to `along`
        flat = np.hypot(along[:, 0], along[:, 1])
        x = np.stack([along[:, 2] * np.cos(turn), along[:, 2] * np.sin(turn), -flat], axis=1)
        y = np.stack([-np.sin(turn), np.cos(turn), np.zeros_like(turn)], axis=1)
        across = np.cos(phis[:, i, None]) * x + np.sin(phis[:, i, None]) * y
        particles.append((size / (n - i))[:, None] * (along + np.tan(thetas[:, i, None]) * across))
        rest = rest - particles[-1]
    return _Decay(momentum, thetas, phis, [*particles, rest])


def log_likelihood(u: Floats, channel: int, counts: Floats) -> Floats:
    """Of the 400 counts, for points of the cube."""
    centres = np.arange(_BINS) - _BINS / 2 + 0.5
    mean = np.zeros((len(u), _BINS, _BINS))
    for v in _decay(u, channel).particles:
        hit = _PLANE * v[:, :2] / v[:, 2:]
        gx = np.exp(-0.5 * np.square(centres - hit[:, :1]))
        gy = np.exp(-0.5 * np.square(centres - hit[:, 1:]))
        energy = np.linalg.norm(v, axis=1) / (2.0 * math.pi * 0.3)
        mean += (energy[:, None] * gx)[:, :, None] * gy[:, None, :]
    variance = np.maximum(mean, 0.09)  # the standard deviation is sqrt(mean), at least 0.3
    square = np.square(counts.reshape(_BINS, _BINS) - mean) / variance
    terms = square + np.log(variance)
    return np.asarray(-0.5 * terms.sum(axis=(1, 2)) - 0.5 * _BINS**2 * math.log(2.0 * math.pi), dtype=np.float64)


# ---- the integral -----------------------------------------------------------------------------------------------


class _Kernels(NamedTuple):
    """A Normal of these standard deviations around each centre, in the dimensions of the angles; and the cube itself.

    The data say little about the momentum, which is always drawn from its prior."""

    centres: Floats  # [kernels, angles]
    width: Floats  # [angles]

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Some lie outside of the cube, where there is nothing."""
        angles = self.centres.shape[1]
        near = self.centres[rng.integers(len(self.centres), size=n)] + self.width * rng.standard_normal((n, angles))
        u = rng.random((n, _MOMENTUM + angles))
        u[:, _MOMENTUM:] = np.where(rng.random((n, 1)) < _DEFENSIVE, u[:, _MOMENTUM:], near)
        return u

    def log_density(self, u: Floats) -> Floats:
        centres = self.centres / self.width
        log_peak = -0.5 * centres.shape[1] * math.log(2.0 * math.pi) - float(np.log(self.width).sum())
        parts = []
        for at in range(0, len(u), _CHUNK):
            x = u[at : at + _CHUNK, _MOMENTUM:] / self.width
            square = np.square(x).sum(axis=1)[:, None] + np.square(centres).sum(axis=1) - 2.0 * (x @ centres.T)
            parts.append(np.exp(log_peak - 0.5 * square).mean(axis=1))
        return np.asarray(np.log((1.0 - _DEFENSIVE) * np.concatenate(parts) + _DEFENSIVE), dtype=np.float64)


def _neighbourhood(points: Floats) -> Floats:
    """How wide the neighbourhoods of points are, per dimension, so that several modes stay apart."""
    distinct = np.unique(points, axis=0)
    if len(distinct) < 4:
        return np.full(points.shape[1], 0.05)
    scaled = distinct / (distinct.std(axis=0) + 1e-3)
    distances = np.square(scaled[:, None, :] - scaled[None, :, :]).sum(axis=2)
    nearest = np.argsort(distances, axis=1)[:, 1 : min(len(distinct), 13)]
    gaps = np.abs(distinct[nearest] - distinct[:, None, :]).mean(axis=1)
    return np.asarray(np.clip(np.median(gaps, axis=0), 2e-3, 0.3), dtype=np.float64)


def _weighed(u: Floats, log_proposal: Floats | float, likelihood: Callable[[Floats], Floats]) -> Floats:
    inside = ((u >= 0.0) & (u <= 1.0)).all(axis=1)
    found = np.full(len(u), -np.inf)
    kept = u[inside]
    if len(kept):
        found[inside] = np.concatenate([likelihood(kept[at : at + _CHUNK]) for at in range(0, len(kept), _CHUNK)])
    return np.asarray(found - log_proposal, dtype=np.float64)


def _flattened(log_weights: Floats) -> Floats:
    """The weights to the largest power of at most 1 that leaves a few hundred of them effective."""
    low, high = 0.0, 1.0
    if diagnostics.ess(log_weights) >= _LEAST_EFFECTIVE:
        return log_weights
    finite = np.where(np.isfinite(log_weights), log_weights, -1e300)
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if diagnostics.ess(middle * finite) >= _LEAST_EFFECTIVE else (low, middle)
    return np.asarray(max(low, 1e-9) * finite, dtype=np.float64)


def _better_kernels(
    u: Floats, log_weights: Floats, points: int, likelihood: Callable[[Floats], Floats], rng: np.random.Generator
) -> tuple[_Kernels, Floats, Floats]:
    """Kernels around points drawn by weight, the best of a few widths, with the points that showed it."""
    centres = u[diagnostics.resample(_flattened(log_weights), _KERNELS, rng), _MOMENTUM:]
    width = _neighbourhood(centres)
    tried = []
    for factor in _FACTORS:
        kernels = _Kernels(centres, factor * width)
        drawn = kernels.sample(points, rng)
        weights = _weighed(drawn, kernels.log_density(drawn), likelihood)
        tried.append((diagnostics.ess(weights), kernels, drawn, weights))
    _, kernels, drawn, weights = max(tried, key=lambda each: each[0])
    return kernels, drawn, weights


def channel_evidence(channel: int, counts: Floats, points: int, rng: np.random.Generator, rounds: int = 8) -> Estimate:
    """p(counts | channel). The first and the last round have this many points, those between fewer."""
    d = _MOMENTUM + 2 * (channel - 1)

    def likelihood(u: Floats) -> Floats:
        return log_likelihood(u, channel, counts)

    u = rng.random((points, d))
    log_weights = _weighed(u, 0.0, likelihood)
    if channel > 1:
        for _ in range(rounds):
            kernels, u, log_weights = _better_kernels(u, log_weights, max(points // 8, 1000), likelihood, rng)
        u = kernels.sample(points, rng)
        log_weights = _weighed(u, kernels.log_density(u), likelihood)
    found = diagnostics.log_evidence(log_weights)
    return Estimate(found.log_estimate, found.relative_error, diagnostics.ess(log_weights))


def evidence(counts: Floats, points: int, seed: int) -> Estimate:
    """p(counts), the channel summed out: each has the probability 1/3."""
    rng = np.random.default_rng(seed)
    parts = [channel_evidence(channel, counts, points, rng) for channel in (1, 2, 3)]
    logs = np.array([part.log_evidence for part in parts])
    share = np.exp(logs - np.logaddexp.reduce(logs))
    errors = np.nan_to_num([part.error for part in parts], nan=1.0)  # one point decides: it may be off by all of itself
    error = math.sqrt(float(np.sum(np.square(share * errors))))
    return Estimate(float(np.logaddexp.reduce(logs)) - math.log(3.0), error, float(parts[int(np.argmax(share))].ess))
