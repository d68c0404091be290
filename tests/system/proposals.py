"""The proposals of a random program (programs.py) as those of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from programs import Dist, Program

import ars

Floats: TypeAlias = npt.NDArray[np.float64]

_CLASSES: Mapping[str, Callable[..., ars.Distribution]] = {
    "uniform": ars.Uniform,
    "normal": ars.Normal,
    "bernoulli": ars.Bernoulli,
    "poisson": ars.Poisson,
    "binomial": ars.Binomial,
    "beta": ars.Beta,
    "gamma": ars.Gamma,
    "exponential": ars.Exponential,
    "weibull": ars.Weibull,
    "lognormal": ars.LogNormal,
    "truncated_normal": ars.TruncatedNormal,
    "negative_binomial": ars.NegativeBinomial,
    "student_t": ars.StudentT,
}


def to_ars(dist: Dist, values: Callable[[str], Floats]) -> ars.Distribution:
    params = [param(values) for param in dist.params]
    if dist.kind == "categorical":
        return ars.Categorical(np.stack(np.broadcast_arrays(*params), axis=-1))
    if dist.kind == "mixture":
        return ars.Mixture(np.array(params), [to_ars(component, values) for component in dist.components])
    return _CLASSES[dist.kind](*params)


def _constant(name: str) -> Floats:
    raise AssertionError(f"a constant proposal asks for {name}")


def proposals(program: Program) -> dict[str, Any]:
    """A distribution where its parameters are constants, else a function of the values drawn so far."""
    found: dict[str, Any] = {}
    for name, dist in program.proposals.items():
        if dist.variables:
            found[name] = lambda t, dist=dist: to_ars(dist, t.__getitem__)
        else:
            found[name] = to_ars(dist, _constant)
    return found
