"""The code of docs/when-k-is-too-large.md runs as it stands there, and the page names what there is."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.system.build_helpers import Builder, Variant

import ars
from ars.cli import infer
from ars.results import advice

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / advice.PAGE).read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.compiler
@pytest.mark.slow
@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.filterwarnings("ignore::ars.RefinementWarning")  # of rounds with a hundredth of the traces
def test_the_code_of_the_page_says_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "decay.c"
    source.write_text(blocks((ROOT / "README.md").read_text(), "c")[0])
    (tmp_path / "decay").symlink_to(Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(PAGE, "python"))
    fewer = re.sub(r"\d+_000\b", lambda number: str(max(int(number[0]) // 100, 100)), code)
    assert "_000" not in fewer != code
    fewer = fewer.replace("rounds=3, traces=100, steps=100)", "rounds=1, traces=100, steps=10)")
    assert "steps=10)" in fewer
    names: dict[str, Any] = {}
    try:
        exec(compile(fewer, advice.PAGE, "exec"), names)
    finally:
        if "simulator" in names:
            names["simulator"].close()
    out = " ".join(capsys.readouterr().out.split())
    assert "About 210 traces are enough for 100 effective ones" in out
    assert "traces | " in out and "--traces 210" in out
    assert "The data are like the 1,000 prior draws" in out and "unlike" in out and "signal = 15" in out
    assert names["check"].alarm and [each.label for each in names["check"].stands_out] == ["signal"]
    assert "Pareto-smoothed" in out and "not corrected by weights: biased" in out
    assert names["refined"].run.refined and names["adapted"].ess() > 10 and names["chains"].mean("energy") > 0.0
    assert names["draws"]["energy"].tobytes() == names["post"]["energy"].tobytes()


def test_the_page_names_what_there_is() -> None:
    """Kinds of advice, options and classes that the page and the advice mention."""
    source = inspect.getsource(advice)
    kinds = set(re.findall(r'_step\(\s*"([a-z ]+)"', source))
    assert len(kinds) >= 12
    for kind in kinds:
        assert f"`{kind}`" in PAGE, kind
    documented = set(re.findall(r'"([a-z ]+)"', inspect.getdoc(advice.Advice) or ""))
    assert documented == kinds
    parser = argparse.ArgumentParser()
    infer.add_arguments(parser)
    options = set(parser._option_string_actions)
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= options
    advised = set(re.findall(r'"(--[a-z][a-z-]+)', source)) | {"--refine-rounds", "--refine-traces"}
    assert advised <= options, "the command line can take every step that it is given"
    assert set(re.findall(r"ars\.([A-Z]\w+)", PAGE)) <= set(dir(ars))


def test_the_page_can_be_found() -> None:
    for page in ("README.md", "docs/output.md", "docs/reliability.md", "docs/budget.md", "docs/training.md"):
        assert "when-k-is-too-large.md" in (ROOT / page).read_text(), page
