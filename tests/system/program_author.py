"""Random programs: a seed decides what a program of ``programs.py`` draws, loops over and observes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from programs import (
    KINDS,
    VECTOR_KINDS,
    Branch,
    Call,
    Dist,
    Draw,
    Expr,
    Factor,
    Helper,
    Loop,
    Observe,
    ObserveNormals,
    Program,
    Repeat,
    Result,
    Sample,
    SampleVector,
    Statement,
    Term,
    VectorDist,
    constants,
    rounded,
)


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
        return rounded(self.rng.uniform(low, high))

    def one_of(self, scope: _Scope) -> _Variable:
        return scope[int(self.rng.integers(len(scope)))]

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self.count)}"

    # -- expressions --

    def term(self, variable: _Variable, coefficient: float) -> Term:
        function = ("tanh", "sin", "soft")[int(self.rng.integers(3))]
        scale = self.between(0.6, 1.6) / variable.spread
        return Term(rounded(coefficient), function, rounded(scale), variable.name, rounded(variable.centre))

    def expr(self, constant: float, amplitude: float, scope: _Scope, p: float = 0.65) -> Expr:
        """Within ``amplitude`` of the constant."""
        if not scope or amplitude <= 0 or not self.chance(p):
            return Expr(rounded(constant))
        n = 1 if self.chance(0.6) else 2
        terms = [self.term(self.one_of(scope), self.between(-1, 1) * amplitude / n) for _ in range(n)]
        return Expr(rounded(constant), tuple(terms))

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
                low = rounded(mean.constant - self.between(0.3, 2))
                high = np.inf if self.chance(0.3) else rounded(low + self.between(0.8, 3))
                if high == np.inf and self.chance(0.5):
                    low, high = -np.inf, rounded(mean.constant + self.between(0.3, 2))
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
        middle = [Expr(rounded(share)) for share in shares[1:-1]]
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
                first = Dist("normal", (a[0].plus(rounded(shift * a[1].constant)), a[1].times(wider)))
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
                first = Dist("lognormal", (a[0].plus(rounded(0.6 * shift)), a[1].times(wider)))
                return self.maybe_mixed(first, Dist("lognormal", (a[0], a[1].times(1.5))))
            case "negative_binomial":
                first = Dist("negative_binomial", (a[0], a[1].times(self.between(0.7, 0.95))))
                return self.maybe_mixed(first, Dist("poisson", (a[0].times(0.8),)))
            case "student_t":
                moved = a[1].plus(rounded(shift * a[2].constant))
                first = Dist("student_t", (a[0].times(self.between(0.5, 0.8)), moved, a[2].times(wider)))
                return self.maybe_mixed(first, Dist("normal", (a[1], a[2])))
        low, high = dist.params[2:]
        first = Dist("truncated_normal", (a[0].plus(rounded(shift * a[1].constant)), a[1].times(wider), low, high))
        if np.isfinite([low.constant, high.constant]).all() and self.chance(0.4):
            return self.for_interval(low, high, latents)
        return first

    def for_interval(self, low: Expr, high: Expr, latents: _Scope) -> Dist:
        if low.constant == 0 and high == Expr(1.0) and self.chance(0.5):
            return Dist("beta", constants(self.between(0.8, 1.5), self.between(0.8, 1.5)))
        width = high.constant - low.constant
        centre = self.expr(low.constant + width * self.between(0.2, 0.8), 0.2 * width, latents, 0.4)
        inner = Dist("truncated_normal", (centre, Expr(rounded(self.between(0.4, 0.8) * width)), low, high))
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
