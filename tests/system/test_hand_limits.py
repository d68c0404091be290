"""Proposals by hand in long traces, and their time limit: real simulators, functions that are slow or never return."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars
from ars.distributions import Distribution
from ars.proposers.hand_states import Drawn

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(tmp_path_factory.mktemp("hand"))
    (made,) = builder.programs([([HERE / "hand" / "draws.c"], Variant(COMPILERS[0], ("-O1",)))])
    return str(made)


@pytest.fixture
def start(program: str, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    def make(draws: int, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([program, str(draws)], **{"workers": 2, **options}))

    return make


def posterior(sim: ars.Simulator, x: Any, traces: int = 4, **options: Any) -> ars.Posterior:
    return sim.posterior({"y": 0.3}, traces, proposals={"x": x}, seed=1, **options)


# ---- long traces -----------------------------------------------------------------------------------------------------

LONG = """
import sys, ars
with ars.Simulator([sys.argv[1], "2000"], workers=2) as sim:
    post = sim.posterior({"y": 0.3}, 4, seed=1, proposals={"x": lambda t: ars.Normal(t["theta"] + 0.1, 1.1)})
print(len(post), post.stats["requests"])
"""


def test_two_thousand_draws_per_trace_take_seconds(program: str) -> None:
    """They took more than a minute, growing with the square; the limit here is for a machine that is busy."""
    run = subprocess.run([sys.executable, "-c", LONG, program], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    traces, requests = map(float, run.stdout.split())
    assert traces == 4
    assert requests >= 4 * 2000


def test_long_traces_have_the_values_that_were_asked_for(start: Callable[..., ars.Simulator]) -> None:
    """Each x is proposed around an earlier one; the recorded values say which."""
    seen: list[tuple[int, float, float]] = []

    def near_the_middle(t: Drawn) -> Distribution:
        if "x" not in t:
            return ars.Normal(t["theta"], 1.0)
        drawn = 1
        while (("x", drawn)) in t:
            drawn *= 2
        seen.append((drawn // 2, float(t["x", drawn // 2][0]), float(t["theta"][0])))
        return ars.Normal(0.5 * t["x", drawn // 2], 1.0)

    post = posterior(start(300, workers=1), near_the_middle, traces=1)
    assert len(seen) == 299
    for instance, value, theta in seen:
        assert post["x", instance][0] == value
        assert post["theta"][0] == theta


# ---- the limit -------------------------------------------------------------------------------------------------------

WHERE = r"the proposal for 'x' \(proposals\['x'\]\): "


SLOW = r"(.* of trace 0, more than|one call took longer than) trace_timeout=0.5 s"  # the latter if the machine stalls


def test_time_in_proposals_counts_against_the_limit_of_the_trace(start: Callable[..., ars.Simulator]) -> None:
    calls: list[int] = []

    def slow(t: Drawn) -> Distribution:
        calls.append(t.rows)
        time.sleep(0.05)
        return ars.Normal(t["theta"], 1.0)

    sim = start(500, workers=1, trace_timeout=0.5)
    with pytest.raises(ars.ProposalError, match=WHERE + SLOW) as error:
        posterior(sim, slow, traces=1)
    assert isinstance(error.value.partial, ars.Posterior)
    assert len(calls) <= 11
    assert sim.running
    assert len(posterior(sim, ars.Normal(0.0, 1.1), traces=2)) == 2  # the simulator is as good as before


def spin(_: Drawn) -> Distribution:
    while True:
        pass


def sleep(_: Drawn) -> Distribution:
    time.sleep(3600)
    raise AssertionError


@pytest.mark.timeout(120)
@pytest.mark.parametrize("hangs", [spin, sleep])
def test_a_call_that_never_returns_is_ended(
    hangs: Callable[[Drawn], Distribution], start: Callable[..., ars.Simulator]
) -> None:
    """After some traces that finished, which are kept."""
    asked: list[int] = []

    def later(t: Drawn) -> Distribution:
        asked.append(t.rows)
        return hangs(t) if len(asked) > 20 else ars.Normal(t["theta"], 1.0)

    sim = start(3, workers=1, trace_timeout=2)
    with pytest.raises(ars.ProposalError, match=WHERE + r"one call took longer than trace_timeout=2 s") as error:
        posterior(sim, later, traces=1000)
    partial = error.value.partial
    assert isinstance(partial, ars.Posterior)
    assert 1 <= len(partial) < 20
    assert len(posterior(sim, ars.Normal(0.0, 1.1), traces=2)) == 2


@pytest.mark.timeout(120)
def test_a_call_that_never_returns_is_ended_in_another_thread(start: Callable[..., ars.Simulator]) -> None:
    errors: list[BaseException] = []
    sim = start(3, workers=1, trace_timeout=2)

    def run() -> None:
        try:
            posterior(sim, spin)
        except ars.ProposalError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert "one call took longer than trace_timeout=2 s" in str(errors[0])


HANGING = """
import sys, time, ars
def hang(t):
    if ("x", 1) in t:
        print("hanging", flush=True)
        {how}
    return ars.Normal(t["theta"], 1.0)
with ars.Simulator([sys.argv[1], "3"], workers=1, trace_timeout=0) as sim:
    try:
        sim.posterior({{"y": 0.3}}, 4, seed=1, proposals={{"x": hang}})
    except ars.RunInterrupted as error:
        print("interrupted", type(error.partial).__name__, flush=True)
    print("running", sim.running)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["time.sleep(3600)", "while True: pass"])
def test_the_first_ctrl_c_ends_a_function_that_hangs(how: str, program: str) -> None:
    script = HANGING.format(how=how)
    with subprocess.Popen(
        [sys.executable, "-c", script, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "hanging\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert out.split("\n") == ["interrupted Posterior", "running True", ""]


def test_the_bits_do_not_depend_on_the_limit(start: Callable[..., ars.Simulator]) -> None:
    def propose(t: Drawn) -> Distribution:
        return ars.Normal(t["theta"] + (0.1 * t["x"] if "x" in t else 0.0), 1.1)

    with_limit = posterior(start(20), propose, traces=50)
    without = posterior(start(20, trace_timeout=0, workers=5), propose, traces=50)
    np.testing.assert_array_equal(with_limit.log_weights("ars"), without.log_weights("ars"))
