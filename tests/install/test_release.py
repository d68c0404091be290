"""What `make release` does to a wheel: libzmq comes along, with its licence, and the system's copy is not needed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.install.wheels import ROOT, Environment, installed, run

sys.path.insert(0, str(ROOT / "tools"))
import release

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.compiler]


@pytest.fixture(scope="module")
def vendored(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.vendor(wheel, tmp_path_factory.mktemp("vendored"))


@pytest.fixture(scope="module")
def mounts() -> None:
    """Hiding files takes a mount namespace, which some containers do not grant."""
    asked = subprocess.run(release.hidden([], "true"), capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        pytest.skip(f"no mount namespaces here: {asked.stderr.strip()}")


def test_the_libraries_come_along_with_their_licences(vendored: Path) -> None:
    with zipfile.ZipFile(vendored) as archive:
        names = archive.namelist()
        licences = [name for name in names if "/licenses/bundled/" in name]
        texts = [archive.read(name).decode() for name in licences]
    assert any(name.startswith("libars.libs/libzmq-") for name in names)
    assert any(name.startswith("libars.libs/libsodium-") for name in names)
    assert any("/libzmq" in name for name in licences), licences
    assert all("Copyright" in text or "copyright" in text for text in texts)
    assert "manylinux" in vendored.name
    assert vendored.stat().st_size < release.LARGEST


@pytest.mark.usefixtures("mounts")
def test_it_works_where_the_systems_libraries_cannot_be_found(wheel: Path, vendored: Path, tmp_path: Path) -> None:
    libraries = release.originals(vendored)
    assert any(path.name.startswith("libzmq.so") for path in libraries)
    plain, whole = installed(wheel, tmp_path / "plain"), installed(vendored, tmp_path / "whole")

    def attempt(environment: Environment, code: int) -> str:
        return run(*release.hidden(libraries, environment.python, release.TRY), cwd=tmp_path, code=code)

    assert "libzmq.so.5" in attempt(plain, code=1)  # they are hidden indeed
    assert "s.e. away" in attempt(whole, code=0)


def test_every_python_of_the_classifiers_gets_a_wheel() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    prefix = "Programming Language :: Python :: 3."
    promised = [
        "3." + line.removeprefix(prefix) for line in config["project"]["classifiers"] if line.startswith(prefix)
    ]
    assert promised == list(release.VERSIONS)
    built = config["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in release.VERSIONS]
    assert config["tool"]["cibuildwheel"]["test-command"].endswith("tools/try_wheel.py")
    assert config["project"]["requires-python"] == f">={release.VERSIONS[0]}"
    assert release.find_pythons()["{}.{}".format(*sys.version_info)] == Path(sys.executable)
