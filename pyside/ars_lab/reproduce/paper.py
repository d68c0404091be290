"""What the paper reports: the table that ends its appendix. Biases and ESS/N per method, in plain units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["PAPER", "Cell"]


class Cell(NamedTuple):
    """One method in one experiment; None: the paper has no figure."""

    bias: float | None
    ess: float | None


def _row(
    bias: tuple[float | None, ...], bias_unit: float, ess: tuple[float | None, ...], ess_unit: float
) -> Mapping[str, Cell]:
    names = ("ic", "ars-1", "ars-2", "ars-10", "biased", "collapsed")
    return {
        name: Cell(None if b is None else b * bias_unit, None if e is None else e * ess_unit)
        for name, b, e in zip(names, bias, ess, strict=True)
    }


# The row of Marsaglia b has five of six columns; the one that is missing can only be M = 10.
PAPER: Final[Mapping[str, Mapping[str, Cell]]] = {
    "marsaglia-a": _row((-151, -1.3, -16, -14, -2247, -5), 1e-4, (20, 63, 70, 75, 76, 76), 1e-3),
    "marsaglia-b": _row((-1285, -0.5, -0.5, None, -1447, 2.3), 1e-4, (12, 16, 18, None, 20, 20), 1e-2),
    "mini-sherpa-1": _row((-102, -2.3, -2.3, -2.5, 85, None), 1e-4, (79, 83, 83, 84, 85, None), 1e-2),
    "mini-sherpa-2": _row((-38, -3.7, -3.6, -3.7, 67, None), 1e-2, (1.0, 3.3, 3.9, 4.7, 4.9, None), 1e-3),
    "mini-sherpa-3": _row((-42, 2.6, 2.8, 2.6, -120, None), 1e-2, (0.8, 5, 6, 9, 10, None), 1e-4),
}
