"""The network's input for many latents, in parts that are computed once.

A latent's input is that of its observation, of its question (site, instance and prior), and of the value drawn before.
Most questions are asked in every trace, and nothing was drawn before a trace's first latent. So the product with the
first layer's weights, a fifth of all arithmetic of a training step, is made of what differs from row to row alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear

__all__ = ["Inputs", "distinct"]


def distinct(*columns: Tensor) -> tuple[Tensor, Tensor]:
    """Of rows given in columns [n, ...]: one of each kind of equal rows, and the kind of every row."""
    rows = len(columns[0])
    parts: list[Any] = [np.ascontiguousarray(column.cpu().numpy()).reshape(rows, -1) for column in columns]
    table = np.concatenate([part.view(np.uint8) for part in parts], axis=1)
    _, which, kind = np.unique(table.view(f"V{table.shape[1]}").reshape(-1), return_index=True, return_inverse=True)
    device = columns[0].device
    return torch.from_numpy(which).to(device), torch.from_numpy(kind.reshape(-1)).to(device)


class Inputs(NamedTuple):
    """N rows, those that begin a trace first. Their columns: observation, question, value."""

    observation: Tensor  # [N, E]
    questions: Tensor  # [U, Q]
    question: Tensor  # int64 [N]: which of them
    start: Tensor  # [1, V]: the value where there is none
    values: Tensor  # [N - n, V]: of the rows after the n that begin a trace

    def whole(self) -> Tensor:
        """[N, E + Q + V]"""
        begin = len(self.question) - len(self.values)
        value = torch.cat([self.start.expand(begin, -1), self.values])
        return torch.cat([self.observation, self.questions.index_select(0, self.question), value], dim=-1)

    def product(self, weight: Tensor, bias: Tensor) -> Tensor:
        """``linear(self.whole(), weight, bias)``"""
        begin = len(self.question) - len(self.values)
        sizes = [part.shape[-1] for part in (self.observation, self.questions, self.start)]
        of_observation, of_question, of_value = weight.split(sizes, dim=1)
        known = linear(self.questions, of_question, bias)
        at_start = known + linear(self.start, of_value)
        first = torch.addmm(
            at_start.index_select(0, self.question[:begin]), self.observation[:begin], of_observation.t()
        )
        if not len(self.values):
            return first
        rest = torch.addmm(
            known.index_select(0, self.question[begin:]),
            torch.cat([self.observation[begin:], self.values], dim=-1),
            torch.cat([of_observation, of_value], dim=-1).t(),
        )
        return torch.cat([first, rest])
