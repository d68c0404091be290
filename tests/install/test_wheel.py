"""After `pip install` of the wheel alone: compile a simulator, run it, infer; also where the package was moved to."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from tests.install.wheels import ROOT, Environment, installed, run
from tests.system.test_readme import block, evidence

CONSUMER = Path(__file__).parent / "consumer"
FORTRAN = shutil.which("gfortran")
XTENSOR = Path("/usr/include/xtensor/xarray.hpp").exists()
HOSTS_LIBRARY = "libzmq.so.5"

# The whole module shares one environment, and the first test pays for it.
pytestmark = [pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.compiler]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed(wheel, tmp_path_factory.mktemp("user") / "venv")


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    """A folder with the README's simulator."""
    (tmp_path / "decay.c").write_text(block("c"))
    printed = "found = post.log_evidence('ars')\nprint('FOUND', found.evidence, found.standard_error)\n"
    (tmp_path / "backwards.py").write_text(f"{block('python')}\n{printed}")
    return tmp_path


# ---- what is in it ---------------------------------------------------------------------------------------------------


def test_the_wheel_has_what_a_compiler_needs_and_no_executable_but_ars_host(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
        heads = {entry.filename: archive.read(entry)[:16] for entry in entries}
    names = set(heads)
    assert {
        "ars/include/ars.h",
        "ars/include/ars.hpp",
        *(f"ars/include/ars/{name}" for name in ("clhep.hpp", "flat.h", "gsl.h", "pyprob_cpp.hpp", "pythia8.hpp")),
        *(f"ars/include/ars/{name}" for name in ("random.hpp", "reject.hpp")),
        "ars/include/ars/compat/pyprob_cpp/pyprob_cpp.h",
        "ars/include/ars/detail/pyprob_tensors.hpp",
        "ars/examples/adapters/lifetime_gsl.c",
        "ars/examples/generators/ncrystal/crystal.c",
        "ars/lib/libars.a",
        "ars/lib/libars.so",
        "ars/lib/libars.so.0",
        "ars/lib/pkgconfig/ars.pc",
        "ars/lib/pkgconfig/ars-pyprob-cpp.pc",
        "ars/lib/cmake/ars/ars-config.cmake",
        "ars/lib/cmake/ars/ars-config-version.cmake",
        "ars/bin/ars-host",
        "ars/examples/README.md",
        "ars/examples/args.h",
    } <= names
    sources = {path.name for path in (ROOT / "csim").iterdir() if path.suffix in (".c", ".cpp")}
    assert sources == {Path(name).name for name in names if re.fullmatch(r"ars/examples/\w+\.(c|cpp)", name)}
    native = {name for name, head in heads.items() if head.startswith(b"\x7fELF")}
    assert {re.sub(r"\.cpython-.*", "", name) for name in native} == {
        "ars/_bridge",
        "ars/bin/ars-host",
        "ars/lib/libars.so",
        "ars/lib/libars.so.0",
    }


def test_no_path_of_the_machine_that_built_it_is_trusted(environment: Environment) -> None:
    """libars looks for ars-host at paths that it was built with. One in /tmp could be somebody else's by now."""
    for library in (environment.libars / "lib").glob("libars.*"):
        found = re.findall(rb"[\w/.-]*/ars-host\b", library.read_bytes())
        assert b"../bin/ars-host" in found
        assert not [path for path in found if path.startswith(b"/") and path != b"/ars-host"], library


# ---- install, compile, infer -----------------------------------------------------------------------------------------


def test_the_readme_after_pip_install_alone(environment: Environment, decay: Path) -> None:
    run(environment.ars, "compile", "decay.c", "-o", "decay", cwd=decay)
    assert run(decay / "decay", ARS_SEED="5").startswith("energy ")
    printed = run(environment.python, "backwards.py", cwd=decay)
    assert "energy after:" in printed
    found, error = map(float, printed.partition("FOUND ")[2].split())
    assert 0 < error < 0.1
    assert abs(found - evidence(1.2)) < 3 * error
    folders = {"get_include": "ars.h", "get_cmake_dir": "ars-config.cmake"}
    for name, file in folders.items():
        folder = run(environment.python, "-c", f"import ars; print(ars.{name}())").strip()
        assert Path(folder).is_relative_to(environment.libars) and (Path(folder) / file).is_file()


def test_the_compilers_own_command_line(environment: Environment, decay: Path) -> None:
    """As the README has it: cc decay.c $(ars config --cflags --libs) -o decay."""
    path = f"{environment.folder}/bin:/usr/bin:/bin"
    for flags in ("--cflags --libs", "--cflags --libs --static"):
        run("sh", "-c", f"cc -O2 decay.c $(ars config {flags}) -o decay", cwd=decay, PATH=path)
        assert run("./decay", cwd=decay, ARS_SEED="5").startswith("energy ")
        needs_libars = "libars.so.0" in run("objdump", "-p", decay / "decay")
        assert needs_libars == ("--static" not in flags)


def test_cmake_and_pkg_config(environment: Environment, tmp_path: Path) -> None:
    def config(name: str) -> str:
        return run(environment.ars, "config", f"--{name}").strip()

    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    path = {"PATH": os.environ["PATH"]}
    for number, option in enumerate(("-DCMAKE_PREFIX_PATH=", "-Dars_DIR=")):
        build = tmp_path / f"build{number}"
        found = run("cmake", "-S", CONSUMER, "-B", build, *generator, f"{option}{config('cmakedir')}", **path)
        assert "CMake Warning" not in found
    run("cmake", "--build", tmp_path / "build0", **path)
    pkg = {"PKG_CONFIG_PATH": config("pkgconfigdir"), **path}
    flags = run("pkg-config", "--cflags", "--libs", "ars", **pkg).split()
    run("c++", "-O2", CONSUMER / "simulator.cpp", *flags, "-lm", "-o", tmp_path / "build0" / "by_pkg_config")
    assert run("pkg-config", "--modversion", "ars", **pkg).strip() == config("version")
    first = None
    for name in ("c_shared", "c_static", "cpp_shared", "cpp_static", "by_pkg_config"):
        printed = run(tmp_path / "build0" / name, ARS_SEED="1", ARS_TRACES="20")
        assert len(printed.splitlines()) == 20
        first = first or printed
        assert printed == first
    code = f"import ars; print(len(ars.Simulator('{tmp_path}/build0/cpp_shared').prior(50, seed=1)))"
    assert run(environment.python, "-c", code).strip() == "50"


FORTRAN_PROJECT = """
cmake_minimum_required(VERSION 3.20)
project(simulator {languages})
add_subdirectory(one)
add_subdirectory(two)
"""
FORTRAN_FOLDER = """
find_package(ars REQUIRED)
add_executable({name} {source})
target_link_libraries({name} PRIVATE ars::fortran)
"""


@pytest.mark.skipif(not FORTRAN, reason="no gfortran: Debian's package gfortran has it")
def test_cmake_compiles_the_fortran_module(environment: Environment, tmp_path: Path) -> None:
    """The package has its sources; here two folders of one project use it."""
    path = {"PATH": os.environ["PATH"]}
    configure = ["cmake", "-S", tmp_path, "-B", tmp_path / "build"]
    configure += [f"-DCMAKE_PREFIX_PATH={run(environment.ars, 'config', '--cmakedir').strip()}"]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        listed = FORTRAN_FOLDER.format(name=name, source=CONSUMER / "simulator.f90")
        (tmp_path / name / "CMakeLists.txt").write_text(listed)
    (tmp_path / "CMakeLists.txt").write_text(FORTRAN_PROJECT.format(languages="Fortran"))
    assert "ars::fortran is missing because its module has a part in C" in run(*configure, code=1, **path)
    shutil.rmtree(tmp_path / "build")
    (tmp_path / "CMakeLists.txt").write_text(FORTRAN_PROJECT.format(languages="C Fortran"))
    assert "CMake Warning" not in run(*configure, **path)
    run("cmake", "--build", tmp_path / "build", **path)
    for name in ("one", "two"):
        executable = tmp_path / "build" / name / name
        code = f"import ars; print(*ars.Simulator('{executable}').prior(50, seed=1))"
        assert run(environment.python, "-c", code).split() == ["radius", "x", "y"]


@pytest.mark.skipif(not XTENSOR, reason="no xtensor: Debian's package libxtensor-dev has it")
def test_a_source_for_pyprob_cpp(environment: Environment, tmp_path: Path) -> None:
    """As docs/pyprob-cpp.md has it: ars compile -I$(ars config --pyprob-cpp) model.cpp -o model."""
    shutil.copy(CONSUMER / "model.cpp", tmp_path)
    folder = run(environment.ars, "config", "--pyprob-cpp").strip()
    run(environment.ars, "compile", f"-I{folder}", "model.cpp", "-o", "model", cwd=tmp_path)
    assert run(tmp_path / "model", ARS_SEED="1") == ""
    code = f"import ars; print(*ars.Simulator('{tmp_path}/model').prior(50, seed=1))"
    assert run(environment.python, "-c", code).split() == ["result", "mu"]


# ---- the examples ----------------------------------------------------------------------------------------------------


def test_the_demonstration_compiles_its_simulators(environment: Environment, tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    demo = [environment.ars, "demo", "--quick", "--out", tmp_path / "demo"]
    missing = run(*demo, code=1, PATH="/nowhere", **cache)
    assert "ars demo: there is no C compiler: cc, gcc and clang are not on the PATH. Install one" in missing
    run(*demo, **cache)
    made = {path.name: path for path in (tmp_path / "cache").glob("ars/examples/*/*")}
    assert set(made) == {"beta_bernoulli", "truncated_normal"}
    assert not list((tmp_path / "cache").rglob(".*"))  # nothing half done


# ---- moved, broken ---------------------------------------------------------------------------------------------------


def test_a_package_that_was_moved_finds_everything(environment: Environment, decay: Path, tmp_path: Path) -> None:
    """`pip install --target`, and a folder that is renamed afterwards; the program is compiled again there."""
    moved = tmp_path / "moved, and with a space"
    shutil.copytree(environment.libars, moved / "ars")
    for metadata in environment.packages.glob("libars-*.dist-info"):
        shutil.copytree(metadata, moved / metadata.name)
    python, path = environment.python, {"PYTHONPATH": str(moved)}
    run(python, "-m", "ars", "compile", "decay.c", cwd=decay, **path)
    assert str(moved / "ars" / "lib") in run("objdump", "-p", decay / "decay")
    assert run(python, "-m", "ars", "config", "--host", **path).strip() == str(moved / "ars" / "bin" / "ars-host")
    prior = "import ars; print(len(ars.Simulator('./decay').prior(50, seed=1)))"
    assert run(python, "-c", prior, cwd=decay, **path).strip() == "50"
    # The old program does not find its library any more, and the error says what to do.
    (moved / "ars").rename(tmp_path / "ars")
    told = run(python, "-c", prior, cwd=decay, code=1)
    assert "libars.so.0 is not where it was when the program was linked. Compile it again (ars compile)" in told


def test_a_machine_without_libzmq(environment: Environment, decay: Path, tmp_path: Path) -> None:
    """Simulated by an ars-host that asks for a library of another name, which nobody has."""
    host = (environment.libars / "bin" / "ars-host").read_bytes()
    assert host.count(HOSTS_LIBRARY.encode() + b"\0") == 1
    broken = tmp_path / "ars-host"
    broken.write_bytes(host.replace(HOSTS_LIBRARY.encode(), HOSTS_LIBRARY.replace("5", "X").encode()))
    broken.chmod(0o755)
    run(environment.ars, "compile", "decay.c", cwd=decay)
    code = "import ars\ntry:\n    ars.Simulator('./decay').prior(1)\nexcept ars.LaunchError as error:\n    print(error)"
    told = run(environment.python, "-c", code, cwd=decay, ARS_HOST=str(broken))
    assert f"ars-host ({broken}) cannot be loaded, because it needs libzmq.so.X. Install it (Debian and Ubuntu:" in told
    assert "apt-get install libzmq5" in told
