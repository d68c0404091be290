"""The owner of the controller's ZeroMQ objects.

A context must outlive its sockets: libzmq waits, for ever, in the end of a context whose sockets are open. Python's
garbage collector ends the objects of a cycle in any order, an interpreter ends at any time, and a fork copies
everything. So one object, the Link, owns the context and all of its sockets, and one finaliser ends them, in order,
with the processes at the other end. The finaliser holds the objects itself, which keeps them out of every cycle.

A socket is for one thread at a time. The thread that uses it says so (``in_use``); nobody else closes it meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator

import zmq

from ars.errors import LaunchError
from ars.runtime.interrupts import Interrupts

__all__ = ["Link"]

_log = logging.getLogger(__name__)

_DESCRIPTORS = 24  # of the context, its sockets and the pipes to a simulator, with some to spare


class _Held:
    """The ZeroMQ objects themselves. It knows no Link, so that the finaliser can own it."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self.owner = os.getpid()
        self.stop = stop
        self.user: int | None = None  # the thread that is inside of libzmq
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.sockets: list[zmq.Socket[bytes]] = []
        self.endings: list[Callable[[], object]] = []

    def release(self) -> None:
        """Ends the processes, then the sockets, then the context. Never waits for a peer."""
        if os.getpid() != self.owner:  # a forked copy: the objects are the parent's, and its threads are not here
            self._abandon()
            return
        if self._used_by_another():  # the interpreter ends in the middle of a daemon thread's run
            self.stop()
        for end in self.endings:
            try:
                end()
            except Exception:
                _log.exception("the processes of a simulator could not be ended")
        if self._used_by_another():  # it is still inside of libzmq: to close its socket now would abort
            self._abandon()
            return
        for socket in reversed(self.sockets):
            socket.close(linger=0)
        self.context.term()

    def _used_by_another(self) -> bool:
        return self.user not in (None, threading.get_ident())

    def _abandon(self) -> None:
        """Keeps the objects for ever, so that pyzmq never finalises them, not even when modules are cleared at exit."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))


class Link:
    """A context, its sockets, and the processes that end with them.

    ``close`` ends everything; the garbage collector and the end of the interpreter do the same. In a forked copy of
    this process all of them do nothing. ``stop`` is called if a thread still uses the sockets then; it must
    not refer to this link.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        _check_room()
        self._held = _Held(stop)
        self._finalize = weakref.finalize(self, self._held.release)

    @property
    def closed(self) -> bool:
        return not self._finalize.alive or os.getpid() != self._held.owner

    def socket(self, kind: int) -> zmq.Socket[bytes]:
        """A new socket of this context, which drops what it cannot deliver when it is closed."""
        with Interrupts() as interrupts:  # Ctrl-C could leave one that is not listed, and the end would wait for it
            socket = self._held.context.socket(kind)
            self._held.sockets.append(socket)
        interrupts.check()
        socket.setsockopt(zmq.LINGER, 0)
        return socket

    def drop(self, socket: zmq.Socket[bytes]) -> None:
        """Closes one of the sockets before the others."""
        self._held.sockets.remove(socket)
        socket.close(linger=0)

    def at_end(self, end: Callable[[], object]) -> None:
        """Calls ``end`` before the sockets are closed. It must not refer to this link."""
        self._held.endings.append(end)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """The calling thread uses the sockets."""
        before, self._held.user = self._held.user, threading.get_ident()
        try:
            yield
        finally:
            self._held.user = before

    def close(self) -> None:
        """A second call does nothing."""
        if os.getpid() == self._held.owner:
            self._finalize()


def _check_room() -> None:
    """libzmq ends the whole process if it gets no descriptor in the middle of something. So look before."""
    opened: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise LaunchError(
            f"too many open files: a simulator takes up to {_DESCRIPTORS} descriptors here, and the system allows "
            f"{len(opened)}. Raise the limit (ulimit -n), or close files and simulators that are no longer needed"
        ) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)
