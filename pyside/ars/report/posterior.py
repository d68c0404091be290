"""The page of a posterior: the verdict first, then everything that it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ars.diagnostics import shown_ess
from ars.report.given import Given
from ars.report.page import Level, Page, Step, Verdict, minus, supported
from ars.report.predictive import data_section
from ars.report.run import cost_section, failures_section, run_section
from ars.report.values import values_section
from ars.report.weighting import loops_section, weights_section
from ars.results.advice import ENOUGH

if TYPE_CHECKING:
    from ars.posterior import Posterior
    from ars.results.assessment import RunDiagnostics, WeightingDiagnostics

__all__ = ["Given", "posterior_page", "verdict_of"]

_TITLES: Final = {
    "data": "Look at the data",
    "failures": "Find out why traces fail",
    "corrections": "Spend more on the loops' corrections",
    "prior in loops": "Let the prior propose inside loops",
    "nuisance": "Leave a draw to the prior",
    "proposals": "Improve the proposals",
    "traces": "Run more traces",
    "defensive": "Mix more of the prior into the proposals",
    "unknown latents": "Train on all latents",
    "refine": "Refine the network for these data",
    "adapt": "Let libars adapt the proposals",
    "train": "Train a network",
    "check data": "Compare the data with prior draws",
    "mcmc": "Get a second opinion by MCMC",
}
_MANY_FAILED: Final = 0.05  # share of the traces
_MANY_DROPPED: Final = 0.001  # the same if failed traces are left out, which can bias the result


def posterior_page(post: Posterior, given: Given, *, title: str | None = None) -> Page:
    """Build the page of a posterior.

    Parameters
    ----------
    post : Posterior
    given : Given
        What is known beside it.
    title : str, optional
        Title of the page (default: the simulator's name).

    Returns
    -------
    Page
    """
    assessed = post.diagnostics()
    name = Path(post.run.simulator[0]).name if post.run.simulator else "a simulator"
    about = f"{len(post):,} weighted traces of `{' '.join(post.run.simulator)}`, seed {post.run.seed}"
    sections = [
        values_section(post, assessed, given),
        data_section(post, given),
        weights_section(post, assessed),
        loops_section(post),
        failures_section(post, given),
        cost_section(post),
        run_section(post, given),
    ]
    return Page.of(title or f"Posterior of {name}", about, verdict_of(post, assessed, given), sections)


# ---- the verdict -----------------------------------------------------------------------------------------------------


def verdict_of(post: Posterior, assessed: RunDiagnostics, given: Given) -> Verdict:
    """Say whether the numbers can be trusted, and what to do if not."""
    weighting = next((each for each in assessed.weightings if each.method == assessed.method), None)
    steps = [
        Step(_TITLES.get(step.kind, step.kind), step.reason, step.python, _command(step.command_line))
        for step in post.advice(given.check)
    ]
    if weighting is None or not weighting.ess:
        return _nothing(post, weighting, steps)
    level, headline, text = _judged(weighting)
    doubts = _doubts(post, weighting, given)
    if level == "good" and doubts:
        level, headline = "caution", "Trust these numbers, with a caveat"
    error = weighting.log_evidence_error
    size = (
        f"{shown_ess(weighting.ess)} of {len(post):,} traces are effective, and {_tail(weighting)}. "
        f"The log evidence is {supported(weighting.log_evidence, error)}"
    )
    size += f", with a standard error of {error:.2g}." if error == error else "; its standard error is unknown."
    return Verdict(level, headline, f"{text} {size}", (*weighting.warnings, *doubts), steps)


def _nothing(post: Posterior, weighting: WeightingDiagnostics | None, steps: list[Step]) -> Verdict:
    if not len(post):
        return Verdict("bad", "There is no posterior", "No trace has finished.", (), steps)
    if weighting is None:
        text = f'The run ended before its loops were estimated, so it has no "{post.method}" weights.'
        return Verdict("bad", "There is no posterior yet", text, (), steps)
    text = f"All {len(post):,} weights are 0: no trace explains the data."
    return Verdict("bad", "There is no posterior", text, (), steps)


def _judged(weighting: WeightingDiagnostics) -> tuple[Level, str, str]:
    if not weighting.trusted:
        text = "The weights are too uneven: a few traces dominate, and the standard errors can be far off."
        return "bad", "Do not trust these numbers yet", text
    if weighting.ess < ENOUGH:
        text = "The estimates are sound but rest on few effective traces, so their standard errors are large."
        return "caution", "These numbers are rough", text
    return "good", "You can trust these numbers", "The diagnostics show no problem with the weights."


def _doubts(post: Posterior, weighting: WeightingDiagnostics, given: Given) -> list[str]:
    """Reasons for a second look at numbers whose weights are good."""
    found = []
    wrong = [value for value in weighting.values if value.warnings]
    if wrong and weighting.trusted:
        named = ", ".join(f"`{value.name}`" for value in wrong[:3]) + (", ..." if len(wrong) > 3 else "")
        found.append(
            f"{len(wrong)} of {len(weighting.values)} values have a separate warning ({named}): see the table."
        )
    if given.check is not None and given.check.alarm:
        found.append(given.check.sentence())
    found += _failed(post)
    return found


def _failed(post: Posterior) -> list[str]:
    share = post.failures.total / max(int(post.stats.get("traces", len(post))), 1)
    if post.run.on_failure == "skip" and share >= _MANY_DROPPED:
        dropped = "were dropped, which biases the result unless failures are unrelated to the values drawn"
        return [f"{100 * share:.2g}% of the traces failed and {dropped}: see Failures."]
    if share > _MANY_FAILED:
        return [f"{share:.0%} of the traces failed and count as impossible, with weight 0: see Failures."]
    return []


def _tail(weighting: WeightingDiagnostics) -> str:
    if weighting.pareto_k != weighting.pareto_k:
        return "Pareto k is unknown"
    if weighting.pareto_k == -float("inf"):
        return "the weights have no tail"
    return f"Pareto k is {minus(f'{weighting.pareto_k:.2f}')} (limit {weighting.pareto_k_threshold:.2f})"


def _command(options: str) -> str:
    """Options alone are options of ``ars infer``."""
    return f"ars infer ... {options}" if options.startswith("-") else options
