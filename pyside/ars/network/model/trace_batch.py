"""Batches of traces of any shapes: what a network is trained on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

__all__ = ["LARGEST_SLICE", "Batch", "TraceBatch", "TreeBatch", "moved"]

_SMALLEST_SLICE: Final = 32  # traces
LARGEST_SLICE: Final = 8192  # latents of a tree: about 200 MB with 512 units, forwards and backwards


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

    @property
    def traces(self) -> int:
        return self.site.shape[1]

    def packed(self) -> tuple[Tensor, tuple[int, ...]]:
        """Where the latents are in [T * B], step after step and within a step the longest traces first; and how many
        each step has. So the traces that a step has are the first ones of the step before."""
        longest = torch.argsort(self.mask.sum(dim=0), descending=True, stable=True)
        step, place = torch.nonzero(self.mask[:, longest], as_tuple=True)
        levels = [n for n in self.mask.sum(dim=1).tolist() if n]
        return step * self.traces + longest[place], tuple(levels)

    def slices(self, n: int, *, whole: bool = False) -> list[TraceBatch]:
        """The traces in n parts, each as long as its longest trace."""
        n = 1 if whole else max(1, min(n, self.traces // _SMALLEST_SLICE))
        if n == 1:
            return [self]
        bounds = [self.traces * i // n for i in range(n + 1)]
        parts = []
        for low, high in itertools.pairwise(bounds):
            steps = max(1, int(self.mask[:, low:high].any(dim=1).sum()))
            parts.append(
                TraceBatch(
                    site=self.site[:steps, low:high],
                    instance=self.instance[:steps, low:high],
                    value=self.value[:steps, low:high],
                    prior=self.prior[:steps, low:high],
                    categories=None if self.categories is None else self.categories[:steps, low:high],
                    n_categories=self.n_categories[:steps, low:high],
                    mask=self.mask[:steps, low:high],
                    observation={name: x[low:high] for name, x in self.observation.items()},
                )
            )
        return parts


class TreeBatch(NamedTuple):
    """B traces with their rejected tries, N latents in all: a tree per trace, in which every latent comes after the one
    that was drawn before it. All tries of a loop, the accepted one too, come after the latent before the loop's entry.

    Latents are in the order of their levels: first those that begin a trace, then those that come second, and so on.
    """

    site: Tensor  # int64 [N]: vocabulary index
    instance: Tensor  # int64 [N]
    value: Tensor  # float64 [N]
    prior: Tensor  # float64 [N, 4], as in TraceBatch
    categories: Tensor | None  # float [N, C], as in TraceBatch
    n_categories: Tensor  # int64 [N]
    previous: Tensor  # int64 [N]: which latent comes before, one of the level above; -1 at the first level
    trace: Tensor  # int64 [N]: whose latent, 0 to B - 1
    weight: Tensor  # float64 [N]: for how many latents of its kind it stands in the loss; 1 if all were recorded
    levels: tuple[int, ...]  # how many latents each level has
    observation: Mapping[str, Tensor]  # name -> float32 [B, *shape]
    traces: int  # B

    def slices(self, n: int, *, whole: bool = False) -> list[TreeBatch]:
        """The traces in at least n parts with about equally many latents, none much larger than LARGEST_SLICE."""
        size = len(self.site)
        n = max(min(n, self.traces // _SMALLEST_SLICE), -(-size // LARGEST_SLICE), 1)
        if n == 1 or whole:
            return [self]
        ends = torch.cumsum(torch.bincount(self.trace, minlength=self.traces), 0)
        cuts = torch.searchsorted(ends, torch.arange(1, n) * size / n).tolist()
        bounds = sorted({0, self.traces, *(min(cut + 1, self.traces) for cut in cuts)})
        return [self._part(low, high) for low, high in itertools.pairwise(bounds)]

    def _part(self, low: int, high: int) -> TreeBatch:
        kept = torch.nonzero((self.trace >= low) & (self.trace < high)).squeeze(-1)
        number = torch.full((len(self.site) + 1,), -1, dtype=torch.int64)  # the last entry is for -1
        number[kept] = torch.arange(len(kept))
        level = torch.repeat_interleave(torch.arange(len(self.levels)), torch.tensor(self.levels, dtype=torch.int64))
        return TreeBatch(
            site=self.site[kept],
            instance=self.instance[kept],
            value=self.value[kept],
            prior=self.prior[kept],
            categories=None if self.categories is None else self.categories[kept],
            n_categories=self.n_categories[kept],
            previous=number[self.previous[kept]],
            trace=self.trace[kept] - low,
            weight=self.weight[kept],
            levels=tuple(torch.bincount(level[kept]).tolist()),
            observation={name: x[low:high] for name, x in self.observation.items()},
            traces=high - low,
        )


Batch = TraceBatch | TreeBatch


def moved(batch: Batch, device: torch.device) -> Batch:
    """The batch on this device."""
    if device.type == "cpu":
        return batch
    fields: dict[str, Any] = {name: x.to(device) for name, x in batch._asdict().items() if isinstance(x, Tensor)}
    fields["observation"] = {name: x.to(device) for name, x in batch.observation.items()}
    return batch._replace(**fields)
