"""The table of failures, made from the one that the package has."""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from ars.failures import KINDS

PLACE = "<!-- failures -->"


def read(app: Sphinx, page: str, source: list[str]) -> None:
    del app, page
    if PLACE in source[0]:
        rows = [f"| `{kind}` | {meaning} |" for kind, meaning in KINDS.items()]
        source[0] = source[0].replace(PLACE, "\n".join(["| kind | meaning |", "|---|---|", *rows]))


def setup(app: Sphinx) -> ExtensionMetadata:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
