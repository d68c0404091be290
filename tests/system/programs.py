"""Random probabilistic programs, drawn from a seed, as a small syntax tree with a rendering in C.

A program is a model as a user would write one: latents of every distribution, nuisances, rejection loops within loops
and in a row, branches, repeated blocks, helper functions, data. Every parameter is a constant or a bounded function of
earlier values, so that no run can make it invalid. ``reference.py`` gives the tree its meaning in Python; here it only
gets its form. Names are unique in a program: a latent's name says which line drew it.
"""

from __future__ import annotations

import itertools
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
        return replace(self, constant=_round(self.constant + constant))

    def times(self, factor: float) -> Expr:
        scaled = tuple(term._replace(coefficient=_round(factor * term.coefficient)) for term in self.terms)
        return Expr(_round(factor * self.constant), scaled)


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


# ---- C ----------------------------------------------------------------------------------------------------------


def _c_number(value: float) -> str:
    return {np.inf: "INFINITY", -np.inf: "-INFINITY"}.get(value) or repr(float(value))


def _c_expr(expr: Expr) -> str:
    parts = [_c_number(expr.constant)]
    for coefficient, function, scale, variable, shift in expr.terms:
        name = {"same": ""}.get(function, function)
        parts.append(f"{_c_number(coefficient)} * {name}({_c_number(scale)} * ({variable} - {_c_number(shift)}))")
    return " + ".join(parts)


def _c_dist(dist: Dist) -> str:
    params = [_c_expr(param) for param in dist.params]
    if dist.kind == "categorical":
        return f"ars_categorical((double[]){{{', '.join(params)}}}, {len(params)})"
    if dist.kind == "binomial":
        params[0] = f"(unsigned)({params[0]})"
    return f"ars_{dist.kind}({', '.join(params)})"


def _c_vector_dist(dist: VectorDist) -> str:
    n = len(dist.first)
    first = f"(double[]){{{', '.join(map(_c_expr, dist.first))}}}"
    if dist.kind == "dirichlet":
        return f"ars_dirichlet({first}, {n})"
    rows = [_c_expr(row[j]) if j < len(row) else "0" for row in dist.rows for j in range(n)]
    return f"ars_multivariate_normal({first}, (double[]){{{', '.join(rows)}}}, {n})"


def _visible_after(body: tuple[Statement, ...]) -> list[str]:
    names = []
    for statement in body:
        match statement:
            case Sample() | Draw():
                names.append(statement.name)
            case SampleVector():
                names += statement.variables
            case Branch() | Repeat() | Call():
                names.append(statement.out)
            case Loop():
                names += _visible_after(statement.body)
    return names


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def block(self, body: tuple[Statement, ...], declared: frozenset[str] = frozenset()) -> None:
        self.indent += 1
        for statement in body:
            self.statement(statement, declared)
        self.indent -= 1

    def statement(self, s: Statement, declared: frozenset[str]) -> None:
        def target(name: str) -> str:
            return name if name in declared else f"double {name}"

        match s:
            case Sample(name, dist):
                self.line(f'{target(name)} = ars_sample("{name}", {_c_dist(dist)});')
            case SampleVector(name, vector):
                self.line(f"double {name}[{len(vector.first)}];")
                self.line(f'ars_sample_vector("{name}", (ars_dist[]){{{_c_vector_dist(vector)}}}, 1, {name});')
                for i, variable in enumerate(s.variables):
                    self.line(f"{target(variable)} = {name}[{i}];")
            case Draw(name, dist):
                self.line(f"{target(name)} = ars_draw({_c_dist(dist)});")
                self.line(f'ars_result("{name}", {name});')
            case Loop():
                self.loop(s, declared)
            case Branch():
                if s.out not in declared:
                    self.line(f"double {s.out};")
                self.line(f"if ({_c_expr(s.condition)} > 0) {{")
                self.block(s.then)
                self.line(f"    {s.out} = {_c_expr(s.then_value)};")
                self.line("} else {")
                self.block(s.other)
                self.line(f"    {s.out} = {_c_expr(s.other_value)};")
                self.line("}")
            case Repeat():
                self.line(f"{target(s.out)} = 0;")
                self.line(f"for (int {s.out}_i = 0; {s.out}_i < (int)({_c_expr(s.count)}); {s.out}_i++) {{")
                self.block(s.body)
                self.line(f"    {s.out} += {_c_expr(s.value)};")
                self.line("}")
            case Call(out, helper, arguments):
                self.line(f"{target(out)} = {helper}({', '.join(map(_c_expr, arguments))});")
            case Observe(name, dist):
                self.line(f'ars_observe("{name}", {_c_dist(dist)});')
            case ObserveNormals(name, means, stds):
                arrays = ", ".join(f"(double[]){{{', '.join(map(_c_expr, part))}}}" for part in (means, stds))
                self.line(f'ars_observe_normals("{name}", {arrays}, {len(means)}, NULL);')
            case Factor(name, value):
                self.line(f'ars_factor("{name}", {_c_expr(value)});')
            case Result(name, value):
                self.line(f'ars_result("{name}", {_c_expr(value)});')

    def loop(self, loop: Loop, declared: frozenset[str]) -> None:
        """What the body draws is used after the loop, so it is declared before it."""
        new = [name for name in _visible_after(loop.body) if name not in declared]
        if new:
            self.line(f"double {', '.join(new)};")
        self.line("for (;;) {")
        self.line(f'    rs_start("{loop.name}");' if loop.name else "    rs_start();")
        self.block(loop.body, declared | frozenset(new))
        self.line(f"    if ({_c_expr(loop.accept)} > 0) {{")
        self.line("        rs_end();")
        self.line("        break;")
        self.line("    }")
        self.line("}")


def to_c(program: Program) -> str:
    """The program's functions; the last one is its model."""
    text = []
    for helper in program.helpers:
        writer = _Writer()
        parameters = ", ".join(f"double {name}" for name in helper.parameters)
        for statement in helper.body:
            writer.statement(statement, frozenset())
        writer.line(f"return {_c_expr(helper.value)};")
        text.append(f"static double {helper.name}({parameters}) {{\n" + "\n".join(writer.lines) + "\n}\n")
    writer = _Writer()
    for statement in program.body:
        writer.statement(statement, frozenset())
    text.append(f"static void {program.model}(void *user) {{\n    (void)user;\n" + "\n".join(writer.lines) + "\n}\n")
    return "\n".join(text)


def to_c_file(programs: list[Program]) -> str:
    """One source file with all programs; the executable's first argument says which one to run."""
    models = ", ".join(program.model for program in programs)
    head = (
        "#include <ars.h>\n#include <math.h>\n#include <stdlib.h>\n\n"
        "static double soft(double x) {\n    return x / (1 + fabs(x));\n}\n"
    )
    main = (
        f"int main(int argc, char **argv) {{\n    static void (*const models[])(void *) = {{{models}}};\n"
        f"    int which = argc > 1 ? atoi(argv[1]) : -1;\n    if (which < 0 || which >= {len(programs)}) return 2;\n"
        "    (void)soft;\n    return ars_main(argc, argv, models[which], NULL);\n}\n"
    )
    return "\n".join([head, *map(to_c, programs), main])


# ---- drawing a program ------------------------------------------------------------------------------------------


def _round(value: float) -> float:
    """Constants that a person can read, and that C reads back as they are."""
    return float(f"{value:.4g}")


class _Variable(NamedTuple):
    name: str
    centre: float
    spread: float
    latent: bool = False
    largest: int | None = None  # of a variable that is 0, 1, ... largest


_Scope: TypeAlias = list[_Variable]


class _Author:
    """Writes one program. Everything random comes from ``rng``."""

    MOST_LOOPS = 4
    DEEPEST = 3

    def __init__(self, rng: np.random.Generator, index: int) -> None:
        self.rng = rng
        self.index = index
        self.count = itertools.count()
        self.loops_left = int(rng.choice([0, 1, 2, 3, self.MOST_LOOPS], p=[0.06, 0.16, 0.26, 0.26, 0.26]))
        self.helpers: list[Helper] = []
        self.proposals: dict[str, Dist] = {}
        # Drawn from in turns, so that a few programs have seen every distribution.
        self.kinds = itertools.cycle(rng.permutation(KINDS).tolist())
        self.vector_kinds = itertools.cycle(rng.permutation(VECTOR_KINDS).tolist())

    # -- small choices --

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def between(self, low: float, high: float) -> float:
        return _round(self.rng.uniform(low, high))

    def one_of(self, scope: _Scope) -> _Variable:
        return scope[int(self.rng.integers(len(scope)))]

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self.count)}"

    # -- expressions --

    def term(self, variable: _Variable, coefficient: float) -> Term:
        function = ("tanh", "sin", "soft")[int(self.rng.integers(3))]
        scale = self.between(0.6, 1.6) / variable.spread
        return Term(_round(coefficient), function, _round(scale), variable.name, _round(variable.centre))

    def expr(self, constant: float, amplitude: float, scope: _Scope, p: float = 0.65) -> Expr:
        """Within ``amplitude`` of the constant."""
        if not scope or amplitude <= 0 or not self.chance(p):
            return Expr(_round(constant))
        n = 1 if self.chance(0.6) else 2
        terms = [self.term(self.one_of(scope), self.between(-1, 1) * amplitude / n) for _ in range(n)]
        return Expr(_round(constant), tuple(terms))

    def mean(self, scope: _Scope) -> Expr:
        return self.expr(self.between(-1, 1), 1.0, scope)

    def positive(self, low: float, high: float, scope: _Scope) -> Expr:
        constant = self.between(low, high)
        return self.expr(constant, 0.4 * constant, scope, 0.4)

    def probability(self, scope: _Scope) -> Expr:
        return self.expr(self.between(0.3, 0.7), 0.22, scope)

    # -- distributions --

    def dist(self, scope: _Scope, kind: str) -> Dist:
        match kind:
            case "uniform":
                if self.chance(0.4):
                    return Dist(kind, constants(0.0, 1.0))
                low = self.between(-2, 1)
                width = self.positive(0.6, 3, scope)
                return Dist(kind, (Expr(low), width.plus(low)))
            case "normal":
                return Dist(kind, (self.mean(scope), self.positive(0.5, 1.5, scope)))
            case "bernoulli":
                return Dist(kind, (self.probability(scope),))
            case "categorical":
                return Dist(kind, self.categories(int(self.rng.integers(2, 5)), scope))
            case "poisson":
                return Dist(kind, (self.positive(0.8, 5, scope),))
            case "binomial":
                counts = [v for v in scope if v.largest is not None]
                trials = Expr(float(self.rng.integers(2, 9)))
                if counts and self.chance(0.5):
                    trials = Expr(trials.constant, (Term(1.0, "same", 1.0, self.one_of(counts).name, 0.0),))
                return Dist(kind, (trials, self.probability(scope)))
            case "beta":
                return Dist(kind, (self.positive(1.2, 4, scope), self.positive(1.2, 4, scope)))
            case "gamma":
                return Dist(kind, (self.positive(0.9, 4, scope), self.positive(0.7, 2.5, scope)))
            case "exponential":
                return Dist(kind, (self.positive(0.5, 2, scope),))
            case "weibull":
                return Dist(kind, (self.positive(0.6, 2, scope), self.positive(1.0, 2.5, scope)))
            case "lognormal":
                return Dist(kind, (self.expr(self.between(-0.5, 0.6), 0.5, scope), self.positive(0.25, 0.6, scope)))
            case "truncated_normal":
                mean = self.mean(scope)
                low = _round(mean.constant - self.between(0.3, 2))
                high = np.inf if self.chance(0.3) else _round(low + self.between(0.8, 3))
                if high == np.inf and self.chance(0.5):
                    low, high = -np.inf, _round(mean.constant + self.between(0.3, 2))
                return Dist(kind, (mean, self.positive(0.5, 1.5, scope), Expr(low), Expr(high)))
            case "negative_binomial":
                return Dist(kind, (self.positive(1.5, 5, scope), self.expr(self.between(0.45, 0.7), 0.15, scope)))
            case "student_t":  # of finite variance, also where the degrees of freedom are fewest
                df = self.positive(8, 12, scope)
                return Dist(kind, (df, self.mean(scope), self.positive(0.4, 1, scope)))
        raise AssertionError(kind)

    def vector(self, scope: _Scope, kind: str) -> VectorDist:
        n = int(self.rng.integers(2, 4))
        if kind == "dirichlet":
            return VectorDist(kind, tuple(self.positive(1.2, 4, scope) for _ in range(n)))
        rows = [
            (*(self.expr(self.between(-0.6, 0.6), 0.3, scope, 0.3) for _ in range(i)), self.positive(0.5, 1.2, scope))
            for i in range(n)
        ]
        return VectorDist(kind, tuple(self.mean(scope) for _ in range(n)), tuple(rows))

    def categories(self, k: int, scope: _Scope) -> tuple[Expr, ...]:
        """Probabilities that sum to 1, also where one of them depends on a variable: the last one takes up the rest."""
        shares = self.rng.dirichlet(np.full(k, 4.0)) * (1 - 0.08 * k) + 0.08
        first = self.expr(shares[0], 0.5 * min(shares[0], shares[-1]), scope)
        middle = [Expr(_round(share)) for share in shares[1:-1]]
        rest = 1 - first.constant - sum(e.constant for e in middle)
        last = Expr(float(f"{rest:.12g}"), tuple(t._replace(coefficient=-t.coefficient) for t in first.terms))
        return (first, *middle, last)

    @staticmethod
    def describe(name: str, dist: Dist, latent: bool) -> _Variable:
        """Where its values are, roughly, for functions of it to vary there."""
        a = [param.constant for param in dist.params]
        largest: int | None = None
        match dist.kind:
            case "uniform":
                centre, spread = (a[0] + a[1]) / 2, (a[1] - a[0]) / 3
            case "normal":
                centre, spread = a
            case "bernoulli":
                centre, spread, largest = 0.5, 0.6, 1
            case "categorical":
                centre, spread, largest = (len(a) - 1) / 2, len(a) / 3, len(a) - 1
            case "poisson":
                centre, spread = a[0], np.sqrt(a[0])
            case "binomial":
                centre, spread = a[0] * a[1], np.sqrt(a[0] * a[1] * (1 - a[1]))
            case "beta":
                centre, spread = a[0] / (a[0] + a[1]), 0.25
            case "gamma":
                centre, spread = a[0] / a[1], np.sqrt(a[0]) / a[1]
            case "exponential":
                centre, spread = 0.8 / a[0], 0.8 / a[0]
            case "weibull":
                centre, spread = 0.9 * a[0], 0.5 * a[0]
            case "lognormal":
                centre, spread = np.exp(a[0]), np.exp(a[0]) * a[1]
            case "negative_binomial":
                centre, spread = a[0] * (1 - a[1]) / a[1], np.sqrt(a[0] * (1 - a[1])) / a[1]
            case "student_t":
                centre, spread = a[1], 1.2 * a[2]
            case _:  # truncated_normal
                low, high = max(a[2], a[0] - 2 * a[1]), min(a[3], a[0] + 2 * a[1])
                centre, spread = (low + high) / 2, (high - low) / 3
        return _Variable(name, float(centre), float(spread), latent, largest)

    # -- proposals: of the same support, and heavy enough in the tails for weights of finite variance --

    def proposal(self, dist: Dist, scope: _Scope) -> Dist | None:
        """None where the support depends on what a proposal cannot see."""
        latents = [variable for variable in scope if variable.latent]
        seen = {variable.name for variable in latents}

        def known(expr: Expr) -> Expr:
            return expr if expr.variables <= seen else Expr(expr.constant)

        a = tuple(known(param) for param in dist.params)
        shift, wider = self.between(0.4, 1) * (1 if self.chance(0.5) else -1), self.between(1.1, 1.5)
        match dist.kind:
            case "uniform":
                return None if not dist.variables <= seen else self.for_interval(a[0], a[1], latents)
            case "normal":
                first = Dist("normal", (a[0].plus(_round(shift * a[1].constant)), a[1].times(wider)))
                return self.maybe_mixed(first, Dist("normal", (a[0], a[1].times(1.8))))
            case "bernoulli":
                return Dist("bernoulli", (self.expr(0.5 + 0.25 * shift, 0.15, latents, 0.4),))
            case "categorical":
                return Dist("categorical", self.categories(len(a), latents))
            case "poisson":
                return self.maybe_mixed(Dist("poisson", (a[0].times(wider),)), Dist("poisson", (a[0].times(0.7),)))
            case "binomial":
                if not dist.params[0].variables <= seen:
                    return None
                first = Dist("binomial", (a[0], self.expr(self.between(0.35, 0.65), 0.15, latents, 0.4)))
                return self.maybe_mixed(first, Dist("binomial", (a[0], a[1])))
            case "beta":
                first = Dist("beta", (a[0].times(self.between(0.6, 1)), a[1].times(self.between(0.6, 1))))
                return self.maybe_mixed(first, Dist("uniform", constants(0.0, 1.0)))
            case "gamma":
                first = Dist("gamma", (a[0].times(self.between(0.7, 1)), a[1].times(self.between(0.55, 0.9))))
                return self.maybe_mixed(first, Dist("exponential", (a[1].times(0.5),)))
            case "exponential":
                first = Dist("gamma" if self.chance(0.4) else "exponential", (a[0].times(self.between(0.5, 0.8)),))
                if first.kind == "gamma":
                    first = Dist("gamma", (Expr(self.between(0.8, 1)), *first.params))
                return self.maybe_mixed(first, Dist("exponential", (a[0].times(0.9),)))
            case "weibull":
                first = Dist("weibull", (a[0].times(self.between(1, 1.4)), a[1].times(self.between(0.7, 0.95))))
                return self.maybe_mixed(first, Dist("weibull", (a[0].times(1.2), Expr(0.9))))
            case "lognormal":
                first = Dist("lognormal", (a[0].plus(_round(0.6 * shift)), a[1].times(wider)))
                return self.maybe_mixed(first, Dist("lognormal", (a[0], a[1].times(1.5))))
            case "negative_binomial":
                first = Dist("negative_binomial", (a[0], a[1].times(self.between(0.7, 0.95))))
                return self.maybe_mixed(first, Dist("poisson", (a[0].times(0.8),)))
            case "student_t":
                moved = a[1].plus(_round(shift * a[2].constant))
                first = Dist("student_t", (a[0].times(self.between(0.5, 0.8)), moved, a[2].times(wider)))
                return self.maybe_mixed(first, Dist("normal", (a[1], a[2])))
        low, high = dist.params[2:]
        first = Dist("truncated_normal", (a[0].plus(_round(shift * a[1].constant)), a[1].times(wider), low, high))
        if np.isfinite([low.constant, high.constant]).all() and self.chance(0.4):
            return self.for_interval(low, high, latents)
        return first

    def for_interval(self, low: Expr, high: Expr, latents: _Scope) -> Dist:
        if low.constant == 0 and high == Expr(1.0) and self.chance(0.5):
            return Dist("beta", constants(self.between(0.8, 1.5), self.between(0.8, 1.5)))
        width = high.constant - low.constant
        centre = self.expr(low.constant + width * self.between(0.2, 0.8), 0.2 * width, latents, 0.4)
        inner = Dist("truncated_normal", (centre, Expr(_round(self.between(0.4, 0.8) * width)), low, high))
        return self.maybe_mixed(inner, Dist("uniform", (low, high)))

    def maybe_mixed(self, first: Dist, second: Dist) -> Dist:
        if not self.chance(0.35):
            return first
        weight = self.between(0.3, 0.7)
        return Dist("mixture", constants(weight, float(f"{1 - weight:.12g}")), (first, second))

    # -- statements --

    def draw_latent(self, scope: _Scope, p_proposal: float) -> Sample:
        dist = self.dist(scope, next(self.kinds))
        sample = Sample(self.name("x"), dist)
        if self.chance(p_proposal) and (proposal := self.proposal(dist, scope)):
            self.proposals[sample.name] = proposal
        scope.append(self.describe(sample.name, dist, latent=True))
        return sample

    def draw_vector(self, scope: _Scope) -> SampleVector:
        """The prior proposes it, and no proposal depends on it: names of instances are those of the whole."""
        sample = SampleVector(self.name("v"), self.vector(scope, next(self.vector_kinds)))
        dist = sample.dist
        if dist.kind == "dirichlet":
            total = sum(each.constant for each in dist.first)
            places = [(each.constant / total, 0.25) for each in dist.first]
        else:
            places = [
                (m.constant, float(np.hypot.reduce([e.constant for e in r])))
                for m, r in zip(dist.first, dist.rows, strict=True)
            ]
        scope += [_Variable(name, *place) for name, place in zip(sample.variables, places, strict=True)]
        return sample

    def draw_nuisance(self, scope: _Scope) -> Draw:
        draw = Draw(self.name("u"), self.dist(scope, next(self.kinds)))
        scope.append(self.describe(draw.name, draw.dist, latent=False))
        return draw

    def loop(self, scope: _Scope, depth: int) -> Loop:
        """``depth`` counts the loops that are open with this one."""
        self.loops_left -= 1
        name = self.name("loop") if self.chance(0.6) else ""
        before = len(scope)
        body: list[Statement] = []
        if self.loops_left and depth < self.DEEPEST and self.chance(0.45):
            body += self.within(scope, depth)
        own = len(scope)
        body.append(self.draw_latent(scope, 0.9))
        if self.chance(0.4):
            body.append(self.draw_latent(scope, 0.5))
        if self.chance(0.2):
            body.append(self.draw_nuisance(scope))
        if self.chance(0.15):
            body.append(self.draw_vector(scope))
        if depth == 1 and self.loops_left and self.chance(0.25):
            body += self.within(scope, depth)
        main = self.one_of(scope[own:])
        terms = [self.term(main, self.direction(main))]
        for group in (scope[before:], scope[:before]):
            if group and self.chance(0.6):
                terms.append(self.term(self.one_of(group), self.between(-0.45, 0.45)))
        return Loop(name, tuple(body), Expr(self.between(-0.6, 0.15), tuple(terms)))

    def direction(self, variable: _Variable) -> float:
        """Mostly, a proposal goes where the loop accepts, as a good one would; so q(A)/p(A) is not 1."""
        proposal = self.proposals.get(variable.name)
        if proposal is None or self.chance(0.2):
            return 1.0 if self.chance(0.5) else -1.0
        first = proposal.components[0] if proposal.components else proposal
        return 1.0 if self.describe("", first, latent=True).centre > variable.centre else -1.0

    def within(self, scope: _Scope, depth: int) -> list[Statement]:
        """What makes a loop's body more than draws: another loop, on the way or only where a branch leads to it."""
        if self.chance(0.65):
            first = [self.draw_latent(scope, 0.4)] if self.chance(0.4) else []
            return [*first, self.loop(scope, depth + 1)]
        return [self.call(scope)] if self.chance(0.6) or not scope else [self.branch(scope, depth)]

    def branch(self, scope: _Scope, depth: int) -> Branch:
        """A loop, if any is left, in one of the ways only."""
        condition = self.expr(self.between(-0.2, 0.2), 1.0, scope, 1.0)
        inner, outer = list(scope), list(scope)
        then: tuple[Statement, ...]
        if self.loops_left and depth < self.DEEPEST and self.chance(0.7):
            then = (self.loop(inner, depth + 1),)
        else:
            then = (self.draw_latent(inner, 0.5),)
        other = (self.draw_latent(outer, 0.4),) if self.chance(0.5) else ()
        branch = Branch(
            self.name("b"), condition, then, self.expr(0.5, 1, inner, 0.9), other, self.expr(-0.5, 1, outer, 0.9)
        )
        scope.append(_Variable(branch.out, 0.0, 1.0))
        return branch

    def call(self, scope: _Scope) -> Call:
        """A helper's latents see its parameters, and its proposals only what it has drawn itself."""
        if not self.helpers or (self.loops_left and self.chance(0.5)):
            self.loops_left = max(self.loops_left, 1)
            name = f"helper_{self.index}_{len(self.helpers)}"
            parameters = tuple(self.name("a") for _ in range(int(self.rng.integers(1, 3))))
            inner = [_Variable(parameter, 0.0, 1.0) for parameter in parameters]
            kept, self.loops_left = self.loops_left - 1, 1
            body = (self.loop(inner, self.DEEPEST),)
            self.loops_left = kept
            self.helpers.append(Helper(name, parameters, body, self.expr(0.0, 1.5, inner[len(parameters) :], 1.0)))
        helper = self.helpers[int(self.rng.integers(len(self.helpers)))]
        call = Call(self.name("h"), helper.name, tuple(self.expr(0.0, 1.2, scope, 0.9) for _ in helper.parameters))
        scope.append(_Variable(call.out, 0.0, 1.0))
        return call

    def repeat(self, scope: _Scope) -> Repeat:
        counts = [v for v in scope if v.largest is not None and v.largest <= 2]
        count = Expr(2.0)
        if counts and self.chance(0.7):
            count = Expr(1.0, (Term(1.0, "same", 1.0, self.one_of(counts).name, 0.0),))
        inner = list(scope)
        if self.loops_left and self.chance(0.6):
            body: tuple[Statement, ...] = (self.loop(inner, self.DEEPEST),)
        else:
            body = (self.draw_latent(inner, 0.6),)
        repeat = Repeat(self.name("r"), count, body, self.expr(0.0, 1.0, inner, 1.0))
        scope.append(_Variable(repeat.out, 0.0, 1.5))
        return repeat

    def top_level(self, scope: _Scope) -> Statement:
        kinds = ["latent", "nuisance", "loop", "branch", "call", "repeat", "vector"]
        chances = np.array([2.5, 0.8, 6.0, 2.0, 1.2, 1.2, 0.8])
        if not self.loops_left:
            chances[[2, 4]] = 0
        match kinds[int(self.rng.choice(len(kinds), p=chances / chances.sum()))]:
            case "latent":
                return self.draw_latent(scope, 0.4)
            case "nuisance":
                return self.draw_nuisance(scope)
            case "loop":
                return self.loop(scope, 1)
            case "branch":
                return self.branch(scope, 0)
            case "call":
                return self.call(scope)
            case "vector":
                return self.draw_vector(scope)
        return self.repeat(scope)

    # -- data --

    def observation(self, name: str, scope: _Scope) -> Observe | ObserveNormals:
        match int(self.rng.integers(5)):
            case 0:
                return Observe(name, Dist("poisson", (self.expr(self.between(1.5, 4), 1.2, scope, 1.0),)))
            case 1:
                return Observe(name, Dist("bernoulli", (self.expr(0.5, 0.35, scope, 1.0),)))
            case 2:
                means = tuple(self.expr(0.0, 1.2, scope, 1.0) for _ in range(2))
                return ObserveNormals(name, means, (Expr(self.between(0.5, 1)), self.positive(0.5, 1, scope)))
        return Observe(name, Dist("normal", (self.expr(0.0, 1.5, scope, 1.0), self.positive(0.4, 1, scope))))

    def ending(self, scope: _Scope) -> list[Statement]:
        found: list[Statement] = [self.observation("y", scope)]
        if self.chance(0.5):
            again = isinstance(found[0], Observe) and self.chance(0.4)
            if again and isinstance(found[0], Observe):  # the same name again: the next element of its data
                found.append(Observe("y", found[0].dist))
            else:
                found.append(self.observation("z", scope))
        if self.chance(0.3):
            found.append(Factor("f", self.expr(-0.3, 0.5, scope, 1.0)))
        found.append(Result("g", self.expr(0.0, 2.0, scope, 1.0)))
        return found

    def write(self) -> Program:
        scope: _Scope = []
        body: list[Statement] = [self.draw_latent(scope, 0.4)]
        for _ in range(int(self.rng.integers(2, 5))):
            body.append(self.top_level(scope))
        while self.loops_left and self.chance(0.6):
            body.append(self.loop(scope, 1))
        body += self.ending(scope)
        return Program(self.index, tuple(body), tuple(self.helpers), dict(self.proposals))


def draft(seed: int, index: int, attempt: int) -> Program:
    """A random program, without data."""
    return _Author(np.random.default_rng([seed, index, attempt]), index).write()


def generate(seed: int, index: int, fit: Callable[[Program], Program | None]) -> Program:
    """The first draft that ``fit`` likes, with the data that it gives it."""
    for attempt in range(1000):
        if (program := fit(draft(seed, index, attempt))) is not None:
            return program
    raise RuntimeError(f"no program for seed {seed}, index {index} in 1000 attempts")
