"""Random probabilistic programs as a small syntax tree.

A program is a model as a user would write one: latents of every distribution, nuisances, rejection loops within loops
and in a row, branches, repeated blocks, helper functions, data. Every parameter is a constant or a bounded function of
earlier values, so that no run can make it invalid. Names are unique in a program: they say which line drew the latent.

Here the tree only gets its form. ``program_author.py`` draws one from a seed, ``program_source.py`` renders it in C,
``reference.py`` gives it its meaning in Python, and ``fit_programs.py`` chooses those that make good tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

C_FILE = "random_programs.c"
KINDS = (
    "uniform",
    "normal",
    "bernoulli",
    "categorical",
    "poisson",
    "binomial",
    "beta",
    "gamma",
    "exponential",
    "weibull",
    "lognormal",
    "truncated_normal",
    "negative_binomial",
    "student_t",
)
VECTOR_KINDS = ("multivariate_normal", "dirichlet")


def rounded(value: float) -> float:
    """Constants that a person can read, and that C reads back as they are."""
    return float(f"{value:.4g}")


# ---- expressions ------------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """coefficient * function(scale * (variable - shift))"""

    coefficient: float
    function: str  # "tanh", "sin", "soft" (x / (1 + |x|)): bounded by 1; "same" (x) for variables that are bounded
    scale: float
    variable: str
    shift: float


FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "tanh": np.tanh,
    "sin": np.sin,
    "soft": lambda x: x / (1 + np.abs(x)),
    "same": lambda x: x,
}


@dataclass(frozen=True)
class Expr:
    """A constant plus bounded terms."""

    constant: float
    terms: tuple[Term, ...] = ()

    def __call__(self, values: Callable[[str], Floats]) -> Floats:
        total = np.asarray(self.constant, dtype=np.float64)
        for term in self.terms:
            argument = term.scale * (values(term.variable) - term.shift)
            total = total + term.coefficient * FUNCTIONS[term.function](argument)
        return total

    @property
    def variables(self) -> set[str]:
        return {term.variable for term in self.terms}

    def plus(self, constant: float) -> Expr:
        return replace(self, constant=rounded(self.constant + constant))

    def times(self, factor: float) -> Expr:
        scaled = tuple(term._replace(coefficient=rounded(factor * term.coefficient)) for term in self.terms)
        return Expr(rounded(factor * self.constant), scaled)


@dataclass(frozen=True)
class Dist:
    """A distribution of ars.h, its parameters in the order of its constructor; or a proposal's mixture of some."""

    kind: str
    params: tuple[Expr, ...]
    components: tuple[Dist, ...] = ()  # of a "mixture", whose params are its weights

    @property
    def variables(self) -> set[str]:
        parts: tuple[Expr | Dist, ...] = (*self.params, *self.components)
        return {name for part in parts for name in part.variables}


@dataclass(frozen=True)
class VectorDist:
    """A MultivariateNormal, of means and the rows of its lower Cholesky factor, or a Dirichlet of concentrations."""

    kind: str
    first: tuple[Expr, ...]
    rows: tuple[tuple[Expr, ...], ...] = ()

    @property
    def recorded(self) -> int:
        """Latents: a Dirichlet's last number follows from the others."""
        return len(self.first) - (self.kind == "dirichlet")


def constants(*values: float) -> tuple[Expr, ...]:
    return tuple(Expr(value) for value in values)


# ---- statements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    name: str
    dist: Dist


@dataclass(frozen=True)
class SampleVector:
    """Its numbers are the variables NAME_0, NAME_1, ...; in a trace they are instances of the latent NAME."""

    name: str
    dist: VectorDist

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(f"{self.name}_{i}" for i in range(len(self.dist.first)))


@dataclass(frozen=True)
class Draw:
    """A nuisance. Its value is recorded as a result of the same name, so that a trace can be replayed."""

    name: str
    dist: Dist


@dataclass(frozen=True)
class Loop:
    """Runs its body until ``accept`` is positive. Without a name it is called by its place in the source."""

    name: str
    body: tuple[Statement, ...]
    accept: Expr


@dataclass(frozen=True)
class Branch:
    """Where ``condition`` is positive ``then``, else ``other``; ``out`` is the value of the way taken."""

    out: str
    condition: Expr
    then: tuple[Statement, ...]
    then_value: Expr
    other: tuple[Statement, ...]
    other_value: Expr


@dataclass(frozen=True)
class Repeat:
    """Runs its body ``count`` times; ``out`` is the sum of ``value``."""

    out: str
    count: Expr
    body: tuple[Statement, ...]
    value: Expr


@dataclass(frozen=True)
class Call:
    out: str
    helper: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Observe:
    name: str
    dist: Dist


@dataclass(frozen=True)
class ObserveNormals:
    name: str
    means: tuple[Expr, ...]
    stds: tuple[Expr, ...]


@dataclass(frozen=True)
class Factor:
    name: str
    value: Expr


@dataclass(frozen=True)
class Result:
    name: str
    value: Expr


Statement: TypeAlias = (
    Sample | SampleVector | Draw | Loop | Branch | Repeat | Call | Observe | ObserveNormals | Factor | Result
)


@dataclass(frozen=True)
class Helper:
    """A function with a loop in it."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    value: Expr


@dataclass(frozen=True)
class Program:
    index: int
    body: tuple[Statement, ...]
    helpers: tuple[Helper, ...] = ()
    proposals: Mapping[str, Dist] = field(default_factory=dict)  # latents' names; the others are proposed by the prior
    data: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """The name of its C function."""
        return f"model_{self.index}"

    def functions(self) -> dict[str, tuple[Statement, ...]]:
        return {self.model: self.body, **{helper.name: helper.body for helper in self.helpers}}


def inside(statement: Statement) -> tuple[Statement, ...]:
    """The statements directly within this one."""
    match statement:
        case Loop() | Repeat():
            return statement.body
        case Branch():
            return statement.then + statement.other
    return ()


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, in the order of the source."""
    for statement in body:
        yield statement
        yield from walk(inside(statement))


def loop_labels(program: Program) -> dict[int, str]:
    """What every loop (by id) is called in addresses: its name, or file:function#order for an unnamed one."""
    labels = {}
    for function, body in program.functions().items():
        loops = [statement for statement in walk(body) if isinstance(statement, Loop)]
        for order, loop in enumerate(loops):
            labels[id(loop)] = loop.name or f"{C_FILE}:{function}#{order}"
    return labels
