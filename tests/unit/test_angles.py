"""Angles: proposals for a Uniform over a whole turn go around the circle. Their densities, draws and gradients are
among the cases of test_heads.py, and that they are served as they are trained is tested in test_network_proposer.py."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from ars import _kernels as kernels
from ars._native import MAX_COMPONENTS, DistKind
from ars.config import NetworkConfig

torch = pytest.importorskip("torch")
from ars.network.facade import Network  # noqa: E402
from ars.network.model.core import ProposalNetwork  # noqa: E402
from ars.network.model.heads import HEADS, WRAPPED, HeadSettings, divided  # noqa: E402
from ars.network.model.trace_batch import TraceBatch  # noqa: E402
from ars.network.model.vocabulary import SiteSpec, Vocabulary  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

TURN = 2 * math.pi
SMALL = NetworkConfig(
    lstm_dim=12, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=8, head_hidden=8, components=2
)
SITES = [SiteSpec("side", DistKind.UNIFORM, 2), SiteSpec("phi", DistKind.UNIFORM, 2), SiteSpec("x", DistKind.NORMAL, 2)]
PRIORS = ((-1.0, 1.0), (0.0, TURN), (0.0, 1.0))

Floats = npt.NDArray[np.float64]


def settings(components: int) -> HeadSettings:
    return HeadSettings(components, 0, 0.01, wrap=True)


def priors(*ends: tuple[float, float]) -> torch.Tensor:
    return torch.tensor([[*each, 0.0, 0.0] for each in ends], dtype=torch.float64)


def raw_of(weights: Floats, angles: Floats, log_widths: Floats) -> torch.Tensor:
    """The raw numbers of components that point there."""
    k = len(angles)
    start = TURN * (np.arange(k) + 0.5) / k
    columns = [np.log(weights), np.cos(angles) - np.cos(start), log_widths, np.sin(angles) - np.sin(start)]
    return torch.from_numpy(np.concatenate(columns))[None]


# ---- which latents are angles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, TURN, True),
        (-math.pi, math.pi, True),
        (-3.1416, 3.1416, True),
        (0.0, float(np.float32(TURN)), True),
        (0.0, 6.283, False),
        (0.0, 6.2833, False),
        (-0.5, 0.5, False),
        (0.0, 2 * TURN, False),
        (TURN, 0.0, False),
    ],
)
def test_an_angle_is_uniform_over_a_whole_turn(low: float, high: float, expected: bool) -> None:
    """In Python, and in C, which sees another value in another way."""
    [(head, rows)] = divided(DistKind.UNIFORM, priors((low, high)), settings(3))
    assert rows is None and (head is WRAPPED) == expected
    drawn = (np.array([int(DistKind.UNIFORM)]), priors((low, high)).numpy(), np.array([0.25]))
    differs = not np.array_equal(kernels.value_features(drawn, wrap=True), kernels.value_features(drawn, wrap=False))
    assert differs == expected


def test_other_priors_of_its_length_are_none() -> None:
    [(head, _)] = divided(DistKind.BETA, priors((0.0, TURN)), settings(3))
    assert head is HEADS[DistKind.BETA]
    [(head, _)] = divided(DistKind.UNIFORM, priors((0.0, TURN)), settings(3)._replace(wrap=False))
    assert head is HEADS[DistKind.UNIFORM]


def test_angles_and_others_share_a_batch() -> None:
    network = ProposalNetwork(SMALL, Vocabulary(SITES), {}, seed=1).eval()
    batch = traces(np.linspace(0.1, TURN - 0.1, 6))
    mixed = batch._replace(prior=batch.prior.clone(), site=batch.site.clone())
    mixed.site[1] = 0  # the same site, whose prior is an angle's in some traces and another in others
    mixed.prior[1, ::2, :2] = torch.tensor([0.0, 7.0])
    with torch.inference_mode():
        together = network.log_probs(mixed)
        for column in range(6):
            alone = TraceBatch(*(t if t is None else t[:, column : column + 1] for t in mixed[:7]), mixed[7])
            assert torch.allclose(network.log_probs(alone)[:, 0], together[:, column], atol=1e-5)


# ---- the density -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("low", [0.0, -math.pi, 100.0])
def test_a_component_is_a_wrapped_normal(low: float) -> None:
    """Against a sum of Normals over many turns."""
    angles, weights = np.array([0.02, 2.0, TURN - 1e-9, 5.0, math.pi]), np.array([0.3, 0.1, 0.2, 0.15, 0.25])
    raw = raw_of(weights, angles, np.array([-1.0, 0.3, -0.5, -4.0, -0.2]))
    x = low + np.concatenate([[0.0, TURN, 0.02, 5.0], np.linspace(0.001, TURN - 0.001, 300)])
    n = len(x)
    proposal = WRAPPED.build(raw.expand(n, -1), priors((low, low + TURN)).expand(n, -1), None, settings(5))
    parts = proposal.params[0, 1:15:3].detach().numpy()  # the middle one of each three
    assert parts[:, 0] - low == pytest.approx(angles, abs=1e-9)
    assert parts[:, 1].max() < TURN / 6
    exact = sum(
        weight * stats.norm.pdf(x, mean + turn * TURN, std)
        for weight, (mean, std, _, _) in zip(weights, parts, strict=True)
        for turn in range(-10, 11)
    )
    wanted = 0.99 * exact + 0.01 / TURN
    assert np.exp(proposal.log_prob(torch.from_numpy(x)).numpy()) == pytest.approx(wanted, rel=1e-8)


def test_it_is_continuous_where_the_circle_closes() -> None:
    generator = torch.Generator().manual_seed(1)
    raw = 1.5 * torch.randn((200, 40), generator=generator, dtype=torch.float64)
    proposal = WRAPPED.build(raw, priors((0.0, TURN)).expand(200, -1), None, settings(10))
    at_ends = [proposal.log_prob(torch.full((200,), end, dtype=torch.float64)) for end in (0.0, TURN)]
    assert torch.allclose(*at_ends, atol=0.01)
    plain = HEADS[DistKind.UNIFORM].build(raw, priors((0.0, TURN)).expand(200, -1), None, settings(10))
    without = plain.log_prob(torch.zeros(200, dtype=torch.float64))  # Betas, which have no density at their ends
    assert at_ends[0].mean().item() > -2.5 and without.max().item() < -6


def test_turning_the_direction_turns_the_density() -> None:
    """All the way around, without a jump."""
    x = torch.linspace(0.0, TURN, 50, dtype=torch.float64)
    prior = priors((0.0, TURN)).expand(50, -1)
    one = np.ones(1)

    def density(angle: float, values: torch.Tensor) -> torch.Tensor:
        return WRAPPED.build(raw_of(one, angle * one, -2 * one).expand(50, -1), prior, None, settings(1)).log_prob(
            values
        )

    for angle in np.linspace(0.0, TURN, 13):
        assert torch.allclose(density(float(angle), x), density(1.0, (x - angle + 1.0) % TURN), atol=1e-7)


def test_no_direction_at_all_has_a_density_and_a_gradient() -> None:
    raw = raw_of(np.ones(1), np.zeros(1), np.zeros(1))
    raw[0, 1], raw[0, 3] = 1.0, 0.0  # the start of a single component is at half a turn
    raw.requires_grad_()
    log_q = WRAPPED.build(raw, priors((0.0, TURN)), None, settings(1)).log_prob(torch.ones(1, dtype=torch.float64))
    log_q.sum().backward()
    assert bool(torch.isfinite(log_q).all())
    assert raw.grad is not None and bool(torch.isfinite(raw.grad).all())


def test_it_has_no_more_components_than_fit_on_the_wire() -> None:
    raw = torch.zeros((1, 4 * (MAX_COMPONENTS - 1)), dtype=torch.float64)
    proposal = WRAPPED.build(raw, priors((0.0, TURN)), None, settings(MAX_COMPONENTS - 1))
    assert proposal.doubles().shape[1] <= 6 * MAX_COMPONENTS
    assert proposal.doubles().reshape(-1, 6)[:, 0].sum().item() == pytest.approx(1, abs=1e-12)


# ---- the network -----------------------------------------------------------------------------------------------------


def traces(phi: Floats, seed: int = 1) -> TraceBatch:
    """A side, an angle, and a number that depends on the angle."""
    n = len(phi)
    rng = np.random.default_rng(seed)
    site = torch.arange(len(SITES))[:, None].expand(-1, n).contiguous()
    prior = torch.zeros((len(SITES), n, 4), dtype=torch.float64)
    for i, ends in enumerate(PRIORS):
        prior[i, :, :2] = torch.tensor(ends)
    zeros = torch.zeros_like(site)
    value = torch.from_numpy(np.stack([rng.uniform(-1, 1, n), phi, np.cos(phi)]))
    return TraceBatch(site, zeros, value, prior, None, zeros, site >= 0, {})


def test_later_draws_do_not_see_where_the_circle_closes() -> None:
    both = traces(np.array([1e-9, TURN - 1e-9]))
    both.value[0] = 0.5
    for wrap, same in (("auto", True), ("none", False)):
        network = ProposalNetwork(dataclasses.replace(SMALL, wrap=wrap), Vocabulary(SITES), {}, seed=1).eval()
        with torch.inference_mode():
            last = network.log_probs(both)[2]
        assert bool(torch.isclose(last[0], last[1], atol=1e-5)) == same


def test_it_is_saved_and_files_of_earlier_versions_do_not_wrap(tmp_path: Path) -> None:
    batch = traces(np.array([0.1, 3.0, 6.2]))
    plain = dataclasses.replace(SMALL, wrap="none")
    for config in (SMALL, plain):
        network = ProposalNetwork(config, Vocabulary(SITES), {}, seed=1).eval()
        Network(network, simulator=["sim"]).save(tmp_path / "net.safetensors")
        loaded = Network.load(tmp_path / "net.safetensors")
        assert loaded.config == config
        assert torch.equal(loaded.network.log_probs(batch), network.log_probs(batch))
    earlier = {name: value for name, value in plain.to_dict().items() if name != "wrap"}
    assert NetworkConfig.from_dict(earlier) == plain and NetworkConfig().wrap == "auto"
    with pytest.raises(RuntimeError, match=r"heads\.UNIFORM\.last"):
        ProposalNetwork(SMALL, Vocabulary(SITES), {}).load_state_dict(
            ProposalNetwork(plain, Vocabulary(SITES), {}).state_dict()
        )


def test_other_ways_are_refused() -> None:
    with pytest.raises(ValueError, match="wrap must be 'auto' or 'none', not 'polar'"):
        NetworkConfig(wrap="polar")


def effective_share(config: NetworkConfig) -> float:
    """Of a network that was fitted to an angle that goes around with another draw: ESS/N, by draws of the angle."""
    network = ProposalNetwork(config, Vocabulary(SITES), {}, seed=1).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    rng = np.random.default_rng(2)

    def drawn(n: int) -> tuple[TraceBatch, Floats]:
        side, z = rng.uniform(-1, 1, n), rng.normal(0, 0.3, n)
        batch = traces((math.pi * side + z) % TURN)
        batch.value[0] = torch.from_numpy(side)
        return batch, z

    for _ in range(150):
        optimizer.zero_grad()
        (-network.log_probs(drawn(128)[0])[1].mean()).backward()
        optimizer.step()
    network.eval()
    batch, z = drawn(8000)
    with torch.inference_mode():
        log_q = network.log_probs(batch)[1].numpy()
    return float(1 / np.exp(stats.norm.logpdf(z, 0, 0.3) - log_q).mean())


def test_a_mode_that_goes_around_is_learnt_better() -> None:
    """0.96, against 0.87 of components that stop at the ends."""
    sizes = dataclasses.replace(SMALL, lstm_dim=16, head_hidden=16, value_dim=16)
    assert effective_share(sizes) > effective_share(dataclasses.replace(sizes, wrap="none")) + 0.04
