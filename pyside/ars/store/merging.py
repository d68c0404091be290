"""``ars.merge``: recordings by reference, and saved results that are ranges of one run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ars.errors import StorageError
from ars.results.joined import concat, covered
from ars.store.recordings import merge_recordings

if TYPE_CHECKING:
    from ars.posterior import Posterior
    from ars.store.recordings import Recordings

__all__ = ["merge"]


def merge(parts: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Recordings | Posterior:
    """Merge recordings, or saved results, that were made in parallel.

    Parameters
    ----------
    parts : sequence of paths
        Folders that ``Simulator.record`` wrote, or ``.nc`` files that ``Posterior.save`` wrote.
    out : path
        For recordings: a folder, which refers to the parts by relative paths and copies nothing. For results: a ``.nc``
        file.

    Returns
    -------
    Recordings or Posterior
        Recordings, for ``train(data=out)``; or the result of one run over all traces of the parts, bit for bit.

    Raises
    ------
    StorageError
        If the parts differ in simulator, build, seed, data, budget or proposals, if two share traces, or if traces
        between the parts of a result are missing. The message names the parts and the traces.

    Examples
    --------
    >>> ars.merge(["a/", "b/"], "all/")  # doctest: +SKIP
    >>> ars.merge(["0.nc", "1.nc"], "whole.nc").summary()  # doctest: +SKIP
    """
    paths = [Path(part) for part in parts]
    if not paths:
        raise StorageError("there is nothing to merge: name at least one recording or result")
    for path in paths:
        if not path.exists():
            raise StorageError(f"{path} does not exist")
    folders = [path for path in paths if path.is_dir()]
    if len(folders) == len(paths):
        return merge_recordings(paths, out)
    if folders:
        file = next(path for path in paths if not path.is_dir())
        raise StorageError(f"{folders[0]} is a folder of recorded traces, and {file} a file: merge one kind at a time")
    return _merge_results(paths, Path(out))


def _merge_results(paths: Sequence[Path], out: Path) -> Posterior:
    from ars.posterior import Posterior

    if out.suffix != ".nc":
        raise StorageError(f"{out} must end in .nc, the only format that holds a complete run")
    parts = [Posterior.load(path) for path in paths]
    names = [str(path) for path in paths]
    try:
        whole = concat(Posterior, parts, names)
    except (TypeError, ValueError) as error:
        raise StorageError(str(error)) from error
    _check_ranges(parts, names)
    whole.save(out)
    return whole


def _check_ranges(parts: Sequence[Posterior], names: Sequence[str]) -> None:
    """Raises StorageError unless the parts have every trace between the first and the last, once."""
    ranges = covered(parts)
    if sum(count for _, count in ranges) < sum(count for part in parts for _, count in covered([part])):
        raise StorageError(f"{' and '.join(names)} have ranges of traces in common: each needs its own --first-trace")
    for before, after in pairwise(ranges):
        first, count = sum(before), after[0] - sum(before)
        raise StorageError(
            f"traces {first} to {first + count - 1} are in none of the {len(names)} parts: run them too, with "
            f"--first-trace {first} --traces {count} and the seed of the others"
        )
