"""The evidence after refinement where it is known: a quick form of tools/refined_evidence.py, which runs every model.

test_refinement.py has 20 seeds of two others, with the mutant that reports its training traces."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.system import test_abandoned

import ars
from ars.config import NetworkConfig

pytest.importorskip("torch")
from ars.network.refine import run as refine_run

TOOL = Path(__file__).resolve().parents[2] / "tools" / "refined_evidence.py"
TINY = NetworkConfig(
    lstm_dim=16, observe_dim=8, observe_hidden=16, site_dim=8, value_dim=8, category_dim=4, head_hidden=16, components=4
)
SEEDS = 3
NAMES = ["marsaglia-0", "beta_bernoulli-b-5", "recursive-3", "branching"]  # one of each kind; the tool runs them all


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refined_evidence", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["refined_evidence"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_is_right_after_refinement(
    name: str, tool: ModuleType, csim: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = tool.models()[name]
    monkeypatch.setattr(refine_run, "ADAPT_NETWORK", TINY)
    config = tool.HASTY
    with ars.Simulator([csim(case.command[0]), *case.command[1:]], workers=2) as simulator:
        found = tool.measure(case, simulator, SEEDS, traces=600, config=config)
    assert abs(found.own) < 4
    assert found.off <= 1


def test_every_model_is_known(tool: ModuleType) -> None:
    """The tool runs whatever exact.py has; those that are tested here must be among them. So are all simulators of
    csim/ but mini_sherpa, whose evidence is not exact, capped_fortran, which has the bits of capped, and benchmarks."""
    known = tool.models()
    assert set(NAMES) < set(known)
    sources = {file.stem for pattern in ("*.c", "*.cpp") for file in (TOOL.parents[1] / "csim").glob(pattern)}
    assert {model.command[0] for model in known.values()} == sources - {"mini_sherpa", "bench_loop", "bench_draws"}
    assert known["capped-4"].observed == {"y": test_abandoned.Y}
    assert known["capped-4"].evidence == pytest.approx(test_abandoned.truth(4).evidence, rel=1e-6)


@pytest.mark.parametrize(("reported", "code"), [("fresh", 0), ("training", 1)])
def test_a_refinement_that_reports_its_training_traces_is_found(
    reported: str,
    code: int,
    tool: ModuleType,
    csim: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the evidences of 20 seeds that the tool has noted."""
    del csim  # built
    exact = tool.models()["nested"].evidence
    rng, notes = np.random.default_rng(1), tool.Notes(tmp_path / "runs.jsonl")
    for seed in range(20):
        fresh, training = (
            exact * rng.normal(1.0, 0.04),
            exact * rng.normal(0.8, 0.15),
        )  # training traces see less
        found = fresh if reported == "fresh" else training
        notes.add("nested", seed, 1000, tool.Run(found, 0.04 * exact, training, True))
    assert tool.main(["--only", "nested", "--notes", str(tmp_path / "runs.jsonl")]) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith("| nested | 20 | ")
