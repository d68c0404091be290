"""How a run was asked for, as its result remembers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

__all__ = ["RunInfo"]


class RunInfo(NamedTuple):
    """The settings of a run."""

    seed: int
    runs_p: int | None  # M of a fixed budget
    tries_q: int | None  # N of a fixed budget
    in_loops: str  # who proposes inside loops: "proposal" or "prior"
    on_failure: str  # "raise", "zero" or "skip"
    simulator: tuple[str, ...]  # the executable and its arguments
    proposals: str = ""  # JSON: the identity of whatever proposes (ars.store.identity.proposed_by)
    proposed: bool = True  # False: the prior proposed every latent, so that the correction of every loop is 1
    build: str = ""  # a digest of the simulator's code; "": not known, as where it is started elsewhere
    budget: str = ""  # JSON (ars.budget.budget_to_json); "": nothing was estimated, or see runs_p and tries_q
    exact: tuple[str, ...] = ()  # addresses of loops in which nothing was proposed, so that their correction is 1
    defensive: float = 0.0  # share of the prior in each proposal of a network; 0: no network
    refined: bool = False  # whether the network was refined for one observation, or adapting kept the prior
    ranges: tuple[tuple[int, int], ...] = ()  # trace numbers that were run: first and count; (): not known, or not all

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Restore settings from JSON, in which tuples are lists. Fields that earlier versions lack may be missing."""
        tuples = {name: tuple(fields.get(name, ())) for name in ("simulator", "exact")}
        ranges = tuple((int(first), int(count)) for first, count in fields.get("ranges", ()))
        return cls(**{**fields, **tuples, "ranges": ranges})
