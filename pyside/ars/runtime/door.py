"""The door of a listening controller: who is let in, and how many may wait at once.

libzmq accepts every TCP connection and keeps its descriptor until the handshake succeeds, fails, or takes too long. A
port scanner, a health check or an attacker can use up all descriptors of the process that way. The door counts the
connections. While too many wait it is shut: the kernel drops packets that would open a connection, the sender's kernel
tries again after a second, and nobody is turned away who would be let in. Once the simulator is there, the door is
shut for good.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import struct

import zmq
from zmq.utils.monitor import recv_monitor_message

from ars.errors import LaunchError
from ars.runtime.link import Link

__all__ = ["Door"]

_HANDSHAKE_MS = 5000  # that a connection may take to show its key
_MOST_WAITING = 1024
_EVENTS = zmq.EVENT_LISTENING | zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # linux/socket.h; Python has no names for them
_BPF_DROP = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction: return 0, keep nothing of the packet


def _most_waiting() -> int:
    """Half of the descriptors that this process may have, so that the rest of the program keeps working."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(8, min(_MOST_WAITING, limit // 2))


class Door:
    """Listens at an endpoint with a socket that is bound to nothing yet."""

    def __init__(self, link: Link, router: zmq.Socket[bytes], endpoint: str, most_waiting: int | None = None) -> None:
        self._link = link
        self._router = router
        self._most = most_waiting or _most_waiting()
        self._listener: socket.socket | None = None
        self._shut = False
        self.full = False  # nobody else is to come in for now
        self.waiting = 0  # connections, that of the simulator included
        router.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        self._monitor: zmq.Socket[bytes] | None = link.socket(zmq.PAIR)
        self._monitor.setsockopt(zmq.RCVHWM, 0)  # libzmq stands still, for ever, when an event finds no room
        router.monitor("inproc://door", _EVENTS)
        self._monitor.connect("inproc://door")
        try:
            router.bind(endpoint)
        except zmq.ZMQError as error:
            hint = "; this machine has no such address" if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL) else ""
            raise LaunchError(f"{endpoint}: cannot listen there: {error.strerror}{hint}") from None
        self.endpoint = router.getsockopt_string(zmq.LAST_ENDPOINT)
        self.attend()

    def attend(self) -> None:
        """Counts who has come and gone, and opens or shuts the door accordingly."""
        while self._monitor is not None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)
            if event["event"] == zmq.EVENT_LISTENING:
                # The listener is open as long as the router is, so its number is its own.
                self._listener = socket.socket(fileno=os.dup(event["value"]))
                self._link.at_end(self._listener.close)
            elif event["event"] == zmq.EVENT_ACCEPTED:
                self.waiting += 1
            elif event["event"] == zmq.EVENT_DISCONNECTED:
                self.waiting -= 1
        if self._monitor is not None:
            self._set_shut(self.full or self.waiting >= self._most)

    def shut_for_good(self) -> None:
        """Nobody else comes in. There is nothing more to count, and an event that nobody reads is memory lost."""
        self._set_shut(True)
        if self._monitor is not None:
            self._router.disable_monitor()
            self._link.drop(self._monitor)
            self._monitor = None

    def _set_shut(self, shut: bool) -> None:
        if shut == self._shut or self._listener is None:
            return
        if shut:
            program = ctypes.create_string_buffer(_BPF_DROP)
            filter_ = struct.pack("HP", 1, ctypes.addressof(program))
            self._listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_)
        else:
            self._listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
        self._shut = shut
