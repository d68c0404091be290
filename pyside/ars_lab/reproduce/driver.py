"""Runs an experiment and leaves its folder: figures, table, settings and a page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from ars_lab.reproduce import beta, events, figures, marsaglia, mini_sherpa, tables
from ars_lab.reproduce.methods import LABELS
from ars_lab.reproduce.networks import Trained, need_torch
from ars_lab.reproduce.page import Page, hardware, settings_lines
from ars_lab.reproduce.repeated import Outcome as Repeated
from ars_lab.reproduce.repeated import judge
from ars_lab.reproduce.settings import Repeats, Settings
from ars_lab.reproduce.workspace import Workspace

__all__ = ["EXPERIMENTS", "Outcome", "reproduce"]


class Outcome(NamedTuple):
    """What came of an experiment."""

    page: Path
    problems: list[str]  # results that contradict the exact answers


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
    page.section("Wall time", tables.markdown(("stages", "how many", "time"), _wall_times(work.took)))
    if problems:
        page.section("Results that contradict the exact answers", "\n".join(f"- {problem}" for problem in problems))
    path = work.folder / "README.md"
    page.write(path)
    return Outcome(path, problems)


def _wall_times(took: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Stages that differ by a number only are added up."""
    groups: dict[str, list[float]] = {}
    for name, seconds in took.items():
        alike = re.sub(r"-\d+", "", name) if name.startswith("beta-") else re.sub(r"-\d{3}$", "", name)
        groups.setdefault(alike, []).append(seconds)
    return [(f"`{name}`", str(len(each)), _duration(sum(each))) for name, each in sorted(groups.items())]


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
        "n tosses of a coin, all True; the coin's bias is Beta(alpha, alpha), drawn from the Uniform by rejection. The "
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
        "Distances are in standard errors. The naive weights (IC) are left out. Their variance is infinite for every "
        "n, because S_pq is infinite: q(x) vanishes at x = 0, where every try is rejected. In setting a the fourth "
        "moment of the other weights is infinite. So the standard error of ESS/N is too small there, and ESS/N is more "
        "often above its exact value than below, as for all weights with such a tail.",
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


# ---- what the experiments with a network share ------------------------------------------------------------------


def _network_text(network: Trained) -> str:
    return (
        f"The network was trained on {network.traces:,} traces of the prior in {_duration(network.seconds)}; its "
        f"held-out loss is {network.held_out:.3f}."
    )


def _runs_text(runs: Repeats) -> str:
    text = f"{runs.repeats} runs of {runs.traces:,} traces"
    return text + (
        f"; IC, Biased and Collapsed have the same number of runs of {runs.naive_traces:,}" if runs.naive_traces else ""
    )


def _loops_text(found: Repeated) -> str:
    """What post.loops says, over the runs."""
    if not found.loops:
        return f"{found.observed.title}: no trace entered a loop."
    verdicts = [loop.naive_variance_infinite for loop in found.loops]
    entries = [loop.entries for loop in found.loops]
    named = {True: "S_pq >= 1", False: "S_pq < 1", None: "undecided"}
    counts = ", ".join(f"{named[v]} in {verdicts.count(v)}" for v in (True, False, None) if v in verdicts)
    bound = max(loop.s_pq_bound for loop in found.loops)
    estimates = [loop.s_pq for loop in found.loops]
    return (
        f"{found.observed.title}: p(A) = {found.p_accept:.4f}, q(A) = {found.q_accept:.4f}; about "
        f"{sum(entries) / len(entries):,.0f} entries per run. By `post.loops`, {counts} of {len(verdicts)} runs; S_pq "
        f"is estimated at {min(estimates):.3g} to {max(estimates):.3g} and is at least {bound:.3g}."
    )


def _comparison(page: Page, work: Workspace, outcomes: Sequence[Repeated]) -> None:
    rows = []
    for each in outcomes:
        mine = tables.comparison(each.observed.name, each.found)
        rows += mine
        page.text(f"### {each.observed.title}", tables.comparison_markdown(mine))
    tables.write_rows(work.folder, "table", rows)


_READING: Final = (
    "The bias is computed from all runs together, and its standard error from their weights. A bias within a few "
    "standard errors is not significant. IC's standard errors are meaningless where its variance is infinite. "
    "K_converge is the median over the runs. M = 1 and 2 are thinned from the runs with M = 10: given "
    "the sum of the tries under p, the numbers of the first runs are drawn at random. This gives exactly the "
    "distribution of a run with the smaller budget."
)


# ---- Marsaglia --------------------------------------------------------------------------------------------------


def _reproduce_marsaglia(find: Find, settings: Settings, work: Workspace) -> Outcome:
    need_torch()
    used = {"network": asdict(settings.marsaglia), "runs": asdict(settings.marsaglia_runs)}
    about = _about(work, settings, used)
    executable = find("marsaglia")
    network, outcomes = marsaglia.marsaglia(executable, settings, work)
    page = Page("Marsaglia")
    page.text(
        "A Gaussian with unknown mean and two data. The mean's prior is drawn by Marsaglia's polar method: points in "
        "the square are drawn until one lies in the unit disc. Observation a is y1 = y2 = 0, b is y1 = y2 = -1.",
        _network_text(network),
    )
    figures.save(figures.convergence_figure([each.panel for each in outcomes]), work.folder, "convergence")
    runs = settings.marsaglia_runs
    page.figure(
        "convergence",
        f"{_runs_text(runs)}. Left: error of the evidence, mean and standard deviation over "
        "the runs. Middle: effective share. Right: traces until convergence; dashed green is the mean, orange the "
        "median, a triangle marks runs that did not converge.",
    )
    page.section("Our numbers next to the paper's", _READING)
    _comparison(page, work, outcomes)
    page.section("Loops", *(_loops_text(each) for each in outcomes))
    _scheme_section(page, work, marsaglia.schemes(executable, settings, work, (network, outcomes)))
    speeds = ", ".join(f"{each.traces_per_second:,.0f}" for each in outcomes)
    page.text(f"Traces per second with M = N = 10: {speeds}.")
    return _finish(page, work, about, [problem for each in outcomes for problem in judge(each)])


def _scheme_section(page: Page, work: Workspace, rows: Sequence[marsaglia.Scheme]) -> None:
    tables.write_rows(work.folder, "training_schemes", [row._asdict() for row in rows])
    verdicts = {True: "yes", False: "no", None: "undecided"}
    page.section(
        "Training on rejected draws too",
        "Appendix B.2: at its optimum, a network trained on accepted and rejected draws has naive weights with finite "
        "variance. Its proposals are rejected more often. The table shows Var(w) / E[w]^2 of the naive weights.",
        tables.markdown(
            (
                "trained on, observation",
                "q(A)",
                "S_pq",
                "s.e.",
                "at least",
                "S_pq >= 1",
                "variance of IC",
                "Pareto k of IC",
                "bias of IC",
                "s.e.",
                "ESS/N, ARS M=10",
            ),
            [
                (
                    f"{row.train_on}, {row.observation[10:11]}",
                    f"{row.q_accept:.4f}",
                    f"{row.s_pq:.3g}",
                    f"{row.s_pq_error:.2g}",
                    f"{row.s_pq_bound:.3g}",
                    verdicts[row.naive_variance_infinite],
                    f"{row.ic_relative_variance:.3g}",
                    f"{row.ic_pareto_k:.2f}",
                    f"{row.ic_bias:+.3g}",
                    f"{row.ic_bias_error:.2g}",
                    f"{row.ars_ess:.3g}",
                )
                for row in rows
            ],
        ),
    )


# ---- Mini-SHERPA ------------------------------------------------------------------------------------------------


def _compare_evidences(page: Page, channels: Sequence[mini_sherpa.Channel]) -> None:
    page.section(
        "The reference evidence",
        "The reference is computed twice: by importance sampling in the simulator, with the prior inside the loops and "
        "a network outside; and by adaptive importance sampling of the collapsed model in numpy, without the "
        "simulator. The runs are compared with the one that has more effective draws. The last column is the "
        "difference in standard errors.",
        tables.markdown(
            ("channel", "log evidence", "s.e.", "traces", "effective", "without the simulator", "s.e.", "difference"),
            [
                (
                    str(channel.event.channel),
                    f"{channel.native.log_evidence:.4f}",
                    f"{channel.native.error:.2g}",
                    f"{channel.native_traces:,}",
                    f"{channel.native_ess:,.0f}",
                    f"{channel.reference.log_evidence:.4f}",
                    f"{channel.reference.error:.2g}",
                    f"{channel.disagreement:+.1f}",
                )
                for channel in channels
            ],
        ),
    )


def _reproduce_mini_sherpa(find: Find, settings: Settings, work: Workspace) -> Outcome:
    need_torch()
    used = settings.mini_sherpa
    about = _about(work, settings, asdict(used))
    network, channels = mini_sherpa.mini_sherpa(find("mini_sherpa"), used, work)
    outcomes = [channel.outcome for channel in channels]
    page = Page("Mini-SHERPA")
    page.text(
        "A particle decays into one, two or three, which hit a calorimeter of 20 x 20 bins; each decay angle is drawn "
        "in a rejection loop. One observation per channel, chosen from the prior: of a few hundred events, the one "
        "whose momentum and angles are closest to the middle.",
        _network_text(network),
    )
    figures.save(events.event_figure([channel.event for channel in channels]), work.folder, "events")
    page.figure("events", "Above: the decay, and the mean energy in the calorimeter. Below: the observations.")
    figures.save(figures.convergence_figure([each.panel for each in outcomes]), work.folder, "convergence")
    page.figure(
        "convergence",
        f"{_runs_text(used.runs)}, per channel. As for Marsaglia, but with the error of the log evidence.",
    )
    figures.save(events.posterior_figure(channels), work.folder, "posterior")
    page.figure(
        "posterior",
        "ARS, M = 10: channel, momentum and angles. Dashed: the values that produced the observation. A particle's "
        "angles have exact and near symmetries, so there is more than one mode.",
    )
    _compare_evidences(page, channels)
    page.section(
        "Our numbers next to the paper's",
        _READING
        + " The bias is that of the log evidence, and so must be the paper's figures: the evidence is a density of 400 "
        "numbers. The paper's observations are not published, so ours differ.",
    )
    _comparison(page, work, outcomes)
    page.section("Loops", *(_loops_text(each) for each in outcomes))
    speeds = ", ".join(f"{each.traces_per_second:,.0f}" for each in outcomes)
    page.text(f"Traces per second with M = N = 10: {speeds}.")
    problems = [p for channel in channels for p in judge(channel.outcome, entered=channel.event.channel > 1)]
    problems += [
        f"channel {channel.event.channel}: the two evidences differ by {channel.disagreement:+.1f} standard errors"
        for channel in channels
        if channel.native_ess >= 100 and not abs(channel.disagreement) < 4.5
    ]
    return _finish(page, work, about, problems)


# ---- all --------------------------------------------------------------------------------------------------------

EXPERIMENTS: Final[Mapping[str, Callable[[Find, Settings, Workspace], Outcome]]] = {
    "beta": _reproduce_beta,
    "marsaglia": _reproduce_marsaglia,
    "mini-sherpa": _reproduce_mini_sherpa,
}


def reproduce(experiment: str, find: Find, settings: Settings, work: Workspace) -> Outcome:
    """Runs one experiment; stages that are there already are not run again."""
    figures.need_matplotlib()
    return EXPERIMENTS[experiment](find, settings, work)
