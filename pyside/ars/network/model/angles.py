"""Proposals for angles: what goes around a circle has no ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ars._native import MAX_COMPONENTS, DistKind
from ars.network.model.mixtures import NARROWEST, HeadSettings, bounded, columns_of, grid, mixture, split
from ars.network.model.proposals import MixtureProposal

__all__ = ["WrappedHead", "is_angle"]

_WRAPPED_WIDTH: Final = 0.7  # of wrapped components at their start, in units of their distance
_WIDEST: Final = 1 / 3  # of a wrapped component, in turns
_FAR: Final = 8.0  # standard deviations
_NO_DIRECTION: Final = 1e-6  # the square of a length
_MOST_WRAPPED: Final = (MAX_COMPONENTS - 1) // 3
_ANGLE: Final = 1e-5  # relative; for programs that write 3.1416


def is_angle(prior: Tensor) -> Tensor:
    """Whether Uniform priors [n, 4] cover a whole turn, 2 pi."""
    return ((prior[:, 1] - prior[:, 0]) / (2 * math.pi) - 1).abs() < _ANGLE


@dataclass(frozen=True)
class WrappedHead:
    """A Uniform over a whole turn: Normals around the circle, for a mode at one end goes on at the other.

    A Normal that is wrapped around is a sum of Normals a turn apart. The mixture has three of each, truncated to the
    interval, with weights in proportion to their masses in it; together they are continuous where the circle closes. A
    component is at most a third of a turn wide, so that farther ones do not count; nor does one whose interval is more
    than 8 standard deviations away. The direction of a component, not its angle, is what moves: so a network that knows
    a direction can turn it by a linear map, all the way around.

    Raw numbers: for each component the logit of its weight, the first coordinate, the width, and the second coordinate.
    """

    kind: DistKind = DistKind.UNIFORM

    def size(self, settings: HeadSettings) -> int:
        return 4 * settings.components

    def bias(self, settings: HeadSettings) -> Tensor:
        return torch.zeros(self.size(settings))

    def build(self, raw: Tensor, prior: Tensor, categories: Tensor | None, settings: HeadSettings) -> MixtureProposal:
        del categories
        count = min(settings.components, _MOST_WRAPPED)
        logits, x, sharpen, y = (part[:, :count] for part in split(raw[:, : self.size(settings)], 4))
        low, high = prior[:, 0:1], prior[:, 1:2]
        turn, width = high - low, _WRAPPED_WIDTH / count
        start = 2 * math.pi * grid(count).to(raw.device)
        x, y = x + torch.cos(start), y + torch.sin(start)
        nowhere = x * x + y * y < _NO_DIRECTION
        share = torch.atan2(torch.where(nowhere, 0.0, y), torch.where(nowhere, 1.0, x)) / (2 * math.pi)
        mean = low + turn * (share - torch.floor(share.detach()))
        scale = turn * width * torch.exp(bounded(sharpen, NARROWEST, math.log(_WIDEST / width)))
        below, above, around = (mean - low) / scale, (high - mean) / scale, turn / scale
        inside = torch.log(1 - _upper_tail(below) - _upper_tail(above))
        masses = torch.stack([_log_tail(above, around), inside, _log_tail(below, around)], dim=-1)
        log_weights = logits.unsqueeze(-1) + torch.log_softmax(masses, dim=-1)
        steps = torch.tensor([-1.0, 0.0, 1.0], dtype=raw.dtype, device=raw.device) * turn.unsqueeze(-1)
        params = columns_of(mean.unsqueeze(-1) + steps, scale.unsqueeze(-1), low.unsqueeze(-1), high.unsqueeze(-1))
        part = (DistKind.TRUNCATED_NORMAL, params.flatten(1, 2))
        return mixture(log_weights.flatten(1), [part], self.kind, prior, settings.defensive)


def _upper_tail(z: Tensor) -> Tensor:
    return 0.5 * torch.erfc(z * math.sqrt(0.5))  # ndtr has fewer digits far out


def _log_tail(z: Tensor, length: Tensor) -> Tensor:
    """The log mass of a standard Normal from z to z + length; minus infinity where it is too far out to count."""
    far = z > _FAR
    near = torch.where(far, 0.0, z)
    mass = _upper_tail(near) - _upper_tail(near + length)
    return torch.where(far, -math.inf, torch.log(mass))
