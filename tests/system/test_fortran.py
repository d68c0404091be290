"""The Fortran module: every call, and the bits of the same program in C."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import INCLUDE, ROOT, Builder, Variant
from scipy import stats
from test_abandoned import PROPOSALS, Y, distance, truth
from test_reject import assert_same_traces

import ars
from ars.cli import main

FORTRAN = shutil.which("gfortran")
pytestmark = [
    pytest.mark.compiler,
    pytest.mark.skipif(not FORTRAN, reason="no gfortran: Debian's package gfortran has it"),
]
HERE = Path(__file__).resolve().parent / "fortran"
MODULE = ROOT / "bridge" / "fortran"
STRICT = ("-std=f2008", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-ffp-contract=off")


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Builds the module from its sources, as a user of another compiler would, and programs with it."""
    folder = tmp_path_factory.mktemp("fortran")
    assert FORTRAN
    run(FORTRAN, *STRICT, "-c", MODULE / "ars.f90", cwd=folder)
    run("gcc", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-c", MODULE / "abandon.c", cwd=folder)
    run("ar", "rcs", "libars_fortran.a", "ars.o", "abandon.o", cwd=folder)
    library = Builder(folder).library("gcc")

    def make(source: Path) -> Path:
        assert FORTRAN
        made = folder / source.stem
        run(FORTRAN, *STRICT, source, "libars_fortran.a", library, "-lm", "-o", made, cwd=folder)
        return made

    return make


def alone(program: Path, seed: int) -> list[list[float]]:
    env = {**os.environ, "ARS_SEED": str(seed), "ARS_TRACES": "20"}
    out = subprocess.run([str(program)], env=env, capture_output=True, text=True, check=True).stdout
    return [[float(word) for word in line.split()] for line in out.splitlines()]


def test_every_call_gives_the_bits_of_c(
    compiled: Callable[[Path], Path], tmp_path: Path, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    twin = Builder(tmp_path).program([HERE / "everything.c"], Variant("gcc", ("-O2", "-ffp-contract=off")))
    programs = [compiled(HERE / "everything.f90"), twin]
    assert alone(programs[0], 3) == alone(programs[1], 3)
    proposals: dict[str, Any] = {
        "n": ars.Normal(0.3, 1.2),
        "g": ars.Gamma(1.5, 1.0),
        "b": ars.Beta(2.0, 2.0),
        "px": ars.ScaledBeta(1.2, 1.0, -1, 1),
    }
    observe = {"y": 6.0, "pair": [0.1, 0.2], "two": [2.0, 0.3]}
    posts = []
    for program in programs:
        with started(ars.Simulator([str(program)], workers=2)) as sim:
            prior = sim.prior(50, seed=4)
            post = sim.posterior(observe, 150, proposals=proposals, budget=ars.Budget(M=2, N=4), seed=5)
            posts.append((prior, post))
    (prior, post), (prior_c, post_c) = posts
    np.testing.assert_array_equal(prior.columns.values, prior_c.columns.values)
    assert {site.address for site in post.sites} == {site.address for site in post_c.sites}
    assert_same_traces(post, post_c)
    assert {loop.method for loop in post.loops.values()} >= {"in place"}


def test_capped_has_the_bits_of_its_twin_and_the_exact_evidence(
    compiled: Callable[[Path], Path],
    simulator: Callable[..., ars.Simulator],
    started: Callable[[ars.Simulator], ars.Simulator],
) -> None:
    program = compiled(ROOT / "csim" / "capped_fortran.f90")
    common: dict[str, Any] = {"proposals": {"z": PROPOSALS["beam"]}, "budget": ars.Budget(M=2, R=1)}
    sims = [started(ars.Simulator([str(program), "4"])), simulator("capped", 4)]
    posts = [sim.posterior({"y": Y}, 2_000, seed=31, **common) for sim in sims]
    assert_same_traces(*posts)
    assert (posts[0].columns.loops["abandoned"] == 1).any()
    assert abs(distance(posts[0].log_weights("ars"), truth(4).evidence)) < 3.5
    assert abs(distance(posts[0].log_weights("biased"), truth(4).evidence)) > 5


def test_wrong_arguments_end_with_the_usage(compiled: Callable[[Path], Path]) -> None:
    program = compiled(ROOT / "csim" / "capped_fortran.f90")
    done = subprocess.run([str(program), "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "CAP must be a whole number" in done.stderr and "usage:" in done.stderr


MANY = """
program many
   use ars
   implicit none
   integer, parameter :: n = 300
   type(ars_dist) :: early
   early = ars_categorical([0.25d0, 0.75d0])
   call ars_run(model)
contains
   subroutine model()
      type(ars_dist) :: states(n), weights
      double precision :: p
      integer :: i
      weights = ars_dirichlet([2d0, 3d0])
      do i = 1, n
         p = dble(i) / (n + 1)
         states(i) = ars_categorical([p, 1 - p])
      end do
      call ars_observe_values("states", states, [(0d0, i = 1, n)])
      call ars_observe_values("early", [early], [1d0])
      call ars_observe_values("weights", [weights], [0.4d0, 0.6d0])
   end subroutine
end program
"""


def test_many_distributions_at_once_keep_their_parameters(
    compiled: Callable[[Path], Path], tmp_path: Path, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    """Of one call, of the whole trace, and of a distribution that was made before the first trace."""
    (tmp_path / "many.f90").write_text(MANY)
    post = started(ars.Simulator([str(compiled(tmp_path / "many.f90"))], workers=1)).posterior({}, 5, seed=1)
    exact = np.log(np.arange(1, 301) / 301).sum() + np.log(0.75) + stats.dirichlet([2, 3]).logpdf([0.4, 0.6])
    np.testing.assert_allclose(post.log_weights("ars"), exact, rtol=1e-12)


STALE = """
program stale
   use ars
   implicit none
   type(ars_dist) :: early
   integer :: trace = 0
   call ars_run(model)
contains
   subroutine model()
      integer :: i
      double precision :: x
      trace = trace + 1
      if (trace == 1) early = {early}
      do i = 1, {others}
         x = ars_draw(ars_categorical([0d0, 1d0]))
      end do
      {use}
      if (ars_standalone()) print '(2es24.15)', x, x
   end subroutine
end program
"""
USES = {
    "draw": "x = ars_draw(early)",
    "sample": "x = ars_sample('x', early)",
    "unnamed": "x = ars_sample(early)",
    "vector": "x = sum(ars_sample_vector('x', [early]))",
    "observe": "x = ars_observe('x', early)",
    "observe_value": "x = ars_observe_value('x', early, 0d0)",
    "density": "x = exp(ars_log_density(early, 0d0)) - 1",
}


@pytest.mark.parametrize("how", USES)
def test_a_distribution_that_is_gone_is_an_error(how: str, compiled: Callable[[Path], Path], tmp_path: Path) -> None:
    """Its parameters would be those of another one: a draw of 1 with probability 0."""
    said = {}
    for others, traces in ((65_535, 1), (65_536, 1), (1, 2)):
        source = tmp_path / f"stale_{how}_{others}.f90"
        source.write_text(STALE.format(early="ars_categorical([1d0, 0d0])", others=others, use=USES[how]))
        env = {**os.environ, "ARS_TRACES": str(traces)}
        done = subprocess.run([str(compiled(source))], env=env, capture_output=True, text=True, check=False)
        said[others] = done.returncode, done.stderr.partition("\n")[0]
        if others == 65_535:
            assert done.returncode == 0 and float(done.stdout.split()[0]) == 0
    gone = "ERROR STOP ars: a distribution with an array of parameters was used after its trace, or after 65536 others"
    for others in (65_536, 1):
        code, first = said[others]
        assert code == 1 and first.startswith(gone)


CONTAINED = """
module physics
   use ars
   implicit none
contains
   double precision function shoot(e)
      double precision, intent(in) :: e
      shoot = e * ars_flat() + inner(1d0)
   contains
      double precision function inner(x)
         double precision, intent(in) :: x
         inner = x * ars_flat()
      end function
   end function
end module
program contained
   use physics
   implicit none
   call ars_run(model)
contains
   subroutine model()
      call ars_result("s", shoot(2d0) + local(3d0) + ars_sample(ars_normal(0d0, 1d0)))
   end subroutine
   double precision function local(x)
      double precision, intent(in) :: x
      local = x + ars_flat()
   end function
end program
"""


def test_contained_procedures_have_the_same_names_inlined_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    """Their symbols end with a number that counts all procedures of the file: model.2."""
    (tmp_path / "contained.f90").write_text(CONTAINED)
    monkeypatch.chdir(tmp_path)
    for level in ("-O0", "-O3"):
        assert main(["compile", level, "-g", "contained.f90", "-o", f"contained{level}"]) == 0
        prior = started(ars.Simulator([f"./contained{level}"], workers=1)).prior(3, seed=1)
        assert set(prior.latents) == {
            "model#1>physics::shoot#1",
            "model#1>physics::shoot#1>inner#1",
            "model#1>local#1",
            "model#1:Normal",
        }


NOT_NAMED = """
program wrong
   use ars
   implicit none
   call ars_run(model)
contains
   subroutine model()
      type(ars_loop) :: loop
      double precision :: x
      call ars_loop_try(loop)
      x = ars_sample("x", ars_normal(0d0, 1d0))
   end subroutine
end program
"""


def test_a_handle_without_a_name_is_named(
    compiled: Callable[[Path], Path], tmp_path: Path, started: Callable[[ars.Simulator], ars.Simulator]
) -> None:
    (tmp_path / "wrong.f90").write_text(NOT_NAMED)
    sim = started(ars.Simulator([str(compiled(tmp_path / "wrong.f90"))], workers=1))
    with sim, pytest.raises(ars.TraceFailure, match="ars_loop_try was given a handle that was never initialised"):
        sim.posterior({}, 3, seed=1)


def test_ars_compile_makes_the_module_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of sources with modules of their own, in a folder with a space, and with libars inside."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    source = tmp_path / "my sources" / "capped.f90"
    source.parent.mkdir()
    shutil.copyfile(ROOT / "csim" / "capped_fortran.f90", source)
    monkeypatch.chdir(source.parent)
    for made, static in ((tmp_path / "a b", []), (tmp_path / "static", ["--static"])):
        assert main(["compile", *static, source.name, "-o", str(made)]) == 0
        with ars.Simulator([str(made)], workers=1) as simulator:
            assert "y" in simulator.prior(20, seed=1).observations
    (library,) = (tmp_path / "my cache" / "ars" / "fortran").glob("*/libars_fortran.a")
    assert (library.parent / "ars.mod").is_file()
    assert not (source.parent / "ars.mod").exists()


def test_ars_compile_shows_why_the_module_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (compiler := tmp_path / "my_fc").write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("FC", str(compiler))
    assert main(["compile", "sim.f90"]) != 0
    said = capsys.readouterr().err
    assert "the Fortran module cannot be compiled" in said and "no licence" in said
    assert not list((tmp_path / "cache" / "ars" / "fortran").iterdir())
