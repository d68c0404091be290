"""The code of docs/refinement.md runs as it stands there, but with fewer traces; its tables name what there is."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path

import pytest
from tests.system.build_helpers import Builder, Variant

import ars
from ars.cli import infer

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/refinement.md").read_text()
SMALL = "ars.RefineConfig(rounds=1, traces=100, steps=10, most=1)"


@pytest.mark.slow
@pytest.mark.compiler
@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.filterwarnings("ignore::ars.RefinementWarning")  # so few traces seldom make a network better
def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "decay.c"
    source.write_text(re.findall(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[0])
    (tmp_path / "decay").symlink_to(Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))
    fewer = re.sub(r"\d+_000\b", lambda number: str(max(int(number[0]) // 100, 100)), code)
    fewer = (
        fewer.replace("refine=True", f"refine={SMALL}").replace("steps=100", "steps=10").replace("rounds=4", "rounds=1")
    )
    assert "_000" not in fewer != code
    names: dict[str, object] = {}
    try:
        exec(compile(fewer, "docs/refinement.md", "exec"), names)
    finally:
        if "simulator" in names:
            names["simulator"].close()  # type: ignore[attr-defined]
    said = capsys.readouterr()
    assert "effective traces" in said.out and "the start: ESS/N" in said.err
    refined = names["refined"]
    assert isinstance(refined, ars.Network) and refined.refinement is not None
    assert (tmp_path / "refined.safetensors").exists()


def test_the_page_has_every_setting_with_its_default() -> None:
    [table] = re.findall(r"\| `RefineConfig` \|.*?\n\n", PAGE, flags=re.DOTALL)
    for field in dataclasses.fields(ars.RefineConfig):
        row = next(line for line in table.splitlines() if f"`{field.name}`" in line)
        names = re.findall(r"`(\w+)`", row.split("|")[1])
        if field.name != "seed":
            default = row.split("|")[2].replace(",000", "000").split(",")[names.index(field.name)]
            assert float(default) == field.default, field.name


def test_the_page_names_options_that_there_are() -> None:
    parser = argparse.ArgumentParser()
    infer.add_arguments(parser)
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= set(parser._option_string_actions)
