"""``ars reproduce`` in its smallest form, from the command line to the folder that it leaves."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ars.cli import main
from ars_lab.reproduce import methods
from ars_lab.reproduce.beta import METHODS
from ars_lab.reproduce.records import unpack

pytest.importorskip("matplotlib")
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]  # minutes where others work
LIMIT = 4.0


def reproduce(csim: Callable[[str], str], output: Path, *arguments: str) -> int:
    simulators = str(Path(csim("marsaglia")).parent)
    return main(["reproduce", *arguments, "--tiny", "--out", str(output), "--simulators", simulators])


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
    published = tmp_path / "published"
    assert reproduce(csim, tmp_path, "beta", "--publish", str(published)) == 0
    assert figures(published / "beta") == {"k_converge"} and table(published / "beta") == rows
    assert not (published / "beta" / "stages").exists()
    page = (folder / "README.md").read_text()
    assert "| `beta-a` | 2 |" in page and "| `beta-b-prior` | 2 |" in page
    assert "0 stages run" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before
    # interrupted: what is missing is run again, with the same result
    for path in folder.glob("stages/beta-b-10*"):
        path.unlink()
    assert reproduce(csim, tmp_path, "beta") == 0
    assert "3 stages run, 9 kept" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before


def test_marsaglia(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert reproduce(csim, tmp_path, "marsaglia") == 0
    assert "training marsaglia" in capsys.readouterr().err
    folder = tmp_path / "marsaglia"
    assert figures(folder) == {"convergence"}
    rows = table(folder)
    assert [row["method"] for row in rows[:6]] == ["ic", "ars-1", "ars-2", "ars-10", "biased", "collapsed"]
    for row in rows:
        if row["method"] not in ("ic", "biased"):
            assert abs(row["bias"]) < LIMIT * row["bias_error"]
    biased = [row for row in rows if row["method"] == "biased"]
    assert max(abs(row["bias_in_errors"]) for row in biased) > LIMIT  # of two: tiny runs see it in one at least
    # the weightings without estimates have runs of their own; from the same run they are the same
    with np.load(folder / "stages" / "marsaglia-a-naive-000.npz") as kept:
        assert len(kept["ic"]) == len(kept["biased"]) == 400
    with np.load(folder / "stages" / "marsaglia-a-000.npz") as kept:
        record = unpack(dict(kept))
    known = methods.Acceptances(0.8, 0.9)
    both = methods.log_weights(record, known)
    for method, found in methods.Naive.of(record).log_weights(known).items():
        np.testing.assert_allclose(found, both[method], rtol=1e-12, atol=1e-12)
    schemes = json.loads((folder / "training_schemes.json").read_text())
    by_scheme = {(row["train_on"], row["observation"]): row for row in schemes}
    assert len(by_scheme) == 4
    # trained on rejected draws too, the proposal goes where the loop rejects
    assert by_scheme["all", "marsaglia-b-all"]["q_accept"] < by_scheme["accepted", "marsaglia-b"]["q_accept"] - 0.02
    before = (folder / "table.json").read_bytes()
    (folder / "stages" / "marsaglia-b-001.npz").unlink()
    assert reproduce(csim, tmp_path, "marsaglia") == 0
    assert "1 stages run" in capsys.readouterr().out
    assert json.loads((folder / "table.json").read_text()) == json.loads(before)


def test_mini_sherpa(csim: Callable[[str], str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert reproduce(csim, tmp_path, "mini-sherpa") == 0
    folder = tmp_path / "mini-sherpa"
    assert figures(folder) == {"convergence", "events", "posterior"}
    rows = table(folder)
    assert [row["experiment"] for row in rows[::5]] == ["mini-sherpa-1", "mini-sherpa-2", "mini-sherpa-3"]
    # channel 1 is easy: two computations of the evidence that share no code agree
    (easy,) = (row for row in rows[:5] if row["method"] == "ars-10")
    assert abs(easy["bias"]) < LIMIT * easy["bias_error"] < 1.0


def test_without_matplotlib_it_says_so_at_once(
    csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert reproduce(csim, tmp_path, "beta") == 1
    assert "pip install 'libars[plots]'" in capsys.readouterr().err


def test_without_simulators_it_says_where_it_looked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "beta", "--tiny", "--out", str(tmp_path), "--simulators", str(tmp_path)]) == 1
    assert "give --simulators the folder" in capsys.readouterr().err
