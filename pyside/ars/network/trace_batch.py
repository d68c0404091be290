"""A batch of traces of any shapes, padded and masked: what a network is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

__all__ = ["TraceBatch"]


class TraceBatch(NamedTuple):
    """B traces, the longest of T latents. Time comes first. Padded entries are 0, except site, which is -1."""

    site: Tensor  # int64 [T, B]: vocabulary index, -1 where padded
    instance: Tensor  # int64 [T, B]
    value: Tensor  # float64 [T, B]
    prior: Tensor  # float64 [T, B, 4]: the prior's parameters, in the order of the wire; 0 for Categorical
    categories: Tensor | None  # float [T, B, C]: probabilities of Categorical priors, padded with 0
    n_categories: Tensor  # int64 [T, B]; 0 if not Categorical
    mask: Tensor  # bool [T, B]: true where there is a latent
    observation: Mapping[str, Tensor]  # name -> float32 [B, *shape]
