"""The pipes from a simulator to its launcher: its stderr, and libars' signs of life."""

from __future__ import annotations

import array
import collections
import contextlib
import fcntl
import logging
import os
import select
import termios
import threading
import time

__all__ = ["AlivePipe", "LastLines"]

_log = logging.getLogger(__name__)


class LastLines:
    """Drains a pipe in a small thread, hands every line to the log and keeps the last ones for error messages.

    The thread closes the pipe: it may be held up (the log is the user's), and nobody else may close what it reads.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: collections.deque[str] = collections.deque(maxlen=40)
        self._stop = threading.Event()
        self._reading = False  # lines are on their way from the pipe into the list
        self._thread = threading.Thread(target=self._drain, name="ars-stderr", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with contextlib.closing(os.fdopen(self._descriptor, "rb", buffering=0)):
            self._read_lines()

    def _read_lines(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN | select.POLLHUP)
        rest = b""
        while True:
            if not poll.poll(100):
                if self._stop.is_set():  # somebody outside our family keeps the pipe open
                    break
                continue
            self._reading = True
            chunk = os.read(self._descriptor, 65536)
            if not chunk:
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._keep(line)
            if len(rest) > 8192:
                self._keep(rest)
                rest = b""
            self._reading = False
        if rest:
            self._keep(rest)

    def _keep(self, line: bytes) -> None:
        text = line[:8192].decode("utf-8", "replace").rstrip()
        self._lines.append(text[:500])
        _log.info("%s", text)

    def text(self, within: float = 1.0) -> str:
        """The last lines that were written before this call; the thread may have to read them first."""
        deadline = time.monotonic() + within
        while self._unread() and time.monotonic() < deadline:
            time.sleep(0.001)
        return "\n".join(self._lines)

    def _unread(self) -> bool:
        if not self._thread.is_alive():
            return False
        waiting = array.array("i", [0])
        with contextlib.suppress(OSError):  # closed by the thread a moment ago
            fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
        return self._reading or waiting[0] > 0

    def finish(self, within: float = 1.0) -> None:
        """Waits for what is still in the pipe."""
        self._thread.join(within)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(2.0)


class AlivePipe:
    """What libars writes at start-up: "A" when it is loaded; "S" when it has split, and this process is about to become
    ars-host; "E" and a text if the program cannot be a simulator."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ended = False
        self.loaded = False
        self.split = False

    def read(self, seconds: float) -> str:
        """Waits this long for news. Returns the reason if libars has given up."""
        news = self._chunk(seconds)
        if news.startswith(b"A"):
            self.loaded = True
            news = news[1:]
        if news.startswith(b"S"):
            self.split = True
            news = news[1:]
        if not news.startswith(b"E"):
            return ""
        while more := self._chunk(0.1):
            news += more
        return news[1:].decode("utf-8", "replace").strip() or "libars gave no reason"

    def _chunk(self, seconds: float) -> bytes:
        if self._ended:
            time.sleep(min(seconds, 0.02))
            return b""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return b""
        chunk = os.read(self._descriptor, 4096)
        self._ended = not chunk
        return chunk

    def close(self) -> None:
        os.close(self._descriptor)
