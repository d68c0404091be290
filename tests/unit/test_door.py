"""The door of a listening controller, with real connections: who is counted, and when it shuts."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from ars.errors import LaunchError
from ars.runtime.door import Door
from ars.runtime.link import Link

LIMIT = 60.0  # seconds: no hang


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link(lambda: None)
    yield link
    link.close()


@pytest.fixture
def door(link: Link) -> Door:
    return Door(link, link.socket(zmq.ROUTER), "tcp://127.0.0.1:*", most_waiting=4)


def connect(door: Door, seconds: float) -> socket.socket:
    port = int(door.endpoint.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=seconds)


def attend_until(door: Door, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        door.attend()
        time.sleep(0.001)


def test_the_door_is_shut_while_too_many_wait_and_opens_again(door: Door) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connect(door, LIMIT))
        attend_until(door, lambda: door.waiting == 4)
        with pytest.raises(TimeoutError):  # not refused: the kernel of the caller tries again later
            connect(door, 0.3)
        assert door.waiting == 4
    attend_until(door, lambda: door.waiting == 0)
    with connect(door, LIMIT):
        attend_until(door, lambda: door.waiting == 1)


def test_a_connection_made_before_works_behind_a_door_that_is_shut_for_good(door: Door) -> None:
    context = zmq.Context()
    peer = context.socket(zmq.DEALER)
    peer.connect(door.endpoint)
    peer.send(b"hello")
    router = door._router
    assert router.poll(int(LIMIT * 1000))
    who, _ = router.recv_multipart()
    door.shut_for_good()
    with pytest.raises(TimeoutError):
        connect(door, 0.3)
    door.attend()  # nothing to count any more, and nothing to read
    for _ in range(3):
        router.send_multipart([who, b"still there"])
        assert peer.poll(int(LIMIT * 1000))
        assert peer.recv() == b"still there"
    context.destroy(linger=0)


def test_events_without_a_reader_block_nobody(door: Door) -> None:
    """libzmq stands still when an event finds no room; nobody attends to the door here."""
    for _ in range(3000):
        connect(door, LIMIT).close()
    attend_until(door, lambda: door.waiting == 0)


def test_an_address_that_is_taken_is_named(door: Door) -> None:
    other = Link(lambda: None)
    with pytest.raises(LaunchError, match="cannot listen there"):
        Door(other, other.socket(zmq.ROUTER), door.endpoint)
    other.close()
