"""``ars bench pyprob``: pyprob from PyPI, doing the same work in turns with us.

pyprob and its torch live in an environment of their own, made once in a cache folder, so that neither side changes the
other's packages. Its model is a Python one; so there is no ZeroMQ on its side.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import ars
from ars_lab.bench.infer import USUAL_WORKERS, Case, Marsaglia
from ars_lab.bench.measure import Effort, find_simulator
from ars_lab.bench.results import BenchError, Measurement, measurement
from ars_lab.bench.train import training_rate

__all__ = ["SUITE", "Environment", "Peer", "default_cache", "run"]

SUITE = "pyprob"
REQUIREMENTS = ("pyprob==1.5.0", "torch==2.13.0+cpu", "numpy==2.4.6")
CPU_TORCH = "https://download.pytorch.org/whl/cpu"
_INSTALL_WITHIN = 1800.0


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ars" / "bench"


class Environment:
    """A virtual environment with pyprob in it."""

    def __init__(self, cache: Path, requirements: tuple[str, ...] = REQUIREMENTS) -> None:
        self._requirements = requirements
        self.directory = cache / "-".join(requirement.replace("==", "-") for requirement in requirements)
        self.python = self.directory / "bin" / "python"

    @property
    def complete(self) -> bool:
        return (self.directory / "complete").exists()

    def ensure(self) -> None:
        """Makes it if it is not there; BenchError, with pip's words, if it cannot be made."""
        if self.complete:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        venv.create(self.directory, with_pip=True, clear=True)
        # The index of CPU builds comes second: where it cannot be reached, pip would wait for it once per package.
        done = self._install()
        if done.returncode:
            done = self._install("--extra-index-url", CPU_TORCH)
        if done.returncode:
            last = "\n".join(done.stderr.strip().splitlines()[-4:])
            raise BenchError(
                f"pyprob could not be installed in {self.directory}. It needs a network, or an index that pip is "
                f"configured for, with {', '.join(self._requirements)}. pip said:\n{last}"
            )
        (self.directory / "complete").touch()

    def _install(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-m", "pip", "install", "--no-input", "--quiet", *options, *self._requirements]
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONSTRAINT")}
        try:
            return subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=_INSTALL_WITHIN, check=False
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"installing pyprob took more than {_INSTALL_WITHIN:g} s; is the network slow?") from None


class Peer:
    """A process of that environment, which does what it is asked to and says how long it took."""

    def __init__(self, environment: Environment) -> None:
        script = Path(__file__).with_name("pyprob_side.py")
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [str(environment.python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            text=True,
        )
        self.versions = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"pyprob's process ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def do(self, what: str, n: int, **more: int) -> float:
        """Per second."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "n": n, **more}) + "\n")
        self._process.stdin.flush()
        return n / float(self._answer()["seconds"])

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10.0 if kind is None else 0.1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _compare(what: str, ours: list[float], theirs: list[float]) -> Iterator[Measurement]:
    case = {"what": what}
    yield measurement(SUITE, case, "libars", ours, "traces/s", "higher")
    yield measurement(SUITE, case, "pyprob", theirs, "traces/s")
    yield measurement(SUITE, case, "ratio", [a / b for a, b in zip(ours, theirs, strict=True)], better="higher")


def _sides(rates: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [ours for ours, _ in rates], [theirs for _, theirs in rates]


def _rate(n: int, function: Any) -> float:
    started = time.perf_counter()
    function()
    return n / (time.perf_counter() - started)


def run(effort: Effort, directory: str | None = None, cache: Path | None = None) -> Iterator[Measurement]:
    environment = Environment(cache or default_cache())
    environment.ensure()
    small = effort.size == "smallest"
    width, batch = (16, 64) if small else (512, 512)
    ic = Case("ic", 0, 0, 2 if small else USUAL_WORKERS, width)
    marsaglia = Marsaglia(effort, directory)
    try:
        with Peer(environment) as peer, ars.Simulator([find_simulator("marsaglia", directory)]) as simulator:
            simulator.prior(100, seed=1)
            ours: list[float] = []
            theirs: list[float] = []
            n, n_peer = (2_000, 20) if small else (200_000, 300)
            for turn in effort.turns():
                ours.append(_rate(n, lambda turn=turn: simulator.prior(n, seed=2 + turn)))
                theirs.append(peer.do("prior", n_peer))
            yield from _compare("prior", ours, theirs)

            peer.do("train", batch, batch=batch, width=width)  # its network is made here
            rates = [
                (
                    training_rate(simulator, width, batch, 8 if small else 24, 2 + turn),
                    peer.do("train", (1 if small else 2) * batch, batch=batch, width=width),
                )
                for turn in effort.turns()
            ]
            yield from _compare(f"training, batch {batch}, LSTM {width}", *_sides(rates))

            marsaglia.posterior(ic, 50, 1)
            n, n_peer = (50, 5) if small else (4_000, 60)
            rates = [
                (_rate(n, lambda turn=turn: marsaglia.posterior(ic, n, 2 + turn)), peer.do("posterior", n_peer))
                for turn in effort.turns()
            ]
            yield from _compare(f"IC posterior, LSTM {width}", *_sides(rates))
    finally:
        marsaglia.close()
