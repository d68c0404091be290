"""Public names that no page of the Python reference has: they go to its last page, so that none is missing."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

import ars

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
PLACE = "<!-- public names that no other page has -->"
DIRECTIVE = re.compile(r"^\.\. auto(\w+):: ars\.(\w+)$", re.MULTILINE)


def placed() -> set[str]:
    """Names of the package ``ars`` that a page documents."""
    return {name for path in REFERENCE.rglob("*.md") for _, name in DIRECTIVE.findall(path.read_text(encoding="utf-8"))}


def others() -> str:
    lines = []
    for name in sorted(set(ars.__all__) - placed()):
        kind = "class" if isinstance(getattr(ars, name), type) else "function"
        lines += [f".. auto{kind}:: ars.{name}", ""]
    return "\n".join(["```{eval-rst}", *lines, "```"]) if lines else "There is none at present."


def read(app: Sphinx, page: str, source: list[str]) -> None:
    del app, page
    if PLACE in source[0]:
        source[0] = source[0].replace(PLACE, others())


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
