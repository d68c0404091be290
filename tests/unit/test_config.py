"""Options in groups: TrainingConfig, NetworkConfig and Limits have the defaults and the checks, and nobody else has."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ars
from ars._native import LIMITS
from ars.cli import infer, train
from ars.config import chosen, setting_of

_GROUPS = (ars.TrainingConfig, ars.NetworkConfig, ars.Limits)


def _options(add: Callable[[argparse.ArgumentParser], None]) -> tuple[argparse.ArgumentParser, str]:
    parser = argparse.ArgumentParser()
    add(parser)
    return parser, " ".join(parser.format_help().split())


# ---- the groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", _GROUPS)
def test_every_field_is_documented_with_its_default(group: type) -> None:
    text = inspect.getdoc(group) or ""
    section = text.split("Parameters\n----------\n")[1].split("\n\n")[0]
    said = {
        match[1]: " ".join(match[2].split()) for match in re.finditer(r"^(\w+) : .+\n((?:    .+\n?)+)", section, re.M)
    }
    assert list(said) == [field.name for field in dataclasses.fields(group)]
    for field in dataclasses.fields(group):
        shown = f'"{field.default}"' if isinstance(field.default, str) else field.default
        if group is ars.Limits:
            shown = LIMITS[field.name].default
            assert f"(default: {'None, ' if field.default is None else ''}{shown}" in said[field.name]
            continue
        shown = f"{shown:,}" if isinstance(shown, int) else shown
        assert f"(default: {shown}" in said[field.name]


@pytest.mark.parametrize("group", [ars.TrainingConfig, ars.NetworkConfig])
def test_the_page_on_training_has_the_defaults(group: type) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/training.md").read_text()
    table = page.split(f"| `{group.__name__}` | default |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.M)
    shown = {int: "{:,}", str: '"{}"', float: "{}", type(None): "random"}
    assert rows == [
        (field.name, shown[type(field.default)].format(field.default)) for field in dataclasses.fields(group)
    ]


@pytest.mark.parametrize("group", _GROUPS)
def test_they_are_frozen(group: type) -> None:
    config = group()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(group)[0].name, 1)


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: ars.TrainingConfig(batch_size=0), ValueError, "batch_size must be from 1 to 1048576, not 0"),
        (lambda: ars.TrainingConfig(traces="many"), TypeError, "traces must be an integer, not 'many'"),  # type: ignore[arg-type]
        (lambda: ars.TrainingConfig(lr=math.inf), ValueError, "lr must be a positive number, not inf"),
        (lambda: ars.TrainingConfig(clip=True), TypeError, "clip must be a number, not True"),
        (lambda: ars.TrainingConfig(warmup=1.5), ValueError, r"warmup must be from 0 to 1, not 1\.5"),
        (lambda: ars.TrainingConfig(warmup=math.nan), ValueError, "warmup must be from 0 to 1, not nan"),
        (lambda: ars.TrainingConfig(seed=-1), ValueError, "seed must be from 0"),
        (lambda: ars.NetworkConfig(components=64), ValueError, "components must be from 1 to 63, not 64"),
        (lambda: ars.NetworkConfig(defensive=0.6), ValueError, r"defensive must be from 1e-06 to 0\.5, not 0\.6"),
        (lambda: ars.Limits(try_timeout=-1), ValueError, "try_timeout must be a finite, non-negative number, not -1"),
        (lambda: ars.Limits(startup_timeout=0), ValueError, "startup_timeout must be a finite, positive number, not 0"),
        (lambda: ars.Limits(max_restarts=1.5), TypeError, r"max_restarts must be an integer, not 1\.5"),  # type: ignore[arg-type]
    ],
)
def test_an_error_names_the_field(make: Callable[[], object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_limits_of_a_trace_are_those_that_its_outcome_may_depend_on() -> None:
    limits = ars.Limits(max_restarts=7, startup_timeout=3)
    assert limits.of_a_trace() == ars.Limits().of_a_trace()
    assert set(dataclasses.asdict(limits)) - set(limits.of_a_trace()) == {"max_restarts", "startup_timeout"}


# ---- Simulator and train build them ----------------------------------------------------------------------------------


def test_a_simulator_takes_limits_together_or_one_by_one() -> None:
    every = {"trace_timeout": 1.5, "try_timeout": 2.5, "max_tries": 3, "max_snapshots": 4, "max_processes": 5}
    every |= {"max_memory": 6, "max_restarts": 7, "startup_timeout": 8.5}
    assert set(every) == {field.name for field in dataclasses.fields(ars.Limits)}
    together = ars.Simulator("./simulator", limits=ars.Limits(**every)).limits  # type: ignore[arg-type]
    assert together == ars.Simulator("./simulator", **every).limits == ars.Limits(**every)  # type: ignore[arg-type]
    some = ars.Simulator("./simulator", limits=ars.Limits(max_tries=9, max_memory=1), max_tries=3).limits
    assert some == ars.Limits(max_tries=3, max_memory=1)
    with pytest.raises(TypeError, match=r"limits must be an ars\.Limits, not 60"):
        ars.Simulator("./simulator", limits=60)  # type: ignore[arg-type]


def test_workers_can_be_changed_before_the_start() -> None:
    sim = ars.Simulator("./simulator", trace_timeout=3)
    sim.workers = 5
    assert (sim.workers, sim.limits.trace_timeout, repr(sim)) == (
        5,
        3.0,
        "<Simulator ./simulator, workers=5, not running>",
    )
    with pytest.raises(ValueError, match="workers must be from 1 to 256, not 0"):
        sim.workers = 0


def _trained_with(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tuple[ars.TrainingConfig, ars.NetworkConfig]:
    """The settings that reach the training."""
    fit = pytest.importorskip("ars.network.train.fit")
    seen: list[Any] = []
    monkeypatch.setattr(fit, "train_simulator", lambda _, config, network, **__: seen.extend([config, network]))
    ars.Simulator("./simulator").train(**arguments)
    return seen[0], seen[1]


def test_train_takes_settings_together_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _trained_with(monkeypatch) == (ars.TrainingConfig(), ars.NetworkConfig())
    settings = {"traces": 10, "batch_size": 2, "lr": 0.5, "seed": 3, "held_out": 4, "patience": 5, "train_on": "all"}
    sizes = {"lstm_dim": 8, "lstm_depth": 2, "components": 3}
    config, network = ars.TrainingConfig(**settings, max_rejected=6), ars.NetworkConfig(**sizes)  # type: ignore[arg-type]
    assert _trained_with(monkeypatch, config=config, network=network) == (config, network)
    assert _trained_with(monkeypatch, **settings, **sizes, max_rejected=6) == (config, network)
    both = _trained_with(monkeypatch, config=config, network=network, traces=20, lstm_dim=16)
    assert both == (dataclasses.replace(config, traces=20), dataclasses.replace(network, lstm_dim=16))


def test_sizes_by_name_replace_those_of_the_network_and_arguments_replace_both(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {"site_dim": 4, "lstm_dim": 32}
    _, network = _trained_with(monkeypatch, network=ars.NetworkConfig(site_dim=8, value_dim=9), architecture=by_name)
    assert network == ars.NetworkConfig(site_dim=4, value_dim=9, lstm_dim=32)
    _, network = _trained_with(monkeypatch, architecture=by_name, lstm_dim=64)
    assert network == ars.NetworkConfig(site_dim=4, lstm_dim=64)
    with pytest.raises(ValueError, match="NetworkConfig has no colour; it has lstm_dim, "):
        _trained_with(monkeypatch, architecture={"colour": 1})
    with pytest.raises(TypeError, match=r"network must be an ars\.NetworkConfig, not 512"):
        _trained_with(monkeypatch, network=512)
    with pytest.raises(TypeError, match=r"config must be an ars\.TrainingConfig, not 512"):
        chosen(ars.TrainingConfig, "config", 512, {})  # type: ignore[type-var]


# ---- the command line reads them -------------------------------------------------------------------------------------


def test_ars_train_has_no_defaults_of_its_own() -> None:
    parser, shown = _options(train.add_arguments)
    nothing = vars(parser.parse_args(["./simulator"]))
    for group in (ars.TrainingConfig, ars.NetworkConfig):
        for field in dataclasses.fields(group):
            if field.name not in nothing or field.name == "seed":
                continue
            assert nothing[field.name] is None
            meaning, default = setting_of(group, field.name)[0].meaning, field.default
            text = f"{default:,}" if isinstance(default, int) else default
            assert f"{meaning} (default: {text})" in shown
    assert {"traces", "batch_size", "lr", "held_out", "patience", "train_on", "max_rejected"} <= set(nothing)


@pytest.mark.parametrize(("option", "says"), [("--batch-size=0", "0 is less than 1"), ("--lr=0", "not a positive")])
def test_ars_train_has_the_ranges_of_the_groups(option: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser, _ = _options(train.add_arguments)
    with pytest.raises(SystemExit):
        parser.parse_args(["./simulator", option])
    assert says in capsys.readouterr().err


def test_ars_infer_has_the_defaults_of_posterior() -> None:
    _, shown = _options(infer.add_arguments)
    parameters = inspect.signature(ars.Simulator.posterior).parameters
    assert f"proposals inside loops (default: {parameters['in_loops'].default})" in shown
    assert f"for traces that fail (default: {parameters['on_failure'].default})" in shown
    assert f"default: {parameters['budget'].default}" in shown
