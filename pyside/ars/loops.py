"""What a run says about its rejection loops: how often they accept, and whether naive weights can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ars._native import SiteKind
from ars.columns import Array, Columns, Floats, Site
from ars.diagnostics import pareto_k
from ars.results.continuations import Estimation, how_estimated
from ars.results.naive_variance import lower_bound, unseen_share

__all__ = ["LoopSummary", "Loops", "summarise_loops"]


class LoopSummary(NamedTuple):
    """One loop, over all its entries in the traces of a run. What was not estimated is NaN.

    ``p_accept`` and ``q_accept`` are the same kind of average, so that they can be compared: harmonic means over
    entries, 1 / E[1/p(A)] and 1 / E[1/q(A)], where the acceptance depends on the state at entry. They are the inverse
    of the mean number of tries until acceptance. Under p that is T/M of the runs under p; under q, the tries L of the
    main run, and with K of N further tries under q accepted, L - c (L K/N - 1): L K/N has mean 1 in every state, so
    that the second term only takes noise away. ``p_accept_error`` and ``q_accept_error`` are their standard errors.
    Entries without runs under p are left out of both; if there are no others, q(A) is that of the main runs, and p(A)
    is NaN.

    ``s_pq`` estimates Theorem 1's S_pq = E_q[(p/q)^2 rejected], the mean over all tries under q. If S_pq >= 1 for a
    set of states of positive probability, naive weights have infinite variance. S_pq depends on the state, and one
    entry's N tries are too few to judge its state by; so the verdict looks at the mean over all entries, at the mean
    over the entries of each instance (the first entry of a trace, the second, ...), of which ``s_pq_largest`` is the
    largest, and at means of values cut off at a bound, which can only be too small. A mean above 1 implies states
    above 1.

    A proposal that hardly ever visits the rejected region makes S_pq large through draws that a run may never see, and
    its estimate too small. The runs under p do visit it: ``s_pq_bound`` is what S_pq must at least be for the rejected
    share under p to fit into the small share under q (ars.results.naive_variance).

    ``naive_variance_infinite`` is True if one of these is at least 1 with certainty (two standard errors, more where
    the largest of several is taken), False if the mean is below 1 with two, its tail is light, and what the tries
    under q have visited is all that p rejects; else None, with the reason in ``note``. A False is about the average
    state.

    ``method`` is how the continuations ran: "rewind" (in place, and undone), "fork", "both" (some entries were rewound
    and others forked, or every entry was estimated both ways), "in place" (``ars_reject``) or "not estimated".
    ``reason`` says why entries were forked although ``continuations`` allowed rewinding, and is "" if none was.
    ``pages`` is the median number of memory pages that a rewind put back, NaN if nothing was rewound.
    """

    address: str
    entries: int
    mean_tries: float
    p_accept: float
    p_accept_error: float
    q_accept: float
    q_accept_error: float
    s_pq: float
    s_pq_error: float
    s_pq_largest: float
    s_pq_bound: float
    naive_variance_infinite: bool | None
    note: str
    method: str
    reason: str
    pages: float

    @property
    def name(self) -> str:
        return self.address.rpartition("/")[2]

    def warning(self) -> str:
        size = f"= {self.s_pq:.3g} (standard error {self.s_pq_error:.2g})"
        if not self.s_pq - 2.0 * self.s_pq_error >= 1.0 and self.s_pq_bound >= 1.0:
            size = f"of at least {self.s_pq_bound:.3g}"
        return (
            f'loop "{self.address}" has S_pq {size}: by Theorem 1 '
            'the naive "ic" weights have infinite variance, and their evidence and errors mean nothing. Use "ars".'
        )


_LIGHT_TAIL = 0.5  # the shape below which the standard error of S_pq means something
_LEAST_ENTRIES = 500


class _Verdict(NamedTuple):
    s_pq: float
    error: float
    largest: float
    bound: float
    infinite: bool | None
    note: str


_NOT_ESTIMATED = _Verdict(math.nan, math.nan, math.nan, math.nan, None, "nothing was estimated")


def _mean_and_error(x: Floats) -> tuple[float, float]:
    return float(x.mean()), float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.inf


def _bounded_mean_exceeds_one(s: Floats) -> bool:
    """Whether the mean of min(s, bound) is above 1 by three standard errors, for some bound.

    It is a lower limit of the mean that a heavy tail cannot make noisy: with an infinite S_pq, the plain mean is never
    many standard errors above anything."""
    bound = 2.0
    while True:
        mean, error = _mean_and_error(np.minimum(s, bound))
        if mean - 3.0 * error > 1.0:
            return True
        if bound >= s.max():
            return False
        bound *= 4.0


def _judge(loops: Array) -> _Verdict:
    loops = loops[loops["tries_q"] > 0]
    if not len(loops):
        return _NOT_ESTIMATED
    tries = loops["tries_q"].astype(np.float64)
    mean_tries = float(tries.mean())
    # per entry, scaled so that the mean over entries is the mean over tries
    s: Floats = loops["s_pq_sum"] / mean_tries
    s_pq, error = float(loops["s_pq_sum"].sum() / tries.sum()), math.inf
    if len(s) > 1:
        error = float((s - s_pq * tries / mean_tries).std(ddof=1)) / math.sqrt(len(s))
    bound = lower_bound(loops)
    if np.all(loops["accepted_q"] == loops["tries_q"]):
        # If q can draw it at all, p rejects far more than q: S_pq is large. If q cannot, naive weights are biased.
        note = "no try under q was rejected: S_pq cannot be estimated"
        if bound >= 1.0:
            note += f", and is above {bound:.2g} unless q cannot draw what p rejects, which would bias naive weights"
        return _Verdict(s_pq, math.nan, s_pq, bound, None, note)
    largest, clear = s_pq, s_pq - 2.0 * error >= 1.0
    instances = np.unique(loops["instance"])
    if len(instances) > 1:
        # as unlikely to exceed by chance as one mean is to exceed by two standard errors
        sigmas = NormalDist().inv_cdf(1.0 - NormalDist().cdf(-2.0) / len(instances))
        for instance in instances:
            mean, spread = _mean_and_error(s[loops["instance"] == instance])
            largest = max(largest, mean)
            clear = clear or mean - sigmas * spread >= 1.0
    if clear or _bounded_mean_exceeds_one(s):
        return _Verdict(s_pq, error, largest, bound, True, "S_pq is 1 or more")
    if bound >= 1.0:
        note = f"S_pq is at least {bound:.3g}: p rejects more than the proposal's rejected share has room for"
        return _Verdict(s_pq, error, largest, bound, True, note)
    with np.errstate(divide="ignore"):
        tail = pareto_k(np.log(s))
    if tail >= _LIGHT_TAIL:
        note = f"heavy tail (k = {tail:.2f}): S_pq is likely to be larger than its estimate"
        return _Verdict(s_pq, error, largest, bound, None, note)
    if s_pq + 2.0 * error >= 1.0:
        return _Verdict(s_pq, error, largest, bound, None, "S_pq is too close to 1 for its standard error")
    if (unseen := unseen_share(loops)) > 0.0:
        note = f"the tries under q miss at least {unseen:.2g} of what p rejects: S_pq is larger than its estimate"
        return _Verdict(s_pq, error, largest, bound, None, note)
    if len(loops) < _LEAST_ENTRIES:
        note = f"{len(loops)} entries are too few to rule out a tail; {_LEAST_ENTRIES} would do"
        return _Verdict(s_pq, error, largest, bound, None, note)
    return _Verdict(s_pq, error, largest, bound, False, "")


def _inverse_of_mean(tries: Floats) -> tuple[float, float]:
    """The harmonic mean of acceptance probabilities, from unbiased estimates of their inverses, and its error."""
    if not len(tries):
        return math.nan, math.nan
    mean = max(float(tries.mean()), 1.0)  # nothing takes less than one try
    error = float(tries.std(ddof=1)) / math.sqrt(len(tries)) if len(tries) > 1 else math.nan
    return 1.0 / mean, error / mean**2


def _tries_under_q(loops: Array) -> Floats:
    """Per entry, an unbiased estimate of 1/q(A): the main run's tries L, less what L K/N shows to be chance.

    Given the state at entry, L and K are independent with means 1/q(A) and N q(A): L K/N has mean 1. The factor is the
    one that leaves least variance, as in every regression on a control variate.
    """
    tries = loops["tries"].astype(np.float64)
    estimated = loops["tries_q"] > 0
    if np.count_nonzero(estimated) < 3:
        return tries
    product = tries[estimated] * loops["accepted_q"][estimated] / loops["tries_q"][estimated]
    spread = float(product.var())
    factor = float(np.mean((product - product.mean()) * (tries[estimated] - tries[estimated].mean())))
    tries[estimated] -= (factor / spread if spread else 0.0) * (product - 1.0)
    return tries


def _summarise(address: str, loops: Array, estimation: Estimation) -> LoopSummary:
    verdict = _judge(loops)
    known = loops[loops["runs_p"] > 0]
    p_accept, p_error = _inverse_of_mean(known["tries_p"] / known["runs_p"])
    q_accept, q_error = _inverse_of_mean(_tries_under_q(known if len(known) else loops))
    return LoopSummary(
        address=address,
        entries=len(loops),
        mean_tries=float(loops["tries"].mean()),
        p_accept=p_accept,
        p_accept_error=p_error,
        q_accept=q_accept,
        q_accept_error=q_error,
        s_pq=verdict.s_pq,
        s_pq_error=verdict.error,
        s_pq_largest=verdict.largest,
        s_pq_bound=verdict.bound,
        naive_variance_infinite=verdict.infinite,
        note=verdict.note,
        **estimation._asdict(),
    )


_LEGEND = (
    "p(A), q(A): acceptance probability of a try under the prior and under the proposal, each the harmonic mean over "
    "entries"
)


class Loops(Mapping[str, LoopSummary]):
    """Loops by address, in the order in which the simulator first reached them; a name does where it is unique."""

    def __init__(self, summaries: Sequence[LoopSummary]) -> None:
        self._by_address = {summary.address: summary for summary in summaries}

    def __getitem__(self, key: str) -> LoopSummary:
        if key in self._by_address:
            return self._by_address[key]
        found = [summary for summary in self._by_address.values() if summary.name == key]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f'"{address}"' for address in self._by_address) or "none"
        problem = "is the name of several loops" if found else "is no loop that a trace entered"
        raise KeyError(f'"{key}" {problem}; the addresses are: {listed}')

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_address)

    def __len__(self) -> int:
        return len(self._by_address)

    def __repr__(self) -> str:
        if not self._by_address:
            return "no loops"
        header = (
            "loop",
            "entries",
            "tries",
            "p(A)",
            "q(A)",
            "S_pq",
            "s.e.",
            "largest",
            "at least",
            "estimated by",
            "infinite naive variance",
        )
        verdicts = {True: "yes", False: "no", None: "undecided"}
        rows = [
            (
                loop.address,
                f"{loop.entries:,}",
                f"{loop.mean_tries:.3g}",
                *(f"{x:.4g}" for x in (loop.p_accept, loop.q_accept, loop.s_pq)),
                *(f"{x:.2g}" for x in (loop.s_pq_error, loop.s_pq_largest, loop.s_pq_bound)),
                "-" if loop.method == "not estimated" else loop.method,
                verdicts[loop.naive_variance_infinite] + (f" ({loop.note})" if loop.note else ""),
            )
            for loop in self._by_address.values()
        ]
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = []
        for row in [header, *rows]:
            middle = (cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
            lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]))
        forked = [f"{loop.address} was forked: {loop.reason}" for loop in self._by_address.values() if loop.reason]
        return "\n".join([*lines, _LEGEND, *forked])


def _nothing_proposed(loops: Array) -> Array:
    """The main run's own tries as the estimates: the prior made them, so that one run under p took all of them."""
    known = loops.copy()
    known["runs_p"] = known["accepted_q"] = 1
    known["tries_p"] = known["tries_q"] = loops["tries"]
    known["s_pq_sum"] = loops["tries"] - 1.0  # p/q = 1 in each rejected try
    return known


def summarise_loops(columns: Columns, sites: Sequence[Site], *, proposed: bool = True) -> Loops:
    """Every loop that a trace entered and left. ``proposed``: False if the prior proposed everything."""
    ids = columns.loops["site"]
    found = []
    for site in sites:
        if site.kind == SiteKind.LOOP:
            mine = columns.loops[ids == site.id]
            if len(mine) and proposed:
                found.append(_summarise(site.address, mine, how_estimated(mine)))
            elif len(mine):
                summary = _summarise(site.address, _nothing_proposed(mine), how_estimated(mine))
                # p = q rejects as much as it proposes: there is nothing that its tries could have missed
                summary = summary._replace(s_pq_bound=math.nan)
                found.append(summary._replace(naive_variance_infinite=False, note="nothing was proposed"))
    return Loops(found)
