"""One table has every default and limit (bridge/common/limits_table.h): C, Python, --help and the docs follow it."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import ars
from ars import cli
from ars._native import LIMITS
from ars.cli.options import add_limits, add_seed, add_workers, limits
from ars.runtime.limits import Limits
from ars.wire import RunConfig

ROOT = Path(__file__).resolve().parents[2]

_OPTIONS = [name for name in Limits.__dataclass_fields__ if name != "startup_timeout"]  # of the command line


def _parser(*adds: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    for add in adds:
        add(parser)
    return parser


def test_the_numbers_have_not_changed() -> None:
    assert {name: limit.default for name, limit in LIMITS.items()} == {
        "trace_timeout": "60 s",
        "try_timeout": "no limit",
        "max_tries": "10,000,000",
        "max_snapshots": "256",
        "max_processes": "4,096",
        "max_memory": "half of RAM",
        "max_restarts": "3",
        "startup_timeout": "60 s",
        "listen_timeout": "600 s",
        "workers": "0",  # follows from the number of cores
        "workers_per_core": "8",
        "asking_per_core": "32",
    }
    assert (LIMITS["workers"].most, LIMITS["max_snapshots"].most) == (256, 1024)
    assert Limits() == Limits(60.0, 0.0, 10_000_000, None, 4096, None)


def test_python_has_the_defaults_of_the_table() -> None:
    parameters = inspect.signature(ars.Simulator).parameters
    for name in Limits.__dataclass_fields__:
        assert parameters[name].default is None  # not given: that of Limits
        if (default := getattr(Limits, name)) is not None:  # None: found out when the simulator starts
            assert default == LIMITS[name].standard
    assert ars.Simulator("./simulator").limits == Limits()
    for name in ("trace_timeout", "try_timeout", "max_tries"):
        assert RunConfig._field_defaults[name] == LIMITS[name].standard
    text = " ".join((ars.Simulator.__doc__ or "").split())
    for name in ("workers_per_core", "asking_per_core"):
        assert f"{LIMITS[name].default} per core" in text


@pytest.mark.parametrize("name", [name for name in _OPTIONS if LIMITS[name].unit == ""])
def test_bounds_are_those_of_the_table(name: str) -> None:
    limit, option = LIMITS[name], f"--{name.replace('_', '-')}"
    parser = _parser(add_limits)
    for good in (limit.least, limit.most):
        assert limits(parser.parse_args([option, str(good)])) == {name: good}
    for bad in (limit.least - 1, limit.most + 1):
        with pytest.raises(SystemExit):
            parser.parse_args([f"{option}={bad}"])
        with pytest.raises(ValueError, match=f"{name} must be from {limit.least} to {limit.most}, not {bad}"):
            ars.Simulator("./simulator", **{name: bad})


def test_help_is_made_of_the_table() -> None:
    text = " ".join(_parser(add_limits, add_workers).format_help().split())
    for name in _OPTIONS:
        assert f"{LIMITS[name].meaning} (default: {LIMITS[name].default})" in text
    assert "(default: 8 per core, 32 per core if traces request proposals)" in text


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_one_range_of_seeds(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):  # argparse leaves so; ars compile, whose options are the compiler's, returns
        assert cli.main([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "usage: ars" in shown
    assert ("--seed" in shown) == ("0 to 2**64 - 1; the same seed gives the same result (" in shown)


def test_seeds_out_of_range_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    parser = _parser(add_seed)
    assert parser.parse_args(["--seed", str(2**64 - 1)]).seed == 2**64 - 1
    for bad in ("-1", str(2**64)):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--seed={bad}"])
        assert f"argument --seed: {bad} is " in capsys.readouterr().err


def test_the_docs_have_the_defaults_of_the_table() -> None:
    text = (ROOT / "docs/reliability.md").read_text().split("\n## Limits\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.M))
    assert set(rows) == {*_OPTIONS, "startup_timeout"}
    for name, said in rows.items():
        assert re.match(rf"{re.escape(LIMITS[name].default)}\b", said), f"{name}: {said}, not {LIMITS[name].default}"
    listening = (ROOT / "docs/reliability.md").read_text()
    assert f"(`--wait`, {LIMITS['listen_timeout'].default};" in listening
    design = " ".join((ROOT / "docs/design.md").read_text().split())
    per_core, asking = LIMITS["workers_per_core"].default, LIMITS["asking_per_core"].default
    assert f"many workers, {asking} per core, whereas {per_core} are enough without requests" in design
