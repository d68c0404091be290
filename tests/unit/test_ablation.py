"""The heads that ablations measure and libars does not have: are their densities densities?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats
from tests import exact

from ars._native import DistKind
from ars.config import NetworkConfig

torch = pytest.importorskip("torch")
from ars.network.model.core import ProposalNetwork  # noqa: E402
from ars.network.model.heads import HeadSettings  # noqa: E402
from ars.network.model.trace_batch import TraceBatch  # noqa: E402
from ars.network.model.vocabulary import SiteSpec, Vocabulary  # noqa: E402
from ars_lab.ablation import blocks, optimum, splines  # noqa: E402
from ars_lab.ablation.command import table  # noqa: E402
from ars_lab.ablation.measure import Outcome  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

Floats = npt.NDArray[np.float64]

SMALL = NetworkConfig(
    lstm_dim=12, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=8, head_hidden=8, components=3
)
PRIORS = {
    DistKind.UNIFORM: ((-1.0, 3.0), stats.uniform(-1, 4)),
    DistKind.BETA: ((5.0, 2.0), stats.beta(5, 2)),
    DistKind.EXPONENTIAL: ((2.0, 0.0), stats.expon(scale=0.5)),
    DistKind.NORMAL: ((1.0, 0.5), stats.norm(1, 0.5)),
    DistKind.LOGNORMAL: ((0.3, 0.4), stats.lognorm(0.4, scale=np.exp(0.3))),
}
KINDS = pytest.mark.parametrize("kind", PRIORS, ids=lambda kind: kind.name)
NETWORKS = [blocks.PlainNetwork, blocks.PairNetwork, blocks.TripleNetwork, blocks.CarriedNetwork]


def prior_of(kind: DistKind, n: int) -> torch.Tensor:
    return torch.tensor([[*PRIORS[kind][0], 0.0, 0.0]], dtype=torch.float64).expand(n, -1)


def raw(n: int, size: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn((n, size), generator=generator, dtype=torch.float64)


def steps(kind: DistKind, n: int) -> tuple[Floats, Floats]:
    """Values all over the prior, far into its tails, and what an integral counts of each."""
    known, logits = PRIORS[kind][1], np.linspace(-27, 27, n)
    if kind is DistKind.BETA:  # its quantiles do not come near enough to the ends
        known = stats.uniform(0, 1)
    share, rest = special.expit(logits), special.expit(-logits)
    x = np.where(logits < 0, known.ppf(share), known.isf(rest))
    return x, share * rest * (logits[1] - logits[0]) / known.pdf(x)


# ---- splines ---------------------------------------------------------------------------------------------------------


def test_a_spline_has_an_inverse_and_a_derivative() -> None:
    n = 400
    spline = splines.spline_of(raw(1, 31, seed=1, scale=2.0).expand(n, -1), -2.0, 3.0)
    x = torch.linspace(-3, 4, n, dtype=torch.float64, requires_grad=True)
    y, log_slope = spline.forward(x)
    assert bool((y[1:] > y[:-1]).all())
    assert torch.equal(y[x < -2], x[x < -2]) and torch.equal(y[x > 3], x[x > 3])
    assert torch.allclose(spline.inverse(y), x, rtol=0, atol=1e-9)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(torch.exp(log_slope), slope, rtol=1e-9)


@KINDS
def test_a_spline_flow_starts_as_the_prior(kind: DistKind) -> None:
    x = steps(kind, 60)[0][15:-15]  # nearer to an end, the place in the interval loses digits
    head = splines.SplineNetwork.by_kind[kind]
    zeros = head.bias(HeadSettings(5, 0, 0.01)).to(torch.float64).expand(len(x), -1)
    proposal = head.build(zeros, prior_of(kind, len(x)), None, HeadSettings(5, 0, 0.01))
    assert proposal.log_prob(torch.from_numpy(x)).numpy() == pytest.approx(PRIORS[kind][1].logpdf(x), abs=1e-6)


@KINDS
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_spline_flow_integrates_to_one(kind: DistKind, seed: int) -> None:
    x, width = steps(kind, 8_000)
    head = splines.SplineNetwork.by_kind[kind]
    numbers = raw(1, head.size(HeadSettings(5, 0, 0.01)), seed).expand(len(x), -1)
    proposal = head.build(numbers, prior_of(kind, len(x)), None, HeadSettings(5, 0, 0.01))
    density = np.exp(proposal.log_prob(torch.from_numpy(x)).numpy())
    assert density @ width == pytest.approx(1, abs=2e-3)
    assert (density >= 0.01 * PRIORS[kind][1].pdf(x) * (1 - 1e-9)).all()
    with pytest.raises(NotImplementedError, match="cannot be served"):
        proposal.doubles()


# ---- blocks ----------------------------------------------------------------------------------------------------------


def test_conditionals_multiply_to_a_mixture_of_normals_with_full_covariances() -> None:
    k, n, rng = 3, 40, np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(k))
    location, scale = rng.normal(size=(3, k)), np.exp(0.3 * rng.normal(size=(3, k)))
    slopes = rng.normal(size=(3, 3, k))
    x = 2 * rng.normal(size=(n, 3))
    far = torch.full((n, 1), 1e4, dtype=torch.float64)
    carried, total = blocks.Carried(torch.from_numpy(np.log(weights)).expand(n, -1)), np.zeros(n)
    for j in range(3):
        rows = [torch.from_numpy(each).expand(n, -1) for each in (location[j], scale[j], *slopes[j, :j])]
        draw = blocks.Draw(rows[0], rows[1], tuple(rows[2:]), -far, far, torch.from_numpy(x[:, j : j + 1]))
        log_q, carried = carried.then(draw)
        total += log_q.numpy()
    exact = np.zeros(n)
    for i in range(k):
        mixing = np.linalg.inv(np.eye(3) - np.tril(slopes[:, :, i], -1))
        covariance = mixing @ np.diag(scale[:, i] ** 2) @ mixing.T
        exact += weights[i] * stats.multivariate_normal(location[:, i], covariance).pdf(x)
    assert total == pytest.approx(np.log(exact), abs=1e-9)


def batch(kinds: list[DistKind], x: list[Floats]) -> TraceBatch:
    """Traces of a draw of each of these kinds, at these values."""
    shape = (len(kinds), len(x[0]))
    site = torch.arange(shape[0]).unsqueeze(1).expand(shape).contiguous()
    zeros = torch.zeros(shape, dtype=torch.int64)
    prior = torch.stack([prior_of(kind, shape[1]) for kind in kinds])
    value = torch.from_numpy(np.stack(x))
    return TraceBatch(site, zeros, value, prior, None, zeros, torch.ones(shape, dtype=torch.bool), {})


def network_of(make: type[ProposalNetwork], kinds: list[DistKind]) -> ProposalNetwork:
    """Far from its start."""
    sites = [SiteSpec(f"x{i}", kind, 2) for i, kind in enumerate(kinds)]
    network = make(SMALL, Vocabulary(sites), {}, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for head in network.heads.values():
            head.last.bias += 0.7 * torch.randn(head.last.bias.shape, generator=generator)
    return network


@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.parametrize("second", PRIORS, ids=lambda kind: kind.name)
def test_every_conditional_of_a_block_integrates_to_one(make: type[ProposalNetwork], second: DistKind) -> None:
    """After draws that a network of blocks knows, one that it leaves to libars, and others in between."""
    kinds = [DistKind.NORMAL, DistKind.UNIFORM, second]
    network = network_of(make, kinds)
    x, width = steps(second, 8_000)
    with torch.no_grad():
        log_q = network.log_probs(batch(kinds, [np.full(len(x), 1.3), np.full(len(x), 0.2), x])).numpy()
    assert np.exp(log_q[2]) @ width == pytest.approx(1, abs=2e-3)
    assert np.ptp(log_q[:2], axis=1) == pytest.approx(0, abs=1e-6)  # do not know what follows
    uniform, step = steps(DistKind.UNIFORM, 8_000)
    with torch.no_grad():
        log_q = network.log_probs(batch(kinds[:2], [np.full(len(uniform), 1.3), uniform])).numpy()
    assert np.exp(log_q[1]) @ step == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("make", NETWORKS)
def test_blocks_end_where_a_draw_is_none_of_theirs(make: type[ProposalNetwork]) -> None:
    """Traces of several lengths, with a count in between: each as it is alone."""
    kinds = [DistKind.NORMAL, DistKind.POISSON, DistKind.NORMAL, DistKind.UNIFORM, DistKind.EXPONENTIAL]
    priors = [(1.0, 0.5), (3.0, 0.0), (1.0, 0.5), (-1.0, 3.0), (2.0, 0.0)]
    network = network_of(make, kinds)
    n, rng = 6, np.random.default_rng(3)
    prior = torch.tensor([[*each, 0.0, 0.0] for each in priors], dtype=torch.float64)
    whole = batch([DistKind.NORMAL] * 5, list(rng.uniform(0.1, 2.0, size=(5, n))))
    whole = whole._replace(prior=prior.unsqueeze(1).expand(-1, n, -1).contiguous())
    whole.value[1] = torch.tensor([0.0, 1, 2, 3, 4, 5])
    lengths = torch.tensor([5, 2, 5, 4, 3, 1])
    mask = torch.arange(5).unsqueeze(1) < lengths
    ragged = whole._replace(mask=mask, site=torch.where(mask, whole.site, -1))
    with torch.no_grad():
        together = network.log_probs(ragged)
        for i, length in enumerate(lengths.tolist()):
            alone = TraceBatch(*(t if t is None else t[:length, i : i + 1] for t in ragged[:7]), {})
            assert torch.allclose(network.log_probs(alone)[:, 0], together[:length, i], atol=1e-5)
    assert bool((together[~mask] == 0).all())


@pytest.mark.parametrize("make", [*NETWORKS, splines.SplineNetwork])
def test_an_angle_keeps_the_head_of_libars(make: type[ProposalNetwork]) -> None:
    """Which takes the first of the raw numbers, however many there are."""
    kinds, n = [DistKind.UNIFORM, DistKind.UNIFORM], 4_000
    network, turn = network_of(make, kinds), 2 * np.pi
    x = (np.arange(n) + 0.5) * turn / n
    traces = batch(kinds, [np.full(n, 0.2), x])
    traces.prior[1, :, :2] = torch.tensor([0.0, turn])
    with torch.no_grad():
        log_q = network.log_probs(traces)[1].numpy()
    assert np.exp(log_q).sum() * turn / n == pytest.approx(1, abs=1e-3)


def test_the_table_has_differences_seed_by_seed() -> None:
    outcomes = [
        Outcome(name, seed, 100, loss + 10 * seed, 0.5, float("nan"), 1.0, 1.0)
        for name, losses in {"base": (3.0, 4.0), "other": (2.0, 3.2)}.items()
        for seed, loss in enumerate(losses)
    ]
    rows = table(outcomes).splitlines()[2:]
    assert [row.split(" | ")[3] for row in rows] == ["+0.000 ± 0.000", "-0.900 ± 0.100"]


def test_the_best_loss_of_a_sequence_has_its_exact_evidence() -> None:
    """Of one row by quadrature, of two by plain draws."""
    one = optimum.log_evidence(np.array([[3.0], [1.0]]))
    assert np.exp(one) == pytest.approx([exact.sequence(y).evidence for y in (3.0, 1.0)], rel=3e-3)
    rng, n = np.random.default_rng(5), 300_000
    rows = [row_of_sequence(rng, n) for _ in range(2)]
    total = np.cumsum([row.sum(axis=0) for row in rows], axis=0)
    likelihood = stats.norm.pdf(2.5, total[0], 0.5) * stats.norm.pdf(4.0, total[1], 0.5)
    two = np.exp(optimum.log_evidence(np.array([[2.5, 4.0]]))[0])
    assert abs(likelihood.mean() - two) < 3.5 * likelihood.std() / np.sqrt(n)
    rows_of_one = optimum.Rows(*(np.array([[x]]) for x in (0.7, 1.6, 0.3)))
    y = np.linspace(-2, 7, 2_000)
    mass = np.exp([optimum.log_joint(rows_of_one, np.array([[each]]))[0] for each in y]).sum() * (y[1] - y[0])
    prior = stats.expon.pdf(0.7) / stats.expon.cdf(2) * stats.norm.pdf(0.9) / stats.norm.sf(0.3)
    assert mass == pytest.approx(prior * stats.norm.pdf(0.3) / stats.norm.cdf(1.4))


def row_of_sequence(rng: np.random.Generator, n: int) -> Floats:
    """Latents [3, n] of accepted rows of csim/sequence.c."""
    a, b, c = np.full(n, 2.0), np.zeros(n), np.full(n, np.inf)
    while (again := np.flatnonzero(a >= 2)).size:
        a[again] = rng.exponential(size=again.size)
    while (again := np.flatnonzero(b <= 1)).size:
        b[again] = rng.normal(a[again])
    while (again := np.flatnonzero(c >= b - a + 0.5)).size:
        c[again] = rng.normal(size=again.size)
    return np.stack([a, b, c])
