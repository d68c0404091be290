"""Training on two ranks, in processes that torchrun starts: what comes out is what one process gives."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest

from torchrun import finished, started

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
import rank_programs  # noqa: E402
from rank_programs import Outcome, alone  # noqa: E402

from ars.network.checkpoint import load_training  # noqa: E402
from ars.network.train.share import Share  # noqa: E402

pytestmark = [pytest.mark.usefixtures("one_torch_thread"), pytest.mark.timeout(600), pytest.mark.slow]

PROGRAM = rank_programs.__file__
Both = tuple[Outcome, Outcome]


def loaded(directory: Path, name: str) -> Both:
    first, second = (pickle.loads((directory / f"{name}.{rank}.pickle").read_bytes()) for rank in (0, 1))
    return first, second


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Both]:
    """What every program gave on both ranks. All of them run in the same two processes: none spoils the next."""
    directory = tmp_path_factory.mktemp("ranks")
    code, out, err = finished(started([PROGRAM, str(directory)]))
    assert code == 0, out + err
    return {name: loaded(directory, name) for name in rank_programs.PROGRAMS}


def assert_alike(ranks: Both) -> None:
    """Bit for bit the same on both."""
    first, second = ranks
    assert first.curve == second.curve and first.sites == second.sites and first.position == second.position
    assert first.weights.keys() == second.weights.keys()
    for name, tensor in first.weights.items():
        assert torch.equal(tensor, second.weights[name]), name


def assert_as_alone(found: Outcome, one: Outcome) -> None:
    """The same to rounding: sums over ranks are other sums."""
    assert not found.error and not one.error and len(one.curve) > 3
    assert found.sites == one.sites and found.position == one.position
    assert [line[0] for line in found.curve] == [line[0] for line in one.curve]
    np.testing.assert_allclose([l[1:] for l in found.curve], [l[1:] for l in one.curve], rtol=2e-5, atol=2e-5)  # noqa: E741
    for name, tensor in one.weights.items():
        torch.testing.assert_close(found.weights[name], tensor, rtol=2e-3, atol=2e-4, msg=name)


# ---- the same training -----------------------------------------------------------------------------------------------


def test_sites_of_one_rank_only_and_a_last_batch_of_one_trace(both: dict[str, Both]) -> None:
    """Sites that one rank is the first to draw, and the other never, get the rows and the weights of one process."""
    one = alone("sites")
    assert [site[0] for site in one.sites] == ["x", "low", "high", "kind"] and one.sites[-1][2] == 6
    assert_alike(both["sites"])
    assert_as_alone(both["sites"][0], one)
    untrained = rank_programs.ProposalNetwork(rank_programs.SMALL, _vocabulary(one), {"y": (1,)}, seed=1).state_dict()
    for name in ("heads.GAMMA.last.weight", "heads.BETA.last.weight"):  # which Adam has moved by more than rounding
        assert (one.weights[name] - untrained[name]).abs().max() > 1e-2


def _vocabulary(one: Outcome) -> rank_programs.Vocabulary:
    kinds = rank_programs.DistKind
    from ars.network.model.vocabulary import SiteSpec

    return rank_programs.Vocabulary(SiteSpec(address, kinds[kind], n) for address, kind, n in one.sites)


@pytest.mark.parametrize("name", ["missing", "stopping", "short"])
def test_two_ranks_have_the_loss_curve_of_one_process(both: dict[str, Both], name: str) -> None:
    """Hidden numbers are hidden in the same traces, held-out losses stop both, a rank without traces waits."""
    one = alone(name)
    assert_alike(both[name])
    assert_as_alone(both[name][0], one)
    if name == "stopping":
        assert one.position < rank_programs.STOPPING.traces


def test_a_short_source_is_not_the_whole_one(both: dict[str, Both]) -> None:
    """The test above tells them apart."""
    assert both["short"][0].curve[-1] != both["sites"][0].curve[-1]


# ---- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("raised", "TrainingError: rank 1 of 2: something is wrong", "BatchError: something is wrong"),
        ("in_a_step", "TrainingError: rank 1 of 2: no memory for a batch", "MemoryError: no memory for a batch"),
        ("full_disk", "StorageError: the disk is full", "TrainingError: rank 0 of 2: the disk is full"),
        ("not_finite", "TrainingError: the loss became nan after 60", "TrainingError: the loss became nan after 60"),
        ("terminated", "RunInterrupted: the training was", "RunInterrupted: the training was interrupted after"),
        ("apart", "TrainingError: the weights of rank 1 are not", "TrainingError: the weights of rank 1 are not"),
        ("other_kind", "BatchError: 'low' has a BETA prior", "BatchError: 'low' has a BETA prior"),
    ],
)
def test_what_ends_one_rank_ends_both(both: dict[str, Both], name: str, first: str, second: str) -> None:
    found = both[name]
    assert found[0].error.startswith(first) and found[1].error.startswith(second), [each.error for each in found]
    assert found[0].position == found[1].position
    assert found[0].position > 0 or name == "terminated"  # traces are drawn ahead: the signal may be the first to come
    if name != "apart":
        assert_alike(found)


def test_a_rank_that_is_killed_ends_the_other_and_nothing_is_lost(tmp_path: Path) -> None:
    code, _, err = finished(started([PROGRAM, str(tmp_path), "killed"]))
    assert code != 0 and "SIGKILL" in err  # torchrun says so
    first: Outcome = pickle.loads((tmp_path / "killed.0.pickle").read_bytes())
    assert first.error.startswith("RankLostError: rank 0 lost its connection to the others: one of the 2 ranks has")
    assert first.error.endswith(f"after {first.position} of 341 traces; it can be resumed")
    state = load_training(tmp_path / "t.safetensors")
    assert state.about["position"] == first.position
    for name, tensor in state.network.state_dict().items():
        assert torch.equal(tensor, first.weights[name]), name


def test_shares_are_all_of_a_batch() -> None:
    for n in (0, 1, 2, 5, 512):
        for ranks in (1, 2, 3, 7):
            bounds = [Share(rank, ranks).bounds(n) for rank in range(ranks)]
            assert bounds[0][0] == 0 and bounds[-1][1] == n
            assert all(a[1] == b[0] for a, b in itertools.pairwise(bounds))
            sizes = [high - low for low, high in bounds]
            assert max(sizes) - min(sizes) <= 1
