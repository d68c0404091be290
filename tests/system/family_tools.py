"""Looking at a simulator's processes, and ending them: for tests of what happens then."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# The command line in a process of its own, for python -c; with estimates whether or not anything is proposed.
RUN_CLI = "import sys, ars; ars.Simulator._estimates_the_prior = True; from ars.cli import main; sys.exit(main())"
ROLES = ("host", "zygote", "worker", "snapshot", "continuation")


class Member(NamedTuple):
    """A process of a family."""

    pid: int
    role: str


def children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        return [int(c) for t in tasks for c in Path(f"/proc/{pid}/task/{t}/children").read_text().split()]
    except OSError:
        return []


def members(host: int) -> Iterator[Member]:
    """The host and all below it. Who is an orphan for a moment counts as a zygote's or host's child."""

    def below(pid: int, depth: int) -> Iterator[Member]:
        yield Member(pid, ROLES[min(depth, 4)])
        for child in children(pid):
            yield from below(child, depth + 1)

    if os.path.exists(f"/proc/{host}"):
        yield from below(host, 0)


def environment(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in raw.decode("utf-8", "replace").split("\0") if "=" in entry)


def end(pid: int, token: str) -> bool:
    """SIGKILL to this process, if it is still the one of the family with this token: pids are used again."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if environment(pid).get("ARS_TOKEN") != token:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


class Chaos(threading.Thread):
    """Ends a random process of the family every so often, while the family is at work."""

    def __init__(self, controller: int, seed: int, every: float = 0.05, roles: tuple[str, ...] = ROLES) -> None:
        super().__init__(name="chaos")
        self._controller = controller
        self._random = random.Random(seed)
        self._every = every
        self._roles = roles
        self._over = threading.Event()
        self.killed: dict[str, int] = dict.fromkeys(ROLES, 0)

    def run(self) -> None:
        while not self._over.wait(self._every):
            hosts = [pid for pid in children(self._controller) if "ARS_TOKEN" in environment(pid)]
            for host in hosts:
                family = list(members(host))
                # A simulator that is only just starting would never start.
                if not any(member.role == "worker" for member in family):
                    continue
                victim = self._random.choice([member for member in family if member.role in self._roles] or family)
                if end(victim.pid, environment(host).get("ARS_TOKEN", "")):
                    self.killed[victim.role] += 1

    @property
    def kills(self) -> int:
        return sum(self.killed.values())

    def stop(self) -> None:
        self._over.set()
        self.join()

    def __enter__(self) -> Chaos:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def wait_for(condition: object, seconds: float = 20.0) -> bool:
    """Whether the condition came true in time."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
