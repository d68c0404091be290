"""The code of docs/budget.md runs as it stands there, and the page names what there is."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.system.build_helpers import Builder, Variant
from tests.system.test_readme import evidence

import ars
from ars.cli import bench, infer
from ars.failures import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/budget.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.compiler
@pytest.mark.filterwarnings("ignore::ars.FewTracesWarning")  # an error that is missed by a little
def test_the_code_of_the_page_gives_the_exact_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "decay.c"
    source.write_text(blocks((ROOT / "README.md").read_text(), "c")[0])
    (tmp_path / "decay").symlink_to(Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        exec(compile("\n".join(blocks(PAGE, "python")), "docs/budget.md", "exec"), names)
    finally:
        if "simulator" in names:
            names["simulator"].close()
    assert "traces:" in capsys.readouterr().out
    exact = evidence(1.2)
    for name in ("precise", "post", "whole", "paper", "own"):
        found = names[name].log_evidence("ars")
        assert abs(found.evidence - exact) < 3.5 * found.standard_error, name
    assert names["precise"].log_evidence("ars").relative_error < 0.03
    assert len(names["whole"]) == 4_000


def test_the_page_names_what_there_is() -> None:
    parsers = [argparse.ArgumentParser(), argparse.ArgumentParser()]
    infer.add_arguments(parsers[0])
    bench.add_arguments(parsers[1])
    options = {option for parser in parsers for option in parser._option_string_actions}
    [suites] = [action for action in parsers[1]._actions if isinstance(action, argparse._SubParsersAction)]
    options |= {option for parser in suites.choices.values() for option in parser._option_string_actions}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= options
    assert set(re.findall(r"ars bench ([a-z]+)", PAGE)) <= set(suites.choices)
    assert set(re.findall(r"ars\.([A-Z]\w+)", PAGE)) <= set(dir(ars))
    auto = set(inspect.signature(ars.Budget.auto).parameters)
    for call in re.findall(r"Budget\.auto\(([^()]*)", PAGE):
        assert set(re.findall(r"(\w+)=", call)) <= auto, call
    assert "too_many_tries" in KINDS and "`too_many_tries`" in PAGE
    for attribute in re.findall(r"`post\.(\w+)", PAGE):
        assert hasattr(ars.Posterior, attribute) or attribute in inspect.signature(ars.Posterior).parameters, attribute


def test_the_page_is_linked() -> None:
    for page in ("README.md", "docs/output.md", "docs/design.md"):
        assert "budget.md" in (ROOT / page).read_text(), page
