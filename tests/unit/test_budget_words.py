"""Budgets on the command line: every form is read, and what is written is read back."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ars.budget import AutoBudget, Budget, Costs
from ars.cli import _parser
from ars.cli.budget_words import add_auto, add_budget, budget_of, joined, parsed, words_of
from ars.cli.options import UsageError

INFER = ["infer", "./sim", "--observe", "y=0"]
FIXED = [Budget(), Budget(2, 5), Budget(M=1, R=0), Budget(M=3, R=2), Budget(M=1, N=10, reuse=True), None]


def _arguments(*words: str) -> argparse.Namespace:
    return _parser().parse_args([*INFER, *words])


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        (["1", "10"], Budget(1, 10)),
        (["M=1,N=10"], Budget(1, 10)),
        (["N=10, M=2"], Budget(2, 10)),
        (["M=20"], Budget(20)),
        (["M=1,R=2"], Budget(M=1, R=2)),
        (["R=0"], Budget(R=0)),
        (["M=1,N=10,reuse"], Budget(1, 10, reuse=True)),
        (["none"], None),
    ],
)
def test_forms(words: list[str], budget: Budget | None) -> None:
    assert budget_of(_arguments("--budget", *words)) == budget


@pytest.mark.parametrize("budget", FIXED)
def test_what_is_written_is_read_back(budget: Budget | None) -> None:
    assert budget_of(_arguments(*words_of(budget))) == budget


def test_the_papers_budget_is_written_as_it_always_was() -> None:
    assert words_of(Budget(2, 5)) == ("--budget", "2", "5")


@pytest.mark.parametrize("budget", [*FIXED, "auto"])
def test_the_simulator_may_follow(budget: Budget | str | None) -> None:
    """Its own numbers are not taken for those of the budget."""
    words = ("--budget", budget) if isinstance(budget, str) else words_of(budget)
    arguments = _parser().parse_args(["infer", *words, "7", "8", "--", "--budget", "1", "2"])
    assert arguments.command_line == ["7", "8", "--budget", "1", "2"]
    assert joined(["--budget", "1", "2", "3"]) == ["--budget", "1 2", "3"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a budget: use auto, 'M N'"),
        ("1", "is not a budget"),
        ("many", "is not a budget"),
        ("M=1,K=2", "is not a budget"),
        ("M=-1", "is not a budget"),
        ("M=1,reuse=yes", "is not a budget"),
        ("M=1,M=2", "M more than once"),
        ("M=0", "Budget: M must be at least 1, not 0"),
        ("M=1,N=3,R=2", "R"),
    ],
)
def test_what_is_no_budget_is_refused(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        _arguments("--budget", text)
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert "argument --budget" in err and said in err


def test_auto_is_the_default_and_takes_its_options(tmp_path: Path) -> None:
    assert isinstance(budget_of(_arguments()), AutoBudget)
    assert budget_of(_arguments("--budget", "auto")) == parsed("auto") == Budget.auto()
    costs = Costs(fork=1234.0)
    costs.save(tmp_path / "costs.json")
    given = ["--error", "0.01", "--seconds", "60", "--error-of", "x", "--phases", "2"]
    found = budget_of(_arguments(*given, "--costs", str(tmp_path / "costs.json")))
    assert found == Budget.auto(error=0.01, seconds=60.0, of="x", phases=2, costs=costs)


@pytest.mark.parametrize(
    "option", [["--error", "0.1"], ["--seconds", "1"], ["--error-of", "x"], ["--phases", "1"], ["--costs", "none.json"]]
)
def test_options_of_auto_go_with_auto(option: list[str]) -> None:
    with pytest.raises(UsageError, match=rf"{option[0]} goes with --budget auto, not with --budget M=1,R=2"):
        budget_of(_arguments("--budget", "M=1,R=2", *option))


def test_options_of_auto_that_make_no_sense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"--error-of goes with --error"):
        budget_of(_arguments("--error-of", "x"))
    wrong = tmp_path / "costs.json"
    wrong.write_text("{")
    for path in (wrong, tmp_path / "absent.json"):
        with pytest.raises(UsageError, match=rf"--costs .*{path.name}"):
            budget_of(_arguments("--costs", str(path)))
    with pytest.raises(UsageError, match="error must be between 0 and 1"):
        budget_of(_arguments("--error", "2"))
    for words in (["--error", "0"], ["--error", "much"], ["--seconds", "-1"], ["--phases", "3"]):
        with pytest.raises(SystemExit):
            _arguments(*words)
        assert f"argument {words[0]}" in capsys.readouterr().err


def test_help_names_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_budget(parser, "default: auto")
    add_auto(parser)
    parser.print_help()
    said = " ".join(capsys.readouterr().out.split())
    for word in ("auto", "M N", "M=1,R=2", "M=1,N=10,reuse", "none", "--error", "--seconds", "--error-of", "--phases"):
        assert word in said
