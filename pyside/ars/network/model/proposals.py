"""Proposals that a network's heads make: their log density, and the numbers that go on the wire."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import torch
from torch import Tensor

from ars._native import DistKind
from ars.network.model.densities import log_density

__all__ = ["BernoulliProposal", "CategoricalProposal", "MixtureProposal", "Proposal", "prior_log_probs"]

COMPONENT_DOUBLES: Final = 6  # on the wire: weight, kind, four parameters


class Proposal(Protocol):
    """Proposals of one wire kind, one per row."""

    @property
    def kind(self) -> DistKind:
        """The kind on the wire."""

    def doubles(self) -> Tensor:
        """float64 [n, width]: what follows the header of an ars_wire_dist."""

    def log_prob(self, value: Tensor) -> Tensor:
        """float64 [n]: the log density of one value per row."""


@dataclass(frozen=True)
class MixtureProposal:
    """Components of one or more kinds; ``segments`` says which are of which."""

    log_weights: Tensor  # [n, K]
    params: Tensor  # [n, K, 4]
    segments: tuple[tuple[DistKind, int], ...]  # kind, how many

    @property
    def kind(self) -> DistKind:
        return DistKind.MIXTURE

    def doubles(self) -> Tensor:
        n, k = self.log_weights.shape
        kinds = [float(kind) for kind, count in self.segments for _ in range(count)]
        out = self.params.new_empty((n, k, COMPONENT_DOUBLES))
        out[..., 0] = torch.exp(self.log_weights)
        out[..., 1] = torch.tensor(kinds, dtype=out.dtype, device=out.device)
        out[..., 2:] = self.params
        return out.reshape(n, k * COMPONENT_DOUBLES)

    def log_prob(self, value: Tensor) -> Tensor:
        x = value.to(torch.float64)
        terms, at = [], 0
        for kind, count in self.segments:
            terms.append(log_density(kind, self.params[:, at : at + count], x))
            at += count
        return torch.logsumexp(torch.cat(terms, dim=-1) + self.log_weights, dim=-1)


@dataclass(frozen=True)
class CategoricalProposal:
    p: Tensor  # [n, C]; categories that a row does not have are 0

    @property
    def kind(self) -> DistKind:
        return DistKind.CATEGORICAL

    def doubles(self) -> Tensor:
        return self.p

    def log_prob(self, value: Tensor) -> Tensor:
        k = self.p.shape[-1]
        valid = (value >= 0) & (value < k) & (value == torch.floor(value))
        index = torch.where(valid, value, 0.0).to(torch.int64)
        p = self.p.gather(-1, index.unsqueeze(-1)).squeeze(-1)
        possible = valid & (p > 0)
        return torch.where(possible, torch.log(torch.where(possible, p, 1.0)), -math.inf)


@dataclass(frozen=True)
class BernoulliProposal:
    p: Tensor  # [n]

    @property
    def kind(self) -> DistKind:
        return DistKind.BERNOULLI

    def doubles(self) -> Tensor:
        return self.p.unsqueeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        yes, no = (value == 1) & (self.p > 0), (value == 0) & (self.p < 1)
        log_yes = torch.log(torch.where(yes, self.p, 1.0))
        log_no = torch.log1p(-torch.where(no, self.p, 0.0))
        return torch.where(yes, log_yes, torch.where(no, log_no, -math.inf))


def prior_log_probs(
    left_to_prior: tuple[DistKind, ...], kind: Tensor, prior: Tensor
) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
    """For kinds of priors that have no head: the rows of each, and the log density of their own priors [n, 4]."""
    for each in left_to_prior:
        rows = torch.nonzero(kind == int(each)).squeeze(-1)
        if len(rows):
            yield rows, partial(_log_prior, each, prior[rows].to(torch.float64).unsqueeze(1))


def _log_prior(kind: DistKind, params: Tensor, value: Tensor) -> Tensor:
    return log_density(kind, params, value).squeeze(1)
