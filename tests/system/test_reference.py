"""The reference itself, and the generator: exact answers by quadrature, densities by scipy.stats."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest
from fit_programs import fit
from program_author import draft
from program_source import to_c
from programs import (
    KINDS,
    VECTOR_KINDS,
    Branch,
    Call,
    Dist,
    Draw,
    Expr,
    Helper,
    Loop,
    Observe,
    Program,
    Sample,
    Term,
    VectorDist,
    constants,
)
from reference import Traces, infer, infer_loops_prior, score
from reference_densities import draw, draw_coordinate, log_density, log_density_coordinate
from scipy import integrate, stats

Floats = npt.NDArray[np.float64]

# ---- distributions ----------------------------------------------------------------------------------------------

# kind -> parameters, and the same distribution by scipy
KNOWN: dict[str, tuple[tuple[float, ...], Callable[..., object]]] = {
    "uniform": ((-1.0, 2.5), lambda a, b: stats.uniform(a, b - a)),
    "normal": ((0.3, 1.7), stats.norm),
    "bernoulli": ((0.3,), stats.bernoulli),
    "categorical": ((0.2, 0.5, 0.3), lambda *p: stats.rv_discrete(values=(range(len(p)), p))),
    "poisson": ((2.5,), stats.poisson),
    "binomial": ((7.0, 0.35), stats.binom),
    "beta": ((2.5, 0.8), stats.beta),
    "gamma": ((0.7, 2.0), lambda a, r: stats.gamma(a, scale=1 / r)),
    "exponential": ((1.6,), lambda r: stats.expon(scale=1 / r)),
    "weibull": ((1.4, 0.9), lambda s, k: stats.weibull_min(k, scale=s)),
    "lognormal": ((0.2, 0.6), lambda m, s: stats.lognorm(s, scale=math.exp(m))),
    "truncated_normal": (
        (0.5, 1.2, -0.4, math.inf),
        lambda m, s, a, b: stats.truncnorm((a - m) / s, (b - m) / s, m, s),
    ),
    "negative_binomial": ((2.5, 0.4), stats.nbinom),
    "student_t": ((4.5, 0.3, 1.2), stats.t),
}


def nothing(name: str) -> Floats:
    raise AssertionError(name)


@pytest.mark.parametrize("kind", KINDS)
def test_densities_and_draws_are_those_of_scipy(kind: str) -> None:
    params, make = KNOWN[kind]
    known = make(*params)
    dist = Dist(kind, constants(*params))
    x = draw(dist, nothing, 20_000, np.random.default_rng(1))
    discrete = hasattr(known, "logpmf")
    expected = known.logpmf(x) if discrete else known.logpdf(x)  # type: ignore[attr-defined]
    np.testing.assert_allclose(log_density(dist, nothing, x), expected, rtol=1e-10, atol=1e-10)
    if discrete:
        values, counts = np.unique(x, return_counts=True)
        probability = known.pmf(values)  # type: ignore[attr-defined]
        often = probability * len(x) > 10
        z = (counts - probability * len(x)) / np.sqrt(probability * len(x))
        assert stats.chi2.sf(np.sum(z[often] ** 2), often.sum() - 1) > 1e-4
    else:
        assert stats.kstest(x, known.cdf).pvalue > 1e-4  # type: ignore[attr-defined]


VECTORS = {
    "multivariate_normal": (
        VectorDist(
            "multivariate_normal",
            constants(0.5, -1.0, 0.2),
            (constants(1.2), constants(-0.7, 0.4), constants(0.3, 0.5, 0.9)),
        ),
        stats.multivariate_normal(
            [0.5, -1.0, 0.2], (lambda f: f @ f.T)(np.array([[1.2, 0, 0], [-0.7, 0.4, 0], [0.3, 0.5, 0.9]]))
        ),
    ),
    "dirichlet": (VectorDist("dirichlet", constants(1.5, 0.7, 3.0)), stats.dirichlet([1.5, 0.7, 3.0])),
}


@pytest.mark.parametrize("kind", VECTOR_KINDS)
def test_vectors_number_by_number_are_those_of_scipy(kind: str) -> None:
    dist, known = VECTORS[kind]
    rng, drawn, log_p = np.random.default_rng(3), list[Floats](), np.zeros(20_000)
    for _ in range(dist.recorded):
        x = draw_coordinate(dist, nothing, drawn, 20_000, rng)
        log_p = log_p + log_density_coordinate(dist, nothing, drawn, x)
        drawn.append(x)
    whole = np.stack(drawn, axis=1)
    expected = known.logpdf(whole.T if kind == "dirichlet" else whole)
    np.testing.assert_allclose(log_p, expected, rtol=1e-9, atol=1e-9)
    theirs = known.rvs(20_000, random_state=4)[:, : dist.recorded]
    for direction in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, -0.8, 0.5]):
        along = np.array(direction)[: dist.recorded]
        assert stats.ks_2samp(whole @ along, theirs @ along).pvalue > 1e-4


def test_a_mixture_is_one() -> None:
    first, second = Dist("normal", constants(0.0, 1.0)), Dist("exponential", constants(0.5))
    mixture = Dist("mixture", constants(0.3, 0.7), (first, second))
    x = draw(mixture, nothing, 20_000, np.random.default_rng(2))
    expected = 0.3 * stats.norm.pdf(x) + 0.7 * stats.expon.pdf(x, scale=2)
    np.testing.assert_allclose(np.exp(log_density(mixture, nothing, x)), expected, rtol=1e-12)
    assert stats.kstest(x, lambda t: 0.3 * stats.norm.cdf(t) + 0.7 * stats.expon.cdf(t, scale=2)).pvalue > 1e-4


# ---- Definitions 1-3 on programs with known answers --------------------------------------------------------------


def linear(constant: float, **coefficients: float) -> Expr:
    return Expr(constant, tuple(Term(c, "same", 1.0, name, 0.0) for name, c in coefficients.items()))


def appendix_b(mean: Expr, proposal: Dist) -> Program:
    """x ~ Uniform(1, 2); z ~ Normal(mean, 1) until z < 0; observe Normal(z, x)."""
    return Program(
        0,
        (
            Sample("x", Dist("uniform", constants(1.0, 2.0))),
            Loop("until", (Sample("z", Dist("normal", (mean, Expr(1.0)))),), linear(0.0, z=-1.0)),
            Observe("y", Dist("normal", (linear(0.0, z=1.0), linear(0.0, x=1.0)))),
        ),
        proposals={"z": proposal},
        data={"y": (0.4,)},
    )


def appendix_b_evidence(slope: float) -> float:
    """For the mean slope * x."""

    def density(z: float, x: float) -> float:
        prior = NormalDist(slope * x, 1)
        return prior.pdf(z) / prior.cdf(0) * NormalDist(z, x).pdf(0.4)

    return float(integrate.dblquad(density, 1, 2, -9, 0)[0])


NESTED = Program(
    0,
    (
        Loop(
            "outer",
            (
                Sample("u", Dist("uniform", constants(0.0, 1.0))),
                Loop("inner", (Sample("v", Dist("normal", (linear(0.0, u=1.0), Expr(1.0)))),), linear(0.0, v=1.0)),
            ),
            linear(0.6, u=1.0, v=-1.0),
        ),
        Observe("y", Dist("normal", (linear(0.0, v=1.0), Expr(0.5)))),
    ),
    proposals={"u": Dist("beta", constants(1.0, 1.6)), "v": Dist("normal", (linear(0.5, u=0.5), Expr(1.3)))},
    data={"y": (0.9,)},
)


def nested_evidence() -> float:
    """The outer loop accepts v < 0.6 + u, where v is Normal(u, 1) above 0."""

    def density(v: float, u: float) -> float:
        return NormalDist(u, 1).pdf(v) / NormalDist().cdf(u)

    above = integrate.dblquad(lambda v, u: density(v, u) * NormalDist(v, 0.5).pdf(0.9), 0, 1, 0, lambda u: 0.6 + u)[0]
    return float(above / integrate.dblquad(density, 0, 1, 0, lambda u: 0.6 + u)[0])


WIDE = Dist("normal", constants(-0.6, 1.5))
EXACT: dict[str, tuple[Program, Callable[[], float]]] = {
    "appendix B": (appendix_b(Expr(0.0), WIDE), lambda: appendix_b_evidence(0.0)),
    "appendix B, state dependent": (appendix_b(linear(0.0, x=1.0), WIDE), lambda: appendix_b_evidence(1.0)),
    "nested": (NESTED, nested_evidence),
}


def off(log_weights: Floats, truth: float) -> float:
    weights = np.exp(log_weights)
    return float(abs(weights.mean() - truth) / (weights.std() / math.sqrt(len(weights))))


@pytest.mark.parametrize("name", EXACT)
def test_the_evidence_is_that_of_quadrature(name: str) -> None:
    program, evidence = EXACT[name]
    truth = evidence()
    for budget in ({"M": 1, "N": 3}, {"M": 3, "N": 10}):
        traces = infer(program, 100_000, seed=5, **budget)
        assert off(traces.log_weights("ars"), truth) < 3.5
        assert off(traces.log_weights("biased"), truth) > 10
    if name == "appendix B":  # in the others S_pq is not below 1 everywhere
        assert off(traces.log_weights("ic"), truth) < 3.5
    assert off(infer_loops_prior(program, 100_000, seed=6).log_weights("biased"), truth) < 3.5


def test_each_of_two_nested_loops_needs_its_correction() -> None:
    traces, truth = infer(NESTED, 100_000, M=3, N=10, seed=7), nested_evidence()
    for address in ("outer", "outer/inner"):
        loop = traces.loops.columns[address, 0].fields
        with np.errstate(divide="ignore"):
            one = traces.log_weights("biased") + np.log(loop["K"] * loop["T"] / 10)
        assert off(one, truth) > 6


def test_k_and_t_estimate_the_acceptance_probabilities() -> None:
    loop = infer(appendix_b(Expr(0.0), WIDE), 50_000, M=2, N=4, seed=1).loops.columns["until", 0]
    q = stats.norm.cdf(0, -0.6, 1.5)
    k, t, tries = (loop.fields[name] for name in ("K", "T", "tries"))
    assert abs(k.mean() / 4 - q) < 4 * math.sqrt(q * (1 - q) / 4 / 50_000)
    assert abs(t.mean() - 2) < 4 * math.sqrt(2 / 2 / 50_000)
    assert abs(tries.mean() - 1 / q) < 4 * math.sqrt((1 - q) / q**2 / 50_000)
    # independent of the accepted draw, and of each other
    for other in (t, tries):
        assert abs(np.corrcoef(k, other)[0, 1]) < 4 / math.sqrt(50_000)


# ---- score ------------------------------------------------------------------------------------------------------


def given(traces: Traces) -> tuple[dict[tuple[str, int], Floats], dict[tuple[str, int], Floats]]:
    latents = {key: column.fields["value"].copy() for key, column in traces.latents.columns.items()}
    return latents, {key: column.fields["value"] for key, column in traces.results.columns.items()}


@pytest.mark.parametrize("index", range(8))
def test_a_replay_finds_what_the_run_found(index: int) -> None:
    program = draft(11, index, 0)
    program = replace(program, data=(fit(program) or replace(program, data={})).data)
    traces = infer(program, 500, M=1, N=1, seed=3)
    replayed = score(program, 500, *given(traces))
    assert not replayed.wrong.any()
    np.testing.assert_allclose(replayed.log_weights("biased"), traces.log_weights("biased"), rtol=1e-12)
    for found, expected in ((replayed.latents, traces.latents), (replayed.loops, traces.loops)):
        for key, column in expected.columns.items():
            if column.present.any():
                np.testing.assert_array_equal(found.columns[key].position, column.position)
    accepted, rejected = traces.log_ratio_accepted, np.zeros(500)
    for column in traces.loops.columns.values():
        rejected += np.nan_to_num(column.fields["rejected"])
    np.testing.assert_allclose(traces.log_ratio_all, accepted + rejected, rtol=1e-9, atol=1e-9)


def test_a_replay_sees_values_that_cannot_be() -> None:
    program = appendix_b(Expr(0.0), WIDE)
    latents, draws = given(infer(program, 100, M=1, N=1, seed=3))
    latents["until/z", 0][:10] = 0.5  # would have been rejected
    latents["x", 0][10:20] = np.nan  # must be there
    np.testing.assert_array_equal(score(program, 100, latents, draws).wrong, np.arange(100) < 20)


# ---- the programs' form -----------------------------------------------------------------------------------------


def test_a_seed_gives_one_program() -> None:
    assert draft(7, 3, 0) == draft(7, 3, 0)
    assert len({str(draft(*numbers)) for numbers in ((7, 3, 0), (8, 3, 0), (7, 4, 0), (7, 3, 1))}) == 4


def test_c_reads_like_the_program() -> None:
    program = Program(
        3,
        (
            Sample("k", Dist("bernoulli", constants(0.5))),
            Call("h", "twice", (linear(0.0, k=1.0),)),
            Branch(
                "b", linear(-0.5, k=1.0), (Draw("u", Dist("exponential", constants(2.0))),), Expr(1.0), (), Expr(0.0)
            ),
            Observe("y", Dist("normal", (linear(0.0, h=1.0, b=1.0), Expr(1.0)))),
        ),
        (
            Helper(
                "twice",
                ("a",),
                (Loop("", (Sample("z", Dist("normal", (linear(0.0, a=1.0), Expr(1.0)))),), linear(0.0, z=1.0)),),
                linear(0.0, z=2.0),
            ),
        ),
    )
    assert (
        to_c(program)
        == """\
static double twice(double a) {
    double z;
    for (;;) {
        rs_start();
        z = ars_sample("z", ars_normal(0.0 + 1.0 * (1.0 * (a - 0.0)), 1.0));
        if (0.0 + 1.0 * (1.0 * (z - 0.0)) > 0) {
            rs_end();
            break;
        }
    }
    return 0.0 + 2.0 * (1.0 * (z - 0.0));
}

static void model_3(void *user) {
    (void)user;
    double k = ars_sample("k", ars_bernoulli(0.5));
    double h = twice(0.0 + 1.0 * (1.0 * (k - 0.0)));
    double b;
    if (-0.5 + 1.0 * (1.0 * (k - 0.0)) > 0) {
        double u = ars_draw(ars_exponential(2.0));
        ars_result("u", u);
        b = 1.0;
    } else {
        b = 0.0;
    }
    ars_observe("y", ars_normal(0.0 + 1.0 * (1.0 * (h - 0.0)) + 1.0 * (1.0 * (b - 0.0)), 1.0));
}
"""
    )
