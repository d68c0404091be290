"""Distributions of vectors, as in C: MultivariateNormal(mean, cholesky) and Dirichlet(concentration).

A simulator draws them with ``ars_sample_vector``, coordinate by coordinate: each is a latent of its own, and its prior
is the distribution of this coordinate given those before it. So a proposal for such a site proposes one coordinate, not
the vector.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from ars import _vectors
from ars._native import DistKind

__all__ = ["Dirichlet", "MultivariateNormal", "VectorDistribution"]

Array = npt.NDArray[np.float64]


def _array(owner: str, name: str, value: npt.ArrayLike, dimensions: int) -> Array:
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} is {value!r}, must be an array of numbers") from None
    if array.ndim != dimensions:
        raise ValueError(f"{owner}: {name} has shape {array.shape}, must have {dimensions} dimension(s)")
    array.setflags(write=False)
    return array


class VectorDistribution:
    """The base class of distributions of vectors. They are values: their parameters are read-only."""

    kind: ClassVar[DistKind]
    _first: Array
    _second: Array | None = None

    @property
    def dimension(self) -> int:
        """How many coordinates a vector has."""
        return len(self._first)

    def log_prob(self, x: npt.ArrayLike) -> Array:
        """The joint log density.

        Parameters
        ----------
        x : array_like
            One vector, or vectors along the last axis.

        Returns
        -------
        numpy.ndarray
            One number per vector; its shape is that of ``x`` without the last axis.
        """
        values = np.asarray(x, dtype=np.float64)
        if values.ndim < 1 or values.shape[-1] != self.dimension:
            raise ValueError(
                f"{type(self).__name__}: x has shape {values.shape}, its last axis must have {self.dimension} numbers"
            )
        found = _vectors.log_density(self.kind, self._first, self._second, values.reshape(-1, self.dimension))
        return found.reshape(values.shape[:-1])

    def sample(self, n: int, seed: int) -> Array:
        """Draw vectors; the same seed gives the same vectors.

        Parameters
        ----------
        n : int
            How many.
        seed : int
            From 0 to 2**64 - 1.

        Returns
        -------
        numpy.ndarray
            Of shape ``(n, dimension)``.
        """
        if n < 0:
            raise ValueError(f"n is {n}, must not be negative")
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed is {seed}, must be from 0 to 2**64 - 1")
        return _vectors.sample(self.kind, self._first, self._second, n, seed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VectorDistribution) or type(self) is not type(other):
            return NotImplemented
        same = np.array_equal(self._first, other._first)
        return same and (self._second is None or np.array_equal(self._second, other._second))  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash((self.kind, self._first.tobytes(), None if self._second is None else self._second.tobytes()))


class MultivariateNormal(VectorDistribution):
    """The Normal of vectors.

    Parameters
    ----------
    mean : array_like
        One number per coordinate; at most 512 coordinates.
    cholesky : array_like
        The lower Cholesky factor of the covariance: a square matrix with 0 above its diagonal, positive numbers on it.

    Examples
    --------
    >>> d = ars.MultivariateNormal([0, 0], np.linalg.cholesky([[1, 0.5], [0.5, 1]]))
    >>> d.log_prob([0.0, 0.0])
    """

    kind: ClassVar[DistKind] = DistKind.MULTIVARIATE_NORMAL

    def __init__(self, mean: npt.ArrayLike, cholesky: npt.ArrayLike) -> None:
        self.mean: Final = _array("MultivariateNormal", "mean", mean, 1)
        self.cholesky: Final = _array("MultivariateNormal", "cholesky", cholesky, 2)
        n = len(self.mean)
        if self.cholesky.shape != (n, n):
            raise ValueError(
                f"MultivariateNormal: cholesky has shape {self.cholesky.shape}, must be ({n}, {n}), as mean has {n} "
                "numbers"
            )
        self._first, self._second = self.mean, self.cholesky.reshape(-1)
        _vectors.check(self.kind, self._first, self._second)

    def __repr__(self) -> str:
        return f"MultivariateNormal(mean={self.mean.tolist()}, cholesky={self.cholesky.tolist()})"


class Dirichlet(VectorDistribution):
    """Positive numbers that sum to 1.

    Parameters
    ----------
    concentration : array_like
        One positive number per coordinate; 2 to 512 coordinates.

    Examples
    --------
    >>> ars.Dirichlet([1.0, 1.0, 1.0]).sample(2, seed=1)
    """

    kind: ClassVar[DistKind] = DistKind.DIRICHLET

    def __init__(self, concentration: npt.ArrayLike) -> None:
        self.concentration: Final = _array("Dirichlet", "concentration", concentration, 1)
        self._first = self.concentration
        _vectors.check(self.kind, self._first, None)

    def __repr__(self) -> str:
        return f"Dirichlet(concentration={self.concentration.tolist()})"
