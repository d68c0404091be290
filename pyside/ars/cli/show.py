"""What ``ars infer`` prints: a table of values, or one JSON document; and whether what was required is met."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from ars.diagnostics import shown_ess
from ars.display.screen import on_screen, print_table, print_text
from ars.results.assessment import RunDiagnostics, ValueDiagnostics

if TYPE_CHECKING:
    from ars.posterior import Posterior
    from ars.results.data_check import DataCheck

__all__ = ["document", "missed_requirements", "print_run", "table"]

_LEGEND = """s.e.: standard error of the mean. ESS: effective traces that determine the mean. k: Pareto k of its terms;
it must be below 0.7, or less with fewer than 2,200 traces. !: a reason not to trust the row."""


_SMOOTHED = "smoothed: mean with Pareto-smoothed weights, slightly biased, with less variance."


def _row(value: ValueDiagnostics, smoothed: bool) -> str:
    low, middle, high = (quantile.value for quantile in value.quantiles)
    warning = f"  ! {'; '.join(value.warnings)}" if value.warnings else ""
    beside = f" {value.smoothed_mean:12.6g}" if smoothed else ""
    return (
        f"{value.name:24} {value.mean:12.6g} {value.mean_error:10.2g}{beside} {low:12.6g} {middle:12.6g} {high:12.6g} "
        f"{shown_ess(value.specific_ess):>10} {value.specific_pareto_k:6.2f}{warning}"
    )


def table(assessed: RunDiagnostics) -> str:
    """Mean, error and quantiles of every value that was assessed.

    Parameters
    ----------
    assessed : RunDiagnostics
        With the run's default weighting, and quantiles 5%, 50% and 95%.

    Returns
    -------
    str
        A line per element; a line that says so if no trace has weight.
    """
    if not assessed.traces:
        return "no trace has finished: there is no posterior"
    usual = [each for each in assessed.weightings if each.method == assessed.method]
    if not usual:
        return f'the run ended before its loops were estimated: there are no "{assessed.method}" weights'
    weighting = usual[0]
    if weighting.ess == 0.0:
        return f"no trace has weight: all {assessed.traces:,} weights are 0, so there is no posterior"
    smoothed = weighting.smoothing_matters
    beside = f" {'smoothed':>12}" if smoothed else ""
    title = f"{'':24} {'mean':>12} {'s.e.':>10}{beside} {'5%':>12} {'50%':>12} {'95%':>12} {'ESS':>10} {'k':>6}"
    legend = [_LEGEND, _SMOOTHED] if smoothed else [_LEGEND]
    return "\n".join([title, *(_row(value, smoothed) for value in weighting.values), *legend])


# What a narrow terminal leaves out, the least important first.
_DROP = ("50%", "k", ("5%", "95%"), "smoothed", "ESS")
_DROP_OF_LOOPS = ("s.e.", "at least", "budget", "by", "tries", "entries", "naive variance", "S_pq")


def print_run(post: Posterior, assessed: RunDiagnostics, check: DataCheck | None = None) -> None:
    """Print the summary and the table: as plain text to a pipe, fitted to its width on a terminal.

    Parameters
    ----------
    post : Posterior
    assessed : RunDiagnostics
        As of ``table``.
    check : DataCheck, optional
        The data compared with prior draws.
    """
    summary = post.summary("command line", check)
    if not on_screen():
        print(summary)
        print(table(assessed))
        return
    loops = repr(post.loops) if post.loops else ""
    before, found, after = summary.partition(loops) if loops else (summary, "", "")
    print_text(before.rstrip("\n"))
    if found:
        heads, rows = post.loops._cells()
        print()
        print_table(heads, rows, drop=_DROP_OF_LOOPS)
        print_text("\n".join(loops.split("\n")[len(rows) + 1 :]), "dim")
        print_text(after.lstrip("\n"))
    _print_values(assessed)


def _print_values(assessed: RunDiagnostics) -> None:
    weighting = next((each for each in assessed.weightings if each.method == assessed.method), None)
    if weighting is None or weighting.ess == 0.0 or not assessed.traces:
        print_text(table(assessed))
        return
    smoothed = weighting.smoothing_matters
    heads = ("", "mean", "s.e.", *(("smoothed",) if smoothed else ()), "5%", "50%", "95%", "ESS", "k", "!")
    rows = []
    for value in weighting.values:
        beside = (f"{value.smoothed_mean:.6g}",) if smoothed else ()
        quantiles = (f"{each.value:.6g}" for each in value.quantiles)
        ess, k = shown_ess(value.specific_ess), f"{value.specific_pareto_k:.2f}"
        mark = "!" if value.warnings else ""
        rows.append((value.name, f"{value.mean:.6g}", f"{value.mean_error:.2g}", *beside, *quantiles, ess, k, mark))
    print()
    print_table(heads, rows, drop=_DROP)
    for value in weighting.values:
        if value.warnings:
            print_text(f"! {value.name}: {'; '.join(value.warnings)}")
    print_text(" ".join([_LEGEND, _SMOOTHED] if smoothed else [_LEGEND]).replace("\n", " "), "dim")


def missed_requirements(assessed: RunDiagnostics, least_ess: float | None, largest_k: float | None) -> list[str]:
    """Say which requirements the run's default weighting misses.

    Parameters
    ----------
    assessed : RunDiagnostics
    least_ess : float or None
        Effective traces that are needed; None: any number.
    largest_k : float or None
        Pareto k must be known and below this; None: it need not.

    Returns
    -------
    list of str
        One sentence per requirement that is missed.
    """
    found = []
    weighting = next((each for each in assessed.weightings if each.method == assessed.method), None)
    effective = weighting.ess if weighting is not None else 0.0
    if least_ess is not None and effective < least_ess:
        found.append(f"{shown_ess(effective)} effective traces, but --require-ess {least_ess:g}")
    k = weighting.pareto_k if weighting is not None else math.nan
    if largest_k is not None and not k < largest_k:
        reason = weighting.pareto_k_reason if weighting is not None else "no trace has finished"
        shown = f"unknown ({reason})" if math.isnan(k) else f"{k:.2f}"
        found.append(f"Pareto k is {shown}, but --require-k {largest_k:g}")
    return found


def document(
    post: Posterior,
    assessed: RunDiagnostics,
    *,
    complete: bool = True,
    missed: list[str] | None = None,
    check: DataCheck | None = None,
) -> str:
    """Make one JSON document of a run's diagnostics.

    Parameters
    ----------
    post : Posterior
        The run, for its advice.
    assessed : RunDiagnostics
    complete : bool
        Whether the run came to its end (default: True).
    missed : list of str, optional
        Requirements that were missed.
    check : DataCheck, optional
        The data compared with prior draws.

    Returns
    -------
    str
        An object with ``complete``, ``missed_requirements``, ``advice``, ``data_check`` and the fields of
        ``RunDiagnostics``. NaN and infinity are null.
    """
    content = {
        "complete": complete,
        "missed_requirements": missed or [],
        **assessed.to_dict(),
        "advice": [step._asdict() for step in post.advice(check)],
        "data_check": None if check is None else check.to_dict(),
    }
    return json.dumps(content, indent=2, allow_nan=False)
