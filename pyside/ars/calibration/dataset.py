"""One data set: the truth that gave it, its posterior, and where the truth lies in it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars.calibration.ranks import place
from ars.columns import Floats
from ars.diagnostics import ess, log_evidence, pareto_k, weighted_mean
from ars.errors import ArsWarning
from ars.seeds import named_seed

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.posterior import Posterior
    from ars.simulator import Simulator

__all__ = ["JOINT", "LIKELIHOOD", "DataSet", "Record", "Value", "infer_dataset"]

LIKELIHOOD: Final = "log likelihood"  # of the data, given the latents: a value that every simulator has
JOINT: Final = "all values (TARP)"  # the distance to a random point, which all values decide together


class DataSet(NamedTuple):
    """Data drawn from the prior, and all that their inference depends on."""

    number: int
    seed: int  # of the calibration
    observe: Mapping[str, npt.NDArray[np.float64]]
    truth: Mapping[str, float]  # NaN: the trace does not have the value
    likelihood: float  # log likelihood of the data, given everything that the truth's trace drew
    reference: Mapping[str, float]  # the random point, for the values that every trace has
    scale: Mapping[str, float]  # prior standard deviations of the same


@dataclass(frozen=True)
class Value:
    """One value of one data set.

    Attributes
    ----------
    truth, mean, std : float
        The truth; posterior mean and standard deviation.
    rank : float
        Rank of the truth among the weighted traces, in (0, 1): uniform over data sets if the posteriors are right.
    cdf : float
        Posterior probability below the truth.
    """

    truth: float
    mean: float
    std: float
    rank: float
    cdf: float


@dataclass(frozen=True)
class Record:
    """What one data set gave.

    Attributes
    ----------
    number : int
        Index of the data set, from 0.
    traces, failed : int
        Traces with a weight, and failed ones.
    ess, pareto_k, log_evidence : float
        Of the weights; NaN where unknown. ``ess`` is 0 if no trace has weight.
    seconds : float
        Duration of the inference.
    values : mapping of str to Value
        Without values that the truth or all weighted traces lack.
    """

    number: int
    traces: int
    failed: int
    ess: float
    pareto_k: float
    log_evidence: float
    seconds: float
    values: Mapping[str, Value] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Record:
        """The record that ``to_dict`` described; None stands for NaN."""
        plain: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in content.items() if name != "values"
        }
        values = {
            name: Value(**{key: math.nan if number is None else number for key, number in value.items()})
            for name, value in content["values"].items()
        }
        return Record(**plain, values=values)


def infer_dataset(
    simulator: Simulator, data: DataSet, network: Network | None, options: Mapping[str, Any], weighting: str | None
) -> Record:
    """Infer one data set, and place its truth.

    Parameters
    ----------
    simulator : Simulator
    data : DataSet
    network : Network or None
        Proposes; None: the prior does.
    options : mapping
        Arguments of ``Simulator.posterior``, ``traces`` among them.
    weighting : str or None
        Weights to use; None: the run's default.

    Returns
    -------
    Record
        It depends on the data set and the options alone, but for ``seconds``.
    """
    begun = time.monotonic()
    with warnings.catch_warnings():  # what they warn of is counted over all data sets
        warnings.simplefilter("ignore", ArsWarning)
        post = simulator.posterior(
            data.observe, network=network, seed=named_seed(data.seed, "data set", data.number), **options
        )
        log_weights = post.log_weights(weighting)
    return Record(
        data.number,
        len(post),
        sum(post.failures.values()),
        _effective(log_weights),
        float(pareto_k(log_weights)),
        float(log_evidence(log_weights).log_estimate) if len(post) else math.nan,
        time.monotonic() - begun,
        dict(_placed(post, data, log_weights)),
    )


def _effective(log_weights: Floats) -> float:
    return ess(log_weights) if np.any(log_weights > -np.inf) else 0.0


def _placed(post: Posterior, data: DataSet, log_weights: Floats) -> Sequence[tuple[str, Value]]:
    """Every value that can be compared, with its place. Each has its own uniform number, whichever others there are."""
    draws = {name: _draws(post, name) for name in data.truth}
    truths = dict(data.truth)
    if data.reference:
        named = list(data.reference)
        draws[JOINT] = _distance(np.stack([draws[name] for name in named], axis=1), data)
        truths[JOINT] = float(_distance(np.array([[data.truth[name] for name in named]]), data)[0])
    draws[LIKELIHOOD] = post.columns.traces["log_likelihood"].astype(np.float64)
    truths[LIKELIHOOD] = data.likelihood
    found = []
    for name, truth in truths.items():
        if math.isnan(truth):
            continue
        v = float(np.random.default_rng(named_seed(data.seed, "tie", data.number, name)).random())
        placed = place(truth, draws[name], log_weights, v)
        if placed is not None:
            mean, std = _moments(draws[name], log_weights)
            found.append((name, Value(truth, mean, std, placed.rank, placed.cdf)))
    return found


def _draws(post: Posterior, name: str) -> Floats:
    """A value of every trace; NaN where there is none."""
    try:
        values = post[name]
    except (KeyError, ValueError):  # no trace of this posterior has it
        return np.full(len(post), np.nan)
    return values if values.ndim == 1 else values.reshape(len(values), -1)[:, 0]


def _distance(points: Floats, data: DataSet) -> Floats:
    """How far each row is from the reference point, in standard deviations of the prior."""
    reference = np.array(list(data.reference.values()))
    scale = np.array([data.scale[name] for name in data.reference])
    found: Floats = np.sqrt((((points - reference) / scale) ** 2).sum(axis=1))
    return found


def _moments(values: Floats, log_weights: Floats) -> tuple[float, float]:
    mean = float(weighted_mean(values, log_weights))
    second = float(weighted_mean((values - mean) ** 2, log_weights))
    return mean, math.sqrt(max(second, 0.0))
