"""Several simulators that are started elsewhere and come to one address.

One thread owns the socket, lets simulators in while there are places, and carries messages between the socket and the
sessions. Each session has a ``Line`` that looks to it like a socket of its own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import zmq

from ars import _native as native
from ars import wire
from ars.errors import LaunchError, ProtocolError
from ars.runtime.link import Link
from ars.runtime.remote import Listen, Visitor

__all__ = ["Guest", "Line", "Reception"]

_POLL_MS: Final = 100
_PROBE_EVERY: Final = 0.2  # seconds between two looks at who is still there
_AT_ONCE: Final = 256  # messages taken in one go
_MOST_BYTES: Final = 256 << 20  # that may wait for the sessions; hosts that send more wait
_QUIT_WITHIN: Final = 3.0
_END_WITHIN: Final = 5.0


class Line:
    """What a session uses of a socket, for one simulator."""

    def __init__(self, peer: bytes, send: Callable[[list[bytes]], None]) -> None:
        self.peer = peer
        self.gone = False
        self.greeted = False  # only then does a host take other messages
        self.size = 0  # bytes that wait
        self._send = send
        self._waiting: deque[list[bytes]] = deque()
        self._came = threading.Condition()

    def put(self, frames: list[bytes]) -> None:
        """A message of the simulator."""
        with self._came:
            self._waiting.append(frames)
            self.size += sum(map(len, frames))
            self._came.notify()

    def poll(self, timeout: int) -> bool:
        with self._came:
            return bool(self._waiting) or self._came.wait_for(lambda: bool(self._waiting), timeout / 1000)

    def recv_multipart(self, flags: int = 0) -> list[bytes]:
        """Like that of a socket that does not wait."""
        assert flags & zmq.NOBLOCK
        with self._came:
            if not self._waiting:
                raise zmq.Again
            frames = self._waiting.popleft()
            self.size -= sum(map(len, frames))
        return [self.peer, *frames]

    def send_multipart(self, frames: list[bytes], flags: int = 0) -> None:  # noqa: ARG002
        if self.gone:
            raise zmq.ZMQError(errno.EHOSTUNREACH)
        self._send(frames)


class Guest:
    """A simulator that came; for a Session what a ``Visitor`` is."""

    patient = False  # it was let in, so what is wrong with it is an error
    pid = None

    def __init__(self, line: Line, name: str, token: str, leave: Callable[[Line], None]) -> None:
        self.line = line
        self.name = name
        self.token = token
        self.closed = False
        self._leave = leave

    def wait_loaded(self) -> None:
        """It is there."""

    def attend(self) -> None:
        """The reception does."""

    def check_starting(self) -> None:
        if self.line.gone:
            raise LaunchError(f"{self.name} disconnected during the handshake")

    def refused(self, why: object) -> None:
        """Nobody else uses its line."""

    def never_began(self, within: float) -> LaunchError:
        return LaunchError(f"{self.name} connected but sent nothing within {within:g} s")

    def admitted(self, peer: bytes) -> None:
        """It has been."""

    def exited(self) -> bool:
        return self.line.gone

    def exit_text(self) -> str:
        return "the connection to it ended" if self.line.gone else "it no longer accepts messages"

    def pulse(self) -> int | None:
        """Not known of a process elsewhere."""
        return None

    def stderr_text(self) -> str:
        """It writes to its own."""
        return ""

    def end(self) -> None:
        """Its processes are not ours to end: ars-host ends them when the connection is gone."""

    def close(self, ask: Callable[[], object] | None = None) -> None:
        """``ask`` (send QUIT), and wait a moment for it to go."""
        if self.closed:
            return
        self.closed = True
        if ask is not None and not self.exited():
            ask()
            deadline = time.monotonic() + _QUIT_WITHIN
            while not self.exited() and time.monotonic() < deadline:
                time.sleep(0.01)
        self._leave(self.line)


class Reception:
    """Listens at an address for up to ``places`` simulators at a time. ``arrivals`` has those that have come."""

    def __init__(self, listen: Listen, places: int) -> None:
        self.arrivals: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        self._places = places
        self._lines: dict[bytes, Line] = {}
        self._later: deque[tuple[bytes, list[bytes], str]] = deque()  # who came when there was no place
        self._outgoing: deque[list[bytes]] = deque()
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._link = Link(self._stop)
        self._link.at_end(_closing(self._wake))
        try:
            socket = self._link.socket(zmq.ROUTER)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            socket.setsockopt(zmq.MAXMSGSIZE, native.MAX_MESSAGE)
            self._socket = socket
            self._visitor = Visitor(self._link, socket, listen)
        except BaseException:
            self._link.close()
            raise
        self.endpoint = self._visitor.endpoint
        self._thread = threading.Thread(target=self._serve, name="ars-reception", daemon=True)
        self._thread.start()

    def never_came(self, came: int, within: float) -> LaunchError:
        """The error for fewer simulators than were asked for."""
        error = self._visitor.never_began(within)
        if came:
            text = str(error).replace("no simulator", f"{came} of {self._places} simulators", 1)
            return LaunchError(text)
        return error

    def close(self) -> None:
        """Ends the connections that are left."""
        if os.getpid() == self._visitor.owner:
            self._stop()
            self._link.close()

    def _stop(self) -> None:
        self._ending.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_WITHIN)

    # ---- by the sessions' threads ------------------------------------------------------------------------------------

    def _send(self, frames: list[bytes]) -> None:
        self._outgoing.append(frames)
        with contextlib.suppress(OSError):  # closed
            os.eventfd_write(self._wake, 1)

    def _leave(self, line: Line) -> None:
        """A session is over: its simulator is not heard any more, and its place is free."""
        line.gone = True
        with self._lock:
            self._lines.pop(line.peer, None)

    # ---- by the thread of the reception ------------------------------------------------------------------------------

    def _serve(self) -> None:
        with self._link.in_use():
            poller = zmq.Poller()
            poller.register(self._socket, zmq.POLLIN)
            poller.register(self._wake, zmq.POLLIN)
            probed = 0.0
            while not self._ending.is_set():
                poller.poll(_POLL_MS)
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)
                self._deliver()
                self._visitor.attend()
                self._receive()
                self._deliver()
                if time.monotonic() - probed > _PROBE_EVERY:
                    probed = time.monotonic()
                    self._look()
            self._deliver()

    def _deliver(self) -> None:
        while self._outgoing:
            frames = self._outgoing.popleft()
            line = self._lines.get(frames[0])
            there = self._reaches(frames)
            if line is not None:
                line.greeted, line.gone = True, line.gone or not there

    def _reaches(self, frames: list[bytes]) -> bool:
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return error.errno != zmq.EHOSTUNREACH
        return True

    def _receive(self) -> None:
        for _ in range(_AT_ONCE):
            if sum(line.size for line in list(self._lines.values())) > _MOST_BYTES:
                time.sleep(_POLL_MS / 10_000)
                return
            try:
                peer, *frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            line = self._lines.get(peer.bytes)
            if line is not None:
                line.put([frame.bytes for frame in frames])
            else:
                self._greet(peer.bytes, frames)

    def _greet(self, peer: bytes, frames: list[zmq.Frame]) -> None:
        """Somebody who may be a simulator."""
        said = [frame.bytes for frame in frames]
        try:
            if len(said) != 1:
                raise ProtocolError(f"HELLO: {len(said)} frames, must be 1")
            hello = wire.decode_hello(said[0])
            if not secrets.compare_digest(hello.token, self._visitor.token):
                raise ProtocolError("HELLO: the token is not the one that this simulator was started with")
            wire.choose_version(hello)
        except ProtocolError as error:
            self._reaches([peer, wire.encode_error(str(error), 0)])
            self._visitor.refused(error)
            return
        address = "an unknown address"
        with contextlib.suppress(zmq.ZMQError, KeyError):
            address = str(frames[0].get("Peer-Address"))
        self._later.append((peer, said, f"the simulator from {address} (process {hello.zygote_pid} there)"))
        self._let_in()

    def _let_in(self) -> None:
        """Those who wait, as far as there are places."""
        with self._lock:
            while self._later and len(self._lines) < self._places:
                peer, said, name = self._later.popleft()
                line = self._lines[peer] = Line(peer, self._send)
                line.put(said)
                self.arrivals.put(Guest(line, name, self._visitor.token, self._leave))
            self._visitor.full = len(self._lines) >= self._places

    def _look(self) -> None:
        """Who is still there. A message cannot be sent to a connection that has ended."""
        for line in list(self._lines.values()):
            if line.greeted and not self._reaches([line.peer, wire.encode_probe()]):
                line.gone = True
        self._let_in()


def _closing(descriptor: int) -> Callable[[], None]:
    def close() -> None:
        with contextlib.suppress(OSError):
            os.close(descriptor)

    return close
