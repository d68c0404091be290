"""Distributions, as in C: Normal(mean, std), Gamma(shape, rate), ... A parameter is a number, or an array with one
number per row of a batch.

Each class is a frozen value. Its parameters are checked when it is made, by the C code that the simulator uses, and so
are its densities and its draws: there is one implementation of each. REGISTRY is the one list of distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ars import _native
from ars._native import DistKind
from ars._parameters import as_array, common_rows, show

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Distribution", "Exponential", "Gamma", "LogNormal", "Mixture",
    "NegativeBinomial", "Normal", "Poisson", "Prior", "ScaledBeta", "StudentT", "TruncatedNormal", "Uniform", "Weibull",
]  # fmt: skip

Array = npt.NDArray[np.float64]
Support = tuple[Array, Array]

_HEADER: Final = _native.DTYPES["dist"]
_COMPONENT: Final = 6  # doubles of a Mixture's component on the wire: weight, kind, four parameters


def _table(kind: DistKind, rows: int | None, columns: Sequence[Array]) -> npt.NDArray[np.uint64]:
    """The wire form: a row of 8-byte words per distribution, a header and then the columns."""
    table = np.empty((1 if rows is None else rows, 1 + len(columns)), dtype=np.uint64)
    table[:, 0] = np.array([(kind, 0, len(columns))], dtype=_HEADER).view(np.uint64)
    numbers = table.view(np.float64)
    for i, column in enumerate(columns):
        numbers[:, 1 + i] = column
    table.setflags(write=False)
    return table


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """The base class of all distributions. After construction the parameters are read-only float64 arrays."""

    rows: int | None = field(init=False)  # None: all parameters are scalars
    _words: npt.NDArray[np.uint64] = field(init=False)

    def _finish(self, rows: int | None, columns: Sequence[Array]) -> None:
        words = _table(REGISTRY[type(self)].kind, rows, columns)
        _native.check(words)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "_words", words)

    @property
    def kind(self) -> DistKind:
        """The kind of distribution, as the wire names it."""
        return REGISTRY[type(self)].kind

    @property
    def discrete(self) -> bool:
        """Whether values are whole numbers with probabilities, rather than reals with densities."""
        return self.kind in _native.DISCRETE

    @property
    def parameters(self) -> dict[str, Array]:
        """The parameters by name, each a number (0-d) or one per row."""
        return {name: getattr(self, name) for name in _names(type(self))}

    def support(self) -> Support:
        """The smallest interval that holds all values, as (low, high); one of each per row if there are rows."""
        low, high = REGISTRY[type(self)].support(self)
        shape = () if self.rows is None else (self.rows,)
        return np.broadcast_to(low, shape).astype(np.float64), np.broadcast_to(high, shape).astype(np.float64)

    def encode(self, rows: int) -> list[bytes]:
        """Encode the distribution for the wire (ars_wire_dist), once per row.

        Parameters
        ----------
        rows : int
            Number of rows; scalar parameters are repeated.

        Returns
        -------
        list of bytes
            One item per row.
        """
        if rows < 0:
            raise ValueError(f"rows is {rows}, must not be negative")
        data, size = self._words.tobytes(), self._words.itemsize * self._words.shape[1]
        if self.rows is None:
            return [data] * rows
        if self.rows != rows:
            raise ValueError(f"{type(self).__name__}: its parameters have {self.rows} rows, but {rows} are needed")
        return [data[at : at + size] for at in range(0, rows * size, size)]

    def log_prob(self, x: npt.ArrayLike) -> Array:
        """Compute the log density, or log probability if discrete.

        Parameters
        ----------
        x : array_like
            Values. If the parameters have rows: one value per row, or one for all.

        Returns
        -------
        array
            Natural logs; -inf outside the support.
        """
        values = np.asarray(x, dtype=np.float64)
        if self.rows is not None and values.ndim == 0:
            values = np.broadcast_to(values, (self.rows,))
        if self.rows is not None and values.shape != (self.rows,):
            raise ValueError(
                f"{type(self).__name__}: x has shape {values.shape}, must be one value for each of {self.rows} rows"
            )
        return _native.log_density(self._words, values)

    def sample(self, n: int, seed: int) -> Array:
        """Draw values.

        Parameters
        ----------
        n : int
            Number of draws. If the parameters have rows, it must equal the number of rows; each row gives one draw.
        seed : int
            Seed. The same seed gives the same draws.

        Returns
        -------
        array
            n values.
        """
        if self.rows is not None and self.rows != n:
            raise ValueError(f"{type(self).__name__}: its parameters have {self.rows} rows, but n is {n}")
        return _native.sample(self._words, n, seed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Distribution) or type(self) is not type(other):
            return NotImplemented
        return self.rows == other.rows and np.array_equal(self._words, other._words)

    def __hash__(self) -> int:
        return hash((self.rows, self._words.tobytes()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={show(value)}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({inside})"


@dataclass(frozen=True, eq=False, repr=False)
class _Scalars(Distribution):
    """A distribution whose parameters are a few numbers: its dataclass fields, in the order of the wire."""

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name in _names(type(self)):
            object.__setattr__(self, name, as_array(owner, name, getattr(self, name)))
        values = self.parameters
        rows = common_rows(owner, {name: len(value) if value.ndim else None for name, value in values.items()})
        self._finish(rows, list(values.values()))


@dataclass(frozen=True, eq=False, repr=False)
class Uniform(_Scalars):
    """Uniform on [low, high].

    Parameters
    ----------
    low : array_like
        Lower end.
    high : array_like
        Upper end, above ``low``.
    """

    low: npt.ArrayLike
    high: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Normal(_Scalars):
    """Normal with a mean and a standard deviation.

    Parameters
    ----------
    mean : array_like
        Mean.
    std : array_like
        Standard deviation, positive.
    """

    mean: npt.ArrayLike
    std: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Bernoulli(_Scalars):
    """1 with probability p, otherwise 0.

    Parameters
    ----------
    p : array_like
        Probability of 1, from 0 to 1.
    """

    p: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(_Scalars):
    """Poisson counts.

    Parameters
    ----------
    rate : array_like
        Mean, not negative.
    """

    rate: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Binomial(_Scalars):
    """Number of successes in n trials.

    Parameters
    ----------
    n : array_like
        Number of trials, a whole number.
    p : array_like
        Probability of success, from 0 to 1.
    """

    n: npt.ArrayLike
    p: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Beta(_Scalars):
    """Beta on [0, 1].

    Parameters
    ----------
    a : array_like
        First shape, positive.
    b : array_like
        Second shape, positive.
    """

    a: npt.ArrayLike
    b: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Gamma(_Scalars):
    """Gamma with a shape and a rate; its mean is shape / rate.

    Parameters
    ----------
    shape : array_like
        Shape, positive.
    rate : array_like
        Rate (the inverse scale), positive.
    """

    shape: npt.ArrayLike
    rate: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(_Scalars):
    """Exponential with a rate; its mean is 1 / rate.

    Parameters
    ----------
    rate : array_like
        Rate, positive.
    """

    rate: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Weibull(_Scalars):
    """Weibull with a scale and a shape.

    Parameters
    ----------
    scale : array_like
        Scale, positive.
    shape : array_like
        Shape, positive.
    """

    scale: npt.ArrayLike
    shape: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class LogNormal(_Scalars):
    """exp of a Normal(mu, sigma).

    Parameters
    ----------
    mu : array_like
        Mean of the log.
    sigma : array_like
        Standard deviation of the log, positive.
    """

    mu: npt.ArrayLike
    sigma: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class TruncatedNormal(_Scalars):
    """Normal(mean, std), restricted to [low, high].

    Parameters
    ----------
    mean : array_like
        Mean of the Normal before it is restricted.
    std : array_like
        Standard deviation of that Normal, positive.
    low : array_like
        Lower end; may be -inf.
    high : array_like
        Upper end, above ``low``; may be inf.
    """

    mean: npt.ArrayLike
    std: npt.ArrayLike
    low: npt.ArrayLike
    high: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class ScaledBeta(_Scalars):
    """Beta(a, b) stretched to [low, high]: a proposal for a Uniform.

    Parameters
    ----------
    a : array_like
        First shape, positive.
    b : array_like
        Second shape, positive.
    low : array_like
        Lower end.
    high : array_like
        Upper end, above ``low``.
    """

    a: npt.ArrayLike
    b: npt.ArrayLike
    low: npt.ArrayLike
    high: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class NegativeBinomial(_Scalars):
    """Number of failures before r successes of probability p: ``scipy.stats.nbinom(r, p)``.

    Its mean, r (1 - p) / p, is at most 1e15.

    Parameters
    ----------
    r : array_like
        Number of successes; positive, not necessarily a whole number.
    p : array_like
        Probability of success, above 0 and at most 1.
    """

    r: npt.ArrayLike
    p: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(_Scalars):
    """Student's t with df degrees of freedom, centred at loc and stretched by scale.

    Parameters
    ----------
    df : array_like
        Degrees of freedom, positive.
    loc : array_like
        Centre.
    scale : array_like
        Scale, positive.
    """

    df: npt.ArrayLike
    loc: npt.ArrayLike
    scale: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class NormalCoordinate(_Scalars):
    """A coordinate of a MultivariateNormal, given those before it: the prior of such a latent."""

    mean: npt.ArrayLike
    std: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class DirichletCoordinate(_Scalars):
    """A coordinate of a Dirichlet, given those before it: the prior of such a latent."""

    a: npt.ArrayLike
    b: npt.ArrayLike
    low: npt.ArrayLike
    high: npt.ArrayLike


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(Distribution):
    """0, 1, ..., k - 1 with probabilities p.

    Parameters
    ----------
    p : array_like
        Probabilities that sum to 1, of shape (k,) or (rows, k).
    """

    p: npt.ArrayLike

    def __post_init__(self) -> None:
        p = as_array("Categorical", "p", self.p, per_row=1)
        object.__setattr__(self, "p", p)
        self._finish(p.shape[0] if p.ndim == 2 else None, list(np.moveaxis(p, -1, 0)))


@dataclass(frozen=True, eq=False, repr=False)
class Prior(Distribution):
    """The simulator's own prior, as a proposal."""

    def __post_init__(self) -> None:
        self._finish(None, [])


@dataclass(frozen=True, eq=False, repr=False)
class Mixture(Distribution):
    """A mixture of distributions.

    Parameters
    ----------
    weights : array_like
        Weights that sum to 1, of shape (components,) or (rows, components).
    components : sequence of Distribution
        All discrete or all continuous; neither Categorical nor Prior. A Mixture is replaced by its own components.
    """

    weights: npt.ArrayLike
    components: Sequence[Distribution]

    def __post_init__(self) -> None:
        weights = as_array("Mixture", "weights", self.weights, per_row=1)
        given = tuple(self.components)
        if not given or weights.shape[-1] != len(given):
            raise ValueError(
                f"Mixture: weights are for {weights.shape[-1]} components, but components has {len(given)}"
            )
        for i, component in enumerate(given):
            if not isinstance(component, (_Scalars, Mixture)):
                raise ValueError(f"Mixture: component {i} is {component!r}, which cannot be a component")
        rows = common_rows(
            "Mixture",
            {"weights": len(weights) if weights.ndim == 2 else None}
            | {f"component {i}": component.rows for i, component in enumerate(given)},
        )
        parts = [part for i, component in enumerate(given) for part in _flatten(weights[..., i], component)]
        if len(parts) > _native.MAX_COMPONENTS:
            raise ValueError(f"Mixture: {len(parts)} components, must be at most {_native.MAX_COMPONENTS}")
        flat = np.stack(np.broadcast_arrays(*(weight for weight, _ in parts)), axis=-1)
        flat.setflags(write=False)
        object.__setattr__(self, "weights", flat)
        object.__setattr__(self, "components", tuple(component for _, component in parts))
        self._finish(rows, _mixture_columns(flat, [component for _, component in parts]))

    @property
    def discrete(self) -> bool:
        """Whether the components are discrete."""
        return cast(tuple[Distribution, ...], self.components)[0].discrete

    def __repr__(self) -> str:
        return f"Mixture(weights={show(cast(Array, self.weights))}, components={self.components!r})"


def _flatten(weight: Array, component: Distribution) -> list[tuple[Array, Distribution]]:
    """A component with its weight; for a Mixture, its components (already flat) with theirs."""
    if not isinstance(component, Mixture):
        return [(weight, component)]
    inner = cast(Array, component.weights)
    shares = inner / inner.sum(axis=-1, keepdims=True)
    return [(weight * shares[..., i], part) for i, part in enumerate(component.components)]


def _mixture_columns(weights: Array, components: Sequence[Distribution]) -> list[Array]:
    zero = np.zeros(())
    columns: list[Array] = []
    for i, component in enumerate(components):
        values = list(component.parameters.values())
        unused = [zero] * (_COMPONENT - 2 - len(values))
        columns += [weights[..., i], np.array(float(component.kind)), *values, *unused]
    return columns


# ---- the registry ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """What the package knows about a class of distributions. The rest is known to the C code (dist_list.h)."""

    kind: DistKind
    support: Callable[[Any], tuple[npt.ArrayLike, npt.ArrayLike]]


def _always(low: float, high: float) -> Callable[[Any], tuple[npt.ArrayLike, npt.ArrayLike]]:
    return lambda _: (low, high)


def _categorical_support(d: Categorical) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    possible = cast(Array, d.p) > 0
    return possible.argmax(axis=-1), possible.shape[-1] - 1 - possible[..., ::-1].argmax(axis=-1)


def _mixture_support(d: Mixture) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    low, high = _component_supports(d)
    return low.min(axis=0), high.max(axis=0)


# One entry per distribution. Parameter names are the fields of the class, in the order of the wire.
REGISTRY: Final[Mapping[type[Distribution], Spec]] = MappingProxyType(
    {
        Uniform: Spec(DistKind.UNIFORM, lambda d: (d.low, d.high)),
        Normal: Spec(DistKind.NORMAL, _always(-np.inf, np.inf)),
        Bernoulli: Spec(DistKind.BERNOULLI, lambda d: (d.p == 1, d.p > 0)),
        Categorical: Spec(DistKind.CATEGORICAL, _categorical_support),
        Poisson: Spec(DistKind.POISSON, lambda d: (0, np.where(d.rate > 0, np.inf, 0))),
        Binomial: Spec(DistKind.BINOMIAL, lambda d: (np.where(d.p == 1, d.n, 0), np.where(d.p > 0, d.n, 0))),
        Beta: Spec(DistKind.BETA, _always(0, 1)),
        Gamma: Spec(DistKind.GAMMA, _always(0, np.inf)),
        Exponential: Spec(DistKind.EXPONENTIAL, _always(0, np.inf)),
        Weibull: Spec(DistKind.WEIBULL, _always(0, np.inf)),
        LogNormal: Spec(DistKind.LOGNORMAL, _always(0, np.inf)),
        TruncatedNormal: Spec(DistKind.TRUNCATED_NORMAL, lambda d: (d.low, d.high)),
        ScaledBeta: Spec(DistKind.SCALED_BETA, lambda d: (d.low, d.high)),
        NegativeBinomial: Spec(DistKind.NEGATIVE_BINOMIAL, lambda d: (0, np.where(d.p < 1, np.inf, 0))),
        StudentT: Spec(DistKind.STUDENT_T, _always(-np.inf, np.inf)),
        NormalCoordinate: Spec(DistKind.MULTIVARIATE_NORMAL, _always(-np.inf, np.inf)),
        DirichletCoordinate: Spec(DistKind.DIRICHLET, lambda d: (d.low, d.high)),
        Mixture: Spec(DistKind.MIXTURE, _mixture_support),
        Prior: Spec(DistKind.PRIOR, _always(-np.inf, np.inf)),
    }
)

_CLASSES: Final[Mapping[DistKind, type[Distribution]]] = MappingProxyType({s.kind: c for c, s in REGISTRY.items()})


def _names(cls: type[Distribution]) -> list[str]:
    return [f.name for f in fields(cls) if f.init]


# ---- from the wire, and coverage ------------------------------------------------------------------------------------


def decode(encoded: bytes) -> Distribution:
    """The distribution that these bytes (an ars_wire_dist) hold. Raises ValueError if they hold none."""
    _native.check(encoded)
    return _from_words(np.frombuffer(encoded, dtype=np.uint64))


def decode_rows(encoded: Sequence[bytes]) -> Distribution:
    """Distributions of one kind and size as one distribution with rows. Raises ValueError for anything else."""
    _native.check(encoded)
    headers = {item[: _HEADER.itemsize] for item in encoded}
    if len(headers) != 1:
        raise ValueError(f"{len(headers)} kinds or sizes of distributions among {len(encoded)} rows, must be one")
    return _from_words(np.frombuffer(b"".join(encoded), dtype=np.uint64).reshape(len(encoded), -1))


def _from_words(words: npt.NDArray[np.uint64]) -> Distribution:
    """From checked words, of one distribution (1-d) or of one per row (2-d)."""
    kind = DistKind(int(words.reshape(-1)[:1].view(_HEADER)["kind"][0]))
    numbers = words.view(np.float64)[..., 1:]
    if kind is DistKind.MIXTURE:
        parts = [numbers[..., at : at + _COMPONENT] for at in range(0, numbers.shape[-1], _COMPONENT)]
        weights = np.stack([part[..., 0] for part in parts], axis=-1)
        return Mixture(weights, [_component(part) for part in parts])
    cls: Any = _CLASSES[kind]
    if kind is DistKind.CATEGORICAL:
        return cast(Distribution, cls(numbers))
    return cast(Distribution, cls(*np.moveaxis(numbers, -1, 0)))


def _component(part: Array) -> Distribution:
    kinds = np.unique(part[..., 1])
    if len(kinds) != 1:
        raise ValueError("Mixture: a component is of different kinds in different rows")
    cls: Any = _CLASSES[DistKind(int(kinds[0]))]
    return cast(Distribution, cls(*(part[..., 2 + i] for i in range(len(_names(cls))))))


def _component_supports(d: Mixture) -> Support:
    """Low and high ends per component (first axis) and row; a component of weight 0 has the empty (inf, -inf)."""
    weights = np.moveaxis(cast(Array, d.weights), -1, 0)
    used = [np.broadcast_arrays(weights[i] > 0, *c.support()) for i, c in enumerate(d.components)]
    low = np.stack(np.broadcast_arrays(*(np.where(on, low, np.inf) for on, low, _ in used)))
    high = np.stack(np.broadcast_arrays(*(np.where(on, high, -np.inf) for on, _, high in used)))
    return low, high


def covers(proposal: Distribution, prior_low: npt.ArrayLike, prior_high: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Per row, whether the proposal can produce every value of a prior whose support is [prior_low, prior_high].

    A proposal that cannot would give weights that are silently wrong. Gaps count: between the components of a Mixture,
    and categories of probability 0.
    """
    wanted_low, wanted_high = np.asarray(prior_low, dtype=np.float64), np.asarray(prior_high, dtype=np.float64)
    if isinstance(proposal, Prior):
        return np.broadcast_to(np.True_, np.broadcast_shapes(wanted_low.shape, wanted_high.shape)).copy()
    if isinstance(proposal, Categorical):
        possible = cast(Array, proposal.p) > 0
        category = np.arange(possible.shape[-1])
        wanted = (category >= wanted_low[..., None]) & (category <= wanted_high[..., None])
        inside = (wanted_low >= 0) & (wanted_high < possible.shape[-1])
        return np.asarray(inside & (possible | ~wanted).all(axis=-1))
    if isinstance(proposal, Mixture):
        low, high = _component_supports(proposal)
    else:
        low, high = (end[None] for end in proposal.support())
    # From prior_low upwards, as far as overlapping intervals reach. Whole numbers next to each other leave no gap.
    step = 1.0 if proposal.discrete else 0.0
    order = np.argsort(low, axis=0, kind="stable")
    low, high = np.take_along_axis(low, order, axis=0), np.take_along_axis(high, order, axis=0)
    reached = wanted_low - step
    for start, end in zip(low, high, strict=True):
        reached = np.where(start <= reached + step, np.maximum(reached, end), reached)
    return np.asarray((low[0] <= wanted_low) & (reached >= wanted_high))
