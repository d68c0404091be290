"""Training on traces that are written here: what interrupts it costs nothing. tests/system trains on simulators."""

from __future__ import annotations

import copy
import dataclasses
import io
import itertools
import math
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Sample, Trace, observation, pack

import ars
from ars._native import DistKind, SiteKind
from ars.columns import Site
from ars.config import NetworkConfig, TrainingConfig
from ars.progress import StreamProgress

torch = pytest.importorskip("torch")
linear = torch.nn.functional.linear
pytest.importorskip("safetensors")
from ars.errors import TrainingError  # noqa: E402
from ars.network.checkpoint import TrainingState, load_training, save_training, training_path  # noqa: E402
from ars.network.model.core import ProposalNetwork  # noqa: E402
from ars.network.model.recurrence import run_lstm  # noqa: E402
from ars.network.model.trace_batch import TraceBatch  # noqa: E402
from ars.network.model.vocabulary import Vocabulary  # noqa: E402
from ars.network.train.batches import Batcher, observation_shapes  # noqa: E402
from ars.network.train.fit import train_simulator  # noqa: E402
from ars.network.train.ranks import Alone  # noqa: E402
from ars.network.train.sources import Part, Prefetch  # noqa: E402
from ars.network.train.training import Callbacks, Trainer, train  # noqa: E402
from ars.network.train.turns import held_out_shares  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = NetworkConfig(
    lstm_dim=16, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8, components=3
)


class Written:
    """A source of traces written here: trace i draws x, then from trace ``late`` on a second site, and observes y."""

    sites = (
        Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
        Site(1, SiteKind.SAMPLE, DistKind.CATEGORICAL, "k"),
        Site(2, SiteKind.SAMPLE, DistKind.GAMMA, "g"),
        observation(3, "y"),
    )

    def __init__(self, late: float = math.inf, constant: bool = False) -> None:
        self.late = late
        self.constant = constant

    def trace(self, number: int) -> Trace:
        rng = np.random.default_rng(number)
        x = rng.normal()
        samples = [Sample(0, x, params=(0.0, 1.0))]
        if number >= self.late:
            samples.append(Sample(1, float(rng.integers(5)), params=(0.2,) * 5, kind=DistKind.CATEGORICAL))
            samples.append(Sample(2, rng.gamma(2.0), params=(2.0, 1.0), kind=DistKind.GAMMA))
        return Trace(number, samples=samples, observes=[(3, [1.0 if self.constant else x + rng.normal()])])

    def part(self, numbers: range) -> Part:
        return Part(pack([self.trace(i) for i in numbers]), self.sites, len(numbers))

    def held_out(self, n: int) -> list[Part]:
        numbers = range(-n, 0)
        return [Part(pack([dataclasses.replace(self.trace(i + 2**40), number=-i) for i in numbers]), self.sites, n)]

    def batches(self, start: int, total: int, size: int, stop: threading.Event) -> Iterator[Part]:
        while start < total and not stop.is_set():
            yield self.part(range(start, min(start + size, total)))
            start += size

    def describe(self) -> dict[str, Any]:
        return {"kind": "written", "late": str(self.late)}


class Early(Written):
    """Its held-out traces have the first site only, so that the others come as a surprise."""

    def held_out(self, n: int) -> list[Part]:
        return Written().held_out(n)


def trainer_for(source: Written, config: TrainingConfig) -> Trainer:
    parts = source.held_out(config.held_out_traces)
    batcher = Batcher(Vocabulary(), observation_shapes(parts[0].columns, parts[0].sites))
    held_out = held_out_shares(parts, batcher, config.batch_size, Alone())
    return Trainer(ProposalNetwork(SMALL, batcher.vocabulary, {"y": (1,)}, seed=config.seed), config, held_out)


def losses(trainer: Trainer) -> list[tuple[int, float, float | None, float]]:
    return [(e.traces, e.loss, e.held_out, e.lr) for e in trainer.history]


EVERY_BATCH = TrainingConfig(640, batch_size=32, seed=1, held_out=64, evaluate_every=32)


# ---- interruptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [math.inf, 200, 400])
def test_a_training_that_was_interrupted_has_the_same_loss_curve(tmp_path: Path, late: float) -> None:
    """Stopped after 10 of 20 batches, saved, loaded and continued; new sites come before that, after that, or never."""
    source = Early(late)
    whole = trainer_for(source, EVERY_BATCH)
    train(whole, source)
    assert len(whole.history) == 20
    assert len(whole.network.vocabulary) == (1 if late == math.inf else 3)

    saved: list[Path] = []

    def interrupt(done: int, total: int, loss: float) -> None:
        del total, loss
        if done == 320:
            os.kill(os.getpid(), signal.SIGINT)

    def checkpoint(state: TrainingState) -> None:
        saved.append(tmp_path / "t.safetensors")
        save_training(saved[-1], state)

    first = trainer_for(source, EVERY_BATCH)
    with pytest.raises(ars.RunInterrupted, match="after 320 of 640 traces; it can be resumed"):
        train(first, source, Callbacks(step=interrupt, checkpoint=checkpoint))
    assert len(saved) == 1
    torch.manual_seed(99)
    state = load_training(saved[0])
    second = trainer_for(source, EVERY_BATCH)
    held_out = second.held_out
    second = Trainer(state.network, EVERY_BATCH, held_out)
    second.restore(state)
    train(second, source)
    assert losses(second) == losses(whole)
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name]), name


def test_sites_met_in_mid_training_are_trained_from_then_on() -> None:
    """Their weights begin as if they had been there from the start, and the optimizer moves them."""
    config = dataclasses.replace(EVERY_BATCH, traces=960)
    trainer = trainer_for(Early(320), config)
    sizes: list[int] = []

    def step(*_: object) -> None:
        sizes.append(len(trainer.network.vocabulary))

    train(trainer, Early(320), Callbacks(step=step))
    assert sizes == [1] * 10 + [3] * 20
    untrained = ProposalNetwork(SMALL, trainer.network.vocabulary, {"y": (1,)}, seed=config.seed)
    initial, final = dict(untrained.named_parameters()), dict(trainer.network.named_parameters())
    late = [name for name in final if name.startswith(("heads.CATEGORICAL", "heads.GAMMA"))]
    assert len(late) == 8
    for name in late:
        assert not torch.equal(initial[name], final[name]), name
    for name in ("sites.weight", "categories.weight"):
        rows = slice(2, 4) if name == "sites.weight" else slice(1, 6)
        assert (initial[name][rows] != final[name][rows]).any(dim=1).all(), name

    def loss_of_late(network: ProposalNetwork) -> float:
        batch, _ = Batcher(network.vocabulary.copy(), {"y": (1,)})(*Early(0).part(range(5000, 5500))[:2])
        assert isinstance(batch, TraceBatch)
        return -network.log_probs(batch)[1:].sum().item() / 500

    with torch.no_grad():
        assert loss_of_late(trainer.network) < loss_of_late(untrained.eval())


def test_a_checkpoint_is_written_now_and_then() -> None:
    states: list[int] = []
    trainer = trainer_for(Written(), EVERY_BATCH)
    callbacks = Callbacks(checkpoint=lambda state: states.append(state.about["position"]), checkpoint_every=0.0)
    train(trainer, Written(), callbacks)
    assert states == list(range(32, 640 + 1, 32))


def test_a_loss_that_is_not_finite_ends_the_training_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trainer_for(Written(), EVERY_BATCH)
    path = tmp_path / "t"
    real = trainer.network.log_probs

    def log_probs(batch: Any) -> Any:
        value = real(batch)
        return value * math.nan if trainer.position >= 320 and trainer.network.training else value

    monkeypatch.setattr(trainer.network, "log_probs", log_probs)
    callbacks = Callbacks(checkpoint=lambda state: save_training(path, state), checkpoint_every=0.0)
    with pytest.raises(TrainingError, match=r"the loss became nan after 320 traces, at a learning rate of"):
        train(trainer, Written(), callbacks)
    state = load_training(path)
    assert state.about["position"] == 320
    assert all(torch.isfinite(tensor).all() for tensor in state.network.state_dict().values())


def test_a_gradient_that_is_not_finite_changes_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_for(Written(), EVERY_BATCH)
    before = {name: tensor.clone() for name, tensor in trainer.network.named_parameters()}
    parameter = next(iter(trainer.network.lstm.parameters()))
    real = trainer.network.log_probs
    bad = lambda batch: real(batch) + 0 * torch.sqrt(0 * parameter).sum()  # noqa: E731
    monkeypatch.setattr(trainer.network, "log_probs", bad)
    with pytest.raises(TrainingError, match="norm of the gradient became nan"):
        train(trainer, Written())
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer.network.named_parameters())


def test_slices_add_up_to_the_batch() -> None:
    """With three threads the gradients are those of the whole batch, but for rounding."""
    source = Written(late=100)
    config = dataclasses.replace(EVERY_BATCH, traces=200, batch_size=200)
    found = []
    for threads in (1, 3):
        trainer = trainer_for(source, config)
        trainer.threads = threads
        train(trainer, source)
        found.append((trainer.history[-1], {n: p.grad for n, p in trainer.network.named_parameters()}))
    (one, gradients), (three, sums) = found
    assert one.loss == pytest.approx(three.loss, rel=1e-7) and one.held_out == pytest.approx(three.held_out, rel=1e-6)
    assert any(g is not None and bool(g.abs().max() > 1e-3) for g in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(sums[name], gradient, rtol=1e-3, atol=1e-6, msg=name)


def test_clipping_scales_every_gradient_once() -> None:
    """Parameters that have the same gradient, such as an LSTM's two biases, must not share its memory."""
    source = Written()
    norms = []
    for clip in (1e9, 1e-3):
        trainer = trainer_for(source, dataclasses.replace(EVERY_BATCH, traces=32, clip=clip))
        train(trainer, source)
        gradients = {name: p.grad for name, p in trainer.network.named_parameters() if p.grad is not None}
        assert len({g.data_ptr() for g in gradients.values()}) == len(gradients)
        norms.append({name: float(g.norm()) for name, g in gradients.items()})
    whole, clipped = norms
    total = math.sqrt(sum(norm**2 for norm in whole.values()))
    for name, norm in whole.items():
        assert clipped[name] == pytest.approx(norm * 1e-3 / total, rel=1e-3), name


# ---- the loop --------------------------------------------------------------------------------------------------------


def test_training_stops_early_and_gives_back_the_best_weights() -> None:
    """With constant data and a learning rate of nothing the held-out loss stays the same after the first evaluation."""
    config = dataclasses.replace(EVERY_BATCH, lr=1e-30, patience=3)
    trainer = trainer_for(Written(constant=True), config)
    train(trainer, Written(constant=True))
    assert trainer.stopped and len(trainer.history) == 4
    worse = trainer_for(Written(), dataclasses.replace(EVERY_BATCH, lr=3.0, warmup=0.0, patience=2))
    train(worse, Written())
    assert worse.stopped
    best = min(e.held_out for e in worse.history)
    assert worse.history[-1].held_out > best
    assert worse.held_out_loss() == best


def test_the_learning_rate_rises_then_falls() -> None:
    config = TrainingConfig(10_000, batch_size=100, lr=0.5, warmup=0.1)
    rates = [config.lr_at(t) for t in range(0, 10_001, 100)]
    assert rates[0] < 0.1 and max(rates) == rates[10] == 0.5
    assert all(a < b for a, b in itertools.pairwise(rates[:11]))
    assert all(a > b for a, b in itertools.pairwise(rates[10:]))
    assert rates[55] == pytest.approx(0.5 * 0.505) and rates[-1] == pytest.approx(0.005)


def test_bad_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"traces must be from 1 to 1099511627776, not 0"):
        TrainingConfig(0)
    with pytest.raises(TypeError, match=r"batch_size must be an integer, not 2\.5"):
        TrainingConfig(10, batch_size=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"lr must be a positive number, not 0\.0"):
        TrainingConfig(10, lr=0.0)
    with pytest.raises(ValueError, match=r"lr must be a positive number, not nan"):
        TrainingConfig(10, lr=math.nan)
    with pytest.raises(ValueError, match="train_on must be 'accepted' or 'all', not 'some'"):
        TrainingConfig(10, train_on="some")
    sim = ars.Simulator(sys.executable)  # is not started
    with pytest.raises(ValueError, match="resume=True needs out="):
        train_simulator(sim, TrainingConfig(10), resume=True)
    with pytest.raises(ars.ArsError, match="cannot be written"):
        train_simulator(sim, TrainingConfig(10), out=tmp_path / "missing" / "net")
    assert training_path("a/net.safetensors") == Path("a/net.training.safetensors")


def test_progress_shows_loss_and_speed() -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = StreamProgress(stream, clock=lambda: now[0], every=1.0, begun=1000)
    now[0] = 2.0
    progress.note("loss 0.1234")
    progress.update(1500, 2000)
    assert stream.getvalue() == "ars: 1,500/2,000 traces, 250/s, 0:02 elapsed, 0:02 left, loss 0.1234\n"


# ---- the other thread ------------------------------------------------------------------------------------------------


def test_prefetch_passes_items_and_errors_and_stops() -> None:
    with Prefetch(lambda _: iter(range(100)), ahead=2) as items:
        assert list(items) == list(range(100))

    def broken(_: threading.Event) -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("in the other thread")

    with pytest.raises(ZeroDivisionError, match="in the other thread"), Prefetch(broken) as items:
        list(items)

    def endless(stop: threading.Event) -> Iterator[int]:
        while not stop.is_set():
            yield 1

    with Prefetch(endless, ahead=2) as items:
        assert next(items) == 1

    def slow(stop: threading.Event) -> Iterator[int]:
        stop.wait(30)
        yield from ()

    def check() -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Prefetch(slow, check) as items:
        next(items)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("lengths", [(4, 4, 4), (1, 1, 1), (4, 3, 1), (5, 5, 2, 2, 2, 1)])
def test_the_recurrence_is_torchs_lstm(depth: int, lengths: tuple[int, ...]) -> None:
    """Torch's in double precision, ours in single, up to its rounding."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(7, 19, depth)
    exact = copy.deepcopy(lstm).double()
    x = torch.randn(lengths[0], len(lengths), 7, requires_grad=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths))
    ours = run_lstm(lstm, partial(linear, packed.data), packed.batch_sizes.tolist())
    theirs = exact(packed.double())[0].data
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=3e-7)
    weight = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * weight).sum(), [x, *lstm.parameters()], retain_graph=True)
    wanted = torch.autograd.grad((theirs * weight).sum(), [x, *exact.parameters()])
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=2e-6 * float(b.abs().max()))


# ---- memory ----------------------------------------------------------------------------------------------------------

FAULTS = """
import resource, sys, threading, torch
from functools import partial
from ars.network.model.recurrence import run_lstm
from ars.network.train.training import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    keep_freed_memory()
lstm = torch.nn.LSTM(184, 512)
def batches(n):
    for _ in range(n):
        product = partial(torch.nn.functional.linear, torch.ones(512, 184))
        torch.autograd.grad(run_lstm(lstm, product, (256, 256)).sum(), list(lstm.parameters()))
def in_two_threads(n):
    threads = [threading.Thread(target=batches, args=(n,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
seen = [in_two_threads(5) for _ in range(5)]
print(min(b - a for a, b in zip(seen, seen[1:])))  # now and then a round has thousands more, for reasons of its own
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a matter of glibc's allocator")
@pytest.mark.slow
def test_what_a_batch_frees_is_kept_for_the_next() -> None:
    def faults(how: str) -> int:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
        command = [sys.executable, "-c", FAULTS, how]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
        return int(done.stdout)

    assert 4 * faults("keep") < faults("as it is")
