"""The script of docs/scaling.md measures and draws, in its quick form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs the extra cluster")
pytest.importorskip("matplotlib")
pytest.importorskip("torch")
from ars_lab.scaling.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_the_quick_form_measures_every_boundary(tmp_path: Path) -> None:
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "scaling.json").read_text())
    measured = found["measured"]
    assert all(rate > 0 for rate in measured["rates"].values()) and len(measured["rates"]) == 7
    bounds = measured["boundaries"]
    plain, asked = (
        bounds["host to controller, ZeroMQ, prior"],
        bounds["host to controller, ZeroMQ, proposals asked for"],
    )
    assert plain["bytes"] > 8 and asked["messages"] > plain["messages"] > 0  # every trace holds at least a double
    assert bounds["training, all_reduce, per step"]["bytes"] == 4 * measured["parameters"]
    assert (tmp_path / "scaling.png").stat().st_size > 10_000
    assert main(["--quick", "--out", str(tmp_path / "again"), "--costs", str(tmp_path / "scaling.json")]) == 0
    assert json.loads((tmp_path / "again/scaling.json").read_text()) == found
