"""Tables for machines (JSON and CSV) and for people (Markdown)."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ars_lab.reproduce.convergence import Final
from ars_lab.reproduce.methods import LABELS
from ars_lab.reproduce.paper import PAPER
from ars_lab.reproduce.workspace import write_atomically

__all__ = ["comparison", "comparison_markdown", "markdown", "write_csv", "write_json", "write_rows"]


def _plain(value: Any) -> Any:
    """For JSON, which has no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def write_json(path: Path, value: Any) -> None:
    text = json.dumps(_plain(value), indent=1) + "\n"
    write_atomically(path, lambda file: void(file.write_text(text)))


def void(_: object) -> None:
    """For lambdas that must return nothing."""


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A column per key of the first row; nothing where a number is missing."""

    def write(file: Path) -> None:
        with file.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]) if rows else [])
            writer.writeheader()
            for row in rows:
                writer.writerow({key: "" if _plain(value) is None else _plain(value) for key, value in row.items()})

    write_atomically(path, write)


def write_rows(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """NAME.json and NAME.csv."""
    write_json(folder / f"{name}.json", list(rows))
    write_csv(folder / f"{name}.csv", rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is text, the others are numbers."""
    lines = [" | ".join(heads), " | ".join(["---", *("---:" for _ in heads[1:])])]
    lines += [" | ".join(row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def comparison(experiment: str, found: Mapping[str, Final]) -> list[dict[str, Any]]:
    """Our cells beside the paper's, one row per method."""
    rows = []
    for method, ours in found.items():
        paper = PAPER[experiment].get(method)
        bias, ess = (None, None) if paper is None else paper
        rows.append(
            {
                "experiment": experiment,
                "method": method,
                "bias": ours.bias,
                "bias_error": ours.bias_error,
                "bias_in_errors": ours.bias / ours.bias_error if ours.bias_error else math.nan,
                "paper_bias": bias,
                "bias_minus_paper_in_errors": None if bias is None else (ours.bias - bias) / ours.bias_error,
                "ess": ours.ess,
                "ess_error": ours.ess_error,
                "paper_ess": ess,
                "ess_over_paper": None if ess is None else ours.ess / ess,
                "ess_minus_paper_in_errors": None if ess is None else (ours.ess - ess) / ours.ess_error,
                "k_converge_median": _median(ours.k_converge),
                "not_converged": sum(k is None for k in ours.k_converge),
                "runs": len(ours.k_converge),
                "pareto_k": ours.pareto_k,
            }
        )
    return rows


def _median(k: Sequence[int | None]) -> float | None:
    """None if it is among the runs that did not converge."""
    ordered = sorted(math.inf if x is None else float(x) for x in k)
    middle = 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])
    return middle if math.isfinite(middle) else None


def _number(value: float | None, form: str = ".3g") -> str:
    return "" if value is None or math.isnan(value) else format(value, form)


def comparison_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The paper's table, with ours beside it."""
    heads = (
        "method",
        "bias",
        "s.e.",
        "bias / s.e.",
        "paper's bias",
        "difference / s.e.",
        "ESS/N",
        "s.e.",
        "paper's ESS/N",
        "ours / paper's",
        "K_converge",
    )
    return markdown(
        heads,
        [
            (
                LABELS[row["method"]],
                _number(row["bias"], "+.3g"),
                _number(row["bias_error"], ".2g"),
                _number(row["bias_in_errors"], "+.1f"),
                _number(row["paper_bias"], "+.3g"),
                _number(row["bias_minus_paper_in_errors"], "+.1f"),
                _number(row["ess"]),
                _number(row["ess_error"], ".2g"),
                _number(row["paper_ess"]),
                _number(row["ess_over_paper"]),
                (_number(row["k_converge_median"], ".0f") or "more")
                + (f" ({row['not_converged']} of {row['runs']} not)" if row["not_converged"] else ""),
            )
            for row in rows
        ],
    )
