"""The pages of experiments as one HTML file: their Markdown, with figures and tables inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ars.report.page import Block, Cell, Chart, Code, Column, Items, Page, Section, Table, Text, Verdict

__all__ = ["reproduce_page"]

_FIGURE: Final = re.compile(r"!\[(.*)\]\(([^)]+)\)")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_STRESS: Final = re.compile(r"(?<![\w*])\*{1,2}([^*]+)\*{1,2}(?![\w*])")


def reproduce_page(pages: Mapping[str, Path], problems: Sequence[str], command: str) -> Page:
    """Build the page.

    Parameters
    ----------
    pages : mapping
        Experiment -> its README.md, with the figures beside it.
    problems : sequence of str
        Results that contradict the exact answers, one sentence each.
    command : str
        Command line that made them.

    Returns
    -------
    Page
    """
    if problems:
        verdict = Verdict("bad", "Some results contradict the exact answers", "", problems)
    else:
        verdict = Verdict(
            "good", "The results agree with the exact answers", "Each experiment checks itself against them."
        )
    sections = [section for name, path in pages.items() for section in _sections(path)]
    sections.append(Section("How it was run", [Code(command, "Command")]))
    return Page("The paper's experiments", ", ".join(pages), verdict, sections)


def _sections(path: Path) -> list[Section]:
    """The sections of one page. Its title becomes part of their titles."""
    title, heading, found = path.parent.name, "", []
    blocks: list[Block] = []
    for part in path.read_text().split("\n\n"):
        if part.startswith("# "):
            title = part[2:].strip()
        elif part.startswith("## "):
            found.append(Section(f"{title}: {heading}" if heading else title, blocks))
            first, _, rest = part.partition("\n")
            heading, blocks = first[3:].strip(), [_block(rest, path.parent, heading)] if rest.strip() else []
        elif part.strip() and not part.rstrip().endswith(".pdf))"):  # captions, which the figures have as titles
            blocks.append(_block(part.strip(), path.parent, heading or title))
    found.append(Section(f"{title}: {heading}" if heading else title, blocks))
    return [section for section in found if section.blocks]


def _plain(text: str) -> str:
    """Text without Markdown's marks, except for code."""
    return _STRESS.sub(r"\1", _LINK.sub(r"\1", " ".join(text.split())))


def _block(text: str, folder: Path, heading: str) -> Block:
    if figure := _FIGURE.match(text):
        image = folder / figure[2]
        if image.suffix == ".png" and image.is_file():
            data = base64.b64encode(image.read_bytes()).decode()
            return Chart(figure[1] or image.stem, image=f"data:image/png;base64,{data}", wide=True)
    lines = text.splitlines()
    if text.startswith("|") and len(lines) > 2:
        return _table(lines, heading)
    if all(line.startswith("- ") for line in lines):
        return Items([_plain(line[2:]) for line in lines])
    return Text(_plain(text.lstrip("# ")))


def _table(lines: Sequence[str], heading: str) -> Table:
    rows = [[_plain(cell) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    numeric = [mark.endswith(":") for mark in rows[1]]
    columns = [Column(title, numeric=right) for title, right in zip(rows[0], numeric, strict=True)]
    cells = [
        [Cell(cell, _number(cell) if right else None) for cell, right in zip(row, numeric, strict=True)]
        for row in rows[2:]
    ]
    return Table(heading, columns, cells)


def _number(text: str) -> float:
    """The number that a cell begins with; NaN if there is none."""
    found = re.match(r"[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?", text.replace("−", "-"))
    return float(found[0].replace(",", "")) if found else float("nan")
