"""A simulator that somebody else starts, on this machine or another: we listen, it comes.

Over tcp both sides prove who they are (CURVE): the simulator knows the controller's public key, and only the public key
that is in the controller's key file is let in. Nobody is let in once the simulator is there.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import os
import re
import shlex
import socket
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import zmq
from zmq.utils.monitor import recv_monitor_message

from ars.errors import LaunchError
from ars.keys import Keys

__all__ = ["Announce", "Listen", "Visitor", "listen_at"]

_log = logging.getLogger("ars.remote")

_NO_TOKEN = "0" * 32
_QUIT_WITHIN = 3.0
_HEARTBEAT_MS, _HEARTBEAT_TIMEOUT_MS = 2000, 10_000  # a cable that was pulled says nothing


Announce = Callable[[str, str], object]


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
            f"{endpoint}: tcp needs keys: run ars keygen, and give key='controller.key'. On a machine that is yours "
            "alone, insecure_loopback=True does without them at a loopback address"
        )
    if keys is None and not _is_loopback(endpoint):
        raise ValueError(f"{endpoint} is not a loopback address, and insecure_loopback is for those only")
    if keys is not None and not zmq.has("curve"):
        raise ValueError("this pyzmq was built without CURVE; install one that has it (the wheels on PyPI do)")
    return Listen(endpoint, keys)


class Visitor:
    """The simulator that comes to us; for a Session what a launched Family is."""

    patient = True  # whoever is refused was a stranger, and the right one may still come
    pid = None

    def __init__(self, context: zmq.Context[Any], socket: zmq.Socket[bytes], listen: Listen) -> None:
        self.token = listen.keys.token if listen.keys else _NO_TOKEN
        self.owner = os.getpid()
        self.closed = False
        self._socket = socket
        self._descriptor = -1
        self._gone = False
        self._welcome = listen.keys.peer if listen.keys else b""
        self._zap: zmq.Socket[bytes] | None = None
        socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS)
        if "[" in listen.endpoint:
            socket.setsockopt(zmq.IPV6, 1)
        if listen.keys is not None:
            self._zap = context.socket(zmq.REP)
            self._zap.bind("inproc://zeromq.zap.01")
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, listen.keys.secret)
            socket.setsockopt(zmq.ZAP_DOMAIN, b"ars")
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)  # without a handler nobody is let in
        self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            socket.bind(listen.endpoint)
        except zmq.ZMQError as error:
            hint = "; this machine has no such address" if error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL) else ""
            self._leave()
            raise LaunchError(f"{listen.endpoint}: cannot listen there: {error.strerror}{hint}") from None
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.name = f"the simulator at {self.endpoint}"
        self._start_line = listen.start_line(self.endpoint)
        _log.info("waiting for a simulator at %s", self.endpoint)
        if listen.announce is not None:
            listen.announce(self.endpoint, self._start_line)

    # ---- coming ------------------------------------------------------------------------------------------------------

    def wait_loaded(self) -> None:
        """There is no sign of life before HELLO."""

    def check_starting(self) -> None:
        """Answers libzmq's question whether somebody with this public key may come in."""
        while self._zap is not None and self._zap.poll(0):
            version, request, _, address, _, mechanism, *credentials = self._zap.recv_multipart()
            known = mechanism == b"CURVE" and credentials == [self._welcome]
            if not known:
                _log.warning("somebody at %s has the wrong key, and was refused", address.decode("ascii", "replace"))
            verdict = (b"200", b"OK") if known else (b"400", b"this key is not known here")
            self._zap.send_multipart([version, request, *verdict, b"", b""])

    def never_began(self, within: float) -> LaunchError:
        return LaunchError(
            f"{self.endpoint}: no simulator came within {within:g} s (startup_timeout). While we wait, run there\n"
            f"  {self._start_line}\n"
            "It says on its stderr what is wrong"
        )

    def admitted(self, descriptor: int) -> None:
        """The simulator is there. From now on nobody else is let in, and the end of this connection is its end."""
        self._descriptor = descriptor
        if self._zap is not None:
            self._zap.close(linger=0)
            self._zap = None

    # ---- being there -------------------------------------------------------------------------------------------------

    def exited(self) -> bool:
        while not self._gone and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)
            self._gone = event["value"] == self._descriptor
        return self._gone

    def exit_text(self) -> str:
        return "the connection to it ended" if self.exited() else "it does not take messages any more"

    def stderr_text(self) -> str:
        """It writes to its own."""
        return ""

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def close(self, ask: Callable[[], object] | None = None) -> None:
        """``ask`` (send QUIT), and wait a moment for it to go."""
        if self.closed or os.getpid() != self.owner:
            return
        self.closed = True
        if ask is not None and not self.exited():
            ask()
            deadline = time.monotonic() + _QUIT_WITHIN
            while not self.exited() and time.monotonic() < deadline:
                time.sleep(0.005)
        self._leave()

    def _leave(self) -> None:
        if self._zap is not None:
            self._zap.close(linger=0)
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
