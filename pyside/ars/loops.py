"""Summaries of rejection loops: how often they accept, and whether naive weights can be trusted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    """One loop, summarised over all its entries in the traces of a run. Quantities without an estimate are NaN.

    Attributes
    ----------
    address : str
        The loop's full name, such as "outer/inner".
    entries : int
        Number of entries in all traces.
    mean_tries : float
        Mean number of tries per entry in the main run.
    p_accept, q_accept : float
        Acceptance probability of a try under the prior and under the proposal, over the estimated entries. Both are
        inverse mean numbers of tries until acceptance. If acceptance depends on the state at entry, this is the
        harmonic mean over entries. In two phases, traces with large weights are estimated more often. If nothing was
        estimated, ``q_accept`` is that of all main runs, and ``p_accept`` is NaN. If runs of the loop were given up,
        both are the accepted share of all tries.
    p_accept_error, q_accept_error : float
        Their standard errors.
    s_pq : float
        Estimate of Theorem 1's S_pq = E_q[(p/q)^2 rejected], the mean over all tries under q. If S_pq is 1 or more in a
        set of states of positive probability, naive weights have infinite variance.
    s_pq_error : float
        Its standard error.
    s_pq_largest : float
        The largest of the same means over the entries of one instance (the first entry of a trace, the second, ...).
    s_pq_bound : float
        Lower bound of S_pq from the runs under p; NaN without such runs. A proposal that hardly ever visits the
        rejected region makes S_pq large through draws that a run may never see. The runs under p do visit that region.
    naive_variance_infinite : bool or None
        Whether naive weights have infinite variance. True: a mean of S_pq or its bound is at least 1, by two standard
        errors or more. False: S_pq is below 1 by two standard errors, its tail is light, and the tries under q cover
        the region that p rejects. None: undecided. False refers to the average state.
    note : str
        Reason for the verdict; "" if it is False.
    method : str
        How the continuations ran: "rewind" (in place, and undone), "fork", "both" (some entries were rewound and others
        forked, or every entry was estimated both ways), "in place" (``ars_reject``) or "not estimated".
    reason : str
        Why entries were forked although ``continuations`` allowed rewinding; "" if none was.
    pages : float
        Median number of memory pages that a rewind restored; NaN if nothing was rewound.
    budget : str
        Continuations of the estimated entries, such as "M=1, R=2" or "M=1, N=10". "M=1, R=0 to M=3, R=5" if they
        differ between entries; "-" if nothing was estimated.
    estimated : int
        Number of entries with runs under p.
    abandoned : int
        Number of entries that were given up (``ars_loop_abandon``).
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
    budget: str = "-"
    estimated: int = 0
    abandoned: int = 0

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    def warning(self) -> str:
        """Say in one sentence that naive weights have infinite variance.

        Returns
        -------
        str
        """
        size = f"= {self.s_pq:.3g} (standard error {self.s_pq_error:.2g})"
        if not self.s_pq - 2.0 * self.s_pq_error >= 1.0 and self.s_pq_bound >= 1.0:
            size = f"of at least {self.s_pq_bound:.3g}"
        return (
            f'loop "{self.address}" has S_pq {size}: by Theorem 1 '
            'the naive "ic" weights have infinite variance, and their evidence and errors mean nothing. Use "ars".'
        )


_LIGHT_TAIL = 0.5  # the shape below which the standard error of S_pq means something
_LEAST_ENTRIES = 500
_HUGE = 1e150  # where a sum of (p/q)^2 is cut off: it leaves room for a sum of squares


class _Verdict(NamedTuple):
    s_pq: float
    error: float
    largest: float
    bound: float
    infinite: bool | None
    note: str


_NOT_ESTIMATED = _Verdict(math.nan, math.nan, math.nan, math.nan, None, "nothing was estimated")


class _Tried(NamedTuple):
    """All tries under q that are known, per entry with some; relative to the mean number of tries per entry."""

    s: Floats  # sum over the rejected tries of (p/q)^2
    tries: Floats
    rejected: Floats
    instance: Array


def _tried(loops: Array) -> _Tried:
    """The tries of the main run and of the continuations.

    By Wald's identity the sum over a run until accepted has, given the state, the mean S_pq times that of its tries. So
    the ratio of sums over entries is an average of S_pq over states, whatever decides when a run ends. Files of earlier
    versions do not have the sums of main runs.
    """
    main = ~np.isnan(loops["s_pq_main"])
    tries = np.where(main, loops["tries"], 0.0) + loops["tries_q"]
    known = tries > 0.0
    loops, main, tries = loops[known], main[known], tries[known]
    s = np.where(main, loops["s_pq_main"], 0.0) + loops["s_pq_sum"]
    rejected = np.where(main, loops["tries"] - 1.0 + loops["abandoned"], 0.0) + (loops["tries_q"] - loops["accepted_q"])
    scale = float(tries.mean()) if len(tries) else 1.0
    return _Tried(np.minimum(s, _HUGE) / scale, tries / scale, rejected / scale, loops["instance"])


def _ratio_and_error(s: Floats, tries: Floats) -> tuple[float, float]:
    """The mean of s over tries, and its standard error; infinite for a single entry."""
    ratio = float(s.sum() / tries.sum())
    if len(s) < 2:
        return ratio, math.inf
    return ratio, float((s - ratio * tries).std(ddof=1)) / math.sqrt(len(s)) / float(tries.mean())


def _bounded_mean_exceeds_one(s: Floats, tries: Floats) -> bool:
    """Whether the mean of min(s, bound) over tries is above 1 by three standard errors, for some bound.

    It is a lower limit of the mean that a heavy tail cannot make noisy: with an infinite S_pq, the plain mean is never
    many standard errors above anything."""
    bound = 2.0
    while True:
        above = np.minimum(s, bound) - tries
        error = float(above.std(ddof=1)) / math.sqrt(len(s)) if len(s) > 1 else math.inf
        if float(above.mean()) > 3.0 * error:
            return True
        if bound >= s.max():
            return False
        bound *= 4.0


def _judge(loops: Array, until_accepted: bool) -> _Verdict:
    tried = _tried(loops)
    s, tries = tried.s, tried.tries
    if not len(s):
        return _NOT_ESTIMATED
    s_pq, error = _ratio_and_error(s, tries)
    estimated = int(np.count_nonzero(loops["runs_p"]))
    bound = lower_bound(loops, until_accepted=until_accepted) if estimated else math.nan
    if not tried.rejected.any():
        # If q can draw it at all, p rejects far more than q: S_pq is large. If q cannot, naive weights are biased.
        note = "no try under q was rejected: S_pq cannot be estimated"
        if bound >= 1.0:
            note += f", and is above {bound:.2g} unless q cannot draw what p rejects, which would bias naive weights"
        return _Verdict(s_pq, math.nan, s_pq, bound, None, note)
    largest, clear = s_pq, s_pq - 2.0 * error >= 1.0
    instances = np.unique(tried.instance)
    if len(instances) > 1:
        # as unlikely to exceed by chance as one mean is to exceed by two standard errors
        sigmas = NormalDist().inv_cdf(1.0 - NormalDist().cdf(-2.0) / len(instances))
        for instance in instances:
            mine = tried.instance == instance
            mean, spread = _ratio_and_error(s[mine], tries[mine])
            largest = max(largest, mean)
            clear = clear or mean - sigmas * spread >= 1.0
    found = _Verdict(s_pq, error, largest, bound, None, "")
    if clear or _bounded_mean_exceeds_one(s, tries):
        return found._replace(infinite=True, note="S_pq is 1 or more")
    if bound >= 1.0:
        note = f"S_pq is at least {bound:.3g}: p rejects more than the proposal's rejected share has room for"
        return found._replace(infinite=True, note=note)
    note = _why_undecided(loops, found, s, estimated, until_accepted)
    return found._replace(infinite=None if note else False, note=note)


def _why_undecided(loops: Array, found: _Verdict, s: Floats, estimated: int, until_accepted: bool) -> str:
    """Why an S_pq that looks smaller than 1 may be larger; "" if nothing suggests it."""
    with np.errstate(divide="ignore"):
        tail = pareto_k(np.log(s))
    if tail >= _LIGHT_TAIL:
        return f"heavy tail (k = {tail:.2f}): S_pq is likely to be larger than its estimate"
    if found.s_pq + 2.0 * found.error >= 1.0:
        return "S_pq is too close to 1 for its standard error"
    if tail.unknown:
        return "too few tries under q were rejected to see a tail"
    if not estimated:
        return "nothing was estimated: only runs under p can show whether the proposal misses what p rejects"
    if (unseen := unseen_share(loops, until_accepted=until_accepted)) > 0.0:
        return f"the tries under q miss at least {unseen:.2g} of what p rejects: S_pq is larger than its estimate"
    if estimated < _LEAST_ENTRIES:
        return f"{estimated} estimated entries are too few to rule out a tail; {_LEAST_ENTRIES} would do"
    return ""


def _inverse_of_mean(tries: Floats) -> tuple[float, float]:
    """The harmonic mean of acceptance probabilities, from unbiased estimates of their inverses, and its error."""
    if not len(tries):
        return math.nan, math.nan
    mean = max(float(tries.mean()), 1.0)  # nothing takes less than one try
    error = float(tries.std(ddof=1)) / math.sqrt(len(tries)) if len(tries) > 1 else math.nan
    return 1.0 / mean, error / mean**2


def _tries_under_q(loops: Array, until_accepted: bool) -> Floats:
    """Per entry, an unbiased estimate of 1/q(A).

    Runs until accepted are all alike, the main run's L tries among them: it is their mean. With K of N tries accepted
    it is L, less what L K/N shows to be chance. Given the state at entry, L and K are independent with means 1/q(A) and
    N q(A): L K/N has mean 1. The factor is the one that leaves least variance, as in every regression on a control
    variate.
    """
    tries = loops["tries"].astype(np.float64)
    if until_accepted:
        return np.asarray((tries + loops["tries_q"]) / (1.0 + loops["accepted_q"]))
    estimated = loops["tries_q"] > 0
    if np.count_nonzero(estimated) < 3:
        return tries
    product = tries[estimated] * loops["accepted_q"][estimated] / loops["tries_q"][estimated]
    spread = float(product.var())
    factor = float(np.mean((product - product.mean()) * (tries[estimated] - tries[estimated].mean())))
    tries[estimated] -= (factor / spread if spread else 0.0) * (product - 1.0)
    return tries


def _given_up(loops: Array) -> bool:
    """Whether any run of the loop was: a main run, or a continuation."""
    return any(bool(loops[name].any()) for name in ("abandoned", "abandoned_p", "abandoned_q"))


def _share_of_tries(accepted: Array, tries: Array) -> tuple[float, float]:
    """The accepted share of all tries, and its standard error, by Wald's identity whatever decides when runs end."""
    made = tries > 0
    if not made.any():
        return math.nan, math.nan
    share, error = _ratio_and_error(accepted[made].astype(np.float64), tries[made].astype(np.float64))
    return share, error if math.isfinite(error) else math.nan


def _acceptance(loops: Array, known: Array, until_accepted: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    """p(A) and q(A), each with its standard error."""
    if _given_up(loops):
        accepted = loops["accepted_q"] + 1 - loops["abandoned"]
        return (
            _share_of_tries(known["runs_p"] - known["abandoned_p"], known["tries_p"]),
            _share_of_tries(accepted, loops["tries_q"] + loops["tries"]),
        )
    under_q = _tries_under_q(known if len(known) else loops, until_accepted)
    return _inverse_of_mean(known["tries_p"] / known["runs_p"]), _inverse_of_mean(under_q)


_CAN_END = "the loop can be given up: with a cap on its tries, naive variance is finite if that of one try is"


def _budget_in_words(estimated: Array, until_accepted: bool) -> str:
    """The budget of these entries, from the smallest to the largest; "-" if there are none."""
    name, field = ("R", "accepted_q") if until_accepted else ("N", "tries_q")
    pairs = np.unique(np.stack([estimated["runs_p"], estimated[field]]).astype(np.int64), axis=1).T.tolist()
    words = [f"M={runs_p}, {name}={other}" for runs_p, other in pairs]
    return " to ".join(dict.fromkeys([words[0], words[-1]])) if words else "-"


def _summarise(address: str, loops: Array, estimation: Estimation, until_accepted: bool) -> LoopSummary:
    verdict = _judge(loops, until_accepted)
    if verdict.infinite is not False and _given_up(loops):
        verdict = verdict._replace(infinite=None, note=_CAN_END)
    known = loops[loops["runs_p"] > 0]
    (p_accept, p_error), (q_accept, q_error) = _acceptance(loops, known, until_accepted)
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
        budget=_budget_in_words(known, until_accepted),
        estimated=len(known),
        abandoned=int(np.count_nonzero(loops["abandoned"])),
    )


_MOST_NAMED = 4  # loops that a line of notes lists
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

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Titles and rows of the table."""
        header = (
            *("loop", "entries", "tries", "p(A)", "q(A)", "S_pq", "s.e.", "at least"),
            *("budget", "by", "naive variance"),
        )
        verdicts = {True: "infinite", False: "finite", None: "undecided"}
        rows = [
            (
                *(loop.address, f"{loop.entries:,}", f"{loop.mean_tries:.3g}"),
                *(_number(x, ".4g") for x in (loop.p_accept, loop.q_accept, loop.s_pq)),
                *(_number(x, ".2g") for x in (loop.s_pq_error, loop.s_pq_bound)),
                loop.budget,
                "-" if loop.method == "not estimated" else loop.method,
                verdicts[loop.naive_variance_infinite],
            )
            for loop in self._by_address.values()
        ]
        return header, rows

    def _repr_html_(self) -> str:
        from ars.display.html import loops_html

        return loops_html(self)

    def __repr__(self) -> str:
        if not self._by_address:
            return "no loops"
        header, rows = self._cells()
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        lines = []
        for row in [header, *rows]:
            middle = (cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
            lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]))
        forked = [f"{loop.address} was forked: {loop.reason}" for loop in self._by_address.values() if loop.reason]
        return "\n".join([*lines, _LEGEND, *self._notes(), *forked])

    def _notes(self) -> list[str]:
        """Why the verdicts are as they are; loops with the same reason share a line."""
        addresses: dict[str, list[str]] = {}
        for loop in self._by_address.values():
            if loop.note:
                addresses.setdefault(loop.note, []).append(loop.address)
        return [f"{_listed(mine)}: {note}" for note, mine in addresses.items()]


def _number(x: float, form: str) -> str:
    """A dash where nothing is known."""
    return "-" if math.isnan(x) else format(x, form)


def _listed(addresses: Sequence[str]) -> str:
    more = [f"{len(addresses) - _MOST_NAMED:,} more"] if len(addresses) > _MOST_NAMED else []
    return ", ".join([*addresses[:_MOST_NAMED], *more])


def _nothing_proposed(address: str, loops: Array) -> LoopSummary:
    """The main run's own tries as the estimates: the prior made them, so that one run under p took all of them."""
    known = loops.copy()
    known["runs_p"], known["accepted_q"] = 1, 1 - loops["abandoned"]
    known["abandoned_p"] = loops["abandoned"]
    known["tries_p"] = known["tries_q"] = loops["tries"]
    known["s_pq_sum"] = loops["tries"] - known["accepted_q"]  # p/q = 1 in each rejected try
    known["s_pq_main"] = math.nan  # these are the same tries
    summary = _summarise(address, known, how_estimated(loops), until_accepted=False)
    return summary._replace(
        s_pq_bound=math.nan,  # p = q rejects as much as it proposes: there is nothing that its tries could have missed
        naive_variance_infinite=False,
        note="nothing was proposed",
        budget="-",
        estimated=0,
    )


def summarise_loops(
    columns: Columns,
    sites: Sequence[Site],
    *,
    proposed: bool = True,
    exact: Collection[str] = (),
    until_accepted: bool = False,
) -> Loops:
    """Summarise every loop that a trace entered and left.

    Parameters
    ----------
    columns, sites
        The traces of a run and its sites.
    proposed
        False if the prior proposed everything (default: True).
    exact
        Addresses of loops in which nothing was proposed: their correction is 1 (default: none).
    until_accepted
        Whether continuations under q ran until R were accepted (default: False, N tries were made).

    Returns
    -------
    Loops
    """
    ids = columns.loops["site"]
    found = []
    for site in sites:
        mine = columns.loops[ids == site.id] if site.kind == SiteKind.LOOP else columns.loops[:0]
        if len(mine) and proposed and site.address not in exact:
            found.append(_summarise(site.address, mine, how_estimated(mine), until_accepted))
        elif len(mine):
            found.append(_nothing_proposed(site.address, mine))
    return Loops(found)
