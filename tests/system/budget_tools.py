"""Small models for the tests of budgets (budget/models.c), what is known of them, and how two results are compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from build_helpers import COMPILERS, Builder, Variant
from scipy import stats

import ars
from ars.columns import HOW

Floats = npt.NDArray[np.float64]

Y = 0.6  # the data of all models
NOISE = 0.5


def build_models(directory: Path) -> str:
    """The executable; its first argument is the name of a model."""
    source = Path(__file__).resolve().parent / "budget" / "models.c"
    return str(Builder(directory).program([source], Variant(COMPILERS[0], ("-O1",))))


class Model(NamedTuple):
    """One of them, with proposals that need corrections."""

    proposals: Mapping[str, Any]
    evidence: float


def _uniform(high: float, n: int = 400) -> Floats:
    """Equally likely values between 0 and high."""
    return high * (np.arange(n) + 0.5) / n


def _likelihood(mean: npt.ArrayLike, std: float = NOISE) -> float:
    return float(np.mean(stats.norm.pdf(Y, mean, std)))


def _of_mean(high: float, n: int) -> float:
    """With the mean of n uniforms as the mean, which is as good as normal."""
    return _likelihood(high / 2, math.hypot(NOISE, high / math.sqrt(12 * n)))


def _hard() -> float:
    z = np.linspace(3, 12, 20_001)
    return float(np.trapezoid(stats.norm.pdf(z) * stats.norm.pdf(Y, z, NOISE), z) / stats.norm.sf(3))


HALF, SUMS = _uniform(0.5), 0.4 * np.sqrt(_uniform(1.0))
V = {"v": ars.Beta(1.0, 2.0)}  # q(v < 0.5) = 0.75
MODELS = {
    "two": Model(V, _likelihood(_uniform(0.4)[:, None] + HALF, math.hypot(1.0, NOISE))),
    "rare": Model(V, _likelihood(HALF)),
    "hidden": Model({"a": ars.Beta(1.0, 2.0), **V}, _likelihood(HALF[:, None] + _uniform(0.6))),
    "seldom": Model(V, 0.999 * _likelihood(0.25) + 0.001 * _likelihood(HALF)),
    "entries": Model({"u": ars.Beta(1.0, 1.03)}, _of_mean(0.998, 200)),
    "sixty": Model({"u": ars.Beta(1.0, 1.03)}, _of_mean(0.99, 60)),
    "hard": Model({"z": ars.Mixture([0.9, 0.1], [ars.Normal(3.05, 0.15), ars.Normal(3.0, 1.0)])}, _hard()),
    "fragile": Model(V, _likelihood(HALF)),
    "weightless": Model(V, 0.0),
    "own": Model(V, _likelihood(HALF[:, None] + _uniform(1.0))),
    "nested": Model({"a": ars.Beta(1.0, 2.0), "b": ars.Beta(1.0, 1.5)}, _likelihood(SUMS)),
}


def infer(sim: ars.Simulator, traces: int, budget: Any = "auto", seed: int = 3, **options: Any) -> ars.Posterior:
    """A posterior of the model that the simulator was started with."""
    proposals = options.pop("proposals", MODELS[sim.command[1]].proposals)
    return sim.posterior({"y": Y}, traces, proposals=proposals, budget=budget, seed=seed, **options)


def distance(post: ars.Posterior, evidence: float) -> float:
    """How many standard errors the evidence is off."""
    found = post.log_evidence()
    return abs(found.evidence - evidence) / found.standard_error


def assert_same_bits(one: ars.Posterior, other: ars.Posterior) -> None:
    """All that a result says of its traces, but for the order in which sites were numbered and how loops were run."""
    assert one.run.budget == other.run.budget
    assert one.run.exact == other.run.exact
    names = [{site.id: site.address for site in post.sites} for post in (one, other)]
    for table in ("traces", "samples", "loops", "results"):
        a, b = getattr(one.columns, table), getattr(other.columns, table)
        assert len(a) == len(b), table
        for field in sorted(set(a.dtype.names) - set(HOW.get(table, ()))):
            if field == "site":
                assert [names[0].get(i) for i in a[field].tolist()] == [names[1].get(i) for i in b[field].tolist()]
            else:
                np.testing.assert_array_equal(a[field], b[field], err_msg=f"{table}.{field}")
    assert one.columns.values.tobytes() == other.columns.values.tobytes()
    for method in ("biased", "ars"):
        assert one.log_weights(method).tobytes() == other.log_weights(method).tobytes(), method


def entries(post: ars.Posterior, address: str) -> npt.NDArray[Any]:
    """The entries of one loop, with their estimates."""
    (site,) = (site for site in post.sites if site.address == address)
    return np.asarray(post.columns.loops[post.columns.loops["site"] == site.id])
