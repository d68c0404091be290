"""One launched simulator and the conversation with its host: handshake, runs, the end."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import zmq

from ars import _native as native
from ars import wire
from ars._native import LIMITS, Message
from ars.columns import Columns, Site
from ars.errors import HostLostError, LaunchError, ProtocolError, RunInterrupted
from ars.proposers import Proposer
from ars.runtime.conversation import Conversation, Inbox
from ars.runtime.interrupts import Interrupts
from ars.runtime.launch import Family
from ars.runtime.link import Link
from ars.runtime.peer import Peer
from ars.runtime.reception import Guest, Line
from ars.runtime.remote import Listen, Visitor
from ars.runtime.run_summary import RunSummary
from ars.wire import Done, Hello, RunConfig, SiteTable

__all__ = ["Session"]

_log = logging.getLogger(__name__)

_HANDSHAKE_MS = 20
_ERROR_DELIVERY = 0.1  # seconds for the host to read why we give up
_DRAIN_LIMIT = 256  # messages taken in one go before requests are answered
_DRAIN_BYTES = 8 << 20  # and about so much of them
_WAITING_MESSAGES = 16  # that may lie in the socket; a host that sends more of its traces waits


class Session:
    """The controller's end of one family of simulator processes.

    ``on_columns`` and ``proposer`` are called in the thread that calls ``run``. After a run, also a cancelled one, the
    session can be used again; after a ProtocolError or a HostLostError it is closed. One thread at a time uses it; the
    others ask it to stop through ``closing``.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        workers: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        startup_timeout: float = float(LIMITS["startup_timeout"].standard),
        show_stdout: bool = False,
        sites: Sequence[Site] = (),
        listen: Listen | None = None,
        guest: Guest | None = None,
        closing: threading.Event | None = None,
        stop: Callable[[], object] | None = None,
    ) -> None:
        """``sites``: those that an earlier family of the same simulator had; they keep their ids. ``listen``: the
        simulator is not started, but awaited there. ``guest``: it has come already. ``closing``: once set, the
        handshake or the run ends with RunInterrupted. ``stop``: sets it, and waits for the thread that runs; for the
        end of the interpreter."""
        self.sites = SiteTable(sites)
        self._owner = os.getpid()
        self._run = 0
        self._peer = b""
        self._sent = self._received = 0
        self._closing = closing or threading.Event()
        self.summary: RunSummary | None = None  # of the last run, whatever ended it
        self._link = Link(stop or self._closing.set)
        self._family: Peer
        self._socket: zmq.Socket[bytes] | Line
        try:
            if guest is not None:
                self._socket, self._family = guest.line, guest
            else:
                self._socket = socket = self._open_socket()
                if listen is not None:
                    self._family = Visitor(self._link, socket, listen)
                else:
                    self._family = Family(
                        command, workers=workers, env=env, cwd=cwd, show_stdout=show_stdout, before_start=socket.bind
                    )
                    self._link.at_end(self._family.end)  # a visitor's processes are not ours to end
        except BaseException:
            self._link.close()
            raise
        try:
            with self._link.in_use():
                self.hello = self._handshake(startup_timeout)
        except BaseException:
            self.close()
            raise

    def _open_socket(self) -> zmq.Socket[bytes]:
        socket = self._link.socket(zmq.ROUTER)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, _WAITING_MESSAGES)
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # a host that is gone is an error, not a silence
        socket.setsockopt(zmq.MAXMSGSIZE, native.MAX_MESSAGE)
        return socket

    # ---- the handshake -----------------------------------------------------------------------------------------------

    def _handshake(self, startup_timeout: float) -> Hello:
        """Whoever comes and whatever they say, every pass looks at everything that can end it: the deadline too."""
        self._family.wait_loaded()
        deadline = time.monotonic() + startup_timeout
        while True:
            self._family.attend()
            if not self._socket.poll(_HANDSHAKE_MS):
                self._family.check_starting()
            elif (hello := self._hear_hello()) is not None:
                return hello
            if self._closing.is_set():
                raise RunInterrupted("the simulator was closed while it started")
            if time.monotonic() > deadline:
                raise self._family.never_began(startup_timeout)

    def _hear_hello(self) -> Hello | None:
        """One message of somebody who may be the simulator. None: it was a stranger, who has been refused."""
        try:
            peer, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        self._peer = peer
        try:
            hello, version = self._greeting(frames)
            self._say_welcome(version)
        except (ProtocolError, LaunchError, HostLostError) as error:
            if isinstance(error, ProtocolError):
                self._refuse(str(error))
            self._peer = b""
            if not self._family.patient:
                time.sleep(_ERROR_DELIVERY)
                raise
            self._family.refused(error)
            return None
        self._family.admitted(peer)
        return hello

    def _say_welcome(self, version: int) -> None:
        self._send(wire.encode_welcome(version))
        if len(self.sites):
            self._send(wire.encode_sites(self.sites.all()))

    def _greeting(self, frames: list[bytes]) -> tuple[Hello, int]:
        """HELLO from the right one, and the version that both speak."""
        if wire.decode_header(frames[0] if frames else b"").type is Message.ERROR:
            raise LaunchError(f"{self._family.name}: {wire.decode_error(frames[0])}")
        if len(frames) != 1:
            raise ProtocolError(f"HELLO: {len(frames)} frames, must be 1")
        hello = wire.decode_hello(frames[0])
        if not secrets.compare_digest(hello.token, self._family.token):
            raise ProtocolError("HELLO: the token is not the one that this simulator was started with")
        return hello, wire.choose_version(hello)

    # ---- a run -------------------------------------------------------------------------------------------------------

    def run(
        self,
        config: RunConfig,
        proposer: Proposer,
        on_columns: Callable[[Columns], bool],
        stop: threading.Event | None = None,
    ) -> Done:
        """One run, to its DONE. ``on_columns`` gets finished traces as they come and returns True to stop the run;
        another thread stops it with ``stop``. Afterwards, also after an error, ``summary`` says how it went."""
        self.summary = None
        if self.closed:
            raise HostLostError("this session is closed")
        self._run += 1
        sent, received = self._sent, self._received
        conversation = Conversation(self, config, proposer, on_columns, stop)
        started = time.monotonic()
        try:
            with self._link.in_use(), Interrupts() as interrupts:
                self._send(wire.encode_run(config, self._run))
                done = conversation.converse(interrupts)
            interrupts.check()  # a Ctrl-C that came with the last message: another run may follow
            return done
        except RunInterrupted:
            self._cancel(conversation)
            raise
        except KeyboardInterrupt as interrupt:
            self._cancel(conversation)
            raise RunInterrupted("the run was interrupted; .partial holds the finished traces") from interrupt
        except ProtocolError as error:
            self._refuse(str(error))
            time.sleep(_ERROR_DELIVERY)
            self.close()
            raise
        except HostLostError:
            self.close()
            raise
        except BaseException:
            self._cancel(conversation)
            raise
        finally:
            self.summary = RunSummary(
                conversation.done,
                0 if conversation.done is not None else conversation.came,
                time.monotonic() - started,
                self._sent - sent,
                self._received - received,
                conversation.steps_messages,
                conversation.requests,
            )

    def _cancel(self, conversation: Conversation) -> None:
        """Stops the run and takes in what had finished. If the host does not stop, the family is ended."""
        if conversation.done is not None:
            return
        try:
            with self._link.in_use():
                conversation.cancel()
        except BaseException as error:  # a second Ctrl-C too: the first reason is the one to report
            _log.warning("the run could not be stopped cleanly (%s); the simulator was ended", error)
            self.close()

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _send(self, frame: bytes) -> None:
        try:
            self._socket.send_multipart([self._peer, frame])
        except zmq.ZMQError as error:
            # A process that dies closes its socket a moment before it can be waited for.
            patience = time.monotonic() + 1.0
            while not self._family.exited() and time.monotonic() < patience:
                time.sleep(0.005)
            raise self._lost() from error
        self._sent += 1

    def _receive(self, wait_ms: int) -> list[list[bytes]]:
        """Messages that wait, without the peer's name; waits for the first one. Strangers are not heard."""
        messages: list[list[bytes]] = []
        size = 0
        if not self._socket.poll(wait_ms):
            return messages
        with contextlib.suppress(zmq.Again):
            for _ in range(_DRAIN_LIMIT):
                peer, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
                if peer == self._peer:
                    messages.append(frames)
                    size += sum(map(len, frames))
                if size >= _DRAIN_BYTES:
                    break
        self._received += len(messages)
        return messages

    def _inbox(self, config: RunConfig, wait_ms: int) -> Inbox:
        inbox = Inbox([], [], None, None)
        for frames in self._receive(wait_ms):
            try:
                if inbox.done is not None:
                    raise ProtocolError("a message of the run came after DONE")
                inbox = self._take(inbox, config, frames)
            except (ProtocolError, HostLostError) as error:
                return inbox._replace(error=error)
        return inbox

    def _take(self, inbox: Inbox, config: RunConfig, frames: list[bytes]) -> Inbox:
        header = wire.decode_header(frames[0] if frames else b"")
        if header.type is not Message.TRACES and len(frames) != 1:
            raise ProtocolError(f"{header.type.name}: {len(frames)} frames, must be 1")
        if header.type is Message.ERROR:
            raise HostLostError(f"{self._family.name}: the host gave up: {wire.decode_error(frames[0])}")
        if header.run != self._run and not (header.type is Message.SITES and header.run == 0):
            raise ProtocolError(f"{header.type.name}: run {header.run}, this is run {self._run}")
        if header.type is Message.SITES:
            self.sites.add(wire.decode_sites(frames[0]))
        elif header.type is Message.STEPS:
            inbox.steps.append(wire.decode_steps(frames[0], self.sites))
        elif header.type is Message.TRACES:
            inbox.columns.append(wire.decode_traces(frames, self.sites, config))
        elif header.type is Message.DONE:
            return inbox._replace(done=wire.decode_done(frames[0]))
        else:
            raise ProtocolError(f"{header.type.name}: a host does not send this during a run")
        return inbox

    def _check_alive(self) -> None:
        if self._family.exited() and not self._socket.poll(100):
            raise self._lost()

    def _lost(self, why: str = "") -> HostLostError:
        state = why or self._family.exit_text()
        said = self._family.stderr_text()
        tail = f". Its last lines on stderr:\n{said}" if said else ""
        return HostLostError(f"{self._family.name}: the simulator was lost in the middle of a run: {state}{tail}")

    def _refuse(self, reason: str) -> None:
        """Tells the peer why the conversation is over."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.send_multipart([self._peer, wire.encode_error(reason, self._run)], zmq.NOBLOCK)

    # ---- the end -----------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        return self._link.closed or self._family.closed

    @property
    def known_sites(self) -> tuple[Site, ...]:
        return self.sites.all()

    @property
    def pid(self) -> int | None:
        """The process that was started (ars-host, once the simulator has split); None if somebody else started it."""
        return self._family.pid

    def stderr_text(self) -> str:
        """The last lines that the simulator's processes wrote to stderr."""
        return self._family.stderr_text()

    def close(self) -> None:
        """Ends the family. A second call does nothing; nor does a call in a forked copy of this process."""
        if os.getpid() != self._owner:
            return

        def ask() -> None:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send_multipart([self._peer, wire.encode_quit()], zmq.NOBLOCK)

        try:
            if not self._link.closed:
                self._family.close(ask if self._peer else None)
        finally:
            self._link.close()

    def end_processes(self) -> None:
        """Ends the family at once, from any thread. The thread that is in the middle of a run finds it lost."""
        if os.getpid() == self._owner:
            self._family.end()
