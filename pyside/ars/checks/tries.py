"""Are the tries of a loop independent and alike? Its continuations know: they begin where the main run began.

In a run in which the prior proposes, the tries of the main run, L, and those of a continuation, T, are two geometric
numbers with the same success probability: that of the state at entry, which is not known and differs between entries.
But given their sum s, L is uniform on 1, ..., s - 1, whatever the probability. So (L - 1 + V) / (s - 1), with V uniform
on (0, 1), is uniform on (0, 1) for every entry. It is not if acceptance depends on how many tries came before, if
continuations repeat the main run's numbers, or if they find another state than the main run did.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ars._native import SiteKind
from ars.checks.findings import Finding
from ars.checks.statistics import two_sided, uniform
from ars.columns import Array, Columns, Floats, Integers, Site, offsets, trace_of, value_starts

__all__ = ["check_first_draws", "check_tries", "places"]

LEVEL: Final = 1e-5  # rate of false alarms per simulator
_LEAST: Final = 50  # entries with a rejected try, below which nothing is said
_SHARP: Final = 6.0  # standard errors at which a cause is named
_REPEATED: Final = 0.8  # share of entries with equal numbers of tries, far above chance, which is at most 1/3
_RULE: Final = "A try must not depend on earlier tries, and must draw from ars_sample, ars_draw or ars_flat."


def places(main: Floats, again: Floats, noise: Floats) -> Floats:
    """The place of L between 1 and s - 1, as a number between 0 and 1 (see the module)."""
    return (main - 1.0 + noise) / (main + again - 1.0)


def check_tries(columns: Columns, sites: Sequence[Site], seed: int) -> list[Finding]:
    """Compare the main run of every loop with one continuation per entry.

    Parameters
    ----------
    columns : Columns
        Traces of the prior whose loops were estimated with one run under p each.
    sites : sequence of Site
        Their sites.
    seed : int
        Seed of the noise V.

    Returns
    -------
    list of Finding
        One per loop.
    """
    loops = [site for site in sites if site.kind is SiteKind.LOOP]
    entered = [site for site in loops if np.any(columns.loops["site"] == site.id)]
    return [_check_loop(columns.loops[columns.loops["site"] == each.id], each, len(entered), seed) for each in entered]


def _check_loop(entries: Array, site: Site, n_loops: int, seed: int) -> Finding:
    given_up = entries["abandoned"].astype(bool) | (entries["abandoned_p"] > 0)
    if given_up.any():
        text = f'loop "{site.address}" gives up: its numbers of tries are not geometric, so they show nothing.'
        return Finding("tries", "not checked", text, site.address)
    known = (entries["runs_p"] == 1) & (entries["tries"] + entries["tries_p"] > 2)
    main, again = entries["tries"][known].astype(np.float64), entries["tries_p"][known].astype(np.float64)
    if len(main) < _LEAST:
        text = (
            f'loop "{site.address}": only {len(main)} of {len(entries):,} entries had a rejected try. Run more traces '
            "if its acceptance matters."
        )
        return Finding("tries", "not checked", text, site.address)
    noise = np.random.default_rng((seed, site.id)).random(len(main))
    where = places(main, again, noise)
    spread = math.sqrt(180.0 * len(where)) * (float(np.mean((where - 0.5) ** 2)) - 1.0 / 12.0)
    p_value = min(uniform(where), two_sided(spread)) * 2.0 * n_loops
    if p_value >= LEVEL:
        return Finding("tries", "kept", "", site.address)
    text = f'loop "{site.address}": {_cause(main, again, where, spread)} (p = {p_value:.0e}). {_RULE}'
    return Finding("tries", "broken", text, site.address)


def _cause(main: Floats, again: Floats, where: Floats, spread: float) -> str:
    equal = float(np.mean(main == again))
    if equal > _REPEATED:
        return (
            f"continuations took exactly as many tries as the main run in {equal:.0%} of the entries. They repeat its "
            "numbers: the loop draws from a generator outside libars"
        )
    shift = math.sqrt(12.0 * len(where)) * (float(where.mean()) - 0.5)
    if abs(shift) > _SHARP:
        more = "more" if shift > 0 else "fewer"
        return (
            f"the main run takes {more} tries than continuations from the same state ({main.mean():.3g} and "
            f"{again.mean():.3g} on average), so acceptance depends on something outside the process's memory"
        )
    later = "more" if spread < 0 else "less"
    return f"the numbers of tries are not geometric: later tries are accepted {later} often than first ones"


# ---- what tries draw first -------------------------------------------------------------------------------------------


def check_first_draws(columns: Columns, sites: Sequence[Site]) -> list[Finding]:
    """Find loops whose tries do not begin alike: the first latent of a try, or its prior, changes from try to try.

    All tries begin in the same state, so only a nuisance draw may make a difference before the first latent.

    Parameters
    ----------
    columns : Columns
        Traces of the prior with the parameters of their priors and their rejected tries.
    sites : sequence of Site
        Their sites.

    Returns
    -------
    list of Finding
        One per loop that looks odd.
    """
    odd: dict[int, str] = {}
    for loop, one, other in _pairs(columns):
        inside = sites[other[0]].address.startswith(f"{sites[loop].address}/")  # else the accepted try drew nothing
        if loop not in odd and inside and one != other:
            odd[loop] = _difference(one, other, sites)
    return [
        Finding(
            "tries",
            "suspect",
            f'loop "{sites[loop].address}": its tries begin differently: {text}. Unless a nuisance draw causes '
            "this, a try depends on earlier tries.",
            sites[loop].address,
        )
        for loop, text in sorted(odd.items())
    ]


_First = tuple[int, tuple[float, ...]]  # site, parameters of its prior


def _difference(one: _First, other: _First, sites: Sequence[Site]) -> str:
    if one[0] != other[0]:
        return f'one draws "{sites[one[0]].address}" first, another "{sites[other[0]].address}"'
    shown = [", ".join(f"{number:.4g}" for number in each[1]) for each in (one, other)]
    return f'"{sites[one[0]].address}" has the parameters ({shown[0]}) in one try and ({shown[1]}) in another'


def _pairs(columns: Columns) -> Iterator[tuple[int, _First, _First]]:
    """For every rejected try of an outermost loop: the loop, its first draw, and that of the accepted try."""
    where, values = offsets(columns), value_starts(columns)
    tries = columns.tries
    begin = np.zeros(len(tries) + 1, np.int64)
    np.cumsum(tries["n_samples"], out=begin[1:])
    rows = trace_of(where.tries, np.arange(len(tries), dtype=np.int64))
    accepted = where.samples[rows] + tries["prefix"]
    whole = (tries["parent"] < 0) & (tries["n_samples"] > 0) & (accepted < where.samples[rows + 1])
    for i in np.flatnonzero(whole).tolist():
        yield (
            int(tries["site"][i]),
            _first(columns.rejected, int(begin[i]), values.rejected, columns.values),
            _first(columns.samples, int(accepted[i]), values.samples, columns.values),
        )


def _first(items: Array, i: int, starts: Integers, values: Floats) -> _First:
    begin = int(starts[i])
    return int(items["site"][i]), tuple(values[begin : begin + int(items["n_params"][i])].tolist())
