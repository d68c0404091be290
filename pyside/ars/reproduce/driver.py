"""Runs an experiment and leaves its folder: figures, table, settings and a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from ars.reproduce import beta, figures, tables
from ars.reproduce.methods import LABELS
from ars.reproduce.page import Page, hardware, settings_lines
from ars.reproduce.settings import Settings
from ars.reproduce.workspace import Workspace

__all__ = ["EXPERIMENTS", "Outcome", "reproduce"]


class Outcome(NamedTuple):
    """What came of an experiment."""

    page: Path
    problems: list[str]  # what did not come out as it must


Find = Callable[[str], Path]  # the executable of a simulator, by its name


def _about(work: Workspace, settings: Settings, used: Mapping[str, Any]) -> dict[str, Any]:
    about = {"size": settings.size, "seed": work.seed, "settings": dict(used), "machine": hardware()}
    tables.write_json(work.folder / "settings.json", about)
    return about


def _finish(page: Page, work: Workspace, about: Mapping[str, Any], problems: list[str]) -> Outcome:
    machine = about["machine"]
    page.section(
        "Settings",
        f"Size `{about['size']}`, seed {about['seed']}; also in `settings.json`. All stages together took "
        f"{_duration(work.seconds)} on {machine['cores']} cores ({machine['processor']}), {machine['system']}, "
        f"libars {machine['libars']}, torch {machine['torch']}. Other programs may have been running.",
        "\n".join(settings_lines(about["settings"])),
    )
    if problems:
        page.section("What did not come out as it must", "\n".join(f"- {problem}" for problem in problems))
    path = work.folder / "README.md"
    page.write(path)
    return Outcome(path, problems)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


# ---- Beta-Bernoulli ---------------------------------------------------------------------------------------------


def _reproduce_beta(find: Find, settings: Settings, work: Workspace) -> Outcome:
    used = settings.beta
    about = _about(work, settings, {"beta": asdict(used)})
    points = beta.points(find("beta_bernoulli"), used, work)
    tables.write_rows(work.folder, "table", [point._asdict() for point in points])
    figures.save(figures.beta_figure(points, used.max_draws), work.folder, "k_converge")
    page = Page("Beta-Bernoulli")
    page.text(
        "n tosses of a coin, all True; the coin's bias is Beta(alpha, alpha), drawn by rejection from the Uniform. The "
        "proposals are written by hand, so nothing is trained and almost everything is known exactly.",
        f"Per setting and n: one run of {used.traces:,} traces with M = N = 10, which gives IC, ARS with every M, and "
        "Collapsed (its exact p(A) and q(A)), and one with the prior inside the loop.",
    )
    page.figure(
        "k_converge",
        f"Traces until E[Q_K] < {used.epsilon:g}, at most {used.max_draws:,}. No point: more than that.",
    )
    page.section(
        "Against the exact answers",
        "Distances are in standard errors. The naive weights (IC) are left out: their variance is infinite for every "
        "n, because S_pq is (q(x) vanishes at x = 0, where every try is rejected). In setting a the fourth moment of "
        "the other weights is infinite, so the standard error of ESS/N is too small there and ESS/N itself, like every "
        "estimate from weights with such a tail, is more often above its exact value than below.",
        _beta_table(points),
    )
    flagged = {p.naive_variance_infinite for p in points}
    page.text(_flag_text(points, flagged))
    return _finish(page, work, about, beta.failures(points))


def _flag_text(points: list[beta.Point], flagged: set[bool | None]) -> str:
    cases = {(p.setting, p.n): p.naive_variance_infinite for p in points}
    yes = sum(verdict is True for verdict in cases.values())
    text = f"Theorem 1's condition, S_pq >= 1, holds in all {len(cases)} cases: S_pq is infinite. "
    text += f"`post.loops` flags {yes}"
    if False in flagged:
        return text + ", and is wrong in some."
    undecided = len(cases) - yes
    return text + (f" and is undecided about {undecided}." if undecided else ": all of them.")


def _beta_table(points: list[beta.Point]) -> str:
    heads = ("setting, n, method", "K_converge", "evidence / exact", "s.e.", "distance", "ESS/N", "exact", "distance")
    return tables.markdown(
        heads,
        [
            (
                f"{p.setting}, {p.n}, {LABELS[p.method]}",
                "more" if p.k_converge is None else f"{p.k_converge:,}",
                f"{p.evidence / p.exact_evidence:.4f}",
                f"{p.evidence_error / p.exact_evidence:.4f}",
                "" if p.method == "ic" else f"{p.distance:+.1f}",
                f"{p.ess:.4f}",
                "" if math.isnan(p.exact_ess) else f"{p.exact_ess:.4f}",
                "" if math.isnan(p.ess_distance) else f"{p.ess_distance:+.1f}",
            )
            for p in points
        ],
    )


# ---- all --------------------------------------------------------------------------------------------------------

EXPERIMENTS: Final[Mapping[str, Callable[[Find, Settings, Workspace], Outcome]]] = {
    "beta": _reproduce_beta,
}


def reproduce(experiment: str, find: Find, settings: Settings, work: Workspace) -> Outcome:
    """Runs one experiment; stages that are there already are not run again."""
    figures.need_matplotlib()
    return EXPERIMENTS[experiment](find, settings, work)
