"""The last lines on stderr: complete at the moment when somebody asks, however busy the machine is."""

from __future__ import annotations

import os
import threading

from ars.runtime.pipes import LastLines


def test_lines_written_before_the_question_are_in_the_answer() -> None:
    """The thread that reads them may not have run yet. In 500 turns it has not, now and then."""
    read, write = os.pipe()
    lines = LastLines(read)
    for turn in range(500):
        os.write(write, f"line {turn}\n".encode())
        assert lines.text(60.0).endswith(f"line {turn}")
    os.close(write)
    lines.close()


def test_a_log_that_holds_the_thread_up_costs_a_moment_only() -> None:
    read, write = os.pipe()
    lines = LastLines(read)
    held, go_on = threading.Event(), threading.Event()
    keep = lines._keep

    def slow(line: bytes) -> None:
        held.set()
        go_on.wait(60)
        keep(line)

    lines._keep = slow  # type: ignore[method-assign]
    os.write(write, b"one\n")
    assert held.wait(60)
    assert lines.text(0.01) == ""
    go_on.set()
    assert lines.text(60.0) == "one"
    os.close(write)
    lines.close()


def test_a_pipe_that_has_ended_is_not_waited_for() -> None:
    read, write = os.pipe()
    lines = LastLines(read)
    os.write(write, b"last words")
    os.close(write)
    lines.finish(60.0)
    assert lines.text(60.0) == "last words"
    lines.close()
