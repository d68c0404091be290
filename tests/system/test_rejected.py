"""Rejected tries with real simulators: exactly what was drawn, and what training on them does to a network."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests import exact
from tests.system.build_helpers import Builder, Variant

import ars
from ars import _native as native
from ars.columns import offsets, value_starts

torch = pytest.importorskip("torch")
from ars.cli import main  # noqa: E402
from ars.errors import ShardError  # noqa: E402
from ars.network import ProposalNetwork  # noqa: E402
from ars.network.checkpoint import load_training, training_path  # noqa: E402

pytestmark = [
    pytest.mark.timeout(400),  # a test that is the first to use a network trains it
    pytest.mark.usefixtures("one_torch_thread"),
]

SMALL = {"observe_hidden": 32, "value_dim": 16, "head_hidden": 64}
LIMIT = 3.0  # standard errors


# ---- what is recorded ------------------------------------------------------------------------------------------------


def nested_draws(seed: int, trace: int, most: int) -> tuple[list[tuple[int, int, int, int, int]], list[float]]:
    """csim/nested from its random stream alone. Its rejected tries as (is it the outer loop's, parent, prefix,
    recorded, rejected), and what they drew."""
    noise = iter(native.sample(ars.Normal(0, 1).encode(1)[0], 3000, seed, trace).tolist())
    outer: list[tuple[float, list[float], float]] = []  # a, the rejected b, the accepted b
    while not outer or outer[-1][0] + outer[-1][2] <= 0:
        a = next(noise)
        rejected: list[float] = []
        while (b := a + next(noise)) <= a + math.tanh(a):
            rejected.append(b)
        outer.append((a, rejected, b))
    tries: list[tuple[int, int, int, int, int]] = []
    values: list[float] = []
    n = len(outer) - 1
    for i, (a, rejected, b) in enumerate(outer):
        if min(n, most) <= i < n:
            continue
        kept = rejected[:most]
        parent = len(tries) + len(kept) if i < n else -1
        tries += [(0, parent, 1, len(kept), len(rejected))] * len(kept)
        values += kept
        if i < n:
            tries.append((1, -1, 0, min(n, most), n))
            values += [a, b]
    return tries, values


@pytest.mark.parametrize("most", [2, 10_000])
def test_rejected_tries_are_those_of_the_random_streams_and_change_nothing(
    csim: Callable[[str], str], most: int
) -> None:
    with ars.Simulator([csim("nested")], workers=3) as sim:
        plain, _ = sim._prior_chunk(7, 100, 400)
        columns, sites = sim._prior_chunk(7, 100, 400, max_rejected=most)
        again, _ = sim._prior_chunk(7, 100, 400)
    names = {site.id: site.address for site in sites}
    for name in ("samples", "observes", "results", "loops"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(columns, name))
    for one, other in zip(plain, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not len(plain.tries) and not len(plain.rejected)
    where = offsets(columns)
    for row, number in enumerate(columns.traces["trace"].tolist()):
        tries = columns.tries[where.tries[row] : where.tries[row + 1]]
        rejected = columns.rejected[where.rejected[row] : where.rejected[row + 1]]
        expected, values = nested_draws(7, number, most)
        loops = [names[site].count("/") == 0 for site in tries["site"].tolist()]
        fields = (tries[field].tolist() for field in ("parent", "prefix", "recorded", "rejected"))
        assert list(zip(loops, *fields, strict=True)) == expected
        assert rejected["value"].tolist() == pytest.approx(values, rel=0, abs=1e-15)
        sampled = [names[site].rpartition("/")[2] for site in rejected["site"].tolist()]
        assert sampled == [name for outer, *_ in expected for name in (["a", "b"] if outer else ["b"])]
    assert columns.tries["rejected"].max() > 2  # so that the limit of 2 is one
    means = columns.values[value_starts(columns).rejected]
    inner = np.array([names[site].endswith("/b") for site in columns.rejected["site"].tolist()])
    assert (means[~inner] == 0).all() and not (means[inner] == 0).any()  # Normal(a, 1)


def test_a_loop_that_is_repeated_in_place_records_the_same(csim: Callable[[str], str]) -> None:
    found = []
    for name in ("marsaglia", "marsaglia_in_place"):
        with ars.Simulator([csim(name)], workers=2) as sim:
            found.append(sim._prior_chunk(3, 0, 300, max_rejected=2)[0])
    assert len(found[0].tries) > 50
    for field in ("instance", "parent", "prefix", "n_samples", "recorded", "rejected"):
        np.testing.assert_array_equal(found[0].tries[field], found[1].tries[field])
    np.testing.assert_array_equal(found[0].rejected["value"], found[1].rejected["value"])


LONG = r"""
#include <ars.h>
static void model(void *user) {
    (void)user;
    double x, last;
    for (int tries = 0;; tries++) {
        rs_start("long");
        for (int i = 0; i < 2000; i++) last = ars_sample("x", ars_uniform(0, 1));
        x = last;
        if (tries == 400) {
            rs_end();
            break;
        }
    }
    ars_observe("y", ars_normal(x, 1));
}
int main(int argc, char **argv) { return ars_main(argc, argv, model, NULL); }
"""


@pytest.mark.compiler
def test_tries_beyond_the_limit_of_a_record_fail_the_trace_and_say_what_to_do(tmp_path: Path) -> None:
    source = tmp_path / "long.c"
    source.write_text(LONG)
    program = Builder(tmp_path / "built").program([source], Variant("gcc", ("-O1",)))
    with ars.Simulator([str(program)], workers=1) as sim:
        with pytest.raises(
            ars.TraceFailure, match=r"more than 33554432 bytes.* long\. .* lower max_rejected"
        ) as caught:
            sim._prior_chunk(1, 0, 1, max_rejected=1000)
        assert [failure.kind for failure in caught.value.failures] == ["limit"]
        columns, _ = sim._prior_chunk(1, 0, 1, max_rejected=10)
    assert columns.tries["recorded"].tolist() == [10] * 10 and (columns.tries["rejected"] == 400).all()
    assert len(columns.rejected) == 20_000


# ---- what it is for --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(csim: Callable[[str], str]) -> Callable[[str], tuple[ars.Network, ars.Posterior]]:
    case = exact.truncated_normal("a")

    @functools.cache
    def network(train_on: str) -> tuple[ars.Network, ars.Posterior]:
        with ars.Simulator([csim("truncated_normal"), "a"]) as sim:
            options: dict[str, Any] = {"batch_size": 256, "seed": 1, "lr": 3e-3, "threads": 1, "architecture": SMALL}
            net = sim.train(15_000, 48, train_on=train_on, **options)
            return net, sim.posterior(case.observed, 1000, network=net, budget=ars.Budget(M=3, N=10), seed=7)

    return network


def density_of_z(network: ProposalNetwork, x: float, y: float, z: np.ndarray) -> np.ndarray:
    """q(z | x, y) at all these z, as it is after x was drawn."""
    index = {site.address.rpartition("/")[2]: i for i, site in enumerate(network.vocabulary)}
    rows = len(z)

    def column(*numbers: float) -> torch.Tensor:
        return torch.tensor([[*numbers, *[0.0] * (4 - len(numbers))]], dtype=torch.float64).expand(rows, 4)

    def site(name: str) -> torch.Tensor:
        return torch.full((rows,), index[name])

    with torch.no_grad():
        obs = network.observe({"y": torch.full((rows, 1), y)})
        zeros = torch.zeros(rows, dtype=torch.float64)
        uniform, normal, none = column(1.0, 2.0), column(0.0, 1.0), torch.full((rows,), -1)
        nothing = (none, zeros, column())
        start = network.inputs(obs, site("x"), zeros.long(), uniform, None, *nothing, nothing)
        _, state = network.advance(start, network.initial_state(rows))
        then = network.inputs(obs, site("z"), zeros.long(), normal, None, site("x"), zeros + x, uniform, nothing)
        out, _ = network.advance(then, state)
        return np.exp(network.log_prob(out, site("z"), normal, None, torch.from_numpy(z)).numpy())


def test_both_schemes_reach_their_optimum(trained: Callable[[str], tuple[ars.Network, ars.Posterior]]) -> None:
    """accepted: the posterior of the draws that are accepted. all: p(not A) p(z | not A) + p(A) that posterior."""
    z = np.linspace(-6, 6, 1201)
    step = z[1] - z[0]
    for y in (-1.5, -0.5, 0.5):
        for x in (1.2, 1.8):
            posterior = np.where(z < 0, stats.norm.pdf(z) * stats.norm.pdf(y, z, x), 0.0)
            posterior /= posterior.sum() * step
            optimum = {"accepted": posterior, "all": np.where(z > 0, stats.norm.pdf(z), 0.5 * posterior)}
            for scheme, mine in optimum.items():
                q = density_of_z(trained(scheme)[0].network, x, y, z)
                other = optimum["all" if scheme == "accepted" else "accepted"]
                near, far = (0.5 * np.abs(q - p).sum() * step for p in (mine, other))
                assert near < 0.2 and far > 0.35, (scheme, x, y, near, far)


def test_acceptance_and_evidence_under_both_schemes(
    trained: Callable[[str], tuple[ars.Network, ars.Posterior]],
) -> None:
    """p(A) = 1/2. Trained on what is accepted, a try is accepted nearly always, and the naive weights cannot be
    trusted; trained on all draws, as often as under the prior, and they can: S_pq = p(not A)."""
    truth = exact.truncated_normal("a").evidence
    for scheme in ("accepted", "all"):
        _, post = trained(scheme)
        (loop,) = post.loops.values()
        found = post.log_evidence("ars")
        assert abs(found.evidence - truth) < LIMIT * found.standard_error
        assert found.standard_error < 0.05 * truth
        if scheme == "accepted":
            assert loop.q_accept > 0.9 and loop.s_pq > 1
            wrong = post.log_evidence("biased")  # off by p(A) / q(A)
            assert abs(wrong.evidence - truth) > 2 * LIMIT * wrong.standard_error
        else:
            assert abs(loop.q_accept - 0.5) < 0.05 and abs(loop.s_pq - 0.5) < 0.1
            naive = post.log_evidence("ic")
            assert abs(naive.evidence - truth) < LIMIT * naive.standard_error and naive.standard_error < 0.05 * truth


# ---- the way in ------------------------------------------------------------------------------------------------------


def test_recorded_rejected_tries_train_a_network_and_its_training_goes_on(
    csim: Callable[[str], str], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"batch_size": 100, "threads": 1, "architecture": SMALL, "seed": 3}
    with ars.Simulator([csim("nested")], workers=2) as sim:
        bare = sim.record(500, tmp_path / "bare", seed=5)
        assert bare.max_rejected == 0
        with pytest.raises(ShardError, match=r"what they rejected, too\. Record into another folder"):
            sim.train(500, 16, data=tmp_path / "bare", train_on="all", **options)
        with pytest.raises(ShardError, match="recorded with max_rejected=0, not 8: give the same"):
            sim.record(600, tmp_path / "bare", max_rejected=8)
        sim.record(300, tmp_path / "all", seed=5, max_rejected=8)
        recording = sim.record(1000, tmp_path / "all", seed=5, max_rejected=8, shard_traces=300)
        fresh, _ = sim._prior_chunk(5, 300, 300, max_rejected=8)
        loaded, _ = recording.load(1)
        for name in ("samples", "tries", "rejected", "values"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(fresh, name))
        file = tmp_path / "net.safetensors"
        more: dict[str, Any] = {"data": tmp_path / "all", "out": file, "resume": True, **options}
        sim.train(800, 16, train_on="all", **more)
        with pytest.raises(ars.ArsError, match="train_on was 'all', is 'accepted'"):
            sim.train(1600, 16, **more)
        later = sim.train(1600, 16, train_on="all", **more)
        assert later.history[-1].traces >= 1600 > 800
        assert load_training(training_path(file)).about["config"]["train_on"] == "all"
        sim.train(300, 16, data=tmp_path / "all", **options)  # what loops rejected can be left aside


def test_the_command_trains_on_all_draws(csim: Callable[[str], str], tmp_path: Path) -> None:
    small = ["--lstm-dim", "8", "--batch-size", "50", "--threads", "1", "--workers", "2", "--quiet", "--seed", "1"]
    common = ["train", csim("nested"), *small, "--train-on", "all", "--max-rejected", "4"]
    out = str(tmp_path / "net.safetensors")
    assert main([*common, "--traces", "200", "--out", out]) == 0
    assert main([*common, "--traces", "400", "--out", out, "--resume"]) == 0
    network = ars.Network.load(out)
    assert network.history[-1].traces == 400
    assert (network.training["train_on"], network.training["max_rejected"]) == ("all", 4)
    assert network.training["source"]["max_rejected"] == 4
    data = str(tmp_path / "data")
    assert main([*common, "--traces", "100", "--data", data, "--record", "150", "--out", out]) == 0
