"""Sources written for pyprob_cpp compile unchanged against pyprob_cpp.h over libars, and their numbers are right.

pyprob/models.cpp and more.cpp are one program with many models: ``models ADDRESS MODEL``. docs/pyprob-cpp.md says what
becomes of each call.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, CXX, INCLUDE, ROOT, Builder, Variant
from scipy import stats

import ars

HERE = Path(__file__).resolve().parent / "pyprob"
SOURCES = [HERE / "models.cpp", HERE / "more.cpp"]
FLAGS = ("-O1", "-g", f"-I{INCLUDE / 'ars' / 'compat' / 'pyprob_cpp'}")
GCC = Variant("gcc", ("-std=c++14", *FLAGS))
# One class of more.cpp overrides the oldest form of a function alone, and so hides the others.
CLANG = Variant("clang", ("-std=c++20", *FLAGS, "-Wno-overloaded-virtual"))
ADDRESS = "ipc://@ars_pyprob_test"  # which nobody binds
Start = Callable[..., ars.Simulator]

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(600)]


def has_xtensor() -> bool:
    source = "#if !__has_include(<xtensor/xarray.hpp>)\n#error\n#endif\n"
    command = [CXX[COMPILERS[0]], "-std=c++14", "-x", "c++", "-E", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=False).returncode == 0


def build(folder: Path, variant: Variant, sources: Sequence[Path] = SOURCES) -> Path:
    if variant.compiler not in COMPILERS:
        pytest.skip(f"{variant.compiler} is not installed")
    if not has_xtensor():
        pytest.skip("xtensor is not installed (Debian: libxtensor-dev)")
    return Builder(folder).program(sources, variant)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled by the first worker of pytest that wants it, for all of them."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    made = folder / "pyprob_models"
    with (folder / "pyprob_models.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            made.symlink_to(build(folder / "pyprob_models.built", GCC))
    return made


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Start:
    return lambda model, **options: started(ars.Simulator([str(program), ADDRESS, model], workers=2, **options))


def alone(program: Path, model: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([program, ADDRESS, model], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    return done


# ---- a Gaussian with unknown mean ------------------------------------------------------------------------------------

PROPOSAL = ars.Normal(7.0, 1.2)
MEAN, VARIANCE, NOISE = 1.0, 5.0, 2.0


def exact_evidence(data: list[float]) -> float:
    n = len(data)
    return float(stats.multivariate_normal.logpdf(data, [MEAN] * n, VARIANCE * np.ones((n, n)) + NOISE * np.eye(n)))


def exact_mean(data: list[float]) -> float:
    return (MEAN / VARIANCE + sum(data) / NOISE) / (1 / VARIANCE + len(data) / NOISE)


def assert_evidence(post: ars.Posterior, exact: float, weights: str = "ars", error: float = 0.05) -> None:
    found = post.log_evidence(weights)
    assert found.relative_error < error
    assert abs(math.exp(found.log_estimate - exact) - 1) < 4 * found.relative_error


def assert_mean(post: ars.Posterior, name: str, exact: float) -> None:
    w = np.exp(post.log_weights("ars") - post.log_weights("ars").max())
    w /= w.sum()
    values = np.asarray(post[name])
    error = math.sqrt(float(np.sum(w**2 * (values - exact) ** 2)))
    assert error < 0.1
    assert abs(float(np.sum(w * values)) - exact) < 4 * error


def test_the_classic_model(start: Start) -> None:
    sim = start("gum")
    prior = sim.prior(2000, seed=1)
    assert set(prior) == {"result", "gum#1:Normal"}
    assert np.array_equal(prior["result"], prior["gum#1:Normal"])
    assert set(prior.observations) == {"obs0", "obs1", "obs2"}
    assert abs(np.var(prior.observations["obs0"]) - 7) < 4 * 7 * math.sqrt(2 / 2000)
    post = sim.posterior(
        observe={"obs0": 8, "obs1": 9, "obs2": math.nan}, traces=3000, seed=2, proposals={"gum#1:Normal": PROPOSAL}
    )
    assert_evidence(post, exact_evidence([8, 9]))
    assert_mean(post, "result", exact_mean([8, 9]))
    assert abs(math.exp(post.log_evidence("ars").log_estimate - exact_evidence([8, 8])) - 1) > 0.5
    with pytest.raises(ars.ArsError, match=r"observes \"obs2\", for which no data were given"):
        sim.posterior(observe={"obs0": 8, "obs1": 9}, traces=10, seed=1)


def test_literal_data_and_those_that_replace_them(start: Start) -> None:
    sim = start("literal")
    options: dict[str, Any] = {"traces": 3000, "seed": 2, "proposals": {"mu": PROPOSAL}}
    own = sim.posterior(observe={}, **options)
    assert_evidence(own, exact_evidence([8, 9]))
    assert_mean(own, "result", exact_mean([8, 9]))
    other = sim.posterior(observe={"y": 7, "observe:Normal": [6]}, **options)
    assert_evidence(other, exact_evidence([7, 6]))
    assert_mean(other, "result", exact_mean([7, 6]))
    prior = sim.prior(500, seed=3)
    assert len(np.unique(prior.observations["y"])) == 500  # simulated: 8 is data, not a draw


def test_the_older_form_of_a_model(start: Start) -> None:
    sim = start("older")
    options: dict[str, Any] = {"traces": 3000, "seed": 2, "proposals": {"older#1:Normal": PROPOSAL}}
    default = sim.posterior(observe={}, **options)
    assert_evidence(default, exact_evidence([8, 9]))
    given = sim.posterior(observe={"observation": [8, 9]}, **options)
    assert given.log_weights("ars").tobytes() == default.log_weights("ars").tobytes()
    assert np.all(given["dimension"] == 2)  # as many as the default has: its shape
    longer = sim.posterior(observe={"observation": [8, 9, 7]}, **options)
    assert_evidence(longer, exact_evidence([8, 9, 7]))
    assert np.all(longer["dimension"] == 1)
    assert sim.prior(100, seed=1).observations["observe:Normal"].shape == (100, 2)
    with pytest.raises(
        ars.ArsError, match=r"data were given for \"observations\", which the simulator did not observe"
    ):
        sim.posterior(observe={"observations": [8, 9]}, **options)


def test_unnamed_observations_of_two_kinds(start: Start) -> None:
    n = np.arange(60)
    log_p = stats.poisson.logpmf(n, 4) + stats.poisson.logpmf(5, n + 1) + np.log((n + 1) / (n + 3))
    exact = float(np.log(np.exp(log_p).sum()))
    sim = start("two_kinds")
    post = sim.posterior(observe={"observation": 5}, traces=4000, seed=2)
    assert_evidence(post, exact)
    assert_mean(post, "result", float(np.sum(n * np.exp(log_p - exact))))


# ---- rejection loops -------------------------------------------------------------------------------------------------

ONE = float(stats.norm.logpdf(5, MEAN, math.sqrt(VARIANCE + NOISE)))


def test_draws_that_are_replaced_come_from_the_prior(start: Start) -> None:
    """As draws of a loop that nobody marked: no proposal, no wrong weight. The last ones are recorded."""
    sim = start("replaced")
    post = sim.posterior(observe={"obs": 5}, traces=6000, seed=2)
    assert set(post) == {"x", "y", "result"}
    assert not post.latents
    assert np.all(post["x"] ** 2 + post["y"] ** 2 < 1)
    assert_evidence(post, ONE)
    assert_mean(post, "result", exact_mean([5]))
    kept = start("kept").posterior(observe={"obs": 5}, traces=6000, seed=2)
    assert set(kept.latents) == {"x", "y"}
    assert_evidence(kept, ONE)
    assert kept["x"].ndim == 2  # all tries are there


def test_in_a_marked_loop_they_are_latents(start: Start) -> None:
    proposals = {"x": ars.TruncatedNormal(0.8, 0.6, -1, 1), "y": ars.TruncatedNormal(0.0, 0.6, -1, 1)}
    post = start("marked").posterior(
        observe={"obs": 5}, traces=2000, seed=2, proposals=proposals, budget=ars.Budget(M=3, N=3)
    )
    assert set(post.latents) == {"x", "y"}
    assert post.stats["continuations"] > 0
    assert_evidence(post, ONE, error=0.1)
    biased = post.log_evidence("biased")
    assert abs(math.exp(biased.log_estimate - ONE) - 1) > 4 * biased.relative_error  # pyprob's weights


# ---- distributions ---------------------------------------------------------------------------------------------------

EVERY: dict[str, Any] = {
    "uniform": stats.uniform(2, 3),
    "normal": stats.norm(-3, 0.5),
    "categorical": stats.rv_discrete(values=([0, 1, 2], [1 / 8, 2 / 8, 5 / 8])),
    "poisson": stats.poisson(4.5),
    "bernoulli": stats.bernoulli(0.3),
    "beta": stats.beta(4, 2),
    "exponential": stats.expon(scale=1 / 2.5),
    "gamma": stats.gamma(3, scale=1 / 4),
    "log_normal": stats.lognorm(0.25, scale=math.exp(0.5)),
    "binomial": stats.binom(9, 0.2),
    "weibull": stats.weibull_min(3, scale=2),
}
SEEN = (3, -2.5, 1, 6, 1, 0.7, 0.4, 0.9, 1.5, 3, 1.7)


def log_density(dist: Any, x: float) -> float:
    return float(dist.logpmf(x) if hasattr(dist, "logpmf") else dist.logpdf(x))


def test_every_distribution_draws_with_its_parameters_in_order(start: Start) -> None:
    prior = start("every").prior(4000, seed=5)
    assert list(prior.latents) == list(EVERY)
    assert np.array_equal(prior["result"], np.stack([prior[name] for name in EVERY], axis=1))
    for name, dist in EVERY.items():
        draws = np.asarray(prior[name])
        assert abs(draws.mean() - dist.mean()) < 4 * dist.std() / math.sqrt(4000), name
        assert abs(draws.var() / dist.var() - 1) < 0.2, name


def test_every_distribution_scores_tensors(start: Start) -> None:
    """The likelihood depends on no draw, so every weight is the exact one."""
    rows = stats.gamma([[2.0], [3.0]], scale=1 / np.array([1.0, 2, 4]))
    exact = 2 * sum(log_density(dist, x) for dist, x in zip(EVERY.values(), SEEN, strict=True))
    exact += rows.logpdf([[1, 2, 3], [4, 5, 6]]).sum() + rows.logpdf([0.5, 1, 2]).sum() + math.log(2 / 4 * 5 / 10)
    post = start("scores").posterior(observe={}, traces=20, seed=1)
    np.testing.assert_allclose(post.log_weights("ars"), exact, rtol=1e-12)
    given = {"rows": np.ones((2, 3)), "states": [0, 0], "beta": 0.5}
    exact += rows.logpdf(np.ones((2, 3))).sum() - rows.logpdf([[1, 2, 3], [4, 5, 6]]).sum()
    exact += math.log(1 / 2) + EVERY["beta"].logpdf(0.5) - EVERY["beta"].logpdf(0.7)
    post = start("scores").posterior(observe=given, traces=20, seed=1)
    np.testing.assert_allclose(post.log_weights("ars"), exact, rtol=1e-12)


def test_distributions_of_the_programs_own(start: Start) -> None:
    sim = start("custom")
    prior = sim.prior(1200, seed=1)
    assert set(prior.latents) == {"s", "w", "there", "n", "o"}
    np.testing.assert_allclose(prior["ancient"], 100 + prior["n"], rtol=1e-15)
    np.testing.assert_allclose(prior["own"], 101 + prior["o"], rtol=1e-15)
    np.testing.assert_allclose(prior["replaced"], 100 + prior["r"], rtol=1e-15)  # a nuisance
    np.testing.assert_allclose(prior["shifted"], 10 + prior["s"], rtol=1e-15)
    np.testing.assert_allclose(prior["wide"], 1000 + prior["w"], rtol=1e-15)
    np.testing.assert_allclose(prior["by hand"], 1000 + prior["there"], rtol=1e-15)
    assert np.all(prior["plain"] == 0)
    counts = np.bincount(prior["dice"].astype(int), minlength=7)[1:]  # of pyprob_cpp::generator, seeded in every trace
    assert stats.chisquare(counts).pvalue > 1e-3
    again = sim.prior(1200, seed=1)
    assert again["dice"].tobytes() == prior["dice"].tobytes()
    post = sim.posterior(observe={}, traces=20, seed=1)
    np.testing.assert_allclose(post.log_weights("ars"), -0.5 + stats.norm.logpdf(0.5), rtol=1e-12)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def test_tensors_keep_their_shapes(start: Start) -> None:
    sim = start("shapes")
    n = 300
    prior = sim.prior(n, seed=1)
    assert prior["m tagged"].shape == (n, 2, 3)
    latents = np.asarray(prior.latents["m"])
    assert latents.shape == (n, 6)
    assert np.array_equal(prior["m tagged"].reshape(n, 6), latents)
    np.testing.assert_allclose(prior["m tagged"].mean(axis=0), [[0] * 3, [10] * 3], atol=4 * 3 / math.sqrt(n))
    np.testing.assert_allclose(prior["m tagged"].std(axis=0), [[1, 2, 3]] * 2, rtol=0.25)
    assert np.array_equal(prior["corner"], prior["m tagged"][:, 1, 2])
    np.testing.assert_allclose(prior["sums"], prior["m tagged"].sum(axis=2), rtol=1e-13)
    np.testing.assert_allclose(prior["tag0"], 2 * prior["m tagged"] + 1, rtol=1e-15)
    assert np.all(prior["tag1"] == 7) and np.all(prior["tag2"] == 0)
    assert "v" not in prior.latents
    assert np.array_equal(prior["v"], prior["v tagged"]) and prior["v"].shape == (n, 3)
    assert np.array_equal(prior["rows tagged"], np.broadcast_to([0, 2], (n, 2)))
    assert {"a", "b", "c", "d", "e"} <= set(prior.latents)
    unnamed = [name for name in prior.latents if name.startswith("shapes#")]
    assert len(unnamed) == 2
    assert prior["result"].shape == (n, 7)
    assert np.array_equal(prior["result"][:, :5], np.stack([prior[name] for name in "abcde"], axis=1))
    assert np.array_equal(
        np.sort(prior["result"][:, 5:], axis=1), np.sort(np.stack([prior[name] for name in unnamed], 1), 1)
    )
    assert "f" not in prior.latents and prior["f"].shape == (n,)
    assert prior["r tagged"].shape == (n, 3, 3)
    assert np.array_equal(prior["r"], prior["r tagged"][:, 2])  # the last of three
    assert prior.observations["matrix"].shape == (n, 6) and prior.observations["broadcast"].shape == (n, 6)
    assert prior.observations["observe:Uniform"].shape == (n,)


def test_another_compiler_and_standard_give_the_same_names_and_bits(
    program: Path, tmp_path: Path, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    other = build(tmp_path, CLANG)
    for model in ("shapes", "kept", "older"):
        one, two = (
            started(ars.Simulator([str(each), ADDRESS, model], workers=2)).prior(50, seed=4)
            for each in (program, other)
        )
        assert list(one) == list(two)
        for name in one:
            np.testing.assert_allclose(one[name], two[name], rtol=1e-12)


# ---- without a controller --------------------------------------------------------------------------------------------


def test_draws_outside_a_trace(program: Path) -> None:
    printed = alone(program, "outside").stdout
    first, _, rest = printed.partition("}}\n")
    assert re.sub(r"\s+", "", first) == "12{{1.,2.},{3.,4."
    means, version = rest.splitlines()
    for mean, (name, dist) in zip(map(float, means.split()), EVERY.items(), strict=True):
        assert abs(mean - dist.mean()) < 4 * dist.std() / math.sqrt(2000), name
    assert version.startswith("1.")
    assert alone(program, "outside").stdout == printed  # the generator has a seed of its own


def test_the_plain_simulator_says_nothing_and_ends(program: Path) -> None:
    for model in ("gum", "older", "shapes", "replaced", "custom"):
        done = alone(program, model, ARS_TRACES="3", ARS_SEED="1")
        assert done.stdout == done.stderr == ""


def test_shapes_that_do_not_fit_are_named(program: Path, start: Start) -> None:
    message = "pyprob_cpp: Normal: shapes (2) and (3) do not broadcast"
    assert message in alone(program, "wrong", code=-6).stderr
    with pytest.raises(ars.ArsError, match="SIGABRT"):
        start("wrong").prior(2, seed=1)


@pytest.mark.skipif(not shutil.which("script"), reason="no script(1) to make a terminal")
def test_at_a_terminal_it_says_how_to_infer(program: Path) -> None:
    command = ["script", "-qec", f"{program} {ADDRESS} gum", "/dev/null"]
    done = subprocess.run(
        command, env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert "one of many: no controller" in done.stdout and "ars infer" in done.stdout


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "pyprob-cpp.md").read_text()
    (whole, loop), (code,) = (
        re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("cpp", "python")
    )
    source = tmp_path / "gum.cpp"
    source.write_text(whole)
    (tmp_path / "gum").symlink_to(
        build(tmp_path / "built", Variant("gcc", ("-std=c++17", "-O0", *FLAGS[1:])), [source])
    )
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/pyprob-cpp.md", "exec"), {})
    mean, result = map(float, capsys.readouterr().out.splitlines()[-1].split())
    assert mean == result
    assert abs(mean - exact_mean([8, 9])) < 0.3  # 20,000 draws from the prior, some 600 of which count
    assert all(f"`{name}`" in page for name in dir_of_distributions())
    assert "rs_start();" in loop and "rs_end();" in loop


def dir_of_distributions() -> list[str]:
    header = (INCLUDE / "ars" / "pyprob_cpp.hpp").read_text()
    return re.findall(r"^class (\w+) : public (?:libars_detail::elementwise<|Distribution )", header, re.MULTILINE)
