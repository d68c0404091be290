"""Ctrl-C at a moment when nothing is in our hands."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["Interrupts"]


class Interrupts:
    """Ctrl-C during a run waits until nothing is in our hands, so that no finished trace is lost to it.

    Only in the main thread, and only where Python's own handler is in place. A second Ctrl-C does not wait, nor does
    one while proposals are computed: a function of the user's may never return. With ``terminate``, SIGTERM is heeded
    like Ctrl-C: torchrun ends its processes with it.
    """

    def __init__(self, *, terminate: bool = False) -> None:
        self._terminate = terminate
        self._terminated = False
        self._requested = False
        self._at_once = False
        self._installed = False

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._on_signal)
            self._installed = True
        if in_main and self._terminate and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_terminate)
            self._terminated = True
        return self

    def _on_terminate(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._requested = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._requested or self._at_once:
            signal.default_int_handler(number, frame)
        self._requested = True

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Nothing is in our hands: Ctrl-C need not wait."""
        self._at_once = True
        try:
            self.check()
            yield
        finally:
            self._at_once = False

    def check(self) -> None:
        if self._requested:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
