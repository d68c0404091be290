"""The quadratures of tests/exact.py against plain Monte Carlo: every simulator written a second time, in Python, run
under a small interpreter that weighs its traces by the definitions of the paper."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import exact

pytestmark = pytest.mark.slow

SIGMAS = 4.0
TRACES = 10_000


# ---- distributions: a sampler and a log density each ------------------------------------------------------------


@dataclass(frozen=True)
class Dist:
    draw: Callable[[random.Random], float]
    log_density: Callable[[float], float]


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def normal(mean: float, std: float) -> Dist:
    constant = -math.log(std * math.sqrt(2 * math.pi))
    return Dist(lambda r: r.gauss(mean, std), lambda x: constant - 0.5 * ((x - mean) / std) ** 2)


def uniform(low: float, high: float) -> Dist:
    inside = -math.log(high - low)
    return Dist(lambda r: r.uniform(low, high), lambda x: inside if low <= x <= high else -math.inf)


def categorical(p: list[float]) -> Dist:
    return Dist(lambda r: float(r.choices(range(len(p)), p)[0]), lambda x: _log(p[int(x)]))


def gamma(shape: float, rate: float) -> Dist:
    constant = shape * math.log(rate) - math.lgamma(shape)
    return Dist(lambda r: r.gammavariate(shape, 1 / rate), lambda x: constant + (shape - 1) * _log(x) - rate * x)


def beta(a: float, b: float) -> Dist:
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)

    def log_density(x: float) -> float:
        return constant + (a - 1) * _log(x) + ((b - 1) * _log(1 - x) if b != 1 else 0.0)

    return Dist(lambda r: min(r.betavariate(a, b), 1 - 2**-53), log_density)


def truncated_normal(mean: float, std: float, low: float, high: float) -> Dist:
    whole = normal(mean, std)
    kept = 0.5 * (math.erf((high - mean) / std / math.sqrt(2)) - math.erf((low - mean) / std / math.sqrt(2)))

    def draw(r: random.Random) -> float:
        while not low <= (x := whole.draw(r)) <= high:
            pass
        return x

    return Dist(draw, lambda x: whole.log_density(x) - math.log(kept) if low <= x <= high else -math.inf)


def mixture(weights: list[float], parts: list[Dist]) -> Dist:
    def log_density(x: float) -> float:
        return _log(sum(w * math.exp(part.log_density(x)) for w, part in zip(weights, parts, strict=True)))

    return Dist(lambda r: r.choices(parts, weights)[0].draw(r), log_density)


DISTRIBUTIONS = SimpleNamespace(
    Normal=normal,
    Uniform=uniform,
    Categorical=categorical,
    Gamma=gamma,
    Exponential=lambda rate: gamma(1, rate),
    Beta=beta,
    TruncatedNormal=truncated_normal,
    Mixture=mixture,
)


# ---- the interpreter --------------------------------------------------------------------------------------------


@dataclass
class Trace:
    random: random.Random
    proposals: Mapping[str, Any]
    observed: dict[str, list[float]]
    latest: dict[str, float] = field(default_factory=dict)  # of live draws, by name and by address
    loops: list[str] = field(default_factory=list)  # addresses of accepted loops
    squares: list[tuple[str, float]] = field(default_factory=list)  # per loop entry: (p/q)^2 of a rejected first try
    path: str = ""
    log_accepted: float = 0.0
    log_all: float = 0.0
    log_likelihood: float = 0.0

    def sample(self, name: str, prior: Dist) -> float:
        proposal = self.proposals.get(name, prior)
        if not isinstance(proposal, Dist):
            proposal = proposal(self.latest)
        x: float = proposal.draw(self.random)
        ratio = 0.0 if proposal is prior else prior.log_density(x) - proposal.log_density(x)
        self.log_accepted += ratio
        self.log_all += ratio
        self.latest[name] = self.latest[self.path + name] = x
        return x

    def observe(self, name: str, prior: Dist) -> None:
        self.log_likelihood += prior.log_density(self.observed[name].pop(0))

    def result(self, name: str, value: float) -> None:
        self.latest[name] = value

    def reject(self, name: str, body: Callable[[], bool]) -> None:
        latest, loops, accepted, before, path = (
            dict(self.latest),
            list(self.loops),
            self.log_accepted,
            self.log_all,
            self.path,
        )
        self.path = f"{path}{name}/"
        done = body()
        self.squares.append((path + name, 0.0 if done else math.exp(2 * (self.log_all - before))))
        while not done:
            self.latest, self.loops, self.log_accepted = dict(latest), list(loops), accepted
            done = body()
        self.path = path
        self.loops.append(path + name)


Model = Callable[..., None]  # of a trace and the command-line arguments


def gaussian(t: Trace, n: str) -> None:
    mu = t.sample("mu", normal(0, 1))
    for _ in range(int(n)):
        t.observe("y", normal(mu, 0.5))
    t.result("mu", mu)


def marsaglia(t: Trace) -> None:
    def body() -> bool:
        return 0 < t.sample("x1", uniform(-1, 1)) ** 2 + t.sample("x2", uniform(-1, 1)) ** 2 < 1

    t.reject("marsaglia.c:marsaglia#0", body)
    x1, x2 = t.latest["x1"], t.latest["x2"]
    s = x1 * x1 + x2 * x2
    mu = x1 * math.sqrt(-2 * math.log(s) / s)
    t.observe("y1", normal(mu, 0.1))
    t.observe("y2", normal(mu, 0.1))
    t.result("mu", mu)


def beta_bernoulli(t: Trace, alpha: str, n: str) -> None:
    power = float(alpha) - 1.0

    def body() -> bool:
        x = t.sample("x", uniform(0, 1))
        bound: float = (4 * x * (1 - x)) ** power
        return t.sample("u", uniform(0, 1)) <= bound

    t.reject("beta_bernoulli.c:model#0", body)
    for _ in range(int(n)):
        t.observe("y", categorical([1 - t.latest["x"], t.latest["x"]]))
    t.result("x_final", t.latest["x"])


def truncated(t: Trace, variant: str) -> None:
    x = t.sample("x", uniform(1, 2))
    t.reject("truncated_normal.c:model#0", lambda: t.sample("z", normal(x if variant == "b" else 0, 1)) < 0)
    t.observe("y", normal(t.latest["z"], x))
    t.result("x_final", x)
    t.result("z_final", t.latest["z"])


def nested(t: Trace) -> None:
    def outer() -> bool:
        a = t.sample("a", normal(0, 1))
        t.reject("nested.c:model#1", lambda: t.sample("b", normal(a, 1)) > a + math.tanh(a))
        return a + t.latest["b"] > 0

    t.reject("nested.c:model#0", outer)
    total = t.latest["a"] + t.latest["b"]
    t.observe("y", normal(total, 0.5))
    t.result("sum", total)


def recursive(t: Trace, depth: str) -> None:
    def draw(level: int, parent: float) -> float:
        r = 0.0

        def body() -> bool:
            nonlocal r
            z = t.sample("z", normal(0.3 * math.tanh(parent), 1))
            r = z + 0.5 * draw(level - 1, z) if level > 0 else z
            return r > -0.3

        t.reject("recursive.c:draw#0", body)
        return r

    r = draw(int(depth), 0.0)
    t.observe("y", normal(r, 0.5))
    t.result("r", r)


def sequence(t: Trace) -> None:
    t.reject("sequence.c:model#0", lambda: t.sample("a", gamma(1, 1)) < 2)
    a = t.latest["a"]
    t.reject("sequence.c:model#1", lambda: t.sample("b", normal(a, 1)) > 1)
    b = t.latest["b"]
    t.reject("sequence.c:model#2", lambda: t.sample("c", normal(0, 1)) < b - a + 0.5)
    total = a + b + t.latest["c"]
    t.observe("y", normal(total, 0.5))
    t.result("total", total)


def branching(t: Trace) -> None:
    channel = t.sample("channel", categorical([0.3, 0.45, 0.25]))
    if channel == 0:
        x = t.sample("noise", normal(-1, 1))
    elif channel == 1:
        t.reject("branching.c:signal#0", lambda: t.sample("mass", normal(0, 1)) > 0.5)
        x = t.latest["mass"]
    else:
        t.reject("branching.c:decay#0", lambda: t.sample("lifetime", gamma(2, 1)) < 2)
        t.reject("branching.c:decay#1", lambda: t.sample("position", normal(t.latest["lifetime"], 1)) > 1)
        x = t.latest["position"]
    t.observe("y", normal(x, 0.5))
    t.result("x_final", x)


def event_loop(t: Trace) -> None:
    n = int(t.sample("multiplicity", categorical([0.3, 0.4, 0.3]))) + 1
    total = 0.0

    def shower() -> bool:
        nonlocal total
        total = sum(t.sample("energy", gamma(1, 1)) for _ in range(n))
        return total < 2.5

    t.reject("event_loop.cpp:Event::generate()#0", shower)
    tilt = total / 2.5

    def direction() -> bool:
        c = t.sample("cos_theta", uniform(-1, 1))
        return t.sample("u", uniform(0, 1)) <= (1 + tilt * c) / (1 + tilt)

    t.reject("event_loop.cpp:Event::generate()#1", direction)
    t.observe("calorimeter", normal(total, 0.3))
    t.observe("tracker", normal(t.latest["cos_theta"], 0.2))
    t.result("total", total)
    t.result("direction", t.latest["cos_theta"])


MODELS: dict[str, Model] = {
    "gaussian": gaussian,
    "marsaglia": marsaglia,
    "beta_bernoulli": beta_bernoulli,
    "truncated_normal": truncated,
    "nested": nested,
    "recursive": recursive,
    "sequence": sequence,
    "branching": branching,
    "event_loop": event_loop,
}


# ---- runs -------------------------------------------------------------------------------------------------------


def run(case: exact.Case, proposals: Mapping[str, Any], seed: int) -> list[Trace]:
    source = random.Random(seed)
    traces = []
    for _ in range(TRACES):
        data = {k: list(v) if isinstance(v, list) else [v] for k, v in case.observed.items()}
        trace = Trace(source, proposals, data)
        MODELS[case.command[0]](trace, *case.command[1:])
        assert not any(data.values()), "the model must use all data"
        traces.append(trace)
    return traces


CASES = {case.name: case for case in exact.cases()}


def mean_and_error(weights: exact.Floats) -> tuple[float, float]:
    return float(np.mean(weights)), float(np.std(weights, ddof=1)) / math.sqrt(len(weights))


def off_by(weights: exact.Floats, truth: float) -> float:
    """In standard errors."""
    mean, error = mean_and_error(weights)
    return (mean - truth) / error


def log_corrections(case: exact.Case, traces: list[Trace]) -> exact.Floats:
    names = {name for trace in traces for name in trace.latest}
    values = {name: np.array([trace.latest.get(name, math.nan) for trace in traces]) for name in names}
    total = np.zeros(len(traces))
    for loop in case.p_accept:
        rows = np.array([trace.loops.count(loop) for trace in traces])
        assert rows.max() == 1
        entered = {name: column[rows == 1] for name, column in values.items()}
        p, q = (
            given if isinstance(given, float) else given(entered)
            for given in (case.p_accept[loop], case.q_accept[loop])
        )
        total[rows == 1] += np.log(q) - np.log(p)
    return total


@pytest.mark.parametrize("name", CASES)
def test_prior_gives_the_evidence_and_the_posterior_means(name: str) -> None:
    case = CASES[name]
    traces = run(case, {}, seed=2)
    weights = np.exp([trace.log_likelihood for trace in traces])
    assert abs(off_by(weights, case.evidence)) < SIGMAS
    for result, truth in case.posterior_mean.items():
        values = np.array([trace.latest[result] for trace in traces])
        assert abs(off_by(weights * (values - truth), 0.0)) < SIGMAS, result


@pytest.mark.parametrize("name", CASES)
def test_proposals_and_acceptances_agree_with_the_evidence(name: str) -> None:
    case = CASES[name]
    traces = run(case, case.proposals(DISTRIBUTIONS), seed=1)
    log_accepted = np.array([trace.log_accepted + trace.log_likelihood for trace in traces])
    biased = np.exp(log_accepted)
    assert abs(off_by(np.exp(log_accepted + log_corrections(case, traces)), case.evidence)) < SIGMAS
    assert abs(off_by(biased, case.biased)) < SIGMAS
    if is_chosen(case):  # else a test with this case would say nothing: the same check must fail
        assert abs(off_by(biased, case.evidence)) > 2 * SIGMAS
    if case.naive_variance_is_finite:
        naive = np.exp([trace.log_all + trace.log_likelihood for trace in traces])
        assert abs(off_by(naive, case.evidence)) < SIGMAS
        check_s_pq(case, traces)


def check_s_pq(case: exact.Case, traces: list[Trace]) -> None:
    """The mean over entries is S_pq where the state is always the same, and below the largest elsewhere."""
    squares: dict[str, list[float]] = {}
    for trace in traces:
        for loop, square in trace.squares:
            squares.setdefault(loop, []).append(square)
    if not squares:
        assert case.s_pq == 0
        return
    found = {loop: mean_and_error(np.array(of)) for loop, of in squares.items()}
    largest, error = max(found.values())
    assert largest < case.s_pq + SIGMAS * error
    if len(found) == 1 and isinstance(next(iter(case.p_accept.values())), float):
        assert abs(largest - case.s_pq) < SIGMAS * error
    assert largest > 0.4 * case.s_pq


def is_chosen(case: exact.Case) -> bool:
    """Whether the proposals are ours to choose, not the paper's, and there is something to correct."""
    return bool(case.p_accept) and not case.name.startswith(("beta_bernoulli-a", "marsaglia"))


def test_the_chosen_proposals_separate_the_weightings() -> None:
    """Biased evidence off by a fifth, and both kinds of naive variance."""
    chosen = [case for case in CASES.values() if is_chosen(case)]
    assert all(abs(case.biased / case.evidence - 1) >= 0.195 for case in chosen)
    assert {case.naive_variance_is_finite for case in chosen} == {True, False}
    assert all(case.s_pq < 0.97 for case in chosen if case.naive_variance_is_finite)


def test_the_table_of_exact_ess() -> None:
    """The last row was printed from q(A) rounded to four digits: 0.54584 became 0.5459."""
    table = {
        1: (0.8000, 0.8333, 0.6098, 0.6969, 0.7868),
        10: (0.4571, 0.6170, 0.4136, 0.4727, 0.5337),
        30: (0.2151, 0.5459, 0.3000, 0.3428, 0.3871),
    }
    for n, row in table.items():
        (q,) = exact.beta_bernoulli(n).q_accept.values()
        found = (q, exact.beta_bernoulli_ess(n), *(exact.beta_bernoulli_ess(n, M) for M in (1, 2, 10)))
        assert found == pytest.approx(row, abs=1e-4 if n == 30 else 5e-5)


def test_published_evidences_of_marsaglia() -> None:
    assert exact.marsaglia(0, 0).evidence == pytest.approx(1.122592413520931, rel=1e-12)
    assert exact.marsaglia(-1, -1).evidence == pytest.approx(0.6825825736135941, rel=1e-12)
    assert exact.marsaglia().p_accept["marsaglia.c:marsaglia#0"] == pytest.approx(math.pi / 4)


def test_mini_sherpa_conserves_momentum_and_energy() -> None:
    """All deposited energy lies on the grid when all particles go forward together."""
    image = exact.mini_sherpa_mean([0.3, -0.2, 15.0], [1e-9, -1e-9], [0.4, 2.0])
    single = exact.mini_sherpa_mean([0.3, -0.2, 15.0], [], [])
    assert image == pytest.approx(single, rel=1e-6)
    assert single.sum() == pytest.approx(math.hypot(0.3, 0.2, 15.0) / 0.3, rel=1e-6)
