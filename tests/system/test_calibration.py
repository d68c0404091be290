"""Simulation-based calibration: where the truth ranks among posterior draws, over data drawn from the prior."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import ars

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.slow,
    pytest.mark.usefixtures("one_torch_thread"),
]

DATASETS = 200
DRAWS = 31  # so the rank of the truth is one of 32 numbers
BINS = 8
LEAST_P = 0.001


def p_value(ranks: list[int]) -> float:
    """Of the hypothesis that the ranks are uniform."""
    counts = np.bincount(np.array(ranks) * BINS // (DRAWS + 1), minlength=BINS)
    return float(stats.chisquare(counts).pvalue)


def rank(post: ars.Posterior, method: str, name: str, truth: float, rng: np.random.Generator) -> int:
    """How many of some draws from the weighted traces are below the truth."""
    log_weights = post.log_weights(method)
    w = np.exp(log_weights - log_weights.max())
    return int(np.sum(rng.choice(post[name], DRAWS, p=w / w.sum()) < truth))


@pytest.mark.parametrize(
    ("command", "training", "traces", "names"),
    [
        (("gaussian",), 20_000, 100, ("mu",)),
        (("truncated_normal", "b"), 30_000, 40, ("x_final", "z_final")),
    ],
    ids=["gaussian", "truncated_normal"],
)
def test_ranks_are_uniform(
    simulator: Callable[..., ars.Simulator],
    command: tuple[str, ...],
    training: int,
    traces: int,
    names: tuple[str, ...],
) -> None:
    sim = simulator(*command)
    network = sim.train(
        training, 48, batch_size=256, seed=1, lr=3e-3, threads=1, architecture={"observe_hidden": 32, "head_hidden": 64}
    )
    truth = sim.prior(DATASETS, seed=99)
    rng = np.random.default_rng(5)
    looped = len(command) > 1
    methods = ("ars", "biased") if looped else ("ars",)
    ranks: dict[tuple[str, str], list[int]] = {(method, name): [] for method in methods for name in names}
    from_prior: list[int] = []
    for i in range(DATASETS):
        post = sim.posterior({"y": truth["y"][i]}, traces, network=network, budget=ars.Budget(M=3, N=4), seed=1000 + i)
        for (method, name), found in ranks.items():
            found.append(rank(post, method, name, truth[name][i], rng))
        if not looped:
            from_prior.append(int(np.sum(rng.normal(size=DRAWS) * 0.6 < truth[names[0]][i])))
    for name in names:
        assert p_value(ranks["ars", name]) > LEAST_P, name
    # The same test finds what is wrong: weights without the correction, or draws that are too narrow.
    wrong = [ranks["biased", name] for name in names] if looped else [from_prior]
    assert min(p_value(found) for found in wrong) < LEAST_P
