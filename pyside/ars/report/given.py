"""What a report is given beside the posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ars.columns import Floats, find_site
from ars.results.assessment import elements

if TYPE_CHECKING:
    from ars.failures import Failure
    from ars.posterior import Posterior, Traces
    from ars.results.data_check import DataCheck

__all__ = ["Given", "true_values", "value_columns"]


@dataclass(frozen=True)
class Given:
    """Prior and posterior predictive draws, true values, a data check, and how the run came about.

    ``command`` is the command line that wrote the report, and ``replay`` the command that repeats a failed trace; both
    are known to the command line alone.
    """

    prior: Traces | None = None
    predicted: Traces | None = None
    truth: Mapping[str, npt.ArrayLike] = field(default_factory=dict)
    check: DataCheck | None = None
    command: str = ""
    replay: Callable[[Failure], str] | None = None


def value_columns(drawn: Traces | None) -> dict[tuple[str, str], Floats]:
    """Every number that a trace has, by kind and label, as ``Posterior.diagnostics`` names them."""
    found: dict[tuple[str, str], Floats] = {}
    for kind, recorded in (("result", drawn.results), ("latent", drawn.latents)) if drawn is not None else ():
        for name in recorded:
            found.update({(kind, label): column for label, column in elements(name, recorded[name])})
    return found


def true_values(post: Posterior, truth: Mapping[str, npt.ArrayLike]) -> dict[str, float]:
    """The true values by label.

    Raises
    ------
    KeyError
        If the run has no such value.
    """
    known = {label for _, label in value_columns(post)} if truth else set()
    found: dict[str, float] = {}
    for name, value in truth.items():
        if name not in post:
            raise KeyError(f"truth: the run has no {name!r}; it has {', '.join(post)}")
        values = np.asarray(value, np.float64)
        mine = {label: float(column[0]) for label, column in elements(_shown(post, name), values[None])}
        if wrong := [label for label in mine if label not in known]:
            raise KeyError(f"truth: {name!r} has the shape {values.shape}, so there would be a {wrong[0]!r}")
        found.update(mine)
    return found


def _shown(post: Posterior, key: str) -> str:
    """The label of what a key names: a key may be an address, and have an index."""
    site, index = find_site(post.sites, key)
    shared = sum(other.kind == site.kind and other.name == site.name for other in post.sites) > 1
    return (site.address if shared else site.name) + "".join(f"[{i}]" for i in index)
