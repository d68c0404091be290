"""The pool of LSTM states: numbers that are never reused, no leak, no silent limit."""

from __future__ import annotations

import numpy as np
import pytest

import ars

torch = pytest.importorskip("torch")
from ars.errors import PoolFullError  # noqa: E402
from ars.network.serve.pool import StatePool  # noqa: E402


def traces(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def filled(pool: StatePool, owners: np.ndarray, first: float = 1.0) -> np.ndarray:
    """States that hold first, first + 1, ...; their numbers."""
    slots = pool.allocate(owners)
    values = first + np.arange(len(owners), dtype=np.float32)
    depth = len(pool._h)
    for layer in range(depth):
        h, c = pool.layer(layer)
        h[slots] = values[:, None]
        c[slots] = -values[:, None]
    return pool.numbers(slots)


def read(pool: StatePool, numbers: np.ndarray, owners: np.ndarray) -> list[float]:
    slots = pool.slots(numbers, owners)
    states = np.array([[table[slots] for table in pool.layer(layer)] for layer in range(len(pool._h))])
    h, c = states[:, 0], states[:, 1]
    np.testing.assert_array_equal(h, -c)
    np.testing.assert_array_equal(h, pool.hidden(slots).numpy())
    assert (h == h[:1, :, :1]).all()
    values: list[float] = h[0, :, 0].tolist()
    return values


def test_states_are_kept_in_any_order_and_number_0_is_the_start() -> None:
    pool = StatePool(2, 3)
    owners = traces(5, 5, 9)
    numbers = filled(pool, owners)
    assert 0 not in numbers
    assert len(set(numbers.tolist())) == 3
    assert read(pool, numbers[::-1], owners[::-1]) == [3.0, 2.0, 1.0]
    with_start = np.append(numbers, np.uint64(0))
    assert read(pool, with_start, traces(5, 5, 9, 77)) == [1.0, 2.0, 3.0, 0.0]


def test_it_grows_and_keeps_what_it_has() -> None:
    pool = StatePool(1, 2)
    before = pool.capacity
    owners = np.arange(3 * before, dtype=np.uint64)
    numbers = np.concatenate([filled(pool, part, float(part[0])) for part in np.array_split(owners, 7)])
    assert pool.capacity >= 3 * before
    assert pool.live == pool.peak == 3 * before
    assert read(pool, numbers, owners) == owners.tolist()


def test_ended_traces_free_their_states_and_nothing_leaks() -> None:
    pool = StatePool(1, 2)
    rng = np.random.default_rng(1)
    alive: set[int] = set()
    seen: set[int] = set()
    for round_number in range(200):
        owners = rng.integers(round_number, round_number + 20, size=50).astype(np.uint64)
        numbers = filled(pool, owners).tolist()
        assert not seen & set(numbers)  # never given out twice
        seen |= set(numbers)
        alive |= set(owners.tolist())
        ended = traces(*(n for n in alive if n < round_number))
        pool.release(ended)
        alive -= set(ended.tolist())
    assert pool.capacity < 5000  # 10,000 states went through
    pool.release(traces(*alive))
    assert pool.live == 0
    pool.release(traces(1, 2, 3))  # traces that never had a state
    assert pool.live == 0


def test_a_stale_number_is_recognised_even_if_its_slot_is_in_use_again() -> None:
    pool = StatePool(1, 2)
    old = filled(pool, traces(1))
    pool.release(traces(1))
    with pytest.raises(ars.ProtocolError, match="is unknown, or its trace is over"):
        pool.slots(old, traces(1))
    new = filled(pool, traces(1))
    assert new != old
    assert pool.slots(new, traces(1)) == old & np.uint64(0xFFFFFFFF)  # the same slot
    with pytest.raises(ars.ProtocolError, match=f"state {int(old[0])} is unknown"):
        pool.slots(old, traces(1))


@pytest.mark.parametrize("number", [1, 7 << 32, (1 << 64) - 1, (1 << 32) | 5000])
def test_numbers_that_were_never_given_are_refused(number: int) -> None:
    pool = StatePool(1, 2)
    filled(pool, traces(1, 1))
    with pytest.raises(ars.ProtocolError, match="is unknown"):
        pool.slots(traces(number), traces(1))


def test_a_state_of_another_trace_is_refused() -> None:
    pool = StatePool(1, 2)
    numbers = filled(pool, traces(4, 8))
    with pytest.raises(ars.ProtocolError, match="belongs to trace 8, not to trace 4"):
        pool.slots(numbers, traces(4, 4))


def test_the_limit_is_an_error_that_names_it_and_takes_nothing() -> None:
    pool = StatePool(1, 4, memory=10 * 32)
    numbers = filled(pool, traces(*range(8)))
    with pytest.raises(PoolFullError, match=r"11 LSTM states of 32 bytes, but the limit is 10 \(memory=320 bytes\)"):
        pool.allocate(traces(8, 9, 10))
    assert pool.live == 8
    assert read(pool, numbers, np.arange(8, dtype=np.uint64)) == [float(i + 1) for i in range(8)]
    filled(pool, traces(8, 9))
    assert pool.live == pool.limit == 10
    with pytest.raises(PoolFullError, match="hold no state"):
        StatePool(1, 4, memory=31)
