"""``ars check``: every broken promise is found and named, and nothing is found in a simulator that keeps them all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars
from ars.cli import main

pytestmark = pytest.mark.compiler

SOURCE = Path(__file__).resolve().parent / "checks" / "programs.c"
CSIM = Path(os.environ.get("ARS_CSIM_DIR", Path(__file__).resolve().parents[2] / "build" / "csim"))
PROMISES = ("completes", "replays", "tries", "effects", "marked")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(Builder(tmp_path_factory.mktemp("checks")).program([SOURCE], Variant(COMPILERS[0], ("-O2", "-g"))))


def checked(*command: str, traces: int = 1000, seed: int = 1) -> ars.CheckReport:
    with ars.Simulator(command, workers=4) as simulator:
        return simulator.check(traces, seed)


def test_a_simulator_that_keeps_its_promises(program: str) -> None:
    report = checked(program, "marked")
    assert report.ok and not report.problems
    assert {promise: report.verdict(promise) for promise in PROMISES} == dict.fromkeys(PROMISES, "kept")


@pytest.mark.parametrize("name", ["marsaglia", "nested", "mini_sherpa", "recursive", "capped", "sir"])
def test_no_false_alarm(name: str) -> None:
    assert checked(str(CSIM / name), traces=500).problems == ()


@pytest.mark.parametrize(
    ("kind", "promise", "verdict", "words"),
    [
        ("unmarked", "marked", "suspect", '"u", "v" (in model#1>polar#1 and model#1>polar#2) are drawn 1 to'),
        ("twice", "marked", "suspect", "are drawn 2 to"),
        ("hasty", "marked", "suspect", 'the marked loop "hasty" around it was accepted at its first try every time'),
        ("impatient", "tries", "broken", "later tries are accepted more often"),
        ("tired", "tries", "broken", "later tries are accepted less often"),
        ("widening", "tries", "broken", "not geometric"),
        ("own", "tries", "broken", "a generator outside libars"),
        ("talkative", "effects", "suspect", "write"),
        ("forgetful", "replays", "broken", "when rerun by a single process in a different order"),
        ("failing", "completes", "broken", "SIGABRT"),
    ],
)
@pytest.mark.filterwarnings("ignore::ars.ArsWarning")
def test_a_broken_promise_is_named(program: str, kind: str, promise: str, verdict: str, words: str) -> None:
    report = checked(program, kind)
    assert report.verdict(promise) == verdict
    assert any(words in finding.text for finding in report.problems if finding.promise == promise), str(report)
    others = {each.promise for each in report.problems} - {promise}
    assert not others, str(report)


@pytest.mark.parametrize("kind", ["arrivals", "particles"])
def test_a_number_of_rounds_that_varies_is_no_rejection_loop(program: str, kind: str) -> None:
    assert checked(program, kind).verdict("marked") == "kept"


def test_the_first_draw_of_a_try_shows_that_tries_differ(program: str) -> None:
    report = checked(program, "widening", traces=200)
    assert any("begin differently" in each.text and '"widening/x"' in each.text for each in report.problems)


def test_the_same_seed_gives_the_same_report(program: str) -> None:
    assert checked(program, "impatient", traces=200) == checked(program, "impatient", traces=200)


# ---- the command line ------------------------------------------------------------------------------------------------


def test_the_command_prints_a_report_and_exits_with_3(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--traces", "500", "--seed", "1", "--workers", "4", program, "unmarked"]) == 3
    shown = capsys.readouterr().out
    assert "? rejection loops are marked: suspect" in shown and "rs_start" in shown
    assert max(map(len, shown.splitlines())) <= 100 + len(program)


def test_json(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--traces", "200", "--seed", "1", "--workers", "4", "--json", program, "marked"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] and document["promises"] == dict.fromkeys(PROMISES, "kept")


def test_too_few_traces_are_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--traces", "99", program]) == 2
    assert "at least 100" in capsys.readouterr().err


# ---- which latents the data depend on --------------------------------------------------------------------------------


def influences(name: str) -> dict[str, bool | None]:
    with ars.Simulator([str(CSIM / name)], workers=4) as simulator:
        return {address: each.matters for address, each in simulator._influences(1).items()}


def test_the_height_of_a_rejection_loop_does_not_matter_and_an_angle_does() -> None:
    """Mini-SHERPA's phi is uncorrelated with the data; "a" decides over acceptance alone."""
    found = influences("mini_sherpa")
    assert found.pop("mini_sherpa.c:theta_loop#0/a") is False
    assert set(found.values()) == {True} and "phi" in found


def test_a_latent_may_matter_through_others() -> None:
    """The rates of an epidemic change no likelihood if the infections stay as they are."""
    assert set(influences("sir").values()) == {True}


def test_inspect_shows_what_the_data_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--traces", "100", "--seed", "1", "--workers", "4", str(CSIM / "mini_sherpa")]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split()[0]: line.split()[-1] for line in lines if "UNIFORM" in line}
    assert shown["mini_sherpa.c:theta_loop#0/a"] == "no" and shown["phi"] == "yes"


def test_inspect_proposes_a_policy_for_draws_without_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = Builder(tmp_path).program([SOURCE.with_name("unnamed.c")], Variant(COMPILERS[0], ("-O2", "-g")))
    assert main(["inspect", "--traces", "100", "--seed", "1", "--workers", "4", str(built)]) == 0
    shown = capsys.readouterr().out
    assert "  --nuisance noise  (2 draws)\n" in shown
    assert shown.count("--nuisance") == 1
    assert re.search(r"model#1>decay#1:Normal +NORMAL .* yes\n", shown)
    assert main(["inspect", "--traces", "100", "--seed", "1", "--workers", "4", "--nuisance", "noise", str(built)]) == 0
    assert "noise#" not in capsys.readouterr().out


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_program_of_the_guide_is_found_out(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "annotating.md").read_text()
    [code] = re.findall(r"```c\n(.*?)```", page, flags=re.DOTALL)
    source = tmp_path / "gauss.c"
    source.write_text(code)
    gauss = Builder(tmp_path / "built").program([source], Variant(COMPILERS[0], ("-O2", "-g")))
    report = checked(str(gauss), traces=2000)
    [finding] = report.problems
    shown = '"u", "v" (in model#1>gauss#1 and model#1>gauss#2) are drawn 1 to 7 times in a row, 1.29 on'
    assert finding.promise == "marked" and finding.text.startswith(shown)
    assert shown in " ".join(page.split())
