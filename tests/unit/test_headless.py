"""A kind of prior for which the network has no head: its latents are left to the prior, the others are proposed for."""

from __future__ import annotations

import numpy as np
import pytest
from step_builder import Request, steps_of

from ars import _native
from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.distributions import Exponential, Normal
from ars.wire import PRIOR, SiteTable

torch = pytest.importorskip("torch")
from ars.network import NetworkConfig, ProposalNetwork, SiteSpec, Vocabulary  # noqa: E402
from ars.network.model.heads import HEADS  # noqa: E402
from ars.network.serve.proposer import NetworkProposer  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SIZES = NetworkConfig(lstm_dim=16, observe_dim=8, observe_hidden=16, site_dim=6, value_dim=8, head_hidden=16)
SITES = SiteTable([Site(0, SiteKind.SAMPLE, DistKind.EXPONENTIAL, "t"), Site(1, SiteKind.SAMPLE, DistKind.NORMAL, "z")])
T, Z = Exponential(2.0), Normal(1.0, 0.5)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> ProposalNetwork:
    without = {kind: head for kind, head in HEADS.items() if kind is not DistKind.EXPONENTIAL}
    monkeypatch.setattr(ProposalNetwork, "by_kind", without)
    sites = [SiteSpec("t", DistKind.EXPONENTIAL, 1), SiteSpec("z", DistKind.NORMAL, 2)]
    return ProposalNetwork(SIZES, Vocabulary(sites), {"y": (2,)}, seed=1).eval()


def test_its_log_q_is_the_log_density_of_the_prior(network: ProposalNetwork) -> None:
    site, value = torch.tensor([0, 1, 0]), torch.tensor([0.3, 1.2, 2.0], dtype=torch.float64)
    prior = torch.tensor([[2.0, 0, 0, 0], [1.0, 0.5, 0, 0], [2.0, 0, 0, 0]]).double()
    out = torch.randn((3, network.output_dim), generator=torch.Generator().manual_seed(3))
    log_q = network.log_prob(out, site, prior, None, value)
    assert np.array_equal(log_q[[0, 2]].detach().numpy(), T.log_prob([0.3, 2.0]))
    assert log_q[1].item() != Z.log_prob(1.2)
    log_q.sum().backward()
    assert list(network.heads) == ["NORMAL"]
    assert [group.rows.tolist() for group in network.propose(out, site, prior, None)] == [[1]]


def test_alone_it_needs_no_head_at_all(network: ProposalNetwork) -> None:
    site, prior = torch.zeros(2, dtype=torch.int64), torch.tensor([[2.0, 0, 0, 0]] * 2).double()
    out = torch.zeros((2, network.output_dim))
    log_q = network.log_prob(out, site, prior, None, torch.tensor([0.3, -1.0], dtype=torch.float64))
    assert log_q.tolist() == [T.log_prob(0.3), -np.inf]


def test_it_is_served_as_the_prior_and_its_value_is_seen(network: ProposalNetwork) -> None:
    proposer = NetworkProposer(network, {"y": [0.4, -1.0]})
    asked = [Request(0, 0, 0, 0, [], T.encode(1)[0]), Request(1, 0, 1, 0, [], Z.encode(1)[0])]
    first = proposer.step(steps_of(asked, SITES), SITES)
    assert first.proposals[0] == PRIOR
    assert first.proposals[1] != PRIOR
    _native.check(first.proposals[1])
    state = int(first.state[0])
    told = [Request(0, state, 1, 0, [(0, 0, value)], Z.encode(1)[0]) for value in (0.1, 3.0)]
    low, high = (proposer.step(steps_of([each], SITES), SITES).proposals[0] for each in told)
    assert low != high
