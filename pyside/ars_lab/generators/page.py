"""The generated parts of docs/generators.md: one per generator, between two comments; the rest is written by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from ars_lab.generators.result import Method, Result
from ars_lab.generators.spec import Generator, Quantity
from ars_lab.reproduce.tables import markdown, void
from ars_lab.reproduce.workspace import write_atomically

__all__ = ["insert", "part"]

_BEGIN = "<!-- made by `make generators`: {} -->"
_END = "<!-- end: {} -->"
_ENOUGH: Final = 20  # effective traces; standard errors estimated from fewer are often far too small


def part(generator: Generator, result: Result, *, quick: bool) -> str:
    """The Markdown of one generator.

    Parameters
    ----------
    generator : Generator
        Which one.
    result : Result
        Its finished study.
    quick : bool
        Whether the numbers are those of the small form, which the text then says.

    Returns
    -------
    str
        Heading, text, pictures and tables.
    """
    note = "**These numbers are from the quick form, which only shows that everything works.**\n\n"
    return "\n\n".join(
        [
            f"## {generator.title}",
            (note if quick else "") + generator.text.strip(),
            f"![{generator.caption}](figures/{generator.figure('detector')}.png)",
            f"*{generator.caption}*",
            "### Posterior",
            f"![Prior, posteriors by three methods, and truth](figures/{generator.figure('posterior')}.png)",
            _reading(generator, result),
            _means(generator, result),
            "### Evidence by three methods",
            _evidence(result),
            "### Loops",
            _loops(result),
            "### Checks",
            markdown(
                ("promise", "result", "kept"),
                [(c.promise, c.numbers, "yes" if c.kept else "**no**") for c in result.checks],
            ),
            _about(result),
        ]
    )


def _reading(generator: Generator, result: Result) -> str:
    legend = (
        "*Grey: the prior. Lines: posteriors by the three methods, which share only the simulator and, in part, the "
        "network. Dash-dotted: the truth.*"
    )
    if result.ars.ess < _ENOUGH:
        return f"{legend} This run has too few effective traces to show the posterior."
    shrunk = []
    for each in generator.quantities:
        before, after = float(result.prior[each.name].std()), result.ars.estimates[each.name].std
        shrunk.append(f"{each.label} from {_number(each, before)} to {_number(each, after)}")
    return f"{legend} The data reduce the standard deviations: {'; '.join(shrunk)}."


def _number(quantity: Quantity, value: float) -> str:
    return f"{quantity.scale * value:.3g}{' ' + quantity.unit if quantity.unit else ''}"


def _means(generator: Generator, result: Result) -> str:
    def cell(quantity: Quantity, method: Method) -> str:
        estimate = method.estimates[quantity.name]
        if method.ess < _ENOUGH:
            return f"{quantity.scale * estimate.mean:.3g} (too few)"
        error = quantity.scale * estimate.error
        digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 and math.isfinite(error) else 3
        return f"{quantity.scale * estimate.mean:.{digits}f} ± {error:.{digits}f}"

    heads = ("posterior mean", "truth", *(method.label for method in result.methods))
    rows = [
        (
            quantity.axis,
            f"{quantity.scale * result.observation.truth[quantity.name]:.4g}",
            *(cell(quantity, method) for method in result.methods),
        )
        for quantity in generator.quantities
    ]
    few = any(method.ess < _ENOUGH for method in result.methods)
    note = f"\n\nToo few: fewer than {_ENOUGH} effective traces, so no standard error can be estimated."
    return markdown(heads, rows) + (note if few else "")


def _evidence(result: Result) -> str:
    heads = ("method", "log evidence", "traces", "effective", "Pareto k or R-hat", "failures", "seconds")
    rows = []
    for method in result.methods:
        known = math.isfinite(method.log_evidence)
        rows.append(
            (
                method.label,
                _log_evidence(method) if known else "none",
                f"{method.traces:,}",
                f"{method.ess:,.0f}",
                f"k {method.quality:.2f}" if known else f"R-hat {method.quality:.3f}",
                str(method.failures),
                f"{method.seconds:.0f}",
            )
        )
    return markdown(heads, rows) + "\n\nChains do not estimate the evidence. Compare them by the posterior means above."


def _log_evidence(method: Method) -> str:
    if method.ess < _ENOUGH:
        return f"{method.log_evidence:.1f} (too few)"
    return f"{method.log_evidence:.3f} ± {method.error:.3f}"


def _loops(result: Result) -> str:
    heads = ("loop", "entries", "tries", "p(A)", "q(A)", "budget", "continuations")
    rows = [
        (
            f"`{loop.address}`",
            f"{loop.entries:,}",
            f"{loop.mean_tries:.1f}",
            f"{loop.p_accept:.4f} ± {loop.p_error:.4f}",
            f"{loop.q_accept:.4f} ± {loop.q_error:.4f}",
            loop.budget,
            loop.continuations,
        )
        for loop in result.loops
    ]
    return (
        markdown(heads, rows)
        + "\n\nThese numbers are from the ARS run. p(A) and q(A) are the acceptance probabilities of a try under the "
        "prior and under the network, as harmonic means over the entries. Weights that ignore the difference are wrong "
        "by their ratio."
    )


def _about(result: Result) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in result.about.items() if name != "machine")
    refined = f", and refined in {result.refine_seconds / 60:.1f} minutes" if result.refine_seconds else ""
    return (
        f"The network was trained on {result.train_traces:,} prior traces in "
        f"{result.train_seconds / 60:.1f} minutes{refined}. "
        f"The entire study took {result.seconds / 60:.0f} minutes. "
        f"Versions: {versions}. Machine: {result.about['machine']}; other programs were running."
    )


def insert(page: Path, name: str, text: str) -> None:
    """Replaces one generator's part of a page; a page without it gets it at its end.

    Parameters
    ----------
    page : Path
        The Markdown file; made if it does not exist.
    name : str
        Name of the generator.
    text : str
        The new part.
    """
    begin, end = _BEGIN.format(name), _END.format(name)
    old = page.read_text() if page.exists() else "# Generators\n"
    before, found, rest = old.partition(begin)
    after = rest.partition(end)[2] if found else "\n"
    new = f"{before if found else old.rstrip() + chr(10) * 2}{begin}\n\n{text.strip()}\n\n{end}{after}"
    write_atomically(page, lambda file: void(file.write_text(new)))
