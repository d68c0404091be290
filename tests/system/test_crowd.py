"""Several simulators that come to one controller: the bits of one, whoever leaves, and strangers are named."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from same_traces import assert_same

import ars
from ars.errors import ArsError, LaunchError
from ars.runtime.launch import find_host

pytestmark = pytest.mark.timeout(360)

DATA = {"y": 0.7}
PROPOSALS: dict[str, Any] = {"b": lambda t: ars.Normal(0.4 * t["a"], 1.1)}


class Elsewhere:
    """Starts simulators as somebody else would. They lead process groups, so that all of one can be killed."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.address = ""

    def start(self, *command: str) -> None:
        env = {**os.environ, "ARS_ENDPOINT": self.address, "ARS_HOST": find_host(os.environ), "ARS_WORKERS": "1"}
        env["ARS_INSECURE_LOOPBACK"] = "1"
        quiet = {"stderr": subprocess.DEVNULL, "start_new_session": True}
        self.processes.append(subprocess.Popen(command, env=env, **quiet))

    def kill(self, which: int) -> None:
        os.killpg(self.processes[which].pid, signal.SIGKILL)

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
            process.wait(60)


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    made = Elsewhere()
    yield made
    made.end()


@pytest.fixture
def listen(elsewhere: Elsewhere, started: Callable[[Any], Any]) -> Callable[..., ars.Simulator]:
    """listen(["sim"], ["sim"]): a controller to which these come."""

    def make(*commands: list[str], **options: Any) -> ars.Simulator:
        def come(address: str, _: object) -> None:
            elsewhere.address = address
            for command in commands:
                elsewhere.start(*command)

        asked = {"simulators": len(commands), "insecure_loopback": True, "announce": come, **options}
        return started(ars.Simulator.listen("tcp://127.0.0.1:*", **asked))  # type: ignore[no-any-return]

    return make


def test_three_simulators_give_the_bits_of_one(
    csim: Callable[[str], str], listen: Callable[..., ars.Simulator], elsewhere: Elsewhere, tmp_path: Path
) -> None:
    """The prior; proposals by hand with a plan in two phases; and a run that another controller resumes."""
    nested = [csim("nested")]
    with ars.Simulator(nested, workers=2) as here:
        prior = here.prior(300, seed=1)
        by_hand = here.posterior(DATA, 300, proposals=PROPOSALS, seed=2)
    sim = listen(nested, nested, nested)
    assert_same(sim.prior(300, seed=1), prior)
    assert_same(sim.posterior(DATA, 300, proposals=PROPOSALS, seed=2), by_hand)
    sim.posterior(DATA, 100, proposals=PROPOSALS, seed=2, budget=by_hand.budget, resume=tmp_path / "run")
    sim.close()
    assert all(process.wait(60) == 0 for process in elsewhere.processes)  # all were told to go
    resumed = listen(nested, nested).posterior(
        DATA, 300, proposals=PROPOSALS, seed=2, budget=by_hand.budget, resume=tmp_path / "run"
    )
    assert resumed.stats["traces_resumed"] >= 100
    assert_same(resumed, by_hand)


def test_a_network_proposes_for_all(csim: Callable[[str], str], listen: Callable[..., ars.Simulator]) -> None:
    pytest.importorskip("torch")
    nested = [csim("nested")]
    options: dict[str, Any] = {"budget": ars.Budget(M=1, R=1), "seed": 3}
    with ars.Simulator(nested, workers=2) as here:
        network = here.train(200, lstm_dim=8, batch_size=50, held_out=20, seed=1, threads=1)
        one = here.posterior(DATA, 100, network, **options)
    assert_same(listen(nested, nested).posterior(DATA, 100, network, **options), one)


class Killer:
    """Kills one simulator once some traces have come, and lets another one come later."""

    def __init__(self, elsewhere: Elsewhere, replacement: list[str], which: int = 0) -> None:
        self._elsewhere, self._replacement, self._which = elsewhere, replacement, which
        self.killed = False

    def update(self, done: int, total: int) -> None:
        if not self.killed and 0 < done < total:
            self.killed = True
            self._elsewhere.kill(self._which)
            if self._replacement:
                self._elsewhere.start(*self._replacement)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("replaced", [False, True])
def test_the_traces_of_one_that_leaves_are_run_by_others(
    csim: Callable[[str], str], listen: Callable[..., ars.Simulator], elsewhere: Elsewhere, replaced: bool
) -> None:
    nested = [csim("nested")]
    with ars.Simulator(nested, workers=2) as here:
        one = here.prior(20_000, seed=1)
    sim = listen(nested, nested)
    killer = Killer(elsewhere, nested if replaced else [])
    several = sim.prior(20_000, seed=1, progress=killer)
    assert killer.killed
    assert_same(several, one)
    again = sim.prior(200, seed=1)  # goes on with whoever is there
    assert again["a"].tobytes() == one["a"][:200].tobytes()


def test_the_policy_for_lost_simulators_holds(
    csim: Callable[[str], str], listen: Callable[..., ars.Simulator], elsewhere: Elsewhere
) -> None:
    sim = listen([csim("nested")], [csim("nested")], max_restarts=0)
    elsewhere.kill(1)
    elsewhere.processes[1].wait(60)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(sim._processes._here()) == 2:  # type: ignore[union-attr, attr-defined]
        time.sleep(0.05)
    assert sim.prior(50, seed=1).stats["restarts"] == 0  # it had left before: no trace of the run was lost
    killer = Killer(elsewhere, [])
    with pytest.raises(ars.HostLostError, match=r"process \d+ there\).*lost in the middle of a run") as caught:
        sim.prior(200_000, seed=1, progress=killer)
    assert caught.value.partial is not None and len(caught.value.partial) > 0


def test_fewer_than_asked_for_are_named(csim: Callable[[str], str], listen: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(LaunchError, match=r"2 of 3 simulators connected within 15 s"):
        listen([csim("nested")], [csim("nested")], simulators=3, startup_timeout=15.0)
    with pytest.raises(ValueError, match="simulators must be"):
        ars.Simulator.listen("tcp://127.0.0.1:*", insecure_loopback=True, simulators=0)


def test_another_build_is_named(
    csim: Callable[[str], str], listen: Callable[..., ars.Simulator], elsewhere: Elsewhere, caplog: Any
) -> None:
    with pytest.raises(
        ArsError, match=r"from 127\.0\.0\.1 \(process \d+ there\) is another simulator, or another build"
    ):
        listen([csim("nested")], [csim("gaussian")])
    sim = listen([csim("nested")], [csim("nested")])
    one = sim.prior(5000, seed=1)
    killer = Killer(elsewhere, [csim("gaussian"), "2"], which=2)  # another one comes in its place
    assert_same(sim.prior(5000, seed=1, progress=killer), one)
    deadline = time.monotonic() + 60
    while "turned away" not in caplog.text and time.monotonic() < deadline:
        sim.prior(10, seed=1)
        time.sleep(0.05)
    assert "is another simulator, or another build" in caplog.text


def test_a_relinked_copy_is_the_same(
    csim: Callable[[str], str], listen: Callable[..., ars.Simulator], tmp_path: Path
) -> None:
    """Simulators are known by what they draw, not by their paths."""
    shutil.copy(csim("nested"), tmp_path / "copy")
    assert len(listen([csim("nested")], [str(tmp_path / "copy")]).prior(50, seed=1)) == 50
