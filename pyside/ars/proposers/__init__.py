"""Who proposes the latents of a run: the prior, or the user's own functions. Networks have a package of their own."""

from ars.proposers.hand import Drawn, HandProposer, Proposal
from ars.proposers.prior import PriorProposer
from ars.proposers.protocol import Proposer

__all__ = ["Drawn", "HandProposer", "PriorProposer", "Proposal", "Proposer"]
