"""The code of the tutorials runs as it stands there, with fewer traces where a network is trained."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.system.build_helpers import Builder, Variant

import ars
from ars.errors import ArsWarning

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_torch_thread"), pytest.mark.timeout(300)]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(page: str, change: Callable[[str], str] = str) -> dict[str, object]:
    """The names that the page's Python blocks leave behind."""
    code = change("\n".join(blocks((TUTORIALS / page).read_text(), "python")))
    names: dict[str, object] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ArsWarning)  # of few traces, which is what some blocks show
            exec(compile(code, f"docs/tutorials/{page}", "exec"), names)
    finally:
        if isinstance(names.get("simulator"), ars.Simulator):
            names["simulator"].close()  # type: ignore[attr-defined]
    return names


def not_printed(page: str, said: str) -> list[str]:
    """Lines of output that the page shows and that were not printed in this order."""
    left = iter(said.splitlines())
    shown = [line for block in blocks(page, "text") for line in block.splitlines() if line.strip() not in ("", "...")]
    return [line for line in shown if not any(line == other for other in left)]


@pytest.mark.compiler
def test_the_first_posterior(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (TUTORIALS / "first-posterior.md").read_text()
    (tmp_path / "decay.c").write_text(blocks(page, "c")[0])
    (tmp_path / "decay").symlink_to(
        Builder(tmp_path / "built").program([tmp_path / "decay.c"], Variant("gcc", ("-O2",)))
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARS_SEED", "1")
    said = subprocess.run("./decay", stdout=subprocess.PIPE, text=True, check=True).stdout
    monkeypatch.delenv("ARS_SEED")
    [check] = re.findall(r"^    ars (check .*)$", page, re.MULTILINE)
    said += subprocess.run(
        [sys.executable, "-m", "ars", *check.split()], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    names = run("first-posterior.md")
    said += capsys.readouterr().out
    assert not_printed(page, said) == []
    rare, better = names["rare"], names["better"]
    assert isinstance(rare, ars.Posterior) and isinstance(better, ars.Posterior)
    report = (tmp_path / "report.html").read_text()
    assert "predictive" in report.lower() and 'src="' not in report
    far = abs(rare.mean("energy") - better.mean("energy"))
    assert far < 4 * np.hypot(rare.mean_error("energy"), better.mean_error("energy")), "both proposals, one answer"
    assert better.ess() > 3 * rare.ess(), "the better proposals are better"


def test_output_that_was_not_printed_is_found() -> None:
    page = "```text\none\n...\nthree\n```\n```text\nfour\n```"
    assert not_printed(page, "one\ntwo\nthree\nfour\n") == []
    assert not_printed(page, "one\nthree\ntwo\n4\n") == ["four"]
    assert not_printed(page, "three\none\nfour\n") == ["three", "four"]


def test_the_simulator_of_the_first_posterior_is_that_of_the_readme() -> None:
    pages = [(TUTORIALS / "first-posterior.md").read_text(), (ROOT / "README.md").read_text()]
    assert blocks(pages[0], "c")[0] == blocks(pages[1], "c")[0]


def test_the_epidemic(csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sir").symlink_to(csim("sir"))
    monkeypatch.chdir(tmp_path)

    def fewer(code: str) -> str:
        small = "adapt=ars.RefineConfig(rounds=1, traces=200, most=1, steps=5)"
        assert "adapt=True" in code
        return code.replace("adapt=True", small).replace("4_000", "400")

    names = run("epidemic.md", fewer)
    assert np.shape(names["by_day"]) == (10, 3)


def test_the_image(csim: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mini_sherpa").symlink_to(csim("mini_sherpa"))
    monkeypatch.chdir(tmp_path)
    names = run("image.md", lambda code: code.replace("100_000", "300").replace("1_000", "100"))
    assert isinstance(names["post"], ars.Posterior) and (tmp_path / "mini_sherpa.safetensors").exists()


@pytest.mark.parametrize(("page", "simulator"), [("epidemic.md", "sir.c"), ("image.md", "mini_sherpa.c")])
def test_the_excerpts_are_those_of_the_simulator(page: str, simulator: str) -> None:
    source = " ".join((ROOT / "csim" / simulator).read_text().split())
    for block in blocks((TUTORIALS / page).read_text(), "c"):
        assert " ".join(block.split()) in source
