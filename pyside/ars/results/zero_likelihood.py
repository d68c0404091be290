"""Observations that no trace of a run could explain."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ars.columns import Columns, Site
from ars.errors import ObservationWarning
from ars.outside import outside

__all__ = ["impossible_observations", "warn_of_impossible"]


def impossible_observations(columns: Columns, sites: Sequence[Site]) -> list[str]:
    """The observations whose likelihood is 0 in every complete trace.

    Parameters
    ----------
    columns
        The traces of a posterior run.
    sites
        The sites of the run, by id.

    Returns
    -------
    list of str
        Their addresses, in order of site id; empty if there is no complete trace.
    """
    complete = int(np.count_nonzero(columns.traces["failure"] == 0))
    zero = np.isneginf(columns.observes["log_p"])
    if not complete or not zero.any():
        return []
    total = len(columns.traces)
    owner = np.repeat(np.arange(total), columns.traces["n_observes"])
    pairs = np.unique(columns.observes["site"][zero].astype(np.int64) * total + owner[zero])  # a site and a trace, once
    found, traces = np.unique(pairs // total, return_counts=True)
    return [sites[number].address for number in found[traces == complete].tolist()]


def warn_of_impossible(columns: Columns, sites: Sequence[Site]) -> None:
    """Warn, by name, of the observations that make every weight of a posterior run 0."""
    names = impossible_observations(columns, sites)
    if names:
        listed = ", ".join(f'"{name}"' for name in names)
        complete = np.count_nonzero(columns.traces["failure"] == 0)
        warnings.warn(
            f"every weight is 0: the likelihood of {listed} is 0 in all {complete:,} finished traces. The simulator"
            " cannot produce the values given with any of the latents that were drawn: they may lie beyond the bounds"
            " of a Uniform, for instance. Check the data and their units, or the proposals",
            ObservationWarning,
            stacklevel=outside(),
        )
