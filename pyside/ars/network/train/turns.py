"""Batches on several ranks: what each rank prepared, put together as the shares of one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from ars.errors import BatchError, TrainingError
from ars.network.model.trace_batch import Batch
from ars.network.model.vocabulary import SiteSpec, Vocabulary
from ars.network.train.batches import Batcher, between
from ars.network.train.ranks import Ranks
from ars.network.train.sources import Part

__all__ = ["HeldOut", "Prepared", "Rows", "agreed", "agreed_vocabulary", "held_out_shares", "renumbered", "renumbering"]


class Rows(NamedTuple):
    """Where the traces of a share stand in the whole batch."""

    first: int
    of: int  # traces of the whole batch


class Prepared(NamedTuple):
    """What one step needs."""

    batch: Batch | None  # None: all its traces failed, or are other ranks'
    vocabulary: Vocabulary | None  # if this batch made it grow
    traces: int
    rows: Rows | None = None  # None: the batch is the whole

    @property
    def complete(self) -> int:
        """Traces of the whole batch that can be trained on."""
        if self.rows is not None:
            return self.rows.of
        return 0 if self.batch is None else self.batch.traces


class HeldOut(NamedTuple):
    """A share of a batch of held-out traces."""

    batch: Batch
    place: int  # of the batch
    rows: Rows


class _Told(NamedTuple):
    """What a rank says of its share."""

    rows: int
    traces: int | None  # None: its source has ended
    new: list[SiteSpec]


def agreed(
    items: Iterator[Prepared], ranks: Ranks, vocabulary: Vocabulary, check: Callable[[], None]
) -> Iterator[Prepared]:
    """The items, and on several ranks: with the vocabulary, the length and the place in the batch that all agree on.

    A rank whose source ends before the others' goes on with empty shares. ``check`` is called before every turn.
    """
    known, local = vocabulary.copy(), vocabulary
    table: torch.Tensor | None = None
    while True:
        check()
        mine = next(items, None)
        if ranks.share.ranks == 1:
            if mine is None:
                return
            yield mine
            continue
        if mine is not None and mine.vocabulary is not None:
            local = mine.vocabulary
        batch = None if mine is None else mine.batch
        rows = 0 if batch is None else batch.traces
        new = [] if mine is None or mine.vocabulary is None else _unknown(local, known)
        told = [_Told(*said) for said in ranks.gather((rows, None if mine is None else mine.traces, new))]
        lengths = {each.traces for each in told if each.traces is not None}
        if not lengths:
            return
        if len(lengths) > 1:
            raise TrainingError(f"the ranks disagree on the length of a batch: {sorted(lengths)} traces")
        grown = any(each.new for each in told)
        if grown:
            for each in told:
                _add(known, each.new)
        if grown or (mine is not None and mine.vocabulary is not None):
            table = renumbering(local, known)
        place = Rows(sum(each.rows for each in told[: ranks.share.rank]), sum(each.rows for each in told))
        batch = None if batch is None else renumbered(batch, table)
        yield Prepared(batch, known.copy() if grown else None, lengths.pop(), place)


def held_out_shares(parts: Sequence[Part], batcher: Batcher, size: int, ranks: Ranks) -> list[HeldOut]:
    """This rank's shares of the batches of held-out traces that one process would have. Their sites are the first that
    the batcher's vocabulary has."""
    counts = ranks.gather([len(part.columns.traces) for part in parts])
    shares = []
    place = 0
    for i, part in enumerate(parts):
        before, whole = sum(c[i] for c in counts[: ranks.share.rank]), sum(c[i] for c in counts)
        end = before + len(part.columns.traces)
        for begin in range(0, whole, size):
            low, high = max(begin, before), min(begin + size, end)
            if low < high:
                batch, _ = batcher(between(part.columns, low - before, high - before), part.sites)
                shares.append(HeldOut(batch, place, Rows(low - begin, min(size, whole - begin))))
            place += 1
    return shares


# ---- vocabularies ----------------------------------------------------------------------------------------------------


def agreed_vocabulary(ranks: Ranks, mine: Vocabulary) -> Vocabulary:
    """All ranks' sites, in the order of the ranks: that in which one process would have met them."""
    known = Vocabulary()
    for sites in ranks.gather(list(mine)):
        _add(known, sites)
    return known


def _unknown(local: Vocabulary, known: Vocabulary) -> list[SiteSpec]:
    """The sites that the others have not heard of, or not with such a prior or so many categories."""

    def heard_of(site: SiteSpec) -> bool:
        index = known.index(site.address)
        return index >= 0 and site.kind is known[index].kind and site.n_params <= known[index].n_params

    return [site for site in local if not heard_of(site)]


def _add(known: Vocabulary, sites: list[SiteSpec]) -> None:
    for site in sites:
        try:
            known.add(site)
        except ValueError as error:
            raise BatchError(str(error)) from error


def renumbering(local: Vocabulary, known: Vocabulary) -> torch.Tensor | None:
    """From this rank's indices of sites to those that all agree on; -1 stays. None: they are the same."""
    places = [known.index(site.address) for site in local]
    return None if places == list(range(len(places))) else torch.tensor([*places, -1])


def renumbered(batch: Batch, table: torch.Tensor | None) -> Batch:
    return batch if table is None else batch._replace(site=table[batch.site])
