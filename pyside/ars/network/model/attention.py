"""What a question reads of a series of data, and of the latents drawn before it: attention, with weights that depend on
who asks and on where a thing stands, not on what it says.

So the weights of a question are the same in every trace. That is enough to look things up (the data of this day, the
momentum drawn first), and it keeps proposals cheap: what a question reads of the one observation of a run is computed
once, and what it reads of the trace is a sum over rows that are there already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from ars.errors import ObservationShapeError
from ars.network.model.embeddings import Standardiser

__all__ = ["SeriesReaders", "series_of"]

SERIES_FROM: Final = 4  # numbers in a row that are a series
_AUTO: Final = (8, 256)  # those that are one unless told otherwise
_KERNEL: Final = 5
_SHARPNESS: Final = 4.0  # at the start: half of the attention is on one element
_QUERY_SCALE: Final = 0.1  # of what sites add at the start
_PERIODS: Final = (2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 144.0, 377.0)
PLACE_FEATURES: Final = 2 * len(_PERIODS)
_MOST_PAIRS: Final = 4  # of questions and traces, per row

Shape = tuple[int, ...]


def series_of(how: str, shapes: Mapping[str, Shape], images: Sequence[str], users: Sequence[str]) -> dict[str, Shape]:
    """The observations that are read as series: numbers in a row, or rows of a few channels. ``how`` is that of
    ``NetworkConfig.series``; "attention" without any is an error."""
    if how == "flat":
        return {}
    least, most = _AUTO if how == "auto" else (SERIES_FROM, math.inf)
    found = {
        name: shape
        for name, shape in shapes.items()
        if name not in images and name not in users and len(shape) in (1, 2) and least <= shape[0] <= most
    }
    if how == "attention" and not found:
        listed = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items()) or "none"
        raise ObservationShapeError(
            f'series="attention" needs an observation that is a series: at least {SERIES_FROM} numbers, neither an '
            f"image nor for a module of yours. The observations are {listed}"
        )
    return found


def place_features(index: Tensor) -> Tensor:
    """[*, PLACE_FEATURES] of places [*], from 0. Their scalar products are largest for equal places."""
    frequencies = torch.tensor([2 * math.pi / period for period in _PERIODS], dtype=torch.float64, device=index.device)
    angles = index.to(torch.float64).unsqueeze(-1) * frequencies
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1).to(torch.float32)


class SeriesReader(nn.Module):
    """One series, [n, T] or [n, T, C]. It becomes T tokens, by two convolutions; a question reads a weighted mean of
    them per head. Weights are made of the question's site and instance and of a token's place."""

    def __init__(self, shape: Shape, asked: int, width: int, heads: int) -> None:
        super().__init__()
        self.length, self.heads, self.width = shape[0], heads, width
        self.channels = math.prod(shape[1:])
        self.scale = Standardiser((self.length, self.channels))
        self.tokens = nn.Sequential(
            nn.Conv1d(3 * self.channels, width, _KERNEL, padding=_KERNEL // 2),
            nn.SiLU(),
            nn.Conv1d(width, width, _KERNEL, padding=_KERNEL // 2),
        )
        self.direct = nn.Linear(3 * self.channels, width)
        self.query = nn.Linear(asked, heads * PLACE_FEATURES)
        with torch.no_grad():
            self.query.weight.mul_(_QUERY_SCALE)
            self.query.bias.zero_()
        # It starts by reading the element with the index of the question's instance, and its neighbours.
        self.sharpness = nn.Parameter(torch.full((heads,), _SHARPNESS))
        self.offset = nn.Parameter(torch.tensor([(h + 1) // 2 * (-1.0) ** (h + 1) for h in range(heads)]))

    @property
    def size(self) -> int:
        """The numbers of the tokens of one observation."""
        return self.length * self.width

    def learn(self, x: Tensor) -> None:
        """Takes these data into account for the scales; those with a NaN, which is a missing number, are left out."""
        x = x.reshape(len(x), self.length, self.channels)
        self.scale.learn(x[~torch.isnan(x).any(dim=-1).any(dim=-1)])

    def forward(self, x: Tensor) -> Tensor:
        """The tokens of observations [n, *shape]: [n, T width]. A NaN is seen as missing."""
        x = x.reshape(len(x), self.length, self.channels)
        z = self.scale(x)
        missing = torch.isnan(z)
        z = torch.where(missing, 0.0, z)
        seen = torch.cat([torch.clamp(z, -10.0, 10.0), torch.asinh(z), missing.to(z.dtype)], dim=-1)
        made = self.tokens(seen.transpose(1, 2)).transpose(1, 2) + self.direct(seen)
        return torch.nn.functional.silu(made).flatten(1)

    def weights(self, asked: Tensor, instance: Tensor) -> Tensor:
        """[n, heads, T] of questions: what is known of their sites [n, asked] and their instances [n]."""
        at = place_features(torch.arange(self.length, device=asked.device))
        query = self.query(asked).reshape(len(asked), self.heads, PLACE_FEATURES)
        wanted = place_features(instance.unsqueeze(1) + self.offset)
        query = query + (self.sharpness / len(_PERIODS)).unsqueeze(-1) * wanted
        return torch.softmax(query @ at.t(), dim=-1)


class SeriesReaders(nn.Module):
    """All series of an observation. None: a module without weights, which reads nothing."""

    def __init__(self, shapes: Mapping[str, Shape], asked: int, width: int, heads: int) -> None:
        super().__init__()
        self.names = tuple(shapes)
        self.readers = nn.ModuleList(SeriesReader(shape, asked, width, heads) for shape in shapes.values())

    def _each(self) -> Iterator[tuple[str, SeriesReader]]:
        for name, reader in zip(self.names, self.readers, strict=True):
            assert isinstance(reader, SeriesReader)
            yield name, reader

    @property
    def outputs(self) -> int:
        """The numbers that a question reads."""
        return sum(reader.heads * reader.width for _, reader in self._each())

    def learn(self, observation: Mapping[str, Tensor]) -> None:
        for name, reader in self._each():
            reader.learn(observation[name])

    def forward(self, observation: Mapping[str, Tensor]) -> list[Tensor]:
        """The tokens of each series, [B, numbers]."""
        return [reader(observation[name]) for name, reader in self._each()]

    def read(self, tokens: Tensor, trace: Tensor, asked: Tensor, instance: Tensor, question: Tensor) -> Tensor:
        """[n, outputs]: for row i, of the tokens [B, numbers] of its trace [n]. What a question [n] is: ``asked``
        [U, asked] and ``instance`` [U]."""
        parts = []
        sizes = [reader.size for _, reader in self._each()]
        for (_, reader), mine in zip(self._each(), tokens.split(sizes, dim=-1), strict=True):
            rows = mine.reshape(len(mine), reader.length, reader.width)
            parts.append(_read(rows, reader.weights(asked, instance), trace, question))
        return torch.cat(parts, dim=-1)


def _read(tokens: Tensor, weights: Tensor, trace: Tensor, question: Tensor) -> Tensor:
    """[n, heads * width]: what row i reads of the tokens [B, T, width] of its trace with the weights [U, heads, T] of
    its question."""
    pairs = len(tokens) * len(weights)
    if pairs <= _MOST_PAIRS * len(trace):  # all of them, in one product
        every = torch.einsum("uht,btw->ubhw", weights, tokens).reshape(pairs, -1)
        return every.index_select(0, question * len(tokens) + trace)
    return torch.einsum("nht,ntw->nhw", weights.index_select(0, question), tokens.index_select(0, trace)).flatten(1)
