"""The simulators of generators, for the tests of both: fetched and built once for all workers of pytest."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ars_lab.generators.fetch import Kitchen, Unavailable
from ars_lab.generators.spec import Built

ROOT = Path(__file__).resolve().parents[2]
MADE = Path(os.environ.get("ARS_GENERATORS_DIR", ROOT / "build-generators"))
PATIENCE = 150.0  # seconds for a download: a package index that never answers does not have the package


def built_once(
    generator: str, build: Callable[[Kitchen], Built], factory: pytest.TempPathFactory
) -> tuple[Kitchen, Built]:
    """Builds in a folder that all workers share. Skips, with the reason, if a package cannot be had.

    Packages come from `make generators` if it has been run, otherwise from the package index.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"generator-{generator}"
    folder.mkdir(exist_ok=True)
    unavailable = folder / "unavailable"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if unavailable.exists():  # another worker has waited for it
            pytest.skip(unavailable.read_text())
        fetched = MADE / generator / "packages"
        if fetched.is_dir() and not (folder / "packages").exists():
            (folder / "packages").symlink_to(fetched)
        kitchen = Kitchen(folder, patience=PATIENCE)
        try:
            return kitchen, build(kitchen)
        except Unavailable as error:
            unavailable.write_text(f"{generator} cannot be had: {error}")
            pytest.skip(unavailable.read_text())
