"""Mistakes get a clear error that names the place, cost nothing that was computed, and leave the simulator usable.

bad/bad.c makes one mistake per name, in the traces whose first draw says so. That draw is the same for every mistake,
so which traces must fail is known exactly.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from build_helpers import COMPILERS, Builder, Variant

import ars
from ars import _native as native
from ars import wire
from ars._native import DTYPES, Message, RunFlag
from ars.errors import HostLostError, LaunchError, ObservationError, ProtocolError, TraceFailure
from ars.runtime.launch import find_host

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

HERE = Path(__file__).resolve().parent / "bad"
SEED = 6
TRACES = 17
OBSERVE = {"y": 0.25}
BUDGET = ars.Budget(M=1, N=2)
LOOP = r"loop bad\.c:leaky#0 was left without rs_end \({}.*before every way out.*both stand in the function that holds"


@pytest.fixture(scope="module", params=COMPILERS[:1])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    builder = Builder(tmp_path_factory.mktemp("bad"))
    variant = Variant(request.param, ("-O2", "-pthread"))
    sources = [HERE / "bad.c", HERE / "thrown.cpp"]
    made = builder.programs([([source], variant) for source in sources])
    return dict(zip((source.stem for source in sources), made, strict=True))


@pytest.fixture
def start(
    programs: Mapping[str, Path], started: Callable[[ars.Simulator], ars.Simulator]
) -> Callable[..., ars.Simulator]:
    """Simulators with a mistake, closed after the test."""

    def make(*arguments: str, program: str = "bad", **options: Any) -> ars.Simulator:
        return started(ars.Simulator([str(programs[program]), *arguments], workers=2, **options))

    return make


def posterior(sim: ars.Simulator, on_failure: Any = "raise", traces: int = TRACES) -> ars.Posterior:
    return sim.posterior(observe=OBSERVE, traces=traces, budget=BUDGET, seed=SEED, on_failure=on_failure)


@pytest.fixture(scope="module")
def right(programs: Mapping[str, Path]) -> dict[str, ars.Posterior]:
    """The same runs without a mistake."""
    found = {}
    for name, program in programs.items():
        with ars.Simulator([str(program), "nothing"], workers=2, continuations="fork") as sim:
            found[name] = posterior(sim)
    assert 3 <= found["bad"]["mistaken"].sum() <= 10
    assert not found["bad"]["mistaken"][0]
    return found


def check(sim: ars.Simulator, right: ars.Posterior, kind: str, says: str, traces: int = TRACES) -> None:
    """Under both policies: the failure's kind and words, exactly the expected traces, and the good ones untouched."""
    mistaken = right["mistaken"][:traces] == 1
    with pytest.raises(TraceFailure) as caught:
        posterior(sim, traces=traces)
    failure = caught.value.failures[0]
    assert failure.kind == kind, failure
    assert re.search(says, failure.text), failure.text
    assert failure.text in str(caught.value)
    assert mistaken[failure.trace]
    partial = caught.value.partial
    assert isinstance(partial, ars.Posterior)
    for number, value in zip(partial.trace_numbers, partial["sum"], strict=True):
        assert value == right["sum"][number]

    pid = sim.pid
    post = posterior(sim, "zero", traces)
    assert sim.pid == pid is not None, "the simulator was lost"
    assert dict(post.failures) == {kind: int(mistaken.sum())}
    assert np.isneginf(post.log_weights("biased")).tolist() == mistaken.tolist()  # K = 0 makes others 0 as well
    assert np.isneginf(post.log_weights("ars"))[mistaken].all()
    np.testing.assert_array_equal(post["sum"][~mistaken], right["sum"][:traces][~mistaken])
    np.testing.assert_array_equal(post.log_weights("ars")[~mistaken], right.log_weights("ars")[:traces][~mistaken])
    for example in post.failures.examples:
        assert re.search(says, example.text), example.text


def test_partial_results_are_kept(start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]) -> None:
    """With one worker the traces before the first failure are complete, and all of them are in the exception."""
    first = int(np.flatnonzero(right["bad"]["mistaken"] == 1)[0])
    sim = start("factor_nan")
    sim.workers = 1
    with pytest.raises(TraceFailure) as caught:
        posterior(sim)
    partial = caught.value.partial
    assert partial is not None
    assert partial.trace_numbers[:first].tolist() == list(range(first))
    assert len(posterior(sim, "zero")) == TRACES


# ---- mistakes of the simulator ----------------------------------------------------------------------------------

MISTAKES = {
    "left_nothing_after": ("loop_left", r"loop bad\.c:leaky#0 was left without rs_end"),
    "left_called_again": ("loop_left", LOOP.format("its function was called again")),
    "left_called_in_a_for": ("loop_left", LOOP.format("its function was called again")),
    "left_sample_after": ("loop_left", LOOP.format(r'its function had ended when ars_sample\("after"\) was called')),
    "left_draw_after": ("loop_left", LOOP.format(r"its function had ended when ars_draw")),
    "left_observe_after": ("loop_left", LOOP.format(r'its function had ended when ars_observe\("y"\)')),
    "left_result_after": ("loop_left", LOOP.format(r'its function had ended when ars_result\("after"\)')),
    "left_loop_after": ("loop_left", LOOP.format("its function had ended when another loop began")),
    "left_rs_end_after": ("loop_left", LOOP.format("rs_end of a loop around it was called")),
    "left_larger_frame_after": ("loop_left", r"loop bad\.c:leaky_with_array#0 was left without rs_end"),
    "left_inlined_called_again": ("loop_left", r"loop bad\.c:leaky_inline#0 was left without rs_end"),
    "left_by_break": ("loop_left", r"loop bad\.c:left_by_break#0 was left without rs_end"),
    "left_by_break_sample_after": ("loop_left", r"loop bad\.c:left_by_break#0 was left without rs_end"),
    "left_by_break_observe_after": (
        "observe_in_loop",
        r'ars_observe\("y"\) was called inside the loop bad\.c:left_by_break_observe_after#0.*left without rs_end',
    ),
    "left_by_longjmp": ("loop_left", r"loop bad\.c:jumps#0 was left without rs_end"),
    "left_by_longjmp_sample_after": ("loop_left", r'loop bad\.c:jumps#0 .* had ended when ars_sample\("after"\)'),
    "outer_retried": ("loop_left", r"loop inner was left without rs_end \(a loop around it was tried again"),
    "rs_end_alone": ("rs_end", r"rs_end.*rs_end_alone.*no loop is open: call rs_start"),
    "rs_end_twice": ("rs_end", r"rs_end.*rs_end_twice.*no loop is open: call rs_start"),
    "observe_in_loop": ("observe_in_loop", r'ars_observe\("y"\) was called inside the loop around.*after the loop'),
    "normals_in_loop": ("observe_in_loop", r'ars_observe_normals\("y"\) was called inside the loop around'),
    "factor_in_loop": ("observe_in_loop", r'ars_factor\("weight"\) was called inside the loop around'),
    "factor_nan": ("nan", r'ars_factor\("weight"\): the log likelihood is -?nan'),
    "factor_infinite": ("nan", r'ars_factor\("weight"\): the log likelihood is inf'),
    "site_changes": ("site_changed", r'"changing" was Normal before and is Uniform now; a name keeps one kind'),
    "name_empty": ("misuse", r"ars_sample needs a name that is not empty"),
    "name_long": ("limit", r'address of "n+" has 1025 bytes, at most 1024'),
    "name_long_in_loop": ("limit", r'address of "n+" has 1027 bytes, at most 1024'),
    "segfault": ("crash", r"signal 11|SIGSEGV|[Ss]egmentation"),
    "aborts": ("crash", r"signal 6|SIGABRT|[Aa]bort"),
    "exits": ("exit", r"exit.* 3|exit\(3\)"),
    "exits_0": ("exit", r"exit.* 0|exit\(0\)"),
    "exits_86": ("exit", r"exit.* 86|exit\(86\)"),
    "exits_87": ("exit", r"exit.* 87|exit\(87\)"),
    "thread_in_trace": ("threads", r"more than one thread"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(
    mistake: str, mode: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    check(start(mistake, continuations=mode), right["bad"], *MISTAKES[mistake])


IN_CONTINUATION = {
    "segfault": ("crash", r"(try under q|run under p) of the loop good loop was ended by signal 11"),
    "aborts": ("crash", r"(try under q|run under p) of the loop good loop was ended by signal 6"),
    "exits": ("exit", r"(try under q|run under p) of the loop good loop called exit\(3\) inside the loop"),
    "exits_0": ("exit", r"of the loop good loop called exit\(0\) inside the loop"),
    "exits_86": ("exit", r"of the loop good loop called exit\(86\) inside the loop"),
    "exits_87": ("exit", r"of the loop good loop called exit\(87\) inside the loop"),
    "left_by_break": ("loop_left", r"bad\.c:left_by_break#0|good loop"),
    "observe_in_loop": ("observe_in_loop", r'ars_observe\("y"\) was called inside the loop around'),
    "factor_nan": ("nan", r'ars_factor\("weight"\)'),
    "name_empty": ("misuse", r"ars_sample needs a name"),
}


@pytest.mark.parametrize("mistake", IN_CONTINUATION)
def test_a_mistake_in_a_continuation_is_named(
    mistake: str, mode: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    sim = start(mistake, "in_continuation", trace_timeout=10.0, continuations=mode)
    check(sim, right["bad"], *IN_CONTINUATION[mistake])
    assert len(sim.prior(50, seed=SEED)) == 50  # without continuations there is no mistake


@pytest.mark.parametrize("where", ["in_trace", "in_continuation"])
def test_an_endless_trace_ends_at_its_time_limit(
    where: str, mode: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    """Two seconds of its own time, which on a busy machine are many: the limit of this test is the one for a hang."""
    few = int(np.flatnonzero(right["bad"]["mistaken"] == 1)[1]) + 1  # two traces fail
    sim = start("endless", where, trace_timeout=2.0, continuations=mode)
    check(sim, right["bad"], "timeout", r"2 s.*trace_timeout", traces=few)


@pytest.mark.parametrize("where", ["in_trace", "in_continuation"])
def test_a_loop_that_never_accepts_ends_at_max_tries(
    where: str, mode: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    sim = start("never_accepts", where, max_tries=1000, continuations=mode)
    check(sim, right["bad"], "too_many_tries", r"loop hopeless was not accepted in 1000 tries.*raise max_tries")


THROWN = {
    "caught": ("loop_left", r"loop thrown\.cpp:thrower#0 was left without rs_end"),
    "caught again": (
        "loop_left",
        r"loop thrown\.cpp:thrower#0 was left without rs_end \(its function was called again",
    ),
    "caught sample": ("loop_left", r'loop thrown\.cpp:thrower#0 .*had ended when ars_sample\("after"\)'),
    "reject": ("loop_left", r"loop thrown out of was left without rs_end"),
    "reject again": ("loop_left", r"loop thrown out of was left without rs_end"),
    "reject sample": ("loop_left", r'loop thrown out of .*had ended when ars_sample\("after"\)'),
    "uncaught": ("crash", r"signal 6|SIGABRT|[Aa]bort"),
}


@pytest.mark.parametrize("mistake", THROWN)
def test_a_loop_left_by_an_exception_is_named(
    mistake: str, mode: str, start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    check(start(mistake, program="thrown", continuations=mode), right["thrown"], *THROWN[mistake])


def test_a_name_of_1024_bytes_is_allowed(start: Callable[..., ars.Simulator]) -> None:
    assert len(posterior(start("name_fits"))) == TRACES


def test_wrong_parameters_are_named(start: Callable[..., ars.Simulator]) -> None:
    """Every distribution, every kind of call: a sentence about the parameter, with the site's name."""
    source = (HERE / "bad.c").read_text()
    wrong = re.findall(r'{"([a-z]+ [a-z0-9 ]+)", ars_', source)
    assert len(wrong) == 41
    post = start("parameters").posterior(observe=OBSERVE, traces=1200, budget=None, seed=SEED, on_failure="zero")
    assert dict(post.failures) == {"parameter": 1200}
    texts = {bytes(f["text"]).split(b"\0")[0].decode() for f in post.columns.failures}
    for call in ("ars_sample", "ars_observe"):
        found = {name: text for text in texts for name in wrong if text.startswith(f'{call}("{name}"): ')}
        assert set(found) == set(wrong)
        for name, text in found.items():
            distribution = name.split()[0].replace("truncated", "truncatednormal")
            assert distribution in text.lower().replace(" ", ""), text
            assert "must" in text, text
    assert {t.split("(")[0] for t in texts} == {"ars_sample", "ars_observe", "ars_draw"}
    sums = next(t for t in texts if t.startswith('ars_sample("categorical short")'))
    assert re.search(r"sum to 0\.9.*1", sums), sums


def test_a_site_whose_observation_changes_is_named(
    start: Callable[..., ars.Simulator], right: dict[str, ars.Posterior]
) -> None:
    """Whichever trace observes first decides what the site is; all others must agree."""
    sim = start("observe_changes")
    sim.workers = 1
    check(sim, right["bad"], "site_changed", r'"y" was Normal before and is Exponential now')


# ---- data -------------------------------------------------------------------------------------------------------

DATA: dict[str, Any] = {"y": 0.5, "many": [0.0, 1.0, 2.0], "row": [0.0, 1.0]}


@pytest.mark.parametrize("policy", ["raise", "zero", "skip"])
@pytest.mark.parametrize(
    ("observe", "says"),
    [
        ({**DATA, "typo": 1.0}, r'given for "typo", which the simulator did not observe.*check the name'),
        ({"y": 0.5, "row": [0, 1]}, r'observes "many", for which no data were given; given: "y", "row".*observe='),
        ({**DATA, "many": [0.0, 1.0]}, r'"many" are too short: 2 values were given, .* at least 3'),
        ({**DATA, "many": [0.0] * 4}, r'"many" are too long: 4 values were given, the simulator observed 3'),
        ({**DATA, "row": [0.0]}, r'"row" are too short: 1 values were given, .* at least 2'),
        ({**DATA, "row": [0.0] * 5}, r'"row" are too long: 5 values were given, the simulator observed 2'),
        ({}, r'observes "y", for which no data were given; given: none'),
    ],
    ids=["never observed", "missing", "short", "long", "short row", "long row", "none"],
)
def test_data_that_do_not_fit(
    observe: dict[str, Any], says: str, policy: Any, start: Callable[..., ars.Simulator]
) -> None:
    sim = start("data")
    with pytest.raises(ObservationError, match=says) as caught:
        sim.posterior(observe=observe, traces=50, seed=SEED, on_failure=policy)
    assert caught.value.failures[0].kind == "observation"
    assert caught.value.partial is not None
    post = sim.posterior(observe=DATA, traces=50, seed=SEED)
    assert len(post) == 50
    assert np.isfinite(post.log_weights("ars")).all()


# ---- outside a trace, threads, and programs that never begin ----------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        ("sample_before", r'ars_sample\("early"\) was called outside a trace: call it from the model'),
        ("observe_before", r'ars_observe\("early"\) was called outside a trace: call it from the model'),
        ("rs_start_before", r"rs_start of bad\.c:leaky#0 was called outside a trace: call it from the model"),
        ("reject_before", r"ars_reject of bad\.c:main#0 was called outside a trace: call it from the model"),
        ("thread_before", r"more than one thread when its first trace begins"),
        ("never_begins", r"exited with code 4 .*never called ars_main or ars_next_trace"),
    ],
)
def test_a_program_that_cannot_become_a_simulator_says_why(
    mistake: str, says: str, start: Callable[..., ars.Simulator]
) -> None:
    sim = start(mistake)
    began = time.monotonic()
    with pytest.raises(LaunchError, match=says):
        sim.prior(1, seed=1)
    assert time.monotonic() - began < 30  # not at the end of startup_timeout
    assert not sim.running


def test_a_program_that_never_asks_for_a_trace(start: Callable[..., ars.Simulator]) -> None:
    with pytest.raises(LaunchError, match=r"did not ask for its first trace within 1 s \(startup_timeout\)"):
        start("sleeps", startup_timeout=1.0).prior(1, seed=1)


@pytest.mark.parametrize("mistake", ["sample_before", "rs_start_before", "sample_after"])
def test_alone_a_call_outside_a_trace_aborts(mistake: str, programs: Mapping[str, Path]) -> None:
    done = subprocess.run([programs["bad"], mistake], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGABRT
    assert re.search(r"libars: outside_trace: .* was called outside a trace", done.stderr)
    assert done.stdout == ""


def test_alone_a_wrong_parameter_aborts(programs: Mapping[str, Path]) -> None:
    done = subprocess.run([programs["bad"], "parameters"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGABRT
    assert re.search(r"libars: parameter: ars_(sample|observe|draw)\(", done.stderr)


# ---- executables that are none ----------------------------------------------------------------------------------


def _script(directory: Path, mode: int) -> str:
    path = directory / "script"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(mode)
    return str(path)


EXECUTABLES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "missing": (lambda d: [str(d / "nothing")], r"nothing: there is no such file"),
    "missing on the PATH": (lambda _: ["no-such-simulator"], r"no-such-simulator: there is no such executable"),
    "not executable": (lambda d: [_script(d, 0o644)], r"script: this file is not executable; try chmod .*ars compile"),
    "a directory": (lambda d: [str(d)], r"this is a directory"),
    "true": (lambda _: ["/bin/true"], r"/bin/true: .*not linked against libars"),
    "a shell script": (lambda d: [_script(d, 0o755)], r"script: .*not linked against libars"),
    "sleep": (
        lambda _: ["/bin/sleep", "100"],
        r"sleep: no sign of libars within 4\.5 s.*not linked against libars",
    ),
}


@pytest.mark.parametrize("what", EXECUTABLES)
def test_an_executable_that_is_no_simulator_is_found_soon(what: str, tmp_path: Path) -> None:
    command, says = EXECUTABLES[what]
    began = time.monotonic()
    with ars.Simulator(command(tmp_path)) as sim, pytest.raises(LaunchError, match=says):
        sim.prior(1, seed=1)
    assert time.monotonic() - began < 30  # what takes longest says that it waited for 4.5 s


# ---- another protocol version -----------------------------------------------------------------------------------

FAKE_HOST = """
import os, sys
os.write(int(os.environ["ARS_ALIVE_FD"]), b"A")
import zmq
from ars import wire
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(os.environ["ARS_ENDPOINT"])
hello = bytearray(wire.encode_hello(wire.Hello(99, 99, 1, os.getpid(), os.getpid(), os.environ["ARS_TOKEN"])))
if sys.argv[1] == "header":
    hello[4:6] = (99).to_bytes(2, "little")
socket.send(bytes(hello))
socket.poll(3000)
"""


@pytest.mark.parametrize("where", ["hello", "header"])
def test_a_host_of_another_version_is_refused(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARS_HOST", "/bin/true")
    script = tmp_path / "fake.py"
    script.write_text(FAKE_HOST)
    began = time.monotonic()
    with ars.Simulator([sys.executable, str(script), where]) as sim, pytest.raises(ProtocolError, match=r"version.*99"):
        sim.prior(1, seed=1)
    assert time.monotonic() - began < 50  # not at the end of startup_timeout


@pytest.mark.parametrize("where", ["WELCOME", "RUN"])
def test_a_controller_of_another_version_is_refused(where: str, programs: Mapping[str, Path], tmp_path: Path) -> None:
    """The host says why, to the controller and on stderr, and ends with its family."""
    context = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    endpoint = f"ipc://{tmp_path}/s"
    socket.bind(endpoint)
    env = {**os.environ, "ARS_ENDPOINT": endpoint, "ARS_TOKEN": "0" * 32, "ARS_WORKERS": "2"}
    env |= {"ARS_CONTROLLER_PID": str(os.getpid()), "ARS_HOST": find_host(os.environ)}
    process = subprocess.Popen([programs["bad"], "nothing"], env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert socket.poll(30_000)
        peer, hello = socket.recv_multipart()
        assert wire.decode_header(hello).type is Message.HELLO
        if where == "WELCOME":
            welcome = np.frombuffer(wire.encode_welcome(native.VERSION), DTYPES["welcome"]).copy()
            welcome["version"] = 99
            socket.send_multipart([peer, welcome.tobytes()])
        else:
            run = bytearray(wire.encode_run(wire.RunConfig(1, 10, RunFlag.PROPOSE_PRIOR), 1))
            run[4:6] = (99).to_bytes(2, "little")
            socket.send_multipart([peer, wire.encode_welcome(native.VERSION)])
            socket.send_multipart([peer, bytes(run)])
        said = process.communicate(timeout=30)[1]
        assert process.returncode != 0
        assert re.search(r"version 99", said), said
        reason = ""
        while socket.poll(200):
            _, frame = socket.recv_multipart()
            if wire.decode_header(frame).type is Message.ERROR:
                reason = wire.decode_error(frame)
        assert re.search(r"version 99", reason), reason
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
        context.destroy(linger=0)


# ---- the budget -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["M", "N"])
@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (0, ValueError, "must be at least 1, not 0"),
        (-3, ValueError, "must be at least 1, not -3"),
        (2**32, ValueError, "must be at most"),
        (1.0, TypeError, "must be an integer, not 1.0"),
        (True, TypeError, "must be an integer, not True"),
        ("1", TypeError, "must be an integer, not '1'"),
        (float("nan"), TypeError, "must be an integer, not nan"),
    ],
)
def test_a_wrong_budget_names_its_field(field: str, value: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"Budget: {field} {says}"):
        ars.Budget(**{field: value})


def test_a_lost_host_is_an_error_and_the_next_run_starts_a_new_one(start: Callable[..., ars.Simulator]) -> None:
    sim = start("endless", trace_timeout=2.0, max_restarts=0)
    sim.prior(1, seed=SEED)
    assert sim.pid is not None
    os.kill(sim.pid, signal.SIGKILL)
    with pytest.raises(HostLostError, match="ended by SIGKILL"):
        sim.prior(2000, seed=SEED, on_failure="zero")
    assert len(sim.prior(1, seed=SEED)) == 1
