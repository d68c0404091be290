"""The other end of a session: a simulator that this process launched, or one that was started elsewhere and came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ars.errors import LaunchError

__all__ = ["Peer"]


class Peer(Protocol):
    """A simulator's processes, as far as a session needs to know them. ``Family`` and ``Visitor`` are the two kinds."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def token(self) -> str:
        """What its HELLO must repeat."""

    @property
    def pid(self) -> int | None:
        """The process that was started; None if somebody else started it."""

    @property
    def patient(self) -> bool:
        """Whether somebody who is refused may have been a stranger, so that the right one may still come."""

    @property
    def closed(self) -> bool:
        """Whether ``close`` has been called."""

    # ---- coming ------------------------------------------------------------------------------------------------------

    def wait_loaded(self) -> None:
        """Returns when libars is loaded, or at once if that cannot be known. Raises LaunchError if it never is."""

    def attend(self) -> None:
        """Called on every pass of a handshake."""

    def check_starting(self) -> None:
        """Raises LaunchError if the simulator will never say HELLO."""

    def refused(self, why: object) -> None:
        """Somebody has been turned away."""

    def never_began(self, within: float) -> LaunchError:
        """The error for a HELLO that did not come in time."""

    def admitted(self, peer: bytes) -> None:
        """It has said HELLO, over this connection."""

    # ---- being there -------------------------------------------------------------------------------------------------

    def exited(self) -> bool:
        """Whether it is gone."""

    def exit_text(self) -> str:
        """How it went, in words."""

    def pulse(self) -> int | None:
        """A number that changes as long as its process gets to run; None: not known."""

    def stderr_text(self) -> str:
        """The last lines that it wrote to stderr, as far as they are known."""

    # ---- leaving -----------------------------------------------------------------------------------------------------

    def close(self, ask: Callable[[], object] | None = None) -> None:
        """``ask`` it to leave, then end it. A second call does nothing."""

    @property
    def end(self) -> Callable[[], object]:
        """Ends it at once, from any thread."""
