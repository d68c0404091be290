"""The options of ``Simulator.mcmc``: the home of their defaults and checks, for Python and the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ars.arguments import ON_FAILURE, OnFailure, check_on_failure, integer
from ars.proposers import Proposal

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["CHAINS", "ChainOptions"]

CHAINS: Final = 16
_MOST_STEPS: Final = 10**9
_MOST_CHAINS: Final = 4096
_MOST_RUNS: Final = 10**6


@dataclass(frozen=True)
class ChainOptions:
    """What is to be inferred, and how; ``Simulator.mcmc`` explains each. The data are arrays here."""

    data: Mapping[str, npt.NDArray[np.float64]]
    steps: int
    chains: int = CHAINS
    network: Network | None = None
    proposals: Mapping[str, Proposal] | None = None
    warmup: int | None = None  # None: half of steps, at least 100
    thin: int | None = None  # None: about one move per latent
    blocks: Sequence[Sequence[str]] = ()
    M: int | None = None  # None: by the acceptance of the loops
    on_failure: OnFailure = ON_FAILURE

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "steps", integer("steps", self.steps, 1, _MOST_STEPS))
        put(self, "chains", integer("chains", self.chains, 1, _MOST_CHAINS))
        if self.warmup is not None:
            put(self, "warmup", integer("warmup", self.warmup, 0, _MOST_STEPS))
        if self.thin is not None:
            put(self, "thin", integer("thin", self.thin, 1, _MOST_STEPS))
        if self.M is not None:
            put(self, "M", integer("M", self.M, 1, _MOST_RUNS))
        put(self, "blocks", _checked_blocks(self.blocks))
        check_on_failure(self.on_failure)
        if self.proposals is not None and not isinstance(self.proposals, Mapping):
            raise TypeError(f"proposals must map names to distributions or functions, not {self.proposals!r}")
        if self.network is not None and self.proposals:
            raise ValueError("give network= or proposals=, not both: a latent has one proposal")

    @property
    def warmup_steps(self) -> int:
        """Steps that are dropped."""
        return max(self.steps // 2, 100) if self.warmup is None else self.warmup


def _checked_blocks(blocks: object) -> tuple[tuple[str, ...], ...]:
    if isinstance(blocks, str) or not isinstance(blocks, Sequence):
        raise TypeError(f"blocks must be a list of groups of names, such as [['x', 'u']], not {blocks!r}")
    found = []
    for block in blocks:
        if isinstance(block, str) or not isinstance(block, Sequence) or not block:
            raise TypeError(f"blocks: a group is a list of names of latents, such as ['x', 'u'], not {block!r}")
        for name in block:
            if not isinstance(name, str) or not name:
                raise TypeError(f"blocks: names of latents are text, not {name!r}")
        found.append(tuple(block))
    return tuple(found)
