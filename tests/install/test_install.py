"""A simulator outside the tree, in C and in C++, against an installed libars: CMake, pkg-config, shared, static."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ars

ROOT = Path(__file__).resolve().parents[2]
CONSUMER = Path(__file__).parent / "consumer"
COMPILER = {"c": "cc", "cpp": "c++"}
FORTRAN = shutil.which("gfortran")
XTENSOR = Path("/usr/include/xtensor/xarray.hpp").exists()
VARIANTS = list(itertools.product(("cmake", "pkgconfig"), COMPILER, ("shared", "static")))

# The whole module shares one build and one install, and the first test pays for them.
pytestmark = [pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.compiler]


def run(*command: str | Path, **environment: str) -> str:
    """Runs a command without whatever ARS_ variables the caller has, and shows its output if it fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ARS_")}
    done = subprocess.run(
        [str(part) for part in command],
        env={**clean, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}", pytrace=False)
    return done.stdout


def generator() -> list[str]:
    return ["-G", "Ninja"] if shutil.which("ninja") else []


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installation made by the commands of the README, with its ars-host compiled in."""
    build, prefix = tmp_path_factory.mktemp("build"), tmp_path_factory.mktemp("prefix")
    options = [f"-DCMAKE_INSTALL_PREFIX={prefix}", "-DARS_BUILD_CSIM=OFF", "-DARS_BUILD_TESTS=OFF", "-DARS_WERROR=ON"]
    run("cmake", "-S", ROOT, "-B", build, *generator(), *options)
    run("cmake", "--build", build, "--parallel", "2")
    run("cmake", "--install", build)
    shutil.rmtree(build)  # nothing may lean on it
    return prefix


@pytest.fixture(scope="module")
def cmake_build(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("consumer")
    run("cmake", "-S", CONSUMER, "-B", build, *generator(), f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    return build


@pytest.fixture(scope="module")
def pkgconfig_build(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("pkgconfig")
    found = list(prefix.glob("**/ars.pc"))
    assert len(found) == 1, found
    path = {"PKG_CONFIG_PATH": str(found[0].parent)}
    shared = run("pkg-config", "--cflags", "--libs", "ars", **path).split()
    static = run("pkg-config", "--static", "--cflags", "--libs", "ars", **path).split()
    libdir = run("pkg-config", "--variable=libdir", "ars", **path).strip()
    for language, compiler in COMPILER.items():
        source = CONSUMER / f"simulator.{language}"
        warnings = ("-O2", "-Wall", "-Wextra", "-Werror")
        # libm in the shared link is for the model's own sqrt.
        run(compiler, *warnings, source, *shared, "-lm", f"-Wl,-rpath,{libdir}", "-o", build / f"{language}_shared")
        run(compiler, *warnings, "-static", source, *static, "-o", build / f"{language}_static")
    return build


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda variant: "-".join(variant))
def executable(request: pytest.FixtureRequest) -> Path:
    how, language, kind = request.param
    build: Path = request.getfixturevalue(f"{how}_build")
    return build / f"{language}_{kind}"


def test_install_holds_what_it_should_and_nothing_else(prefix: Path) -> None:
    names = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    stripped = {re.sub(r"^lib/[^/]+-linux-gnu/", "lib/", name) for name in names}
    package = {name for name in stripped if name.startswith("lib/cmake/ars/")}
    assert {"lib/cmake/ars/ars-config.cmake", "lib/cmake/ars/ars-config-version.cmake"} <= package
    fortran = {
        "include/ars.mod",
        "lib/libars_fortran.a",
        "lib/pkgconfig/ars-fortran.pc",
        "share/ars/fortran/abandon.c",
        "share/ars/fortran/ars.f90",
    }
    assert stripped - package - (fortran if FORTRAN else set()) == {
        "include/ars.h",
        "include/ars.hpp",
        *(f"include/ars/{name}" for name in ("clhep.hpp", "flat.h", "gsl.h", "pyprob_cpp.hpp", "pythia8.hpp")),
        *(f"include/ars/{name}" for name in ("random.hpp", "reject.hpp")),
        "include/ars/compat/pyprob_cpp/pyprob_cpp.h",
        "include/ars/detail/pyprob_tensors.hpp",
        "lib/libars.a",
        "lib/libars.so",
        "lib/libars.so.0",
        f"lib/libars.so.{version()}",
        "lib/pkgconfig/ars-pyprob-cpp.pc",
        "lib/pkgconfig/ars.pc",
        "libexec/ars/ars-host",
    }


def version() -> str:
    text = (ROOT / "bridge" / "include" / "ars.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define ARS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def test_package_versions_agree(prefix: Path) -> None:
    pc = next(iter(prefix.glob("**/ars.pc")))
    assert run("pkg-config", "--modversion", "ars", PKG_CONFIG_PATH=str(pc.parent)).strip() == version()
    assert ars.__version__ == version()
    library = ctypes.CDLL(str(next(iter(prefix.glob("lib/**/libars.so")))))
    library.ars_version.restype = ctypes.c_char_p
    assert library.ars_version().decode() == version()


def test_libars_knows_where_ars_host_was_installed(prefix: Path) -> None:
    host = prefix / "libexec" / "ars" / "ars-host"
    assert os.access(host, os.X_OK)
    for library in (*prefix.glob("lib/**/libars.so"), *prefix.glob("lib/**/libars.a")):
        assert bytes(host) in library.read_bytes(), library


def test_an_installation_that_was_moved_finds_its_own_ars_host(prefix: Path, cmake_build: Path, tmp_path: Path) -> None:
    """And not the one that is still where it was installed."""
    moved = tmp_path / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    host = moved / "libexec" / "ars" / "ars-host"
    host.write_text("#!/bin/sh\necho this one\n")
    library = next(iter(moved.glob("lib/**/libars.so"))).parent
    variables = {"ARS_ENDPOINT": "tcp://127.0.0.1:1", "LD_LIBRARY_PATH": str(library)}
    assert run(cmake_build / "c_shared", **variables) == "this one\n"
    host.unlink()  # now the path that is compiled in counts: nobody listens there
    done = subprocess.run([cmake_build / "c_shared"], env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("ars-host: ")


def test_libars_needs_libc_and_libm_only(prefix: Path) -> None:
    library = next(iter(prefix.glob("lib/**/libars.so")))
    needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", library)))
    assert needed <= {"libc.so.6", "libm.so.6"}


def test_simulator_runs_alone(executable: Path) -> None:
    def radii(seed: int) -> list[str]:
        return run(executable, ARS_SEED=str(seed), ARS_TRACES="50").splitlines()

    first = radii(1)
    assert len(first) == 50
    assert all(0 < float(line.removeprefix("radius ")) < 1 for line in first)
    assert radii(1) == first
    assert radii(2) != first


def test_simulator_runs_under_the_controller(executable: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARS_HOST", str(prefix / "libexec" / "ars" / "ars-host"))
    with ars.Simulator([str(executable)], workers=2) as simulator:
        prior = simulator.prior(100, seed=1)
    radius = np.asarray(prior["radius"])
    assert radius.shape == (100,)
    np.testing.assert_allclose(radius, np.hypot(prior["x"], prior["y"]), rtol=1e-15)
    # The radius squared of a uniform point in the disk is Uniform(0, 1): mean 1/2, standard deviation 1/sqrt(12).
    assert abs(np.mean(radius**2) - 0.5) < 4 / np.sqrt(12 * 100)
    # The box's corners make up 1 - pi/4 of it: without the loop some radius would exceed 1 (odds 1 in 10^10).
    assert radius.max() < 1


@pytest.mark.skipif(not FORTRAN, reason="no gfortran: Debian's package gfortran has it")
@pytest.mark.parametrize("how", ["cmake", "pkgconfig"])
def test_a_fortran_program_finds_the_module(
    how: str, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = CONSUMER / "simulator.f90"
    if how == "cmake":
        options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DWITH_FORTRAN=ON"]
        run("cmake", "-S", CONSUMER, "-B", tmp_path, *generator(), *options)
        run("cmake", "--build", tmp_path, "--target", "f90_shared")
    else:
        path = str(next(iter(prefix.glob("**/ars-fortran.pc"))).parent)
        flags = run("pkg-config", "--cflags", "--libs", "ars-fortran", PKG_CONFIG_PATH=path).split()
        libdir = run("pkg-config", "--variable=libdir", "ars", PKG_CONFIG_PATH=path).strip()
        run("gfortran", "-O2", source, *flags, f"-Wl,-rpath,{libdir}", "-o", tmp_path / "f90_shared")
    monkeypatch.setenv("ARS_HOST", str(prefix / "libexec" / "ars" / "ars-host"))
    with ars.Simulator([str(tmp_path / "f90_shared")], workers=2) as simulator:
        prior = simulator.prior(100, seed=1)
    np.testing.assert_allclose(prior["radius"], np.hypot(prior["x"], prior["y"]), rtol=1e-15)
    assert np.max(prior["radius"]) < 1


@pytest.mark.skipif(not XTENSOR, reason="no xtensor: Debian's package libxtensor-dev has it")
@pytest.mark.parametrize("how", ["cmake", "pkgconfig"])
def test_a_source_for_pyprob_cpp_finds_its_header(
    how: str, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "cmake":
        options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DWITH_PYPROB=ON"]
        run("cmake", "-S", CONSUMER, "-B", tmp_path, *generator(), *options)
        run("cmake", "--build", tmp_path, "--target", "pyprob")
    else:
        path = str(next(iter(prefix.glob("**/ars-pyprob-cpp.pc"))).parent)
        flags = run("pkg-config", "--cflags", "--libs", "ars-pyprob-cpp", PKG_CONFIG_PATH=path).split()
        libdir = run("pkg-config", "--variable=libdir", "ars", PKG_CONFIG_PATH=path).strip()
        run("c++", "-std=c++14", CONSUMER / "model.cpp", *flags, f"-Wl,-rpath,{libdir}", "-o", tmp_path / "pyprob")
    monkeypatch.setenv("ARS_HOST", str(prefix / "libexec" / "ars" / "ars-host"))
    with ars.Simulator([str(tmp_path / "pyprob")], workers=2) as simulator:
        prior = simulator.prior(100, seed=1)
    assert np.array_equal(prior["result"], prior["mu"])
    assert prior.observations["y"].shape == (100, 2)
