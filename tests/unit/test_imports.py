"""What ``import ars`` brings along, and what each extra is for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ars.extras import EXTRAS, needed

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "IPython",
    "argcomplete",
    "arviz",
    "dask",
    "distributed",
    "h5py",
    "jinja2",
    "matplotlib",
    "pandas",
    "rich",
    "safetensors",
    "scipy",
    "torch",
    "xarray",
)
CORE = {"cffi", "numpy", "pyzmq", "rich"}


def loaded_after(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after this."""
    ask = f"{code}\nimport sys\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert loaded_after("import ars") == set()


def test_plots_need_no_import_of_their_own() -> None:
    assert "matplotlib" not in loaded_after("import ars; ars.plots.plot_posterior")


def test_help_is_light() -> None:
    """The parser imports every command's module."""
    assert loaded_after("from ars.cli import _parser; _parser()") == set()


def test_the_core_depends_on_four_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {line.partition(">")[0] for line in project["dependencies"]} == CORE


def test_every_extra_that_is_named_brings_its_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for package, extra in EXTRAS.items():
        listed = " ".join(project["optional-dependencies"][extra]).lower()
        other = "h5netcdf" if package == "netCDF4" else package  # either reads the files
        assert other.lower().replace("_", "-") in listed, f"{extra} does not bring {package}"


def test_what_is_missing_is_named_with_the_command() -> None:
    with (
        pytest.raises(ImportError, match=r"ars\.thing needs torch: pip install 'libars\[network\]'"),
        needed("ars.thing"),
    ):
        raise ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    with pytest.raises(ModuleNotFoundError, match="of our own"), needed("ars.thing"):
        raise ModuleNotFoundError("of our own", name="ars.gone")
