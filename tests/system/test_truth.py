"""`make truth` in small: real runs, checkpoints, the page; and that its tests find what they are to find."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests import exact

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def truth() -> ModuleType:
    spec = importlib.util.spec_from_file_location("truth", ROOT / "tools" / "truth.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["truth"] = module
    spec.loader.exec_module(module)
    return module


def test_the_exact_evidences_are_those_of_the_tests(truth: ModuleType) -> None:
    ours = {case.name: case.evidence for case in truth.cases()}
    assert ours["nested"] == pytest.approx(exact.nested(2.0).evidence, rel=1e-10)
    assert ours["marsaglia"] == pytest.approx(exact.marsaglia(0.5, 0.5).evidence, rel=1e-10)
    assert ours["beta_bernoulli"] == pytest.approx(exact.beta_bernoulli(5).evidence, rel=1e-10)
    assert ours["truncated_normal"] == pytest.approx(exact.truncated_normal("a").evidence, rel=1e-10)


def test_a_small_run_passes_biased_fails_and_checkpoints_are_used(
    truth: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulators = os.environ.get("ARS_CSIM_DIR", str(ROOT / "build" / "csim"))
    options = ["--simulators", simulators, "--out", str(tmp_path / "out"), "--publish", str(tmp_path / "page")]
    options += ["--runs", "30", "--traces", "60", "--shuffles", "499", "--only", "truncated_normal"]
    monkeypatch.setattr(truth, "CHUNK", 20)
    said: list[str] = []
    assert truth.main(options, said.append) == 0, "\n".join(said)
    assert "passes" in said[0]
    assert "fails" in said[0]
    found = json.loads((tmp_path / "page" / "truth.json").read_text())["cases"]["truncated_normal"]
    assert (found["ars"]["passes"], found["biased"]["passes"]) == (True, False)
    assert "| truncated_normal | biased |" in (tmp_path / "page" / "README.md").read_text()
    # Interrupted after the first chunk: only the second is run again, to the same bits.
    first, second = sorted((tmp_path / "out").iterdir())
    kept, again = second.read_bytes(), []
    second.unlink()
    run = truth._run
    monkeypatch.setattr(truth, "_run", lambda sim, case, i, n: again.append(i) or run(sim, case, i, n))
    assert truth.main(options, said.append) == 0
    assert again == list(range(20, 30))
    assert second.read_bytes() == kept
    first.write_bytes(b"")
    with pytest.raises(SystemExit, match="is damaged"):
        truth.main(options, said.append)


def weights(rng: np.random.Generator, runs: int, traces: int) -> np.ndarray:
    """Skewed and with zeros, of mean 1."""
    return rng.lognormal(-0.5, 1.0, (runs, traces)) * (rng.random((runs, traces)) < 0.7) / 0.7


def test_the_tests_pass_right_weights_and_find_wrong_ones(truth: ModuleType) -> None:
    rng = np.random.default_rng(5)
    right = weights(rng, 300, 100)
    assert truth.judge(right, 1.0, 499).passes
    # a bias of a tenth
    assert not truth.judge(1.1 * right, 1.0, 499).passes
    assert abs(truth.judge(1.1 * right, 1.0, 499).centre) > truth.CENTRE_LIMIT
    # traces of one run that share their fate: standard errors are too small, the mean is right
    together = right * rng.lognormal(-0.045, 0.3, (300, 1))
    assert truth.judge(together, 1.0, 499).p_spread < truth.SPREAD_LEVEL
    # standard errors that are too large: runs that are too much alike
    alike = np.sort(right.ravel()).reshape(100, 300).T.copy()
    assert truth.judge(alike, 1.0, 499).p_spread < truth.SPREAD_LEVEL
