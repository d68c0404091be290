"""Arguments and options that have other names now: the old ones are refused with the new ones named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import ars
from ars.cli import main


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda sim: sim.prior(n=3), "prior: n= is now called traces="),
        (lambda sim: sim.train(3, checkpoint="net"), "train: checkpoint= is now called out="),
        (lambda sim: sim.record(3, directory="traces"), "record: directory= is now called out="),
    ],
)
def test_arguments(call: Callable[[ars.Simulator], object], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(ars.Simulator("true"))


@pytest.mark.parametrize("command", [["demo"], ["reproduce", "beta"]], ids=" ".join)
def test_options(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*command, "--output", "somewhere"])
    assert caught.value.code == 2
    assert "--output is now called --out" in capsys.readouterr().err
