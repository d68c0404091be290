"""The wheel of this tree and fresh environments for it, for the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path | None = None, code: int = 0, **environment: str) -> str:
    """Runs a command as a user would who has nothing of ours in the environment. Shows its output if it fails."""
    session = os.environ["ARS_TEST_SESSION"]
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "ARS_TEST_SESSION": session, **environment}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    if done.returncode != code:
        pytest.fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}", pytrace=False)
    return done.stdout


class Environment(NamedTuple):
    """A virtual environment with the wheel."""

    folder: Path
    packages: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def ars(self) -> Path:
        return self.folder / "bin" / "ars"

    @property
    def libars(self) -> Path:
        return self.packages / "ars"


def installed(wheel: Path, folder: Path) -> Environment:
    """A fresh one. What libars depends on comes from the environment that runs the tests: nothing is downloaded."""
    venv.create(folder)  # without pip: ours installs there
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    [packages] = folder.glob("lib/python*/site-packages")
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *filter(os.path.isdir, _site_packages())}
    (packages / "others.pth").write_text("\n".join(sorted(ours)) + "\n")
    return Environment(folder, packages)


def _site_packages() -> Iterator[str]:
    yield from (path for path in sys.path if path.endswith("site-packages"))
