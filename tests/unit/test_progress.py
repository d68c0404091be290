"""Progress: plain lines in a pipe, bars that fit a terminal, HTML in a notebook; and tables that fit."""

from __future__ import annotations

import io
import re
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ars.display import notebook, screen
from ars.progress import NoProgress, StreamProgress, make_progress, part_of


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Terminal]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):  # rich reads them
        monkeypatch.delenv(name, raising=False)

    def of(width: int) -> Terminal:
        for name, value in {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "30"}.items():
            monkeypatch.setenv(name, value)
        return Terminal()

    return of


def drawn(stream: io.StringIO) -> list[str]:
    """What was written, line by line, without what moves the cursor and colours."""
    return [line for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())) if line]


def clock(times: list[float]) -> Callable[[], float]:
    return lambda: times[0]


def test_a_pipe_gets_a_line_every_few_seconds_and_the_last_state() -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = StreamProgress(stream, clock=clock(now), every=5.0)
    for second in range(1, 13):
        now[0] = float(second)
        progress.update(100 * second, 1300)
    progress.close()
    assert stream.getvalue().splitlines() == [
        "ars: 500/1,300 traces, 100/s, 0:05 elapsed, 0:08 left",
        "ars: 1,000/1,300 traces, 100/s, 0:10 elapsed, 0:03 left",
        "ars: 1,200/1,300 traces, 100/s, 0:12 elapsed, 0:01 left",
    ]


def test_a_pipe_gets_no_lines_about_parts_and_nothing_without_news() -> None:
    stream = io.StringIO()
    progress = StreamProgress(stream, clock=clock([0.0]))
    part = part_of(progress, "steps")
    progress.close()
    assert stream.getvalue() == ""
    part.update(1, 2)
    part.close()
    assert "steps" not in stream.getvalue()


def test_a_slow_rate_is_per_minute() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = StreamProgress(stream, clock=clock(now), label="data sets")
    now[0] = 60.0
    progress.update(3, 10)
    progress.close()
    assert stream.getvalue() == "ars: 3/10 data sets, 3.0/min, 1:00 elapsed, 2:20 left\n"


@pytest.mark.parametrize("width", [30, 50, 80, 140])
def test_bars_fit_the_terminal(terminal: Callable[[int], Terminal], width: int) -> None:
    now = [0.0]
    stream = terminal(width)
    progress = StreamProgress(stream, clock=clock(now), label="traces of a run with a long name")
    progress.note("loss 0.1234, held-out 0.2345, and more than a line of a terminal can hold at any usual width, or so")
    steps = progress.part("training steps")
    for done in range(0, 2_000_001, 500_000):
        now[0] += 1.0
        progress.update(done, 2_000_000)
        steps.update(done // 1000, 2000)
    steps.close()
    progress.line("round 1: ESS/N 0.5")
    progress.close()
    lines = drawn(stream)
    assert lines and max(map(len, lines)) <= width
    assert any("training" in line for line in lines) and "training" not in lines[-1]
    assert "ars: round 1: ESS/N 0.5" in lines
    shown = "100 %" if width < 72 else "2,000,000/2,000,000"
    assert shown in lines[-1] or shown in lines[-2]
    assert stream.getvalue().rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_colours_follow_no_color(terminal: Callable[[int], Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        stream = terminal(80)
        progress = StreamProgress(stream)
        progress.update(1, 2)
        progress.close()
        return stream.getvalue()

    coloured = re.compile(r"\x1b\[(?:3|4|38;|9)[0-9;]*m")
    assert coloured.search(shown())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(shown())


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_cannot_redraw_gets_lines(
    terminal: Callable[[int], Terminal], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stream = terminal(80)
    monkeypatch.setenv("TERM", kind)
    progress = StreamProgress(stream)
    progress.update(1, 2)
    progress.close()
    assert stream.getvalue().startswith("ars: 1/2 traces") and "\x1b" not in stream.getvalue()


def test_a_stream_that_is_closed_costs_no_run(terminal: Callable[[int], Terminal]) -> None:
    for stream in (terminal(80), io.StringIO()):
        progress = StreamProgress(stream, every=0.0)
        stream.close()
        progress.update(1, 2)
        progress.update(2, 2)
        progress.close()


def test_quiet_says_nothing() -> None:
    for quiet in (None, False):
        assert isinstance(make_progress(quiet), NoProgress)
    with pytest.raises(TypeError, match="progress must be True, False, None or an object with"):
        make_progress("yes")  # type: ignore[arg-type]


def test_no_thread_draws(terminal: Callable[[int], Terminal]) -> None:
    """Threads and forks do not go together, and simulators are started while a bar is shown."""
    before = set(threading.enumerate())  # one of an earlier test may end meanwhile
    stream = terminal(80)
    progress = StreamProgress(stream)
    progress.update(1, 2)
    assert "\x1b" in stream.getvalue()  # a bar, not lines
    assert set(threading.enumerate()) <= before
    progress.close()


# ---- notebooks -------------------------------------------------------------------------------------------------------


def test_html_is_escaped() -> None:
    html = notebook.card("<b>title", ["a & b"], notebook.table(("", "x"), [("<script>", "1")], most=1))
    assert "&lt;script&gt;" in html and "&lt;b&gt;title" in html and "a &amp; b" in html
    assert "<script>" not in html
    assert "1 more" in notebook.table(("", "x"), [("a", "1"), ("b", "2")], most=1)


def test_a_process_without_a_kernel_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not notebook.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))  # a terminal
    assert not notebook.in_notebook()


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "left"), [(120, ["mean", "5%", "95%", "k"]), (40, ["mean", "k"]), (30, ["mean"])])
def test_tables_leave_out_what_does_not_fit(
    terminal: Callable[[int], Terminal], monkeypatch: pytest.MonkeyPatch, width: int, left: list[str]
) -> None:
    stream = terminal(width)
    monkeypatch.setattr(sys, "stdout", stream)
    heads = ("", "mean", "5%", "95%", "k", "empty")
    screen.print_table(heads, [("momentum_of_a_particle", *["1.23456789"] * 4, "")], drop=[("5%", "95%"), "k"])
    lines = drawn(stream)
    assert max(map(len, lines)) <= width
    assert lines[0].split() == left
    missing = [head for head in heads[1:5] if head not in left]
    assert all(head in " ".join(lines[2:]) for head in missing)
    assert "empty" not in stream.getvalue()


def test_text_is_wrapped_between_words_on_a_terminal_only(
    terminal: Callable[[int], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "! a warning that is longer than thirty columns, and [not] markup"
    monkeypatch.setattr(sys, "stdout", stream := terminal(30))
    screen.print_text(text)
    lines = drawn(stream)
    assert max(map(len, lines)) <= 30 and " ".join(" ".join(lines).split()) == text
    monkeypatch.setattr(sys, "stdout", pipe := io.StringIO())
    screen.print_text(text)
    assert pipe.getvalue() == f"{text}\n"
