"""The command that a failure advises, and the options of ``ars replay``."""

from __future__ import annotations

import argparse
import shlex

import numpy as np

from ars._native import RunFlag
from ars.cli import _parser, infer, options, replay
from ars.failures import Failure
from ars.runtime.limits import Limits
from ars.runtime.replay_advice import Replay, limit_options, observe_options, replay_of
from ars.runtime.setup import Setup
from ars.wire import Listed, RunConfig, Wanted

FAILURE = Failure(12, "crash", 6, "it crashed", seed=2**64 - 1)

# Options of ars infer that leave every draw, and every failure, of a trace as it is.
_NO_MATTER = {
    "--workers",  # as many as it takes
    "--traces",
    "--first-trace",
    "--on-failure",
    "--out",
    "--report",
    "--predict",
    "--resume",
    "--max-restarts",
    "--listen",
    "--simulators",
    "--key",
    "--wait",
    "--insecure-loopback",
    "--dask",  # and where it runs
    "--tls-ca",
    "--tls-cert",
    "--tls-key",
    "--quiet",
    "--json",
    "--require-ess",
    "--require-k",
    "--error",  # these plan a budget; the advice has the budget that came of them
    "--error-of",
    "--seconds",
    "--phases",
    "--costs",
    "--check-data",  # looks at the data only
    "--refine",  # these make the network that the advice names
    "--refine-rounds",
    "--refine-traces",
    "--refine-steps",
    "--refined-out",
    "--adapt",
}


def _options(add: object) -> set[str]:
    parser = argparse.ArgumentParser(add_help=False)
    add(parser)  # type: ignore[operator]
    return {option for action in parser._actions for option in action.option_strings}


def test_every_option_that_shapes_a_run_can_be_given_to_replay() -> None:
    assert _options(replay.add_arguments) - {"--trace", "--wait", "--debugger", "--json"} == (
        _options(infer.add_arguments) - _NO_MATTER
    )


def test_all_limits_are_in_the_command() -> None:
    limits = Limits(0.0, 1.5, 99, 7, 50, 0)
    command = Replay(True, ["./a simulator", "-x", "--seed"], limits, ("--observe", "y=0.5")).advice(FAILURE)
    arguments = _parser().parse_args(shlex.split(command)[1:])
    assert (arguments.seed, arguments.trace, arguments.observe) == (2**64 - 1, 12, [("y", 0.5)])
    assert arguments.command_line == ["./a simulator", "-x", "--seed"]
    assert Limits(**options.limits(arguments)) == limits
    assert limit_options(Limits()) == ()


def test_data_that_fit_a_command_line() -> None:
    data = {"y": np.array(-1 / 3), "many": np.array([1e300, 2.0, 5e-324])}
    words = observe_options(data)
    assert words is not None
    arguments = _parser().parse_args(["replay", "./sim", "--seed", "1", "--trace", "0", *words])
    assert arguments.observe == [("y", -1 / 3), ("many", [1e300, 2.0, 5e-324])]
    assert observe_options({"y": np.array([0.5, np.nan])}) == ("--observe", "y=0.5,nan")
    for name, array in {
        "a=b": np.zeros(1),
        "image": np.zeros((2, 2)),
        "long": np.zeros(33),
        "none": np.zeros(0),
    }.items():
        assert observe_options({name: array}) is None


def test_without_a_command_line_a_call_of_python_is_advised() -> None:
    which = f"first_trace=12, seed={2**64 - 1}"
    assert Replay(False, ["./sim"], Limits(), None).advice(FAILURE) == f"sim.prior(1, {which})"
    said = Replay(True, ["./sim"], Limits(), None).advice(FAILURE)
    assert said == f"sim.posterior(..., traces=1, {which}), with the same data, proposals and budget"


def test_a_network_of_a_refinement_is_nowhere_else() -> None:
    config = RunConfig(seed=1, n_traces=1, flags=RunFlag.POSTERIOR, observed={"y": np.array(0.5)})
    said = replay_of(Setup(("./sim",)), config, None, asks=True, unsaved=True).advice(FAILURE)
    assert said.startswith("not possible, because the network")
    said = replay_of(Setup(("./sim",)), config, None, asks=False, unsaved=True).advice(FAILURE)  # the prior proposes
    assert shlex.split(said)[-3:] == ["--observe", "y=0.5", "./sim"]


def test_a_trace_of_the_second_phase_is_run_again_with_the_budget_that_it_had() -> None:
    """A run of one trace would plan another budget, and might not have the continuation that failed."""
    config = RunConfig(
        seed=1,
        n_traces=1,
        flags=RunFlag.POSTERIOR | RunFlag.ESTIMATE,
        first_trace=12,
        wanted=Wanted(runs_p=3, accepted_q=1),
        budgets={"loop": Wanted(runs_p=2, accepted_q=5), "exact": Wanted()},
        listed=Listed.of(np.array([12], np.uint64)),
    )
    said = replay_of(Setup(("./sim",)), config, None, asks=True).advice(FAILURE)
    assert "budget=ars.Budget(M=3, R=5)), with the same data and proposals" in said
