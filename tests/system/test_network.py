"""Networks that are trained and used with real simulators: exact answers, retries and forks, states, wrong networks."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import exact
from tests.system.build_helpers import Builder, Variant

import ars
from ars import _native as native
from ars._native import NO_SITE
from ars.config import NetworkConfig
from ars.wire import PRIOR, Replies, SiteTable, StepBatch

torch = pytest.importorskip("torch")
from ars.network import ProposalNetwork, SiteSpec, Vocabulary  # noqa: E402
from ars.network.serve import proposer  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),  # a test that is the first to use a network trains it
    pytest.mark.usefixtures("one_torch_thread"),
]

LIMIT = 3.0  # standard errors
TRACES = 1000
SMALL = {"observe_hidden": 32, "value_dim": 16, "head_hidden": 64}
CASES = {
    "gaussian": (exact.gaussian((0.8, -0.1, 1.1)), 20_000),
    "truncated_normal": (exact.truncated_normal("b"), 40_000),
    "nested": (exact.nested(), 40_000),
}
LOOPED = ["truncated_normal", "nested"]


@pytest.fixture(scope="module")
def start(csim: Callable[[str], str]) -> Callable[..., ars.Simulator]:
    def simulator(name: str, **options: Any) -> ars.Simulator:
        command = CASES[name][0].command
        return ars.Simulator([csim(command[0]), *command[1:]], **options)

    return simulator


@pytest.fixture(scope="module")
def trained(start: Callable[..., ars.Simulator]) -> Callable[[str], ars.Network]:
    """Small networks, trained once."""

    @functools.cache
    def network(name: str) -> ars.Network:
        with start(name) as sim:
            return sim.train(CASES[name][1], 48, batch_size=256, seed=1, lr=3e-3, threads=1, architecture=SMALL)

    return network


@pytest.fixture(scope="module")
def run(start: Callable[..., ars.Simulator], trained: Callable[[str], ars.Network]) -> Callable[[str], ars.Posterior]:
    @functools.cache
    def posterior(name: str, in_loops: str = "proposal") -> ars.Posterior:
        with start(name) as sim:
            return sim.posterior(
                CASES[name][0].observed,
                TRACES,
                network=trained(name),
                budget=ars.Budget(M=7, N=7),
                in_loops=in_loops,  # type: ignore[arg-type]
                seed=7,
            )

    return posterior


def distance(post: ars.Posterior, method: str, truth: float) -> float:
    """How many standard errors the evidence is off."""
    found = post.log_evidence(method)
    return abs(found.evidence - truth) / found.standard_error


# ---- exact answers ---------------------------------------------------------------------------------------------------


def test_gaussian_matches_the_conjugate_answer(run: Callable[..., ars.Posterior]) -> None:
    case, post = CASES["gaussian"][0], run("gaussian")
    assert distance(post, "ars", case.evidence) < LIMIT
    w = np.exp(post.log_weights("ars") - post.log_weights("ars").max())
    w /= w.sum()
    mu = post["mu"]
    mean, variance = case.posterior_mean["mu"], 1 / (1 + 3 / 0.25)
    for moment, truth in ((mu, mean), ((mu - mean) ** 2, variance)):
        estimate = float(np.sum(w * moment))
        error = math.sqrt(float(np.sum((w * (moment - estimate)) ** 2)))
        assert abs(estimate - truth) < LIMIT * error
        assert error < 0.05 * max(abs(truth), math.sqrt(variance))  # so that the test can fail
    assert post.ess("ars") > 0.9 * TRACES


@pytest.mark.parametrize("name", LOOPED)
def test_the_evidence_is_right_and_the_effective_sample_size_large(
    run: Callable[..., ars.Posterior], name: str
) -> None:
    case, post = CASES[name][0], run(name)
    assert distance(post, "ars", case.evidence) < LIMIT
    assert post.ess("ars") > 0.5 * TRACES
    assert distance(post, "biased", case.evidence) > LIMIT
    for result, truth in case.posterior_mean.items():
        w = np.exp(post.log_weights("ars") - post.log_weights("ars").max())
        w /= w.sum()
        error = math.sqrt(float(np.sum((w * (post[result] - truth)) ** 2)))
        assert abs(float(np.sum(w * post[result])) - truth) < LIMIT * error


@pytest.mark.parametrize("name", LOOPED)
def test_with_the_prior_inside_loops_too(run: Callable[..., ars.Posterior], name: str) -> None:
    """The network is told what was drawn in there without having been asked."""
    assert distance(run(name, "prior"), "prior", CASES[name][0].evidence) < LIMIT


# ---- states: retries, forks, the end ---------------------------------------------------------------------------------

TRIES = r"""
#include <ars.h>
static void model(void *user) {
    (void)user;
    const double p[3] = {0.2, 0.5, 0.3};
    double x = ars_sample("x", ars_bernoulli(0.4)), a, b, c;
    for (;;) {
        rs_start();
        a = ars_sample("a", ars_categorical(p, 3));
        for (;;) {
            rs_start();
            b = ars_sample("b", ars_bernoulli(0.3 + 0.2 * a));
            c = ars_sample("c", ars_binomial(3, 0.4 + 0.2 * b));
            if (b + c > a) {
                rs_end();
                break;
            }
        }
        if (ars_sample("d", ars_bernoulli(0.5)) + a > x) {
            rs_end();
            break;
        }
    }
    ars_observe("y", ars_normal(x + a + c, 0.5));
}
int main(int argc, char **argv) { return ars_main(argc, argv, model, NULL); }
"""

Latent = tuple[int, int, float]  # site, instance, value


class Watched(proposer.NetworkProposer):
    """Writes down what it answered, by what had been drawn before."""

    made: list[Watched]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.made.append(self)
        self.drawn: dict[int, tuple[Latent, ...]] = {0: ()}  # by state
        self.answers: dict[tuple[tuple[Latent, ...], int, int], list[bytes]] = {}
        self.rows = 0

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        replies = super().step(batch, sites)
        told = list(zip(batch.told_site.tolist(), batch.told_instance.tolist(), batch.told_value.tolist(), strict=True))
        for row in range(len(batch)):
            begin, end = batch.told_offsets[row], batch.told_offsets[row + 1]
            earlier = self.drawn[int(batch.state[row])] + tuple(told[begin:end])
            self.drawn[int(replies.state[row])] = earlier
            assert batch.site[row] != NO_SITE
            key = (earlier, int(batch.site[row]), int(batch.instance[row]))
            self.answers.setdefault(key, []).append(replies.proposals[row])
            self.rows += 1
        return replies


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    Watched.made = []
    monkeypatch.setattr(proposer, "NetworkProposer", Watched)
    return Watched.made


def numbers(encoded: bytes) -> np.ndarray:
    return np.frombuffer(encoded, offset=8)


@pytest.mark.compiler
def test_tries_and_continuations_get_equal_proposals_for_equal_values(
    mode: Any, watched: list[Watched], tmp_path: Path
) -> None:
    """All values are small integers, so the same ones come again and again: in tries, continuations and traces."""
    source = tmp_path / "tries.c"
    source.write_text(TRIES)
    program = Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",)))
    with ars.Simulator([str(program)], workers=6, continuations=mode) as sim:
        network = sim.train(6000, 24, batch_size=128, seed=3, lr=3e-3, threads=1, architecture=SMALL)
        # A guess may go with another prior than the values that it tells; test_ahead.py is about those.
        post = sim.posterior({"y": 3.0}, 80, network=network, budget=ars.Budget(M=2, N=5), seed=4, ask_ahead=False)
    (served,) = watched
    assert served.pool.live == 0
    assert served.rows > 500
    repeated = [answers for answers in served.answers.values() if len(answers) > 1]
    assert len(repeated) > 30
    for first, *others in repeated:
        for other in others:
            assert numbers(first) == pytest.approx(numbers(other), rel=1e-5, abs=1e-9)
    # They depend on what was drawn: else the above would be no wonder.
    b = next(site.id for site in post.sites if site.name == "b")
    proposals = {answers[0] for (_, site, _), answers in served.answers.items() if site == b}
    assert len(proposals) > 3
    # And they are what the simulator drew from, in whichever process and try.
    samples, at = post.columns.samples, 0
    for n in post.columns.traces["n_samples"].tolist():
        earlier: tuple[Latent, ...] = ()
        for sample in samples[at : at + n]:
            site, instance, value = int(sample["site"]), int(sample["instance"]), float(sample["value"])
            proposal = served.answers[earlier, site, instance][0]
            assert proposal != PRIOR
            assert sample["log_q"] == pytest.approx(native.log_density(proposal, [value])[0], rel=1e-4, abs=1e-6)
            earlier += ((site, instance, value),)
        at += n


def test_the_same_seed_gives_the_same_weights_with_other_workers_and_after_saving(
    start: Callable[..., ars.Simulator], trained: Callable[[str], ars.Network], watched: list[Watched], tmp_path: Path
) -> None:
    """What waits together differs from run to run. With MKL the weights are equal to the last bit; elsewhere the last
    bits of a proposal might not be."""
    network = trained("nested")
    network.save(tmp_path / "nested.safetensors")
    found = []
    for workers, net in ((3, network), (8, ars.Network.load(tmp_path / "nested.safetensors"))):
        with start("nested", workers=workers) as sim:
            post = sim.posterior({"y": 2.0}, 200, network=net, budget=ars.Budget(M=2, N=3), seed=11)
            found.append(post.log_weights("ars"))
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert [served.pool.live for served in watched] == [0, 0]
    assert all(served.pool.peak > 0 for served in watched)


# ---- networks that do not fit ----------------------------------------------------------------------------------------


def test_a_latent_that_the_network_never_saw_is_left_to_the_prior(start: Callable[..., ars.Simulator]) -> None:
    case = CASES["truncated_normal"][0]
    with start("truncated_normal") as sim:
        vocabulary = Vocabulary([SiteSpec("x", native.DistKind.UNIFORM, 2)])
        network = ars.Network(ProposalNetwork(NetworkConfig(lstm_dim=16), vocabulary, {"y": (1,)}))
        with pytest.warns(ars.NetworkWarning, match=r"1 of the 2 latents .* in 1,000 draws: .*z' \(1,000\)"):
            post = sim.posterior(case.observed, 1000, network=network, budget=ars.Budget(M=10, N=10), seed=5)
    assert distance(post, "ars", case.evidence) < LIMIT


def test_a_network_of_another_simulator_is_refused(
    start: Callable[..., ars.Simulator], trained: Callable[[str], ars.Network], watched: list[Watched]
) -> None:
    with start("nested") as sim:
        with pytest.raises(ars.NetworkError, match=r"the network knows 'x', .* the simulator has") as caught:
            sim.posterior({"y": 0.0}, 10, network=trained("truncated_normal"))
        assert "trained for" in str(caught.value)
    assert watched[0].rows == 0


@pytest.mark.parametrize(
    ("observe", "complaint"),
    [
        ({"y": [0.0, 1.0]}, r"'y' has shape \(2,\), the network was made for \(1,\)"),
        ({"z": 0.0}, "made for the observations 'y', but 'z' were given"),
        ({"y": 0.0, "z": 0.0}, "but 'y', 'z' were given"),
    ],
)
def test_data_that_the_network_was_not_made_for(
    start: Callable[..., ars.Simulator],
    trained: Callable[[str], ars.Network],
    observe: dict[str, Any],
    complaint: str,
) -> None:
    with start("nested") as sim:
        with pytest.raises(ars.ObservationError, match=complaint):
            sim.posterior(observe, 10, network=trained("nested"))
        assert not sim.running


def test_a_network_and_proposals_by_hand_exclude_each_other(
    start: Callable[..., ars.Simulator], trained: Callable[[str], ars.Network]
) -> None:
    with start("nested") as sim, pytest.raises(ValueError, match="network= or proposals=, not both"):
        sim.posterior({"y": 0.0}, 10, network=trained("nested"), proposals={"a": ars.Normal(0, 1)})


# ---- the way in ------------------------------------------------------------------------------------------------------


def test_recorded_traces_train_a_network_and_a_training_goes_on(
    start: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    with start("gaussian") as sim:
        recording = sim.record(2000, tmp_path / "traces", seed=5, shard_traces=500)
        assert recording.traces == 2000
        options: dict[str, Any] = {"batch_size": 100, "threads": 1, "architecture": SMALL, "resume": True}
        file = tmp_path / "net.safetensors"
        first = sim.train(2000, 16, data=tmp_path / "traces", out=file, **options)
        more = sim.train(4000, 16, data=tmp_path / "traces", out=file, **options)  # the seed is the file's
        assert [first.history[-1].traces, more.history[-1].traces] == [2000, 4000]
        loaded = ars.Network.load(file)
        assert loaded.simulator == sim.command
        post = sim.posterior(CASES["gaussian"][0].observed, 400, network=loaded, seed=1)
    assert distance(post, "ars", CASES["gaussian"][0].evidence) < LIMIT
    assert more.history.held_out[-1] < more.history.held_out[0]


def test_draws_without_weights_are_no_posterior(
    start: Callable[..., ars.Simulator], trained: Callable[[str], ars.Network]
) -> None:
    """The draws are those of a posterior run, accepted ones inside loops; nothing about them looks like a posterior."""
    pytest.importorskip("xarray")
    case, network = CASES["truncated_normal"][0], trained("truncated_normal")
    with start("truncated_normal") as sim:
        draws = network.posterior_without_weights(sim, case.observed, 500, seed=7)
        again = network.posterior_without_weights(sim, case.observed, 500, seed=7)
        post = sim.posterior(case.observed, 500, network=network, seed=7)
    assert type(draws) is ars.ProposalDraws and not isinstance(draws, ars.Posterior) and len(draws) == 500
    assert draws["z"].tobytes() == again["z"].tobytes() == post["z"].tobytes()
    assert (draws["z"] < 0.0).all(), "what the loop rejected is not among them"
    for name in ("log_weights", "log_evidence", "ess", "mean", "resample", "save", "to_inferencedata", "diagnostics"):
        assert not hasattr(draws, name), name
    label = "draws from the network's proposals, not corrected by weights: biased"
    tree, frame = draws.to_datatree(), draws.to_dataframe()
    for text in (repr(draws), draws.summary(), frame.attrs["label"], tree.attrs["label"]):
        assert label in text
    assert set(tree.children) == {"proposal_draws", "observed_data"}
    assert tree["proposal_draws"].attrs["label"] == tree["proposal_draws"]["z"].attrs["label"] == label
    assert tree["proposal_draws"]["z"].dims == ("chain", "draw")
    assert list(frame["z"]) == draws["z"].tolist() and "proposal_draw" in frame and "trace" not in frame
    assert f"{draws['z'].mean():.6g}" in draws.summary()
    assert post.run.defensive == network.config.defensive


def test_importing_ars_does_not_import_torch() -> None:
    code = "import sys, ars; assert 'torch' not in sys.modules; ars.Network; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
