"""The network: steps and sequences agree, growing and padding change nothing, bad input is named, it learns."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from ars import _native
from ars._native import DistKind

torch = pytest.importorskip("torch")
from ars.errors import EmbeddingError, ObservationShapeError  # noqa: E402
from ars.network import Group, NetworkConfig, ProposalNetwork, SiteSpec, TraceBatch, Vocabulary  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = NetworkConfig(lstm_dim=24, observe_dim=8, observe_hidden=16, site_dim=6, value_dim=8, head_hidden=16)

# A prior of every kind.
PRIORS: dict[DistKind, tuple[float, ...]] = {
    DistKind.UNIFORM: (-1, 3),
    DistKind.NORMAL: (2, 0.5),
    DistKind.BERNOULLI: (0.3,),
    DistKind.CATEGORICAL: (0.2, 0.5, 0.3),
    DistKind.POISSON: (4,),
    DistKind.BINOMIAL: (9, 0.4),
    DistKind.BETA: (2, 3),
    DistKind.GAMMA: (2, 0.5),
    DistKind.EXPONENTIAL: (2,),
    DistKind.WEIBULL: (1, 1.5),
    DistKind.LOGNORMAL: (0, 1),
    DistKind.TRUNCATED_NORMAL: (0, 1, 0, np.inf),
    DistKind.NEGATIVE_BINOMIAL: (3.5, 0.4),
    DistKind.STUDENT_T: (4, 1, 2),
}


def all_kinds() -> Vocabulary:
    return Vocabulary(SiteSpec(f"loop/{kind.name}", kind, len(params)) for kind, params in PRIORS.items())


def encoded(kind: DistKind, params: tuple[float, ...]) -> bytes:
    header = np.array([(kind, 0, len(params))], dtype=_native.DTYPES["dist"]).tobytes()
    return header + np.array(params, dtype=np.float64).tobytes()


def make_batch(vocabulary: Vocabulary, lengths: list[int], seed: int = 0, steps: int | None = None) -> TraceBatch:
    """Traces of these lengths, whose sites are random and whose values are drawn from the priors."""
    rng = np.random.default_rng(seed)
    steps = steps or max(lengths)
    shape = (steps, len(lengths))
    site = np.full(shape, -1)
    value, prior, categories = np.zeros(shape), np.zeros((*shape, 4)), np.zeros((*shape, 3))
    n_categories = np.zeros(shape, dtype=np.int64)
    for column, length in enumerate(lengths):
        for row in range(length):
            index = int(rng.integers(len(vocabulary)))
            kind = vocabulary[index].kind
            site[row, column] = index
            value[row, column] = _native.sample(encoded(kind, PRIORS[kind]), 1, int(rng.integers(1 << 40)))[0]
            if kind is DistKind.CATEGORICAL:
                categories[row, column], n_categories[row, column] = PRIORS[kind], 3
            else:
                prior[row, column, : len(PRIORS[kind])] = PRIORS[kind]
    return TraceBatch(
        torch.from_numpy(site),
        torch.from_numpy(rng.integers(0, 5, shape)),
        torch.from_numpy(value),
        torch.from_numpy(prior),
        torch.from_numpy(categories),
        torch.from_numpy(n_categories),
        torch.from_numpy(site >= 0),
        {"y": torch.from_numpy(rng.normal(size=(len(lengths), 2))).float()},
    )


def make_network(vocabulary: Vocabulary, config: NetworkConfig = SMALL, seed: int = 3) -> ProposalNetwork:
    """Not the initial weights: those propose nearly the prior, whatever the input."""
    network = ProposalNetwork(config, vocabulary, {"y": (2,)}, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.heads.named_parameters():
            if "last.weight" in name:
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return network.eval()


def step_by_step(network: ProposalNetwork, batch: TraceBatch) -> tuple[torch.Tensor, list[list[Group]]]:
    """What serving does: log q [T, B] and the proposals, one step after another."""
    steps, traces = batch.site.shape
    obs = network.observe(batch.observation)
    state = network.initial_state(traces)
    before = earlier = (torch.full((traces,), -1), torch.zeros(traces).double(), torch.zeros((traces, 4)).double())
    log_q, groups = torch.zeros((steps, traces)).double(), []
    for t in range(steps):
        categories = None if batch.categories is None else batch.categories[t]
        x = network.inputs(obs, batch.site[t], batch.instance[t], batch.prior[t], categories, *before, earlier)
        out, state = network.advance(x, state)
        here = torch.nonzero(batch.mask[t]).squeeze(-1)
        log_q[t, here] = network.log_prob(
            out[here],
            batch.site[t, here],
            batch.prior[t, here],
            None if categories is None else categories[here],
            batch.value[t, here],
        )
        groups.append(network.propose(out, batch.site[t], batch.prior[t], categories))
        before, earlier = (batch.site[t], batch.value[t], batch.prior[t]), before
    return log_q, groups


# ---- one step, a sequence, the wire --------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 3])
def test_steps_and_sequence_agree(depth: int) -> None:
    vocabulary = all_kinds()
    network = make_network(vocabulary, NetworkConfig(**{**SMALL.to_dict(), "lstm_depth": depth}))
    batch = make_batch(vocabulary, [7, 3, 12, 1, 0, 9])
    with torch.inference_mode():
        whole = network.log_probs(batch)
        stepped, _ = step_by_step(network, batch)
    assert torch.all(whole[~batch.mask] == 0)
    assert whole.numpy() == pytest.approx(stepped.numpy(), abs=1e-4)


def test_proposals_on_the_wire_have_the_density_that_is_trained() -> None:
    """All kinds in one batch: the doubles of every row, given to the C code."""
    vocabulary = all_kinds()
    network = make_network(vocabulary)
    batch = make_batch(vocabulary, [20] * 8, seed=5)
    with torch.inference_mode():
        log_q, groups = step_by_step(network, batch)
    kinds = set()
    for t, step in enumerate(groups):
        assert sorted(row for group in step for row in group.rows.tolist()) == list(range(8))
        for group in step:
            kinds.add(group.kind)
            for row, doubles in zip(group.rows.tolist(), group.params.numpy(), strict=True):
                in_c = _native.log_density(encoded(group.kind, tuple(doubles)), [batch.value[t, row].item()])
                assert in_c[0] == pytest.approx(log_q[t, row].item(), abs=1e-10, rel=1e-10)
    assert kinds == {DistKind.MIXTURE, DistKind.CATEGORICAL, DistKind.BERNOULLI}


def test_proposals_depend_on_everything_they_should() -> None:
    vocabulary = all_kinds()
    network = make_network(vocabulary)
    batch = make_batch(vocabulary, [4] * 3, seed=2)
    uniform = vocabulary.index("loop/UNIFORM")
    batch.site[0], batch.site[1] = uniform, uniform
    batch.prior[:2] = torch.tensor([-1.0, 3.0, 0.0, 0.0])
    batch.value[:2] = 0.7
    with torch.inference_mode():
        base = network.log_probs(batch)[1].clone()
        for change in ("value", "instance", "observation"):
            other = batch._replace(value=batch.value.clone(), instance=batch.instance.clone())
            if change == "value":
                other.value[0] = 0.71
            elif change == "instance":
                other.instance[1] += 1
            else:
                other = other._replace(observation={"y": batch.observation["y"] + 0.1})
            assert torch.all(network.log_probs(other)[1] != base), change


def test_a_site_that_is_not_known_has_no_proposal() -> None:
    network = make_network(all_kinds())
    batch = make_batch(network.vocabulary, [1, 1, 1])
    site = batch.site[0].clone()
    site[1] = -1
    out = torch.zeros((3, network.output_dim))
    groups = network.propose(out, site, batch.prior[0], batch.categories[0] if batch.categories is not None else None)
    assert sorted(row for group in groups for row in group.rows.tolist()) == [0, 2]
    with pytest.raises(ValueError, match="site -1"):
        network.log_prob(out, site, batch.prior[0], None, batch.value[0])


def test_untrained_network_proposes_nearly_the_prior() -> None:
    vocabulary = all_kinds()
    network = ProposalNetwork(SMALL, vocabulary, {"y": (2,)}).eval()
    batch = make_batch(vocabulary, [30] * 30, seed=9)
    with torch.inference_mode():
        log_q = network.log_probs(batch)
    for index, spec in enumerate(vocabulary):
        here = batch.site == index
        log_p = _native.log_density(encoded(spec.kind, PRIORS[spec.kind]), batch.value[here].numpy())
        assert abs((log_p - log_q[here].numpy()).mean()) < 0.15, spec


# ---- padding -------------------------------------------------------------------------------------------------------


def test_padding_does_not_change_the_loss() -> None:
    """Nor do the values in it."""
    vocabulary = all_kinds()
    network = make_network(vocabulary)
    short = make_batch(vocabulary, [5, 2, 3], seed=4)
    long = make_batch(vocabulary, [5, 2, 3], seed=4, steps=5)
    extra = 3

    def padded(x: torch.Tensor, fill: float) -> torch.Tensor:
        return torch.cat([x, torch.full((extra, *x.shape[1:]), fill, dtype=x.dtype)])

    assert long.categories is not None
    long = TraceBatch(
        padded(long.site, -1),
        padded(long.instance, 3),
        padded(long.value, 1e9),
        padded(long.prior, 7.0),
        padded(long.categories, 0.3),
        padded(long.n_categories, 2),
        torch.cat([long.mask, torch.zeros((extra, 3), dtype=torch.bool)]),
        long.observation,
    )
    losses, gradients = [], []
    for batch in (short, long):
        network.zero_grad()
        loss = network.loss(batch)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.reshape(-1) for p in network.parameters() if p.grad is not None]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert gradients[0].numpy() == pytest.approx(gradients[1].numpy(), rel=1e-3, abs=1e-5)


def test_loss_is_the_mean_over_traces() -> None:
    """A batch is worth what its traces are worth one by one, whatever their shapes."""
    vocabulary = all_kinds()
    network = make_network(vocabulary)
    batch = make_batch(vocabulary, [6, 1, 4], seed=8)
    alone = []
    for i in range(3):
        one = [x[:, i : i + 1] for x in batch[:7] if isinstance(x, torch.Tensor)]
        alone.append(network.loss(TraceBatch(*one, {"y": batch.observation["y"][i : i + 1]})).item())
    assert network.loss(batch).item() == pytest.approx(np.mean(alone), rel=1e-5)


# ---- growing -------------------------------------------------------------------------------------------------------


def test_growing_keeps_old_outputs() -> None:
    """Bit for bit: new sites, a new family, more categories of a new site."""
    small = Vocabulary(list(all_kinds())[:6])
    network = make_network(small)
    batch = make_batch(small, [6, 3, 8], seed=1)
    with torch.inference_mode():
        before = network.log_probs(batch).clone()
    site_table = network.sites.weight
    grown = small.copy()
    for spec in list(all_kinds())[6:]:
        grown.add(spec)
    grown.add(SiteSpec("another", DistKind.UNIFORM, 2))
    growth = network.grow(grown)
    assert network.sites.weight is site_table
    assert growth.resized == {"sites.weight": 7}
    assert "heads.GAMMA.last.bias" in growth.added
    assert not network.grow(grown)
    with torch.inference_mode():
        assert torch.equal(network.log_probs(batch), before)
    network.loss(make_batch(grown, [10, 4], seed=2)).backward()
    assert network.sites.weight.grad is not None
    assert network.sites.weight.grad.shape == (16, SMALL.site_dim)


def test_growing_categories_keeps_what_is_known() -> None:
    vocabulary = Vocabulary([SiteSpec("c", DistKind.CATEGORICAL, 3)])
    network = make_network(vocabulary)
    batch = make_batch(vocabulary, [4, 4], seed=1)
    before = network.log_probs(batch).detach()
    vocabulary.add(SiteSpec("d", DistKind.CATEGORICAL, 9))
    growth = network.grow(vocabulary)
    assert growth.resized == {
        "sites.weight": 2,
        "categories.weight": 5,
        "heads.CATEGORICAL.last.weight": 4,
        "heads.CATEGORICAL.last.bias": 4,
    }
    assert network.log_probs(batch).detach().numpy() == pytest.approx(before.numpy(), abs=1e-6)


def test_weights_do_not_depend_on_when_a_site_is_met() -> None:
    """Nor on torch's generator, which is left as it was."""
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    at_once = ProposalNetwork(SMALL, all_kinds(), {"y": (2,)}, seed=5)
    assert torch.equal(torch.rand(3), expected)
    later = ProposalNetwork(SMALL, Vocabulary(list(all_kinds())[:2]), {"y": (2,)}, seed=5)
    later.grow(all_kinds())
    weights = dict(later.named_parameters())
    assert all(torch.equal(weights[name], parameter) for name, parameter in at_once.named_parameters())
    other = ProposalNetwork(SMALL, all_kinds(), {"y": (2,)}, seed=6)
    assert not torch.equal(other.sites.weight, at_once.sites.weight)


def test_state_dict_restores_the_network() -> None:
    network = make_network(all_kinds())
    batch = make_batch(network.vocabulary, [6, 3], seed=1)
    network.train().loss(batch)  # learns the scales of the observations, which are saved too
    network.eval()
    copy = ProposalNetwork(network.config, network.vocabulary, network.observation_shapes, seed=99).eval()
    copy.load_state_dict(network.state_dict())
    assert torch.equal(copy.log_probs(batch), network.log_probs(batch))


# ---- observations --------------------------------------------------------------------------------------------------


def test_scales_are_learnt_in_training_then_fixed() -> None:
    network = ProposalNetwork(SMALL, all_kinds(), {"y": (2,)})
    rng = np.random.default_rng(0)
    y = rng.normal([100, -3], [5, 0.01], size=(30_000, 2))
    for part in np.split(y, 30):
        network.observer.learn({"y": torch.from_numpy(part)})
    scale = network.observer.numbers.scales[0]
    assert scale.mean.numpy() == pytest.approx(y[:20_000].mean(axis=0), rel=1e-9)
    assert scale.second.numpy() == pytest.approx(y[:20_000].var(axis=0), rel=1e-9)
    network.observer.learn({"y": torch.full((10, 2), 1e6)})
    assert int(scale.rows) == 20_000
    batch = make_batch(all_kinds(), [2])
    other = ProposalNetwork(SMALL, all_kinds(), {"y": (2,)}).eval()
    other.loss(batch)
    assert int(other.observer.numbers.scales[0].rows) == 0


def test_observations_of_every_shape() -> None:
    shapes = {"image": (20, 20), "number": (), "spectrum": (100,), "small": (3, 4), "mine": (5,)}
    flat_series = dataclasses.replace(SMALL, series="flat")
    network = ProposalNetwork(flat_series, all_kinds(), shapes, {"mine": torch.nn.Linear(5, 8)})
    assert network.observer.image_names == ("image",)
    assert network.custom_embeddings == ("mine",)
    data = {name: torch.randn((4, *shape)) for name, shape in shapes.items()}
    out = network.observe(data)
    assert out.shape == (4, 8)
    flat = {**data, "image": data["image"].reshape(4, 400), "number": data["number"].reshape(4, 1)}
    assert torch.equal(network.observe(flat), out)
    for name in shapes:
        changed = {**data, name: data[name] + 0.5}
        assert torch.all((network.observe(changed) != out).any(dim=-1)), name


def test_no_observations() -> None:
    network = ProposalNetwork(SMALL, all_kinds(), {})
    assert torch.isfinite(network.loss(make_batch(all_kinds(), [3, 2])._replace(observation={})))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "made for the observations 'image', but none were"),
        ({"image": (3, 20, 20), "z": (3,)}, "but 'image', 'z' were given"),
        ({"image": (3, 20, 21)}, r"'image' has shape \(20, 21\), the network was made for \(20, 20\)"),
        ({"image": (3, 10, 40)}, r"'image' has shape \(10, 40\)"),
    ],
)
def test_wrong_observations_are_named(data: dict[str, tuple[int, ...]], message: str) -> None:
    network = ProposalNetwork(SMALL, all_kinds(), {"image": (20, 20)})
    with pytest.raises(ObservationShapeError, match=message):
        network.observe({name: torch.zeros(shape) for name, shape in data.items()})


def test_a_nan_in_an_observation_is_named() -> None:
    network = ProposalNetwork(SMALL, all_kinds(), {"y": (2,)})
    with pytest.raises(ObservationShapeError, match=r"'y' has NaN.*\(row 1 .*Train one with missing=0\.2"):
        network.observe({"y": torch.tensor([[0.0, 1.0], [0.0, float("nan")]])})
    with pytest.raises(ObservationShapeError, match=r"'y' has an infinite number \(row 1"):
        network.observe({"y": torch.tensor([[0.0, float("nan")], [0.0, float("inf")]])})


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (torch.nn.Linear(5, 10), r"'y' returned shape \(2, 10\), expected \(2, 8\).*observe_dim=8"),
        (torch.nn.Linear(4, 8), r"'y' failed on a batch of shape \(2, 5\)"),
        (torch.nn.LSTM(5, 8), r"'y' returned tuple, expected a tensor"),
    ],
)
def test_a_wrong_embedding_is_named(module: torch.nn.Module, message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        ProposalNetwork(SMALL, all_kinds(), {"y": (5,)}, {"y": module})


def test_an_embedding_for_nothing_is_named() -> None:
    with pytest.raises(EmbeddingError, match="'z', but the simulator observes 'y'"):
        ProposalNetwork(SMALL, all_kinds(), {"y": (5,)}, {"z": torch.nn.Linear(5, 8)})


# ---- configuration and vocabulary ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("lstm_dim", 0), ("lstm_depth", 1.5), ("components", 64), ("defensive", 0.0), ("observe_dim", True)],
)
def test_wrong_settings_are_named(field: str, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match=field):
        NetworkConfig(**{field: value})  # type: ignore[arg-type]


def test_settings_go_through_json() -> None:
    assert NetworkConfig.from_dict(json.loads(json.dumps(SMALL.to_dict()))) == SMALL
    with pytest.raises(ValueError, match="colour"):
        NetworkConfig.from_dict({"colour": 1})


def test_vocabulary_is_append_only() -> None:
    vocabulary = Vocabulary([SiteSpec("a", DistKind.NORMAL, 2)])
    assert vocabulary.add(SiteSpec("b", DistKind.CATEGORICAL, 3)) == 1
    assert vocabulary.add(SiteSpec("a", DistKind.NORMAL, 2)) == 0
    assert vocabulary.add(SiteSpec("b", DistKind.CATEGORICAL, 5)) == 1
    assert (vocabulary.categories, vocabulary.index("b"), vocabulary.index("c"), len(vocabulary)) == (5, 1, -1, 2)
    with pytest.raises(ValueError, match="'a' has a GAMMA prior here, but the network knows it with a NORMAL prior"):
        vocabulary.add(SiteSpec("a", DistKind.GAMMA, 2))
    network = ProposalNetwork(SMALL, vocabulary, {})
    with pytest.raises(ValueError, match="'z' where the network has 'a'"):
        network.grow(Vocabulary([SiteSpec("z", DistKind.NORMAL, 2), *list(vocabulary)[1:]]))
    with pytest.raises(ValueError, match="1 sites, the network 2"):
        network.grow(Vocabulary(list(vocabulary)[:1]))


def test_importing_ars_imports_no_torch() -> None:
    code = "import sys, ars, ars.network, ars.network.model.vocabulary; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- learning ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_learns_a_conditional_gaussian() -> None:
    """x ~ Normal(0, 1), then z ~ Normal(x, 1), y ~ Normal(z, 0.3): the posteriors are known."""
    torch.manual_seed(0)
    vocabulary = Vocabulary([SiteSpec("x", DistKind.NORMAL, 2), SiteSpec("z", DistKind.NORMAL, 2)])
    config = NetworkConfig(lstm_dim=32, components=5, observe_dim=16, observe_hidden=32, value_dim=16, head_hidden=32)
    network = ProposalNetwork(config, vocabulary, {"y": ()}, seed=1)
    rng = np.random.default_rng(2)

    def draw(n: int) -> tuple[TraceBatch, float]:
        x = rng.normal(size=n)
        z = x + rng.normal(size=n)
        y = z + 0.3 * rng.normal(size=n)
        prior = np.zeros((2, n, 4))
        prior[0, :, 1] = prior[1, :, 1] = 1
        prior[1, :, 0] = x
        zeros = torch.zeros((2, n), dtype=torch.int64)
        batch = TraceBatch(
            torch.tensor([[0], [1]]).expand(2, n),
            zeros,
            torch.from_numpy(np.stack([x, z])),
            torch.from_numpy(prior),
            None,
            zeros,
            torch.ones((2, n), dtype=torch.bool),
            {"y": torch.from_numpy(y).float()},
        )
        # x | y and z | x, y are Normal; the best loss is minus their mean log density.
        share = 1 / (1 + 0.09)
        exact = stats.norm.logpdf(x, y / 2.09, np.sqrt(1.09 / 2.09))
        exact += stats.norm.logpdf(z, x + share * (y - x), np.sqrt(0.09 * share))
        return batch, -float(exact.mean())

    steps = 300
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        network.loss(draw(256)[0]).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        schedule.step()
    network.eval()
    batch, best = draw(20_000)
    with torch.inference_mode():
        loss = network.loss(batch).item()
    assert best - 0.02 < loss < best + 0.06
