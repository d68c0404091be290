"""A network as the proposer of one simulator: it must fit the data and the simulator's latents."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from ars._native import SiteKind
from ars.columns import Columns, Site
from ars.errors import NetworkError, RefinementWarning
from ars.network.serve import proposer as serve
from ars.outside import outside

if TYPE_CHECKING:
    from ars.network.facade import Network

__all__ = ["check_network", "network_proposer"]

# Draws some traces of the prior.
Probe: TypeAlias = Callable[[], tuple[Columns, Sequence[Site]]]


def check_network(network: object) -> Network:
    """The network, if it is one."""
    from ars.network.facade import Network

    if not isinstance(network, Network):
        raise TypeError(
            f"network must be an ars.Network, from Simulator.train or ars.Network.load, or None, not {network!r}"
        )
    return network


def network_proposer(
    network: object,
    data: Mapping[str, npt.NDArray[np.float64]],
    *,
    command: Sequence[str],
    known: Sequence[Site],
    probe: Probe,
    told_in_bulk: bool,
) -> serve.NetworkProposer:
    """Checks that the network is for these data and this simulator, before anything runs.

    known: the sites that the simulator has shown so far; if there is no latent among them, traces are drawn.
    told_in_bulk: whether latents inside loops are told but not asked about, so that their priors have to be known.
    """
    network = check_network(network)
    proposer = serve.NetworkProposer(network.network, data)
    columns = None
    if told_in_bulk or not any(site.kind is SiteKind.SAMPLE for site in known):
        columns, known = probe()
    if wrong := network.mismatches(known):
        raise NetworkError(
            f"the network does not fit the simulator {shlex.join(command)}: {'; '.join(wrong)}. It was "
            f"trained for {shlex.join(network.simulator) or 'an unknown one'}; train one for this simulator"
        )
    if odd := network.other_data(data):
        warnings.warn(
            f"the network was refined for other data: {', '.join(map(repr, odd))} differ{'s' if len(odd) == 1 else ''}."
            " The weights remain correct, but few traces may be effective. Use the network that it was refined from, "
            "or refine that one for these data",
            RefinementWarning,
            stacklevel=outside(),
        )
    if columns is not None and told_in_bulk:
        proposer.expect(serve.usual_priors(network.network, columns, known))
    return proposer
