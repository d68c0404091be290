"""Trace numbers are unsigned, with 64 bits, from one end to the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resume_tools import DATA, Bits, compile_simulator, run

import ars
from ars.cli import main

HALF = 2**63
TOP = 2**64 - 1  # the first number that no trace has


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_simulator(tmp_path_factory.mktemp("built"), "sim")


@pytest.fixture
def sim(path: Path) -> Iterator[ars.Simulator]:
    with ars.Simulator([path], workers=3) as simulator:
        yield simulator


def _same_as_alone(sim: ars.Simulator, post: Any, numbers: list[int], **options: Any) -> None:
    """Each of these traces against itself, run singly."""
    first = int(post.trace_numbers[0])
    for number in numbers:
        alone = run(sim, 1, first_trace=number, **options)
        assert alone.trace_numbers.tolist() == [number]
        row = number - first
        for name in ("x", "r", "u2", "below", "above"):
            if name in alone:
                assert alone[name].tobytes() == post[name][row : row + 1].tobytes(), name
        assert alone.log_weights("ars").tobytes() == post.log_weights("ars")[row : row + 1].tobytes()


@pytest.mark.parametrize("first", [HALF - 100, TOP - 200], ids=["2**63", "2**64"])
@pytest.mark.parametrize("proposals", [None, {"u": lambda t: ars.Beta(1 + 0 * t["x"], 2.0)}], ids=["prior", "hand"])
def test_numbers_that_need_all_64_bits(
    first: int, proposals: Any, sim: ars.Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Break 2: 100 of 200 traces came back, and numbers turned negative."""
    monkeypatch.setattr("ars.store.resume._EVERY", 1e9)  # a chunk per run, however slow this machine is
    numbers = list(range(first, first + 200))
    some = [first, first + 99, first + 100, first + 199]
    whole = run(sim, 200, first_trace=first, proposals=proposals)
    assert whole.trace_numbers.dtype == np.uint64
    assert whole.trace_numbers.tolist() == numbers
    _same_as_alone(sim, whole, some, proposals=proposals)
    for count in (40, 130, 200):
        resumed = run(sim, count, tmp_path / "run", first_trace=first, proposals=proposals)
        assert resumed.trace_numbers.tolist() == numbers[:count]
    assert resumed.stats["traces_resumed"] == 130
    assert Bits.of(resumed) == Bits.of(whole)
    sorted((tmp_path / "run").glob("chunk-*.ars"))[-2].unlink()  # that of the second run
    again = run(sim, 200, tmp_path / "run", first_trace=first, proposals=proposals)
    assert again.stats["traces_resumed"] == 110
    assert Bits.of(again) == Bits.of(whole)


def test_failures_have_their_numbers(path: Path, tmp_path: Path) -> None:
    with ars.Simulator([path], workers=2, env={"RESUMED_EXIT": "1"}) as sim:
        options: dict[str, Any] = {"first_trace": HALF - 50, "on_failure": "zero"}
        whole = run(sim, 100, **options)
        failed = whole.columns.failures["trace"].tolist()
        assert failed == sorted(failed)
        assert HALF - 50 <= failed[0] < HALF <= failed[-1] < HALF + 50
        assert [failure.trace for failure in whole.failures.examples] == failed[: len(whole.failures.examples)]
        run(sim, 60, tmp_path / "run", **options)
        resumed = run(sim, 100, tmp_path / "run", **options)
        assert resumed.columns.failures["trace"].tolist() == failed
        assert Bits.of(resumed) == Bits.of(whole)


def test_a_network_serves_them_too(sim: ars.Simulator, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    network = sim.train(400, lstm_dim=8, batch_size=100, components=2, seed=1, threads=1, progress=False)
    options: dict[str, Any] = {"network": network, "first_trace": TOP - 40, "seed": 3, "progress": False}
    whole = sim.posterior(DATA, 40, **options)
    assert whole.trace_numbers.tolist() == list(range(TOP - 40, TOP))
    sim.posterior(DATA, 15, resume=tmp_path / "run", **options)
    resumed = sim.posterior(DATA, 40, resume=tmp_path / "run", **options)
    assert resumed["x"].tobytes() == whole["x"].tobytes()
    other = sim.train(400, lstm_dim=8, batch_size=100, components=2, seed=2, threads=1, progress=False)
    with pytest.raises(ars.ArsError, match="holds another run: network: a different network, or different weights"):
        sim.posterior(DATA, 40, resume=tmp_path / "run", **{**options, "network": other})


def test_priors_have_them_too(sim: ars.Simulator) -> None:
    prior = sim.prior(20, seed=5, first_trace=HALF - 10)
    assert prior.trace_numbers.tolist() == list(range(HALF - 10, HALF + 10))
    assert prior["x"][15] == sim.prior(1, seed=5, first_trace=HALF + 5)["x"][0]


def test_numbers_beyond_the_last_are_refused(sim: ars.Simulator) -> None:
    assert len(sim.prior(1, seed=1, first_trace=TOP - 1)) == 1
    with pytest.raises(ValueError, match="first_trace is 18446744073709551605, and 11 traces from there on would need"):
        run(sim, 11, first_trace=TOP - 10)
    with pytest.raises(ValueError, match="first_trace must be from 0 to"):
        sim.prior(1, first_trace=TOP)
    with pytest.raises(ValueError, match="first_trace must be from 0 to"):
        sim.prior(1, first_trace=-1)


def test_such_a_trace_can_be_replayed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = HALF + 3
    assert main(["replay", str(path), "--seed", "7", "--trace", str(number), "--observe", "y=0.5"]) == 0
    assert f"trace {number} of seed 7 is complete" in capsys.readouterr().out
