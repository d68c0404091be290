"""A short run of fuzz_decoders.py, and hypothesis on the same decoders. The long run is `make fuzz`."""

from __future__ import annotations

import struct

import pytest
from fuzz_decoders import DECODERS, CChecks, Frames, Mutator, check, fuzz, golden
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.compiler

RUNS = {"hello": 2000, "run": 2000, "sites": 2000, "steps": 2000, "traces": 1500, "done": 2000, "error": 2000}
TYPES = {"hello": 1, "run": 3, "sites": 4, "steps": 5, "traces": 7, "done": 8, "error": 11}


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> CChecks:
    return CChecks(tmp_path_factory.mktemp("wire"))


@pytest.mark.parametrize("name", DECODERS)
def test_mutations_of_the_golden_frames(name: str, checks: CChecks) -> None:
    """Accepted and refused, both often enough to mean something."""
    accepted = fuzz(name, RUNS[name], 7, checks)
    assert 0.01 * RUNS[name] < accepted < 0.95 * RUNS[name]


@pytest.mark.parametrize("name", DECODERS)
def test_golden_frames_as_they_are(name: str, checks: CChecks) -> None:
    good, bad = golden(name)
    assert good
    assert all(check(name, frames, checks) for frames in good)
    assert not any(check(name, frames, checks) for frames in bad)


def test_the_same_seed_gives_the_same_inputs() -> None:
    one, two = Mutator(*golden("traces"), 3), Mutator(*golden("traces"), 3)
    assert [one.frames() for _ in range(50)] == [two.frames() for _ in range(50)]


@settings(max_examples=300, deadline=None, database=None, derandomize=True)
@given(
    name=st.sampled_from(sorted(DECODERS)),
    version=st.integers(0, 4),
    count=st.integers(0, 4) | st.integers(0, 2**32 - 1),
    run=st.integers(0, 2**64 - 1),
    body=st.binary(max_size=200),
    columns=st.lists(st.binary(max_size=128), min_size=9, max_size=9),
)
def test_any_bytes_behind_a_good_header(
    name: str, version: int, count: int, run: int, body: bytes, columns: list[bytes], checks: CChecks
) -> None:
    head = struct.pack("<IHHIIQ", 0x31535241, version, TYPES[name], 24 + len(body), count, run) + body
    frames: Frames = [head, *columns] if name == "traces" else [head]
    check(name, frames, checks)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(name=st.sampled_from(sorted(DECODERS)), frames=st.lists(st.binary(max_size=100), min_size=1, max_size=11))
def test_any_bytes(name: str, frames: list[bytes], checks: CChecks) -> None:
    check(name, frames, checks)


@pytest.mark.parametrize("n", [1, 3])
def test_a_sample_has_the_parameters_of_its_prior(n: int, checks: CChecks) -> None:
    """A Normal with one number or three, and values to match: both sides refuse."""
    good, _ = golden("traces")
    frames = list(good[0])
    frames[2] = frames[2][:14] + struct.pack("<H", n) + frames[2][16:]  # of the first sample, which has 2
    frames[1] = frames[1][:32] + struct.pack("<I", 7 + n - 2) + frames[1][36:]
    frames[6] = frames[6][:-8] if n == 1 else frames[6] + bytes(8)
    assert not check("traces", frames, checks)
