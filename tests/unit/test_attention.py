"""What proposals read of series: what is trained is what is computed step by step, it is saved, refused where it cannot
be, and it finds the element that matters. That it is served so is among the tests of test_network_proposer.py."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from column_builder import Sample, Trace, observation, pack

from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.config import NetworkConfig

torch = pytest.importorskip("torch")
from ars.errors import CheckpointError, ObservationShapeError  # noqa: E402
from ars.network.facade import Network  # noqa: E402
from ars.network.model import attention  # noqa: E402
from ars.network.model.core import ProposalNetwork  # noqa: E402
from ars.network.model.trace_batch import Batch, TraceBatch  # noqa: E402
from ars.network.model.vocabulary import Vocabulary  # noqa: E402
from ars.network.train.batches import Batcher  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = NetworkConfig(
    lstm_dim=12, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8, series_dim=6, components=3
)
SERIES = dataclasses.replace(SMALL, series="attention")
LENGTH = 6
SITES = (
    Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "loop/z"),
    Site(1, SiteKind.SAMPLE, DistKind.CATEGORICAL, "k"),
    observation(2, "y"),
)
NORMAL = (0.0, 1.0)


def traces(n: int, length: int = LENGTH, noise: float = 0.1, seed: int = 1) -> list[Trace]:
    """A category, then ``length`` standard Normals; y is those with noise, in order."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n):
        z = rng.normal(size=length)
        samples = [Sample(1, float(rng.integers(3)), params=(0.2, 0.3, 0.5), kind=DistKind.CATEGORICAL)]
        samples += [Sample(0, float(x), instance=i, params=NORMAL) for i, x in enumerate(z)]
        y = z + noise * rng.normal(size=length)
        made.append(Trace(number, samples=samples[: None if number % 3 else 3], observes=[(2, y.tolist())]))
    return made


def batch_of(some: list[Trace], rejected: bool = False) -> tuple[Batch, Vocabulary]:
    batcher = Batcher(Vocabulary(), {"y": (LENGTH,)}, rejected=rejected)
    batch, _ = batcher(pack(some), SITES)
    return batch, batcher.vocabulary


def made(config: NetworkConfig = SERIES, seed: int = 3) -> tuple[ProposalNetwork, TraceBatch]:
    batch, vocabulary = batch_of(traces(9))
    assert isinstance(batch, TraceBatch)
    network = ProposalNetwork(config, vocabulary, {"y": (LENGTH,)}, seed=seed)
    with torch.no_grad():
        network.train().loss(batch)  # learns the scales
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return network.eval(), batch


def stepped(network: ProposalNetwork, batch: TraceBatch) -> torch.Tensor:
    """log q [T, B], one step after another."""
    steps, rows = batch.site.shape
    obs, state = network.observe(batch.observation), network.initial_state(rows)
    before = earlier = (torch.full((rows,), -1), torch.zeros(rows).double(), torch.zeros((rows, 4)).double())
    log_q = torch.zeros((steps, rows)).double()
    for t in range(steps):
        assert batch.categories is not None
        asked = (batch.site[t], batch.instance[t], batch.prior[t], batch.categories[t])
        x = network.inputs(obs, *asked, *before, earlier)
        out, state = network.advance(x, state)
        here = torch.nonzero(batch.mask[t]).squeeze(-1)
        columns = (batch.site[t, here], batch.prior[t, here], batch.categories[t, here], batch.value[t, here])
        log_q[t, here] = network.log_prob(out[here], *columns)
        before, earlier = (batch.site[t], batch.value[t], batch.prior[t]), before
    return log_q


# ---- one function ----------------------------------------------------------------------------------------------------


def test_steps_sequences_and_trees_agree() -> None:
    network, batch = made()
    tree, _ = batch_of(traces(9), rejected=True)
    with torch.inference_mode():
        whole = network.log_probs(batch)
        assert whole.numpy() == pytest.approx(stepped(network, batch).numpy(), abs=1e-5)
        assert float(network.minus_log_q(tree)) == pytest.approx(-float(whole.sum()), rel=1e-6)


def test_both_ways_to_read_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of questions and traces in one product, or row by row."""
    network, batch = made()
    with torch.inference_mode():
        at_once = network.log_probs(batch)
        monkeypatch.setattr(attention, "_MOST_PAIRS", 0)
        assert torch.allclose(network.log_probs(batch), at_once, atol=1e-6)


def test_a_question_reads_the_element_of_its_instance_at_the_start() -> None:
    reader = attention.SeriesReader((20,), asked=4, width=8, heads=3)
    with torch.inference_mode():
        weights = reader.weights(torch.zeros((20, 4)), torch.arange(20))
    for head, offset in enumerate((0, 1, -1)):
        found = weights[:, head].argmax(dim=-1)
        inside = (torch.arange(20) + offset >= 0) & (torch.arange(20) + offset < 20)
        assert torch.equal(found[inside], (torch.arange(20) + offset)[inside])
        assert torch.allclose(weights[:, head].sum(dim=-1), torch.ones(20))
    assert 0.4 < float(weights[10, 0, 10]) < 0.9  # the others are read too, so that it can move


def test_each_number_of_a_series_matters_and_a_missing_one_is_seen() -> None:
    network, batch = made()
    tokens = network.series(batch.observation)[0].reshape(9, LENGTH, -1)
    for i in range(LENGTH):
        changed = batch.observation["y"].clone()
        changed[:, i] += 0.5
        assert not torch.allclose(network.series({"y": changed})[0].reshape(9, LENGTH, -1)[:, i], tokens[:, i])
        changed[:, i] = torch.nan
        assert torch.isfinite(network.series({"y": changed})[0]).all()
    scale = network.series.readers[0].scale
    mean = scale.mean.clone()
    network.series.learn({"y": torch.full((5, LENGTH), 1e6).index_fill(1, torch.tensor([2]), torch.nan)})
    assert torch.equal(scale.mean, mean) and int(scale.rows) == 9


# ---- which observations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "shapes", "expected"),
    [
        ("auto", {"y": (7,)}, []),
        ("auto", {"y": (8,), "z": (3,), "w": (257,), "pair": (40, 2), "image": (20, 20)}, ["pair", "y"]),
        ("attention", {"y": (4,), "long": (1000,), "z": (3,)}, ["long", "y"]),
        ("flat", {"y": (20,)}, []),
    ],
)
def test_which_observations_are_series(how: str, shapes: dict[str, tuple[int, ...]], expected: list[str]) -> None:
    network = ProposalNetwork(dataclasses.replace(SMALL, series=how), batch_of(traces(3))[1], shapes)
    assert sorted(network.series.names) == expected
    data = {name: torch.randn((2, *shape)) for name, shape in shapes.items()}
    network.learn_scales(data)
    zeros = torch.zeros(2, dtype=torch.int64)
    seen = network.seen_of(network.observe(data), torch.arange(2), zeros, zeros)
    assert seen.shape == (2, SMALL.observe_dim + len(expected) * SMALL.series_dim * SMALL.series_heads)


@pytest.mark.parametrize("shapes", [{}, {"y": (3,)}, {"image": (20, 20)}])
def test_attention_without_a_series_is_refused(shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(ObservationShapeError, match=r'^series="attention" needs an observation that is a series'):
        ProposalNetwork(SERIES, batch_of(traces(3))[1], shapes)
    with pytest.raises(ObservationShapeError, match=r"The observations are 'y' \(20,\)"):
        ProposalNetwork(SERIES, batch_of(traces(3))[1], {"y": (20,)}, {"y": torch.nn.Linear(20, 4)})


def test_wrong_settings_name_the_field() -> None:
    with pytest.raises(ValueError, match="series must be"):
        NetworkConfig(series="lstm")
    with pytest.raises(ValueError, match="series_heads must be from 1 to 64, not 65"):
        NetworkConfig(series_heads=65)


# ---- on disk ---------------------------------------------------------------------------------------------------------


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    network, batch = made()
    Network(network, simulator=["sim"]).save(tmp_path / "net.safetensors")
    loaded = Network.load(tmp_path / "net.safetensors")
    assert loaded.config == SERIES
    assert torch.equal(loaded.network.log_probs(batch), network.log_probs(batch))


def test_networks_of_earlier_versions_are_flat(tmp_path: Path) -> None:
    """Their files do not say how series are seen; with today's default they would want weights that are not there."""
    flat = dataclasses.replace(SMALL, series="flat")
    earlier = {name: value for name, value in flat.to_dict().items() if not name.startswith("series")}
    assert NetworkConfig.from_dict(earlier).series == "flat" and NetworkConfig().series == "auto"
    network = ProposalNetwork(flat, batch_of(traces(3))[1], {"y": (20,)}, seed=1)
    other = ProposalNetwork(NetworkConfig.from_dict(earlier), network.vocabulary, {"y": (20,)}, seed=2)
    other.load_state_dict(network.state_dict())
    with pytest.raises(RuntimeError, match="series"):
        ProposalNetwork(SMALL, network.vocabulary, {"y": (20,)}).load_state_dict(network.state_dict())
    with pytest.raises(CheckpointError):
        Network.load(tmp_path / "none")


# ---- what it is for --------------------------------------------------------------------------------------------------


def trained_loss(config: NetworkConfig) -> float:
    """After a short training: the loss, per latent, above that of the best proposals."""
    noise, length = 0.2, 16
    batcher = Batcher(Vocabulary(), {"y": (length,)})
    some = [pack(traces(200, length, noise, seed)) for seed in range(12)]
    batches = [batcher(columns, SITES)[0] for columns in some]
    network = ProposalNetwork(config, batcher.vocabulary, {"y": (length,)}, seed=1).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(8):
        for batch in batches[1:]:
            optimizer.zero_grad()
            network.loss(batch).backward()
            optimizer.step()
    network.eval()
    with torch.inference_mode():
        log_q = network.log_probs(batches[0])
    assert isinstance(batches[0], TraceBatch)
    normal = log_q[batches[0].site == network.vocabulary.index("loop/z")]
    best = 0.5 * np.log(2 * np.pi * np.e * noise**2 / (1 + noise**2))  # the entropy of z given its y
    return -float(normal.mean()) - best


@pytest.mark.slow
def test_it_finds_the_element_that_matters() -> None:
    """16 latents, each seen in a number of its own. As one vector of numbers they are not told apart in this time."""
    sizes = dataclasses.replace(SMALL, lstm_dim=24, observe_dim=16, observe_hidden=32, site_dim=8, head_hidden=24)
    assert trained_loss(sizes) < 0.2
    assert trained_loss(dataclasses.replace(sizes, series="flat")) > 0.5
