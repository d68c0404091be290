"""A kept run of a simulator that was started elsewhere: nobody can see its files, so its first traces name it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resume_tools import Bits, compile_simulator, run

import ars
from ars.errors import StorageError
from ars.runtime.launch import find_host

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elsewhere")
    compile_simulator(folder, "zero", "-DMEAN=0")
    compile_simulator(folder, "five", "-DMEAN=5")
    return folder


@pytest.fixture
def listen(built: Path, started: Callable[[Any], Any]) -> Iterator[Callable[..., ars.Simulator]]:
    """listen("zero", "five"): a controller to which these come, one after another, whenever it waits."""
    processes: list[subprocess.Popen[bytes]] = []

    def make(*names: str, **options: Any) -> ars.Simulator:
        coming = iter(names)

        def come(address: str, _: object) -> None:
            env = {**os.environ, "ARS_ENDPOINT": address, "ARS_HOST": find_host(os.environ), "ARS_WORKERS": "2"}
            env["ARS_INSECURE_LOOPBACK"] = "1"
            processes.append(subprocess.Popen([built / next(coming)], env=env, stderr=subprocess.DEVNULL))

        sim = ars.Simulator.listen("tcp://127.0.0.1:*", insecure_loopback=True, announce=come, **options)
        sim.came = processes  # type: ignore[attr-defined]
        return started(sim)  # type: ignore[no-any-return]

    yield make
    for process in processes:
        process.terminate()
        process.wait(60)


def test_the_same_simulator_goes_on(listen: Callable[..., ars.Simulator], built: Path, tmp_path: Path) -> None:
    run(listen("zero"), 40, tmp_path / "run")
    resumed = run(listen("zero"), 90, tmp_path / "run")
    assert resumed.stats["traces_resumed"] == 40
    with ars.Simulator([built / "zero"], workers=1) as here:
        assert Bits.of(resumed) == Bits.of(run(here, 90))


def test_another_simulator_is_refused(listen: Callable[..., ars.Simulator], tmp_path: Path) -> None:
    run(listen("zero"), 40, tmp_path / "run")
    with pytest.raises(StorageError, match="its first traces differ from those that the run began with"):
        run(listen("five"), 90, tmp_path / "run")


def test_another_simulator_that_comes_in_mid_run_is_refused(
    listen: Callable[..., ars.Simulator], built: Path, tmp_path: Path
) -> None:
    sim = listen("zero", "five")

    class Kill:
        """Ends the first one as soon as some traces have come."""

        def update(self, done: int, total: int) -> None:
            process = sim.came[0]  # type: ignore[attr-defined]
            if 0 < done < total and process.poll() is None:
                process.kill()
                process.wait()

        def close(self) -> None: ...

    with pytest.raises(StorageError, match="the one found now is different") as caught:
        run(sim, 2_000_000, tmp_path / "run", progress=Kill())
    partial = caught.value.partial
    assert partial is not None
    assert 0 < len(partial) < 2_000_000
    numbers = partial.trace_numbers
    with ars.Simulator([built / "zero"], workers=1) as here:  # all of them are the first one's
        np.testing.assert_array_equal(partial["x"], run(here, int(numbers.max()) + 1)["x"][numbers])
