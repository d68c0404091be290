"""A limit for calls of a user's functions: each is ended wherever it hangs, and nothing of the user's is touched."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ars.proposers.watchdog import _SIGNAL, OverTime, Watchdog

LIMIT = 0.05


@pytest.fixture
def watchdog() -> Iterator[Watchdog]:
    made = Watchdog(LIMIT)
    yield made
    made.close()


def spin(_: object) -> None:
    while True:
        pass


def sleep(_: object) -> None:
    time.sleep(3600)


def wait_for_a_lock(_: object) -> None:
    threading.Event().wait()


def wait_for_a_process(_: object) -> None:
    with subprocess.Popen(["sleep", "3600"]) as process:
        try:
            process.wait()
        finally:
            process.kill()


def stubborn(_: object) -> None:
    """Gives up at the second attempt."""
    try:
        spin(None)
    except BaseException:
        spin(None)


def hides_it(_: object) -> str:
    try:
        spin(None)
    except BaseException:
        return "finished"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hangs", [spin, sleep, wait_for_a_lock, wait_for_a_process, stubborn, hides_it])
def test_a_call_that_hangs_in_the_main_thread_is_ended(hangs: Callable[[object], Any], watchdog: Watchdog) -> None:
    with pytest.raises(OverTime):
        watchdog.call(hangs, None)
    assert watchdog.call(lambda x: x + 1, 2) == 3  # and the next one is not


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hangs", [spin, stubborn, hides_it])
def test_a_call_that_hangs_in_another_thread_is_ended(hangs: Callable[[object], Any], watchdog: Watchdog) -> None:
    found: list[str] = []

    def run() -> None:
        try:
            watchdog.call(hangs, None)
        except OverTime:
            found.append("over time")
        found.append(watchdog.call(str, 3))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == ["over time", "3"]


@pytest.mark.timeout(60)
def test_a_signal_that_has_a_handler_is_left_alone(watchdog: Watchdog) -> None:
    def handler(*_: object) -> None:
        raise AssertionError

    signal.signal(_SIGNAL, handler)
    try:
        with pytest.raises(OverTime):
            watchdog.call(spin, None)
        assert signal.getsignal(_SIGNAL) is handler
    finally:
        signal.signal(_SIGNAL, signal.SIG_DFL)


@pytest.mark.timeout(60)
def test_a_blocked_signal_delays_the_end_by_a_second(watchdog: Watchdog) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {_SIGNAL})
    try:
        with pytest.raises(OverTime):
            watchdog.call(spin, None)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {_SIGNAL})
    assert watchdog.call(str, 3) == "3"


@pytest.mark.timeout(60)
def test_alarms_of_the_user_go_on() -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))

    def propose(_: object) -> int:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while not rung:
            pass
        return len(rung)

    try:
        assert Watchdog(0.0).call(propose, None) == 1
        patient = Watchdog(60.0)
        rung.clear()
        assert patient.call(propose, None) == 1
        patient.close()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_errors_and_values_come_through_and_nothing_is_left() -> None:
    before = set(threading.enumerate())  # one of an earlier test may end meanwhile
    watchdog = Watchdog(60.0)
    assert set(threading.enumerate()) <= before
    with pytest.raises(ZeroDivisionError):
        watchdog.call(lambda x: 1 / x, 0)
    assert signal.getsignal(_SIGNAL) == watchdog._on_signal
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["ars-watchdog"]
    watchdog.close()
    watchdog.close()
    assert set(threading.enumerate()) <= before
    assert signal.getsignal(_SIGNAL) is signal.SIG_DFL


@pytest.mark.timeout(60)
def test_calls_that_end_just_in_time_or_not_are_told_apart() -> None:
    """Calls about as long as the limit: each either has its value or is over time, and nothing strikes later."""
    watchdog = Watchdog(0.002)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for i in range(300):
            end = time.monotonic() + 0.002 * (0.8 + 0.4 * i / 300)

            def until(end: float) -> float:
                while time.monotonic() < end:
                    pass
                return end

            with contextlib.suppress(OverTime):
                assert watchdog.call(until, end) == end
            for _ in range(100):
                pass
    finally:
        sys.setswitchinterval(switch)
        watchdog.close()
