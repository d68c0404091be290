"""``--json``: one JSON document on stdout, and nothing else there."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from ars.plain import plain

__all__ = ["add_json", "print_document"]


def add_json(parser: argparse._ActionsContainer) -> None:
    """``--json``."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document instead of text; NaN and infinity are null"
    )


def print_document(content: Mapping[str, Any], indent: int = 2) -> None:
    """Print a JSON document."""
    print(json.dumps(plain(content), indent=indent, allow_nan=False))
