"""A simulator that somebody else starts, on this machine or another: we listen, it comes.

Over tcp both sides prove who they are (CURVE): the simulator knows the controller's public key, and only the public key
that is in the controller's key file is let in. Nobody is let in once the simulator is there.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import re
import shlex
import socket
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import zmq

from ars import wire
from ars.errors import LaunchError
from ars.runtime.door import Door
from ars.runtime.keys import Keys
from ars.runtime.link import Link

__all__ = ["ALSO_THERE", "Announce", "Listen", "Visitor", "listen_at"]

_log = logging.getLogger(__name__)

_NO_TOKEN = "0" * 32
_QUIT_WITHIN = 3.0
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 2000, 10_000  # a cable that was pulled says nothing
_ZAP_AT_ONCE = 256  # questions answered before the deadline is looked at
_REFUSALS_TOLD = 20


Announce = Callable[[str, str], object]

#: What a start line does not show.
ALSO_THERE: Final = (
    "ars-host, which needs libzmq, must be there too: installed with libars, beside the executable, or on the PATH."
)


class Listen(NamedTuple):
    """Where to wait for a simulator, and the keys; None on a loopback address for which they were waived.

    ``command`` and ``settings`` are what is to be started there and with which variables, as far as we know.
    ``announce`` is called whenever we wait, with the address and the line for a shell on the simulator's machine.
    """

    endpoint: str
    keys: Keys | None
    command: tuple[str, ...] = ("./simulator",)
    settings: Mapping[str, str] = MappingProxyType({})
    announce: Announce | None = None

    def start_line(self, endpoint: str) -> str:
        """What to run on the simulator's machine, while we listen at this address."""
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        if host in ("*", "0.0.0.0", "[::]"):
            host = socket.gethostname()
        keys = {"ARS_KEY": "simulator.key"} if self.keys else {"ARS_INSECURE_LOOPBACK": "1"}
        variables = {"ARS_ENDPOINT": f"tcp://{host}:{port}", **keys, **self.settings}
        return " ".join(
            [*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(self.command)]
        )


def _is_loopback(endpoint: str) -> bool:
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def listen_at(endpoint: str, keys: Keys | None, *, insecure_loopback: bool = False) -> Listen:
    """Checks what was asked for. tcp without keys is refused, but for loopback addresses if the user says so."""
    parts = re.fullmatch(r"tcp://(\[[^\]]+\]|[^:/]+):(\*|[0-9]{1,5})", endpoint)
    if parts is None or (parts[2] != "*" and int(parts[2]) > 65535):
        raise ValueError(
            f"endpoint must be tcp://ADDRESS:PORT, such as tcp://*:5555, with a port up to 65535, not {endpoint!r}"
        )
    if keys is None and not insecure_loopback:
        raise ValueError(
            f"{endpoint}: tcp needs keys: run ars keygen, and give key='controller.key'. On a machine without other "
            "users, insecure_loopback=True allows a loopback address without keys"
        )
    if keys is None and not _is_loopback(endpoint):
        raise ValueError(f"{endpoint} is not a loopback address, and insecure_loopback is for those only")
    if keys is not None and not zmq.has("curve"):
        raise ValueError("this pyzmq was built without CURVE; install one that has it (the wheels on PyPI do)")
    return Listen(endpoint, keys)


class Visitor:
    """The simulator that comes to us; for a Session what a launched Family is.

    It is known by its connection, whose routing id libzmq uses once only. A message to a connection that has ended is
    an error, which is how its end is noticed.
    """

    patient = True  # whoever is refused was a stranger, and the right one may still come
    pid = None

    def __init__(self, link: Link, socket: zmq.Socket[bytes], listen: Listen) -> None:
        self.token = listen.keys.token if listen.keys else _NO_TOKEN
        self.owner = os.getpid()
        self.closed = False
        self._link = link
        self._socket = socket
        self._peer = b""
        self._gone = False
        self._refused = 0
        self._welcome = listen.keys.peer if listen.keys else b""
        self._zap: zmq.Socket[bytes] | None = None
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
        if "[" in listen.endpoint:
            socket.setsockopt(zmq.IPV6, 1)
        if listen.keys is not None:
            self._zap = link.socket(zmq.REP)
            self._zap.bind("inproc://zeromq.zap.01")
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, listen.keys.secret)
            socket.setsockopt(zmq.ZAP_DOMAIN, b"ars")
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a handler nobody is let in
        self._door = Door(link, socket, listen.endpoint)
        self.endpoint = self._door.endpoint
        self.name = f"the simulator at {self.endpoint}"
        self._start_line = listen.start_line(self.endpoint)
        _log.info("waiting for a simulator at %s", self.endpoint)
        if listen.announce is not None:
            listen.announce(self.endpoint, self._start_line)

    # ---- coming ------------------------------------------------------------------------------------------------------

    def wait_loaded(self) -> None:
        """There is no sign of life before HELLO."""

    def check_starting(self) -> None:
        """Nothing is known of a simulator that has not come yet."""

    def attend(self) -> None:
        """Watches the door, and answers libzmq's question whether somebody with this public key may come in."""
        self._door.attend()
        for _ in range(_ZAP_AT_ONCE):
            if self._zap is None or not self._zap.poll(0):
                return
            version, request, _, address, _, mechanism, *credentials = self._zap.recv_multipart()
            known = mechanism == b"CURVE" and credentials == [self._welcome]
            if not known:
                self.refused(f"it has the wrong key (from {address.decode('ascii', 'replace')})")
            verdict = (b"200", b"OK") if known else (b"400", b"this key is not known here")
            self._zap.send_multipart([version, request, *verdict, b"", b""])

    @property
    def full(self) -> bool:
        """Whether the door is shut for now: a reception has all the simulators that it wants."""
        return self._door.full

    @full.setter
    def full(self, full: bool) -> None:
        self._door.full = full

    def refused(self, why: object) -> None:
        """Says so in the log, but not ten thousand times."""
        self._refused += 1
        if self._refused <= _REFUSALS_TOLD:
            _log.warning("an unknown peer at %s was refused: %s", self.endpoint, why)
        if self._refused == _REFUSALS_TOLD:
            _log.warning("further unknown peers are refused without a message")

    def never_began(self, within: float) -> LaunchError:
        strangers = f", and {self._refused:,} messages or keys of unknown peers were refused" if self._refused else ""
        return LaunchError(
            f"{self.endpoint}: no simulator connected within {within:g} s (startup_timeout){strangers}. While the "
            f"controller waits, run on the simulator's machine\n  {self._start_line}\n{ALSO_THERE} The simulator "
            "reports problems on its stderr"
        )

    def admitted(self, peer: bytes) -> None:
        """The simulator is there. From now on nobody else is let in, and the end of this connection is its end."""
        self._peer = peer
        self._door.shut_for_good()
        if self._zap is not None:
            self._link.drop(self._zap)
            self._zap = None

    # ---- being there -------------------------------------------------------------------------------------------------

    def exited(self) -> bool:
        """Sends a message that a host ignores: it cannot be sent to a connection that has ended."""
        if self._peer and not self._gone:
            try:
                self._socket.send_multipart([self._peer, wire.encode_probe()], zmq.NOBLOCK)
            except zmq.ZMQError as error:
                self._gone = error.errno == zmq.EHOSTUNREACH
        return self._gone

    def pulse(self) -> int | None:
        """Not known of a process elsewhere."""
        return None

    def exit_text(self) -> str:
        return "the connection to it ended" if self.exited() else "it no longer accepts messages"

    def stderr_text(self) -> str:
        """It writes to its own."""
        return ""

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Its processes are not ours to end: ars-host ends them when the connection is gone."""

    def close(self, ask: Callable[[], object] | None = None) -> None:
        """``ask`` (send QUIT), and wait a moment for it to go."""
        if self.closed or os.getpid() != self.owner:
            return
        self.closed = True
        if ask is not None and not self.exited():
            ask()
            deadline = time.monotonic() + _QUIT_WITHIN
            while not self.exited() and time.monotonic() < deadline:
                time.sleep(0.01)
