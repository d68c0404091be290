"""``ars reproduce`` in its smallest form, from the command line to the folder that it leaves."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ars.cli import main
from ars.reproduce.beta import METHODS

pytest.importorskip("matplotlib")
LIMIT = 4.0


def reproduce(csim: Callable[[str], str], output: Path, *arguments: str) -> int:
    simulators = str(Path(csim("marsaglia")).parent)
    return main(["reproduce", *arguments, "--tiny", "--output", str(output), "--simulators", simulators])


def table(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "table.json").read_text())
    with (folder / "table.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    return rows


def figures(folder: Path) -> set[str]:
    """The names of the figures, each of which is there as PNG and as PDF, and shown on the page."""
    page = (folder / "README.md").read_text()
    names = {path.stem for path in folder.glob("*.png")}
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert f"({name}.png)" in page
    return names


def test_beta(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(csim, tmp_path, "beta") == 0
    out, err = capsys.readouterr()
    assert "12 stages run, 0 kept" in out
    assert "Beta-Bernoulli 4/4" in err and "600/600 traces" in err
    folder = tmp_path / "beta"
    assert figures(folder) == {"k_converge"}
    rows = table(folder)
    assert len(rows) == 2 * 2 * len(METHODS)
    for row in rows:
        assert row["exact_s_pq"] == "inf" and row["naive_variance_infinite"] is not False
        if row["method"] != "ic":
            assert abs(row["evidence"] - row["exact_evidence"]) < LIMIT * row["evidence_error"]
        if row["setting"] == "b" and row["method"] != "ic":  # in a the weights' fourth moment is infinite
            assert abs(row["ess"] - row["exact_ess"]) < LIMIT * row["ess_error"]
    # without the correction, the same test fails
    for row in rows:
        if row["method"] == "collapsed":
            uncorrected = row["evidence"] * row["p_accept"] / row["q_accept"]
            assert abs(uncorrected - row["exact_evidence"]) > LIMIT * row["evidence_error"]
    before = {path: path.read_bytes() for path in folder.rglob("table.*")}
    # done already: nothing is run again, and all is the same
    assert reproduce(csim, tmp_path, "beta") == 0
    assert "0 stages run" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before
    # interrupted: what is missing is run again, with the same result
    for path in folder.glob("stages/beta-b-10*"):
        path.unlink()
    assert reproduce(csim, tmp_path, "beta") == 0
    assert "3 stages run, 3 kept" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before


def test_without_matplotlib_it_says_so_at_once(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert reproduce(csim, tmp_path, "beta") == 1
    assert "pip install 'libars[plots]'" in capsys.readouterr().err


def test_without_simulators_it_says_where_it_looked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "beta", "--tiny", "--output", str(tmp_path), "--simulators", str(tmp_path)]) == 1
    assert "give --simulators the folder" in capsys.readouterr().err
