"""Networks for missing data: what is hidden from them in training, what they see of it, and what they refuse."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Sample, Trace, observation, pack

import ars
from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.config import NetworkConfig, TrainingConfig

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
from ars.errors import EmbeddingError, ObservationError, ObservationShapeError  # noqa: E402
from ars.network.checkpoint import architecture, load_training, save_training  # noqa: E402
from ars.network.model.core import ProposalNetwork  # noqa: E402
from ars.network.model.vocabulary import SiteSpec, Vocabulary  # noqa: E402
from ars.network.serve.proposer import NetworkProposer  # noqa: E402
from ars.network.train.batches import Batcher  # noqa: E402
from ars.network.train.fit import for_missing  # noqa: E402
from ars.network.train.hiding import HELD_OUT, TRAINED_ON, hidden, hidden_places  # noqa: E402
from ars.network.train.training import Prepared, Trainer  # noqa: E402
from ars.network.train.turns import HeldOut, Rows  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

NAN = math.nan
SMALL = NetworkConfig(lstm_dim=8, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8, components=2)
MASKED = dataclasses.replace(SMALL, missing_data="masked")
SITES = (Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"), observation(1, "y"), observation(2, "z"))
SHAPES = {"y": (3,), "z": (1,)}
VOCABULARY = Vocabulary([SiteSpec("x", DistKind.NORMAL, 2)])


def made_batch(traces: int = 64, first: int = 0, *, rejected: bool = False) -> Any:
    rng = np.random.default_rng(first)
    written = []
    for number in range(first, first + traces):
        x = rng.normal()
        y = (x + rng.normal(size=3)).tolist()
        samples = [Sample(0, x, params=(0.0, 1.0))]
        written.append(Trace(number, samples=samples, observes=[(1, y), (2, [100 + 5 * x])]))
    return Batcher(VOCABULARY.copy(), SHAPES, rejected=rejected)(pack(written), SITES)[0]


def seen(batch: Any) -> dict[str, Any]:
    return {name: x.numpy() for name, x in batch.observation.items()}


# ---- what is hidden --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_the_mean_share_is_the_one_that_was_asked_for(share: float) -> None:
    traces = 20_000
    places = hidden_places(np.random.default_rng(1), traces, share, {"y": 10, "z": 1})
    for name, mean in (("y", places["y"].mean(axis=1)), ("z", places["z"][:, 0])):
        error = float(np.std(mean)) / math.sqrt(traces)
        assert abs(float(np.mean(mean)) - share) < 4 * error, name


def test_every_pattern_occurs() -> None:
    places = hidden_places(np.random.default_rng(2), 4000, 0.3, {"y": 10, "z": 4})
    y, z = places["y"], places["z"]
    assert (~y.any(axis=1) & ~z.any(axis=1)).sum() > 100  # complete
    assert (y.all(axis=1) & z.all(axis=1)).sum() > 20  # nothing left
    assert (y.all(axis=1) & ~z.any(axis=1)).sum() > 20 and (z.all(axis=1) & ~y.any(axis=1)).sum() > 20  # one as a whole
    inside = np.flatnonzero((y.sum(axis=1) == 4) & y[:, 4] & y[:, 5])
    assert any(y[row, 3:7].all() for row in inside)  # a gap
    assert sum(y[row, 5:].all() and not y[row, :5].any() for row in range(len(y))) > 20  # the end
    scattered = (np.diff(y, axis=1) != 0).sum(axis=1) > 2
    assert scattered.sum() > 200  # here and there


def test_masks_depend_on_the_seed_and_the_place_alone() -> None:
    batch = made_batch()
    first = seen(hidden(batch, 0.5, 7, TRAINED_ON, 640))
    for name, x in seen(hidden(batch, 0.5, 7, TRAINED_ON, 640)).items():
        np.testing.assert_array_equal(x, first[name])
    swapped = batch._replace(observation=dict(reversed(batch.observation.items())))
    np.testing.assert_array_equal(seen(hidden(swapped, 0.5, 7, TRAINED_ON, 640))["y"], first["y"])
    for key in ((8, TRAINED_ON, 640), (7, HELD_OUT, 640), (7, TRAINED_ON, 704)):
        assert not np.array_equal(seen(hidden(batch, 0.5, *key))["y"], first["y"], equal_nan=True)
    full = seen(batch)
    for name, x in first.items():  # what is not hidden is what it was
        assert np.isnan(x).any()
        np.testing.assert_array_equal(x[~np.isnan(x)], full[name][~np.isnan(x)])
    assert hidden(batch, 0.0, 7, TRAINED_ON, 640) is batch
    some = batch._replace(
        observation={name: x[10:30] for name, x in batch.observation.items()}, site=batch.site[:, 10:30]
    )
    for name, x in seen(hidden(some, 0.5, 7, TRAINED_ON, 640, Rows(10, batch.traces))).items():  # a share of the batch
        np.testing.assert_array_equal(x, first[name][10:30])


def test_seeds_of_64_bits_and_trees_will_do() -> None:
    tree = made_batch(rejected=True)
    assert np.isnan(seen(hidden(tree, 0.5, 2**64 - 1, HELD_OUT, 0))["y"]).any()


# ---- what is seen of it ----------------------------------------------------------------------------------------------


def masked_network(shapes: dict[str, tuple[int, ...]], embeddings: Any = None, config: NetworkConfig = MASKED) -> Any:
    network = ProposalNetwork(config, VOCABULARY, shapes, embeddings, seed=3)
    rng = np.random.default_rng(4)
    network.observer.learn({name: torch.from_numpy(5 + 2 * rng.normal(size=(500, *s))) for name, s in shapes.items()})
    return network


@pytest.mark.parametrize("shape", [(1,), (3,), (40,), (8, 9)])
def test_a_missing_number_is_told_from_any_value(shape: tuple[int, ...]) -> None:
    network = masked_network({"y": shape})
    full = torch.full((1, *shape), 5.0)
    missing = full.clone()
    missing.view(-1)[-1] = NAN
    empty = torch.full((1, *shape), NAN)
    out = [network.observe({"y": x}) for x in (full, missing, empty)]
    assert all(bool(torch.isfinite(each).all()) for each in out)
    assert not torch.equal(out[0], out[1])
    assert torch.equal(out[1], out[2]) == (shape == (1,))
    gradients = torch.autograd.grad(out[1].sum(), list(network.observer.parameters()), allow_unused=True)
    assert all(bool(torch.isfinite(g).all()) for g in gradients if g is not None)
    rows = network.observe({"y": torch.cat([full, missing, empty])})  # rows do not see each other
    torch.testing.assert_close(rows, torch.cat(out), rtol=1e-5, atol=1e-6)


def test_a_mark_is_all_that_is_seen_of_a_missing_number() -> None:
    """The value is 0 in every feature: the first layer's part of it is that of the mark alone."""
    network = masked_network({"y": (2,)})
    seen_by: list[Any] = []
    network.observer.numbers.network[0].register_forward_pre_hook(lambda _, given: seen_by.append(given[0]))
    network.observe({"y": torch.tensor([[NAN, NAN]])})
    assert sorted(seen_by[0][0].tolist()) == [0.0] * (seen_by[0].shape[1] - 2) + [1.0, 1.0]


def test_infinity_is_refused_by_either_kind() -> None:
    for config in (SMALL, MASKED):
        with pytest.raises(ObservationShapeError, match=r"'y' has an infinite number \(row 1"):
            masked_network({"y": (2,)}, config=config).observe({"y": torch.tensor([[0.0, 1.0], [1.0, -math.inf]])})


def test_scales_are_those_of_complete_traces() -> None:
    network = ProposalNetwork(MASKED, VOCABULARY, {"y": (2,)}, seed=3)
    network.observer.learn({"y": torch.tensor([[1.0, 2.0], [NAN, 100.0], [3.0, 6.0]])})
    (scale,) = network.observer.numbers.scales
    assert scale.mean.tolist() == [2.0, 4.0] and scale.second.tolist() == [1.0, 4.0] and int(scale.rows) == 2
    network.observer.learn({"y": torch.tensor([[NAN, 100.0]])})
    assert int(scale.rows) == 2


class Pair(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 4)
        self.given: list[Any] = []

    def forward(self, x: Any, missing: Any) -> Any:
        self.given = [x, missing]
        return self.layer(torch.cat([x, missing], dim=-1))


def test_a_module_of_the_users_gets_zeros_and_a_mask() -> None:
    module = Pair()
    network = masked_network({"y": (3,)}, {"y": module})
    network.observe({"y": torch.tensor([[0.5, NAN, -1.0]])})
    assert module.given[0].tolist() == [[0.5, 0.0, -1.0]] and module.given[0].dtype == torch.float32
    assert module.given[1].tolist() == [[False, True, False]] and module.given[1].dtype == torch.bool
    with pytest.raises(EmbeddingError, match=r"'y' failed .*for missing data its forward takes two tensors.*TypeError"):
        masked_network({"y": (3,)}, {"y": torch.nn.Linear(3, 4)})
    with pytest.raises(EmbeddingError, match=r"'y' failed on a batch of shape \(2, 3\): TypeError"):
        masked_network({"y": (3,)}, {"y": Pair()}, config=SMALL)


def test_what_is_served_is_what_was_trained() -> None:
    network = masked_network(SHAPES)
    data = {"y": np.array([0.3, NAN, 4.0]), "z": np.array(NAN)}
    served = NetworkProposer(network, data)._observe(data)
    forced = network.observe({"y": torch.tensor([[0.3, NAN, 4.0]]), "z": torch.tensor([[NAN]])})
    assert torch.equal(served, forced)
    with pytest.raises(ObservationError, match=r"do not fit the network: observation 'y' has NaN.*ars train --missing"):
        NetworkProposer(masked_network(SHAPES, config=SMALL), data)


def test_missing_numbers_of_a_series() -> None:
    """A proposal reads a series element by element: what is hidden of it is a mark there too, and nothing else."""
    config = dataclasses.replace(MASKED, series="attention")
    network = masked_network({"y": (6,)}, config=config)
    y = np.array([0.3, NAN, 4.0, -1.0, NAN, 0.5])
    served = NetworkProposer(network, {"y": y})._observe({"y": y})
    forced = network.observe({"y": torch.from_numpy(y.astype(np.float32)).reshape(1, 6)})
    assert served.shape[1] > config.observe_dim and torch.isfinite(served).all()  # the tokens are there
    assert torch.equal(served, forced)
    zeros = network.observe({"y": torch.from_numpy(np.nan_to_num(y).astype(np.float32)).reshape(1, 6)})
    tokens = slice(config.observe_dim, None)
    assert not torch.allclose(zeros[:, tokens], forced[:, tokens])  # a 0 that was observed is another thing


# ---- training --------------------------------------------------------------------------------------------------------


def trainer_for(config: TrainingConfig, network: Any = None) -> Trainer:
    sizes = for_missing(SMALL, config)
    network = network or ProposalNetwork(sizes, VOCABULARY, SHAPES, seed=config.seed or 0)
    held_out = [made_batch(100, 10**6), made_batch(50, 2 * 10**6)]
    return Trainer(network, config, [HeldOut(batch, i, Rows(0, batch.traces)) for i, batch in enumerate(held_out)])


def steps(trainer: Trainer, until: int) -> list[float]:
    trainer.network.train()
    size = trainer.config.batch_size
    return [trainer.step(Prepared(made_batch(size, at), None, size)) for at in range(trainer.position, until, size)]


CONFIG = TrainingConfig(320, batch_size=32, seed=5, missing=0.4)


def test_a_training_that_is_resumed_hides_the_same(tmp_path: Path) -> None:
    class Nowhere:
        def describe(self) -> dict[str, Any]:
            return {}

    whole = trainer_for(CONFIG)
    curve = steps(whole, 320)
    first = trainer_for(CONFIG)
    begun = steps(first, 160)
    save_training(tmp_path / "t", first.state(Nowhere()))  # type: ignore[arg-type]
    state = load_training(tmp_path / "t")
    assert TrainingConfig(**state.about["config"]) == CONFIG and state.network.config == MASKED
    second = trainer_for(CONFIG, state.network)
    second.restore(state)
    assert begun + steps(second, 320) == curve
    assert second.held_out_loss() == whole.held_out_loss()


def test_the_held_out_loss_has_masks_that_stay() -> None:
    trainer = trainer_for(CONFIG)
    steps(trainer, 64)
    found = trainer.held_out_loss()
    assert found == trainer.held_out_loss()
    places = [np.isnan(seen(hidden(each.batch, 0.4, 5, HELD_OUT, each.place))["y"]) for each in trainer.held_out]
    assert all(place.any() and not place.all() for place in places)
    trainer.config = dataclasses.replace(CONFIG, missing=0.0)
    assert trainer.held_out_loss() != found


def test_nothing_is_hidden_from_a_network_that_is_not_asked_to_do_without() -> None:
    plain = TrainingConfig(320, batch_size=32, seed=5)
    trainer = trainer_for(plain)
    steps(trainer, 64)
    assert trainer.network.config.missing_data == "refused"
    (y, z) = trainer.network.observer.numbers.scales
    masked = trainer_for(CONFIG)
    steps(masked, 64)
    for mine, theirs in zip(masked.network.observer.numbers.scales, (y, z), strict=True):
        assert torch.equal(mine.mean, theirs.mean) and torch.equal(mine.second, theirs.second)


def test_files_of_other_networks_stay_what_they_were() -> None:
    """A network without masks says nothing of them: its file, identity and weights are those of earlier versions."""
    network = ProposalNetwork(SMALL, VOCABULARY, SHAPES, seed=3)
    assert "missing_data" not in architecture(network)["config"]
    assert NetworkConfig.from_dict(SMALL.to_dict()) == SMALL
    assert MASKED.to_dict()["missing_data"] == "masked" and NetworkConfig.from_dict(MASKED.to_dict()) == MASKED
    inputs = network.observer.numbers.network[0].in_features
    assert ProposalNetwork(MASKED, VOCABULARY, SHAPES, seed=3).observer.numbers.network[0].in_features == inputs + 4


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"missing must be from 0 to 0\.9, not 1"):
        TrainingConfig(missing=1)
    with pytest.raises(ValueError, match="missing_data must be 'refused' or 'masked'"):
        NetworkConfig(missing_data="maybe")
    with pytest.raises(ValueError, match='missing_data="masked" needs missing='):
        for_missing(MASKED, TrainingConfig())
    assert for_missing(SMALL, TrainingConfig(missing=0.1)) == MASKED
    with pytest.raises(ValueError, match='missing_data="masked" needs missing='):
        ars.Simulator("./simulator").train(10, network=MASKED)
