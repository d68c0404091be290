"""What the network sees of a value, a prior and an instance: numbers of order one, whatever their units.

A value is measured by its own prior: z is its distance from the middle in units of the spread, u its place in (0, 1).
Smooth functions of both, some of them fast, let the next proposal depend on a value sharply. Two values drawn one after
the other, from priors of about the same width, may be components of a vector: its azimuth and length are features too.
An angle may be seen by its sines and cosines alone, so that nothing jumps where the circle closes.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import torch
from torch import Tensor

from ars import _kernels as kernels
from ars._kernels import PAIR_FEATURES, VALUE_FEATURES

__all__ = ["INSTANCE_FEATURES", "PAIR_FEATURES", "PRIOR_FEATURES", "VALUE_FEATURES", "instance_features",
           "pair_features", "prior_features", "value_features"]  # fmt: skip

PRIOR_FEATURES: Final = 8
_PERIODS: Final = (2.0, 4.0, 8.0, 16.0)
INSTANCE_FEATURES: Final = 2 + 2 * len(_PERIODS)


Drawn: TypeAlias = tuple[Tensor, Tensor, Tensor]  # kinds and parameters of priors, and values: [n], [n, 4], [n]


def value_features(drawn: Drawn, *, wrap: bool) -> Tensor:
    """Features [n, VALUE_FEATURES] of values; 0 for kind 0, no value. ``wrap``: those of an angle go around with it."""
    return torch.from_numpy(kernels.value_features(_arrays(drawn), wrap=wrap)).to(drawn[2].device)


def pair_features(first: Drawn, second: Drawn, *, wrap: bool) -> Tensor:
    """Features [n, PAIR_FEATURES] of values drawn one after the other; 0 where they are no pair, and with ``wrap``
    where one of them is an angle."""
    found = kernels.pair_features(_arrays(first), _arrays(second), wrap=wrap)
    return torch.from_numpy(found).to(second[2].device)


def _arrays(drawn: Drawn) -> kernels.DrawnValues:
    kind, prior, value = drawn
    return kind.cpu().numpy(), prior.to(torch.float64).cpu().numpy(), value.to(torch.float64).cpu().numpy()


def prior_features(prior: Tensor) -> Tensor:
    """Features [n, PRIOR_FEATURES] of parameters [n, 4], which may be infinite."""
    p = torch.clamp(prior, -1e30, 1e30)
    return torch.cat([0.2 * torch.asinh(p), p / (1 + p.abs())], dim=-1).to(torch.float32)


def instance_features(instance: Tensor) -> Tensor:
    """Features [n, INSTANCE_FEATURES] of the zero-based index of the draw at its site."""
    i = instance.to(torch.float64).unsqueeze(-1)
    angles = i * i.new_tensor([2 * math.pi / period for period in _PERIODS])
    waves = torch.stack([torch.sin(angles), torch.cos(angles)], dim=-1).flatten(1)
    return torch.cat([0.5 * torch.log1p(i), 1 / (1 + i), waves], dim=-1).to(torch.float32)
