"""The packages of generators, for the tests of both: those that `make generators` has fetched, or fresh ones."""

from __future__ import annotations

import os
from pathlib import Path

from ars_lab.generators.fetch import Kitchen

ROOT = Path(__file__).resolve().parents[2]
MADE = Path(os.environ.get("ARS_GENERATORS_DIR", ROOT / "build-generators"))


def kitchen_of(generator: str, folder: Path) -> Kitchen:
    """Builds in this folder. Packages come from `make generators`, or from the package index when they are needed."""
    packages = MADE / generator / "packages"
    if packages.is_dir():
        (folder / "packages").symlink_to(packages)
    return Kitchen(folder)
