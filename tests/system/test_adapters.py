"""Adapters for generators that others wrote: each against the real library, and an exact answer.

The examples of csim/adapters are one model through four libraries; its evidence is computed here by quadrature.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from build_helpers import ROOT, Builder, Variant
from scipy import special, stats

import ars
from ars._native import SiteKind

HERE = Path(__file__).resolve().parent / "adapters"
PAGE = (ROOT / "docs" / "adapters.md").read_text()
GSL = ("-lgsl", "-lgslcblas")
CLHEP = ("-lCLHEP",)
PACKAGES = {  # the header that shows that it is there, and the Debian package
    "gsl": ("gsl/gsl_rng.h", "libgsl-dev"),
    "clhep": ("CLHEP/Random/RandomEngine.h", "libclhep-dev"),
}
SEEN = [2.6, 1.1, 2.9]
GATE, JITTER, RESOLUTION = 3.0, 0.1, 0.2


def has(header: str) -> bool:
    """Whether the compiler finds a header."""
    words = ["g++", "-x", "c++", "-fsyntax-only", "-include", header, "/dev/null"]
    return shutil.which("g++") is not None and subprocess.run(words, capture_output=True).returncode == 0


def need(package: str) -> None:
    header, debian = PACKAGES[package]
    if not has(header):
        pytest.skip(f"{header} is not installed: Debian's package {debian} has it")


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("adapters"))


def built(builder: Builder, *names: str, link: tuple[str, ...] = (), compiler: str = "gcc") -> Path:
    flags = ("-O1", "-g", "-ffp-contract=off")
    return builder.program([HERE / name for name in names], Variant(compiler, flags), link=link)


def output(program: Path, *arguments: str, seed: int = 1) -> str:
    env = {**os.environ, "ARS_SEED": str(seed)}
    done = subprocess.run([str(program), *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- one model, four libraries ---------------------------------------------------------------------------------------


def exact() -> tuple[float, float]:
    """Log evidence and the posterior mean of the lifetime, of lifetime_*.c for SEEN."""
    lifetime = np.linspace(1, 5, 801)[:, None]
    time = np.linspace(0, GATE + 8 * JITTER, 4001)
    density = np.exp(-time / lifetime) / lifetime * special.ndtr((GATE - time) / JITTER)
    accepted = np.trapezoid(density, time, axis=1)
    likelihood = np.ones(len(lifetime))
    for seen in SEEN:
        likelihood *= np.trapezoid(density * stats.norm.pdf(seen, time, RESOLUTION), time, axis=1) / accepted
    evidence = np.trapezoid(likelihood, lifetime[:, 0]) / 4
    mean = np.trapezoid(likelihood * lifetime[:, 0], lifetime[:, 0]) / 4 / evidence
    return float(np.log(evidence)), float(mean)


def distance(log_weights: np.ndarray, log_evidence: float) -> float:
    weights = np.exp(log_weights - log_evidence)
    return float((weights.mean() - 1) / (weights.std(ddof=1) / len(weights) ** 0.5))


@pytest.fixture(params=["callback", "random", "gsl", "clhep"])
def lifetime(request: pytest.FixtureRequest) -> str:
    """The executable that CMake made where it found the library."""
    build = Path(os.environ.get("ARS_BUILD_DIR", ROOT / "build"))
    directory = Path(os.environ.get("ARS_CSIM_DIR", build / "csim"))
    made = directory / "adapters" / f"lifetime_{request.param}"
    if not made.exists() and request.param in PACKAGES:
        need(request.param)
    assert made.exists(), f"{made} was not built, though its library is there: configure the build again"
    return str(made)


def test_each_library_gives_the_exact_evidence(
    lifetime: str, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    sim = started(ars.Simulator([lifetime], workers=2))
    prior = sim.prior(5, seed=1)
    names = sorted(site.address for site in prior.sites if site.kind == SiteKind.SAMPLE)
    assert len(names) == 2, names  # the jitter's draws are nuisances, by policy
    [outside], [inside] = (
        [name for name in names if name.startswith("trigger/") == within] for within in (False, True)
    )
    assert "model" in outside and "model" in inside
    assert not [part for name in names for part in name.split(">") if part.startswith(("ars_", "ars::"))], names
    proposals = {outside: ars.Beta(1.2, 0.9), inside: ars.Beta(0.8, 1.6)}
    post = sim.posterior({"time": SEEN}, 5_000, proposals=proposals, budget=ars.Budget(M=2, N=10), seed=2)
    log_evidence, mean = exact()
    assert abs(distance(post.log_weights("ars"), log_evidence)) < 3.5
    assert abs(distance(post.log_weights("biased"), log_evidence)) > 5
    weights = np.exp(post.log_weights("ars") - post.log_weights("ars").max())
    found = np.average(post["lifetime"], weights=weights)
    error = np.sqrt(np.sum((weights * (post["lifetime"] - found)) ** 2)) / weights.sum()
    assert abs(found - mean) < 4 * error


# ---- outside a trace, and every signature ----------------------------------------------------------------------------


@pytest.mark.compiler
def test_outside_a_trace_draws_are_the_same_in_every_process(
    builder: Builder, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    program = built(builder, "outside.c")
    first = output(program, seed=1)
    assert first == output(program, seed=2)
    before = np.array(first.split(), float)
    assert len(set(before)) == 8 and (before > 0).all()
    assert (np.delete(before, 2) < 1).all() and 1 < before[2] < 2**32  # the one of 32 bits
    sim = started(ars.Simulator([str(program)], workers=3))
    prior = sim.prior(20, seed=5)
    assert (prior["in_trace"] == 1).all()
    assert (prior["before"] == before).all()
    [latent] = prior.latents
    # As close to 1 as a double can be: a float would round to 1.
    post = sim.posterior({}, 20, proposals={latent: ars.Beta(1e12, 1)}, seed=3)
    assert (post[latent] > 1 - 1e-9).all() and (post["below_one"] == 1).all()


# ---- GSL -------------------------------------------------------------------------------------------------------------


@pytest.mark.compiler
def test_gsl_has_one_generator_type_in_two_files(builder: Builder) -> None:
    need("gsl")
    assert output(built(builder, "one_type.c", "one_type_elsewhere.cpp", link=GSL)) == "ok\n"


# ---- CLHEP -----------------------------------------------------------------------------------------------------------


@pytest.mark.compiler
def test_all_that_clhep_asks_of_an_engine(builder: Builder, tmp_path: Path) -> None:
    need("clhep")
    said = output(built(builder, "clhep_engine.cpp", link=CLHEP), str(tmp_path))
    assert said.splitlines() == ["ars::clhep_engine, which has no state: outside a trace", "ok"]


# ---- C++ -------------------------------------------------------------------------------------------------------------


@pytest.mark.compiler
def test_all_bits_and_all_orders_are_equally_likely(builder: Builder) -> None:
    ones, orders = (np.array(line.split(), float) for line in output(built(builder, "bits.cpp"), seed=7).splitlines())
    assert len(ones) == 64 and len(orders) == 6
    assert np.abs(ones - 10_000).max() < 4 * 5_000**0.5
    assert stats.chisquare(orders).pvalue > 1e-3
    assert stats.chisquare(ones - 10_000 + ones.sum() / 64).pvalue > 1e-3


# ---- the tables of docs/adapters.md ----------------------------------------------------------------------------------


def listed(prefix: str) -> dict[str, str]:
    return dict(re.findall(rf"^\| `({prefix}\w+(?:::\w+)?)` \| (\w+) \|", PAGE, re.MULTILINE))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("source", "prefix", "package", "link"),
    [
        ("count_gsl.c", "gsl_r", "gsl", GSL),
        ("count_clhep.cpp", "Rand", "clhep", CLHEP),
        ("count_random.cpp", "std::", None, ()),
    ],
)
def test_the_page_says_how_often_each_function_draws(
    source: str, prefix: str, package: str | None, link: tuple[str, ...], builder: Builder
) -> None:
    if package:
        need(package)
    counted = {}
    for line in output(built(builder, source, link=link)).splitlines():
        name, least, most = line.split()
        counted[name] = least if least == most else "varies"
    assert listed(prefix) == counted


def test_the_page_says_which_ones_keep_a_value() -> None:
    """A call that draws nothing lives on what another has left."""
    keeps = dict(re.findall(r"^\| `((?:Rand|std::)\S+)` \| \w+ \| (\*\*yes|no)", PAGE, re.MULTILINE))
    assert keeps["RandGauss::shoot"] == keeps["std::normal_distribution"] == "**yes"
    assert keeps["RandGaussQ::shoot"] == keeps["std::exponential_distribution"] == "no"
    assert len(keeps) == len(listed("Rand")) + len(listed("std::"))
