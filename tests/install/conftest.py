"""One wheel for all tests of this folder."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest
from tests.install.wheels import ROOT, run


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, from the objects that `make install` left in build/wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-build-isolation", "--no-deps"]
    with (ROOT / "pyproject.toml").open() as lock:  # other workers of pytest may want it at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(*pip, "--wheel-dir", folder, ROOT, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    [made] = folder.glob("libars-*.whl")
    return made
