"""What the heads of a network are made of: settings, and functions from raw numbers to mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from ars._native import N_PARAMS, DistKind
from ars.network.model.proposals import MixtureProposal

__all__ = ["NARROWEST", "HeadSettings", "bounded", "columns_of", "grid", "mixture", "split"]

NARROWEST: Final = -16.0  # log of a component's width over its initial width


class HeadSettings(NamedTuple):
    components: int  # of a mixture, the prior's not counted
    categories: int  # of the widest Categorical
    defensive: float  # the prior's share in every proposal
    wrap: bool = False  # whether components go around where the prior is an angle's


def bounded(x: Tensor, low: float, high: float) -> Tensor:
    """x, bent smoothly so that it stays between the two; unchanged where both are some units away."""
    return high - softplus(high - low - softplus(x - low))


def split(raw: Tensor, parts: int) -> tuple[Tensor, ...]:
    return raw.chunk(parts, dim=-1)


def grid(components: int) -> Tensor:
    """Probabilities in the middles of equal shares."""
    return (torch.arange(components, dtype=torch.float64) + 0.5) / components


def columns_of(*columns: Tensor) -> Tensor:
    """[n, K, 4] from up to four of [n, K] or what broadcasts to it."""
    columns = torch.broadcast_tensors(*columns)
    return pad(torch.stack(columns, dim=-1), (0, 4 - len(columns)))


def mixture(
    logits: Tensor, parts: Sequence[tuple[DistKind, Tensor]], prior_kind: DistKind, prior: Tensor, share: float
) -> MixtureProposal:
    """The parts under softmax weights, and the prior with its share."""
    log_weights = torch.log_softmax(logits, dim=-1) + math.log1p(-share)
    last = log_weights.new_full((len(log_weights), 1), math.log(share))
    used = N_PARAMS[prior_kind]
    prior_params = pad(prior[:, :used], (0, 4 - used)).unsqueeze(1)
    return MixtureProposal(
        torch.cat([log_weights, last], dim=-1),
        torch.cat([*(params for _, params in parts), prior_params], dim=1),
        (*((kind, params.shape[1]) for kind, params in parts), (prior_kind, 1)),
    )
