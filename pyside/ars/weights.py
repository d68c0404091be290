"""The weightings of the paper, in log space, computed from one record of one run.

``ic``
    Every p/q, of accepted and rejected draws (Definition 1). Unbiased; its variance may be infinite.
``collapsed``
    Accepted p/q, times q(A)/p(A) for every loop, where both are known (Definition 2).
``ars``
    Accepted p/q, times estimates of q(A) and 1/p(A) for every loop: K/N and T (Definition 3), or the estimates of
    another budget. Unbiased for every budget.
``biased``
    Accepted p/q and no correction. Wrong on purpose; for comparison.
``prior``
    Accepted p/q of a run whose loops were proposed by the prior: nothing to correct.

All of them count every draw of a loop that the trace gave up (``ars_loop_abandon``), as the record of a trace does.
Every function returns one log weight per trace; a failed trace has weight 0 (log weight -inf).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ars._native import SiteKind
from ars.budget import Budget, ChosenBudget
from ars.columns import Array, Columns, Floats, Integers, Site, values_of
from ars.errors import WeightError
from ars.planning.entries import entries_of

__all__ = [
    "METHODS",
    "Acceptance",
    "EntryValues",
    "log_weight_ars",
    "log_weight_biased",
    "log_weight_collapsed",
    "log_weight_ic",
    "log_weight_prior",
]

METHODS = ("ars", "ic", "biased", "prior", "collapsed")


class EntryValues(Mapping[str, Floats]):
    """The argument of a function for p(A) or q(A): name -> values, one row per entry of its loop.

    ``values["x"]`` is the x of the trace that entered the loop. If a trace draws x several times, it has a column per
    instance, NaN where there is none; ``values["x[1]"]`` is the second instance alone. ``instance`` is the zero-based
    index of each loop entry within its trace.
    """

    def __init__(self, columns: Columns, sites: Sequence[Site], rows: Integers, instance: Integers) -> None:
        self._columns = columns
        self._sites = sites
        self._rows = rows
        self.instance = instance

    def __getitem__(self, name: str) -> Floats:
        return values_of(self._columns, self._sites, name)[self._rows]

    def __iter__(self) -> Iterator[str]:
        valued = (SiteKind.SAMPLE, SiteKind.RESULT)
        return iter(dict.fromkeys(site.name for site in self._sites if site.kind in valued))

    def __len__(self) -> int:
        return sum(1 for _ in self)


# An acceptance probability: one number, one per entry of the loop, or a function of the values in the entry's trace.
Acceptance: TypeAlias = float | npt.ArrayLike | Callable[[EntryValues], npt.ArrayLike]


def _finished(columns: Columns, log_weights: Floats) -> Floats:
    return np.where(columns.traces["failure"] == 0, log_weights, -np.inf)


def _loop_rows(columns: Columns) -> Integers:
    """The row of the trace of every loop entry."""
    return np.repeat(np.arange(len(columns.traces), dtype=np.int64), columns.traces["n_loops"])


def _sum_per_trace(columns: Columns, rows: Integers, terms: Floats) -> Floats:
    return np.bincount(rows, weights=terms, minlength=len(columns.traces)).astype(np.float64, copy=False)


def log_weight_ic(columns: Columns) -> Floats:
    """Naive weights: the ratios of all draws, including rejected ones.

    Parameters
    ----------
    columns
        The traces.

    Returns
    -------
    array
        One log weight per trace.
    """
    traces = columns.traces
    return _finished(columns, traces["log_ratio_all"] + traces["log_likelihood"])


def log_weight_biased(columns: Columns) -> Floats:
    """Uncorrected weights: the ratios of accepted draws. Wrong wherever a loop's q(A)/p(A) is not 1.

    Parameters
    ----------
    columns
        The traces.

    Returns
    -------
    array
        One log weight per trace.
    """
    traces = columns.traces
    return _finished(columns, traces["log_ratio_accepted"] + traces["log_likelihood"])


def log_weight_prior(columns: Columns, in_loops: str) -> Floats:
    """Weights of a run in which the prior proposed inside loops: there p(A) = q(A), so no correction is needed.

    Parameters
    ----------
    columns
        The traces.
    in_loops : str
        The run's ``in_loops``, which must be "prior".

    Returns
    -------
    array
        One log weight per trace.

    Raises
    ------
    WeightError
        If ``in_loops`` is not "prior".
    """
    if in_loops != "prior":
        raise WeightError(
            f'"prior" weights need a run with in_loops="prior"; this one had in_loops="{in_loops}". '
            'Use "ars", or run again with in_loops="prior".'
        )
    return log_weight_biased(columns)


def log_weight_ars(
    columns: Columns,
    sites: Sequence[Site] = (),
    *,
    proposed: bool = True,
    exact: Collection[str] = (),
    budget: Budget | ChosenBudget | None = None,
) -> Floats:
    """Accepted ratios, times an estimate of q(A)/p(A) for every loop entry: that of q(A) times tries_p / runs_p.

    Traces of weight 0 before this correction keep it, with or without estimates.

    Parameters
    ----------
    columns
        The traces.
    sites
        The sites of the run. Errors name loops by their addresses; ``exact`` and a chosen budget need them.
    proposed
        False if the prior proposed everything. Then p(A) = q(A), and the factor of every loop is exactly 1.
    exact
        Addresses of loops inside which the prior proposed everything: their factor is exactly 1.
    budget
        The budget of the run, which decides how q(A) is estimated (default: K/N, as in the paper). After two phases,
        traces without estimates were not kept and have weight 0; the others are divided by their probability of it.

    Returns
    -------
    array
        One log weight per trace.

    Raises
    ------
    WeightError
        An estimate is missing.
    """
    log_a = log_weight_biased(columns)
    if not proposed:
        return log_a
    loops, rows = columns.loops, _loop_rows(columns)
    exact_ids = [site.id for site in sites if site.kind == SiteKind.LOOP and site.address in exact]
    needed = (log_a[rows] > -np.inf) & ~np.isin(loops["site"], exact_ids) & (loops["abandoned"] == 0)
    estimator = "paper" if budget is None else budget.estimator
    missing = needed & (loops["runs_p"] == 0)
    if estimator != "accepted":
        missing |= needed & (loops["tries_q"] == 0)
    if isinstance(budget, ChosenBudget) and budget.phases == 2:
        lacking, estimated = np.zeros((2, len(log_a)), dtype=np.bool_)
        lacking[rows[missing]] = True
        estimated[rows[needed & ~missing]] = True
        missing &= estimated[rows]  # a trace that was not kept has no estimate at all
        log_keep = budget.decide(log_a, entries_of(columns, sites, exact)).log_keep
        lacking |= log_keep == -np.inf
        log_a = np.where(lacking, -np.inf, log_a - np.where(lacking, 0.0, log_keep))
        needed &= ~lacking[rows]
    if missing.any():
        raise WeightError(_unestimated(np.unique(loops["site"][missing]).tolist(), sites))
    correction = np.zeros(len(rows))
    correction[needed] = _log_correction(loops[needed], estimator)
    return log_a + _sum_per_trace(columns, rows, correction)


def _unestimated(ids: Sequence[int], sites: Sequence[Site]) -> str:
    names = {site.id: f'"{site.address}"' for site in sites}
    return (
        f'"ars" weights need estimates of p(A) and q(A), which this run did not make for '
        f"{', '.join(names.get(i, f'site {i}') for i in ids)}. "
        'Run again with a budget; or use "prior", if the run had in_loops="prior".'
    )


def _log_correction(loops: Array, estimator: str) -> Floats:
    """The log of each entry's factor. The estimate of q(A), and so the weight, may be 0.

    A loop that can be given up is accepted with probability P_q. Its factor is E_p[tries] q(A) / P_q, and 1 + B is an
    estimate of 1 / P_q, where B runs under q were given up before one was accepted (docs/design.md).
    """
    accepted, tries_q = loops["accepted_q"].astype(np.float64), loops["tries_q"].astype(np.float64)
    log_t = np.log(loops["tries_p"] / loops["runs_p"])
    first = (loops["tries"] == 1).astype(np.float64)  # whether the main run's first try was accepted
    given_up = loops["abandoned_q"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        if estimator == "paper":
            return np.asarray(np.log(accepted * (1.0 + given_up)) + log_t - np.log(tries_q))
        if estimator == "reuse":
            return np.asarray(np.log(accepted * (1.0 + given_up) + first) + log_t - np.log(tries_q + 1.0))
        # Haldane: of S tries until accepted + 1 were accepted, the last one is not counted
        tries = loops["tries"] + tries_q - 1.0
        several = np.log(accepted) - np.log(tries)
        several += np.log1p(given_up * tries / (tries + loops["abandoned_tries"]))
        return np.asarray(np.where(accepted == 0.0, np.log(first), several) + log_t)


def log_weight_collapsed(
    columns: Columns, sites: Sequence[Site], pA: Mapping[str, Acceptance], qA: Mapping[str, Acceptance]
) -> Floats:
    """Collapsed weights: accepted ratios, times the known q(A)/p(A) of every loop.

    Parameters
    ----------
    columns
        The traces.
    sites
        The sites of the run.
    pA, qA
        Acceptance probabilities under the prior and the proposal, from a loop's name or address to a number, one
        number per entry, or a function of an ``EntryValues``.

    Returns
    -------
    array
        One log weight per trace.

    Raises
    ------
    WeightError
        If a probability is missing or impossible, or a loop can give up (``ars_loop_abandon``).
    """
    ids = columns.loops["site"]
    rows = _loop_rows(columns)
    loop_sites = [site for site in sites if site.kind == SiteKind.LOOP]
    correction = np.zeros(len(ids))
    for site in loop_sites:
        index = np.flatnonzero(ids == site.id)
        if not len(index):
            continue
        if columns.loops["abandoned"][index].any() or columns.loops["abandoned_p"][index].any():
            raise WeightError(
                f'"collapsed" weights are wrong for the loop "{site.address}": it can be given up (ars_loop_abandon), '
                'so its factor is not q(A)/p(A). Use "ars".'
            )
        entries = EntryValues(columns, sites, rows[index], columns.loops["instance"][index].astype(np.int64))
        p = _acceptance(_given(pA, site, loop_sites, "p(A)"), site, entries, len(index), "p(A)")
        q = _acceptance(_given(qA, site, loop_sites, "q(A)"), site, entries, len(index), "q(A)")
        if np.any(p == 0.0):
            raise WeightError(f'p(A) of loop "{site.address}" is 0 for an entry that was accepted')
        with np.errstate(divide="ignore"):
            correction[index] = np.log(q) - np.log(p)
    return log_weight_biased(columns) + _sum_per_trace(columns, rows, correction)


def _given(mapping: Mapping[str, Acceptance], site: Site, loops: Sequence[Site], what: str) -> Acceptance:
    if site.address in mapping:
        return mapping[site.address]
    if site.name not in mapping:
        raise WeightError(f'"collapsed" weights need {what} of loop "{site.address}": give it under "{site.name}"')
    same = [f'"{other.address}"' for other in loops if other.name == site.name]
    if len(same) > 1:
        raise WeightError(f'several loops are named "{site.name}": give {what} by address: {", ".join(same)}')
    return mapping[site.name]


def _acceptance(given: Acceptance, site: Site, entries: EntryValues, n: int, what: str) -> Floats:
    numbers = np.asarray(given(entries) if callable(given) else given, dtype=np.float64)
    if numbers.shape not in ((), (n,)):
        several = ' A latent with several instances has a column for each: choose one, such as values["x[0]"].'
        raise WeightError(
            f'{what} of loop "{site.address}" must be one number or {n}, one per entry of the loop, '
            f"not an array of shape {numbers.shape}.{several if callable(given) and numbers.ndim > 1 else ''}"
        )
    numbers = np.broadcast_to(numbers, (n,))
    wrong = ~((numbers >= 0.0) & (numbers <= 1.0 + 1e-12))
    if wrong.any():
        raise WeightError(
            f'{what} of loop "{site.address}" must be a probability, not {float(numbers[np.argmax(wrong)])!r}'
        )
    return numbers
