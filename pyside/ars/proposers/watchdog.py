"""A time limit for calls of a user's functions, which may never return."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

__all__ = ["OverTime", "Watchdog"]

_Argument = TypeVar("_Argument")
_Value = TypeVar("_Value")

_SIGNAL: Final = signal.SIGRTMAX - 3  # one that nothing else is likely to use
_AGAIN: Final = 1.0  # seconds after which a function that survived is interrupted again
_LONGEST_SLEEP: Final = 3600.0


class OverTime(Exception):
    """The call took longer than the limit, and was ended."""


class _Stop(BaseException):
    """Raised inside the user's function; not an Exception, so that its handlers let it through."""


class Watchdog:
    """Calls functions and ends a call that takes longer than ``limit`` seconds (0: no limit).

    A thread, started with the first call, looks at the clock once per limit. It interrupts the main thread by a signal,
    which also ends a sleep or a wait for a socket. Elsewhere, or if the signal has a handler already, the exception is
    raised when the function next executes Python code. No other signal, handler or timer is touched.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        # A plain lock: the exception may strike anywhere, and "with" gives back a lock of C in any case.
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._by_signal = False
        self._deadline: float | None = None
        self._caller = 0
        self._running = False  # the function, not we
        self._fired = False

    def call(self, function: Callable[[_Argument], _Value], argument: _Argument) -> _Value:
        """The function's value; raises OverTime if it took too long."""
        if not self.limit:
            return function(argument)
        try:
            self._begin()
            try:
                self._running = True
                value = function(argument)
            finally:
                self._running = False
                self._end()
        except BaseException:
            if not self._fired:
                raise
            self._running = False  # again, in case that was cut short
            self._end()
            raise OverTime from None
        if self._fired:
            raise OverTime
        return value

    def close(self) -> None:
        """Ends the thread."""
        if self._thread is None:
            return
        self._closed.set()
        self._thread.join()
        self._thread = None
        if self._by_signal:
            signal.signal(_SIGNAL, signal.SIG_DFL)

    # ---- the thread of the caller ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._thread is None:
            self._start()
        self._caller = threading.get_ident()
        self._fired = False
        self._deadline = time.monotonic() + self.limit

    def _start(self) -> None:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(_SIGNAL) is signal.SIG_DFL:
            signal.signal(_SIGNAL, self._on_signal)
            self._by_signal = True
        self._thread = threading.Thread(target=self._watch, name="ars-watchdog", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        """After this nothing is raised any more: what was about to be is taken back."""
        with self._lock:
            self._deadline = None
            if self._fired:
                _raise_in(self._caller, None)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._running:
            raise _Stop

    # ---- the thread that watches -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                due = self._deadline
                if due is not None and now >= due:
                    self._fire()
                    due = self._deadline = now + _AGAIN
            # A call that begins meanwhile is not due before this wakes up: it has the whole limit.
            if self._closed.wait(min(self.limit if due is None else due - now, _LONGEST_SLEEP)):
                return

    def _fire(self) -> None:
        by_signal = self._by_signal and self._caller == threading.main_thread().ident
        if by_signal:
            signal.pthread_kill(self._caller, _SIGNAL)
        if self._fired or not by_signal:  # the signal may be blocked
            _raise_in(self._caller, _Stop)
        self._fired = True


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raises an exception in another thread, when it next executes Python code; None takes back one that waits."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if exception is None else ctypes.py_object(exception)
    )
