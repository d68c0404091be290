"""Hosts made of network namespaces: each has an address of its own, and a switch connects them.

The switch is a namespace as well, so the machine's own network stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

NETWORK = "10.99.0"
_NAMES = Path("/run/netns")


class Host:
    """A network namespace with an address."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address

    def command(self, words: Sequence[str]) -> list[str]:
        """The command, run on this host."""
        return ["ip", "netns", "exec", self.name, *words]


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _remove(name: str) -> None:
    """Ends all processes of a namespace, and then the namespace. Its interfaces go with it."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        found = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
        if not found.stdout.split():
            break
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.02)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _remove_stale() -> None:
    """Those of test sessions that were killed."""
    for path in _NAMES.glob("arstest-*"):
        owner = re.match(r"arstest-(\d+)-", path.name)
        if owner is not None and not os.path.exists(f"/proc/{owner[1]}"):
            _remove(path.name)


@contextlib.contextmanager
def network_of(count: int) -> Iterator[list[Host]]:
    """So many hosts. Skips the test, with the reason, where that is not permitted. Nothing is left in the end."""
    if shutil.which("ip") is None:
        pytest.skip("ip is not installed (Debian: iproute2)")
    _remove_stale()
    prefix = f"arstest-{os.getpid()}-{os.urandom(2).hex()}"
    switch = f"{prefix}-switch"
    with contextlib.ExitStack() as stack:

        def made(name: str) -> str:
            stack.callback(_remove, name)  # first: what fails half way is removed too
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
            return name

        try:
            made(switch)
            _ip("-n", switch, "link", "add", "br0", "type", "bridge")
            _ip("-n", switch, "link", "set", "br0", "up")
            hosts = []
            for i in range(count):
                host = Host(made(f"{prefix}-{i}"), f"{NETWORK}.{i + 1}")
                _ip("-n", switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", host.name)
                _ip("-n", switch, "link", "set", f"port{i}", "master", "br0", "up")
                _ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
                _ip("-n", host.name, "link", "set", "eth0", "up")
                hosts.append(host)
        except OSError as error:
            pytest.skip(f"network namespaces are not permitted here: {error}")
        yield hosts
    assert not list(_NAMES.glob(f"{prefix}*"))
