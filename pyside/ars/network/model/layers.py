"""Layers of the network that are more than one of torch's."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from ars.network.model.features import PAIR_FEATURES

__all__ = ["FamilyHead", "PairLayers"]

_LAST_LAYER_SCALE: Final = 0.1  # so that an untrained network proposes nearly the prior


class FamilyHead(nn.Module):
    """From the LSTM to the raw numbers of one family: one hidden layer."""

    def __init__(self, inputs: int, hidden: int, bias: Tensor) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.last = nn.Linear(hidden, len(bias))
        with torch.no_grad():
            self.last.weight.mul_(_LAST_LAYER_SCALE)
            self.last.bias.copy_(bias)

    def forward(self, x: Tensor) -> Tensor:
        raw: Tensor = self.last(nn.functional.silu(self.hidden(x)))
        return raw


class PairLayers(nn.Module):
    """What the features of a pair of values add to the embedding of the second: to its hidden layer, and to the result,
    so that the angle itself arrives where it is needed. Without a bias: no pair adds nothing, to the last bit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(PAIR_FEATURES, width, bias=False)
        self.last = nn.Linear(PAIR_FEATURES, width, bias=False)
