"""The README's simulator and its Python code run as they stand there."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from tests.system.build_helpers import Builder, Variant

pytestmark = pytest.mark.compiler

ROOT = Path(__file__).resolve().parents[2]


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(found) == 1, f"README.md should have one {language} block, has {len(found)}"
    return str(found[0])


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    """A directory with the README's simulator, source and executable."""
    source = tmp_path / "decay.c"
    source.write_text(block("c"))
    program = Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",)))
    (tmp_path / "decay").symlink_to(program)
    return tmp_path


def evidence(signal: float) -> float:
    def given_energy(energy: float) -> float:
        edge = 0.5 * energy
        inside = stats.norm.cdf(edge) - stats.norm.cdf(-edge)

        def density(angle: float) -> float:
            return float(stats.norm.pdf(angle) * stats.norm.pdf(signal, energy * math.cos(angle), 0.3))

        return float(integrate.quad(density, -edge, edge, limit=200)[0]) / inside

    total = integrate.quad(lambda e: stats.gamma.pdf(e, 4, scale=0.5) * given_energy(e), 1e-9, 15, limit=200)
    return float(total[0])


def test_the_simulator_runs_alone(decay: Path) -> None:
    env = {**os.environ, "ARS_SEED": "5"}
    first = subprocess.run(["./decay"], cwd=decay, env=env, capture_output=True, text=True, check=True).stdout
    again = subprocess.run(["./decay"], cwd=decay, env=env, capture_output=True, text=True, check=True).stdout
    assert first == again and first.startswith("energy ")


def test_the_python_code_gives_the_exact_evidence(decay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(decay)
    printed = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(compile(block("python"), "README.md", "exec"), names)
    assert "energy after:" in printed.getvalue()
    post = names["post"]
    exact = evidence(1.2)
    found = post.log_evidence("ars")  # type: ignore[attr-defined]
    assert abs(found.evidence - exact) < 3 * found.standard_error
    wrong = post.log_evidence("biased")  # type: ignore[attr-defined]
    assert abs(wrong.evidence - exact) > 4 * wrong.standard_error
    assert np.isfinite(post["energy"]).all()  # type: ignore[index]
