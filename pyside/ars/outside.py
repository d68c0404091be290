"""Where a warning points to: the user's line, however deep in this package it is found that something is wrong."""

from __future__ import annotations

import sys

__all__ = ["outside"]


def outside() -> int:
    """The ``stacklevel`` of a caller's ``warnings.warn`` that points to the first line outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ars":
        level, frame = level + 1, frame.f_back
    return level
