"""`ars infer` and `ars train` with a simulator that is started elsewhere: real processes, over tcp on loopback."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from family_tools import RUN_CLI

from ars.cli import main
from ars.runtime.keys import Keys, make_pair
from ars.runtime.launch import find_host
from ars.runtime.remote import Listen, listen_at

pytestmark = pytest.mark.usefixtures("estimates_the_prior")

ARS = [sys.executable, "-c", RUN_CLI]
INFER = ["--observe", "y=0.5", "--budget", "2", "4", "--seed", "8", "--quiet", "--traces", "600"]
SMALL = [
    "--traces",
    "1000",
    "--lstm-dim",
    "8",
    "--components",
    "2",
    "--batch-size",
    "100",
    "--threads",
    "1",
    "--seed",
    "1",
]


class Waiting:
    """An `ars` that listens, and the other machine: a folder with a key, an executable and ars-host."""

    def __init__(self, machine: Path, arguments: list[str]) -> None:
        self._machine = machine
        self.err = ""
        self.started: list[subprocess.Popen[bytes]] = []
        self.process = subprocess.Popen([*ARS, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def read_until(self, pattern: str, seconds: float = 60.0) -> re.Match[str]:
        """Reads stderr until it says this; forgets what came before."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while (found := re.search(pattern, self.err)) is None:
                assert selector.select(max(deadline - time.monotonic(), 0)), f"no {pattern!r} in {self.err!r}"
                chunk = os.read(self.process.stderr.fileno(), 65536)
                assert chunk, f"it ended without {pattern!r}: {self.err}"
                self.err += chunk.decode()
        self.err = self.err[found.end() :]
        return found

    def start_as_told(self) -> subprocess.Popen[bytes]:
        """Runs, in the other folder, the very line that was printed. What `sh` becomes is the simulator."""
        line = self.read_until(r"waiting at tcp://127\.0\.0\.1:\d+ for the simulator, at most \d+ s\..*run\n  (.*)\n")[
            1
        ]
        # Nothing of this installation; the variable is for the test that looks for what is left behind.
        env = {"PATH": "/usr/bin:/bin", "ARS_TEST_SESSION": os.environ["ARS_TEST_SESSION"]}
        command = ["sh", "-c", f"exec env {line}"]
        with (self._machine / "stderr").open("wb") as err:
            self.started.append(subprocess.Popen(command, cwd=self._machine, stderr=err, env=env))
        return self.started[-1]

    def end(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=300)
        self.err += err.decode()
        return self.process.returncode, out.decode()


@pytest.fixture
def waiting(csim: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[..., Waiting]]:
    """waiting("infer", "gaussian", ...): begins to listen, with keys of which the other machine has its half."""
    controller, simulator = make_pair(tmp_path / "keys")
    machine = tmp_path / "elsewhere"
    machine.mkdir()
    simulator.rename(machine / "simulator.key")
    made: list[Waiting] = []

    def start(command: str, name: str, *arguments: str, key: bool = True) -> Waiting:
        for needed in (csim(name), find_host(os.environ)):
            shutil.copy(needed, machine)
        keys = ["--key", str(controller)] if key else ["--insecure-loopback"]
        made.append(Waiting(machine, [command, "--listen", "tcp://127.0.0.1:*", *keys, *arguments]))
        return made[-1]

    yield start
    for one in made:
        for process in (one.process, *one.started):
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for pipe in (one.process.stdout, one.process.stderr):
            assert pipe is not None
            pipe.close()


def assert_same_files(a: Path, b: Path) -> None:
    with np.load(a, allow_pickle=False) as x, np.load(b, allow_pickle=False) as y:
        assert set(x.files) == set(y.files)
        for name in x.files:
            assert x[name].tobytes() == y[name].tobytes(), name


@pytest.mark.parametrize("key", [True, False], ids=["keys", "insecure_loopback"])
def test_infer_gives_what_it_gives_here(
    key: bool, waiting: Callable[..., Waiting], csim: Callable[[str], str], tmp_path: Path
) -> None:
    there = tmp_path / "there.npz"
    limits = ["--workers", "3", "--max-snapshots", "40"]
    ars = waiting("infer", "truncated_normal", "--out", str(there), *INFER, *limits, "./truncated_normal", key=key)
    simulator = ars.start_as_told()
    ars.read_until("the simulator is connected")
    code, out = ars.end()
    assert code == 0, ars.err
    assert "evidence" in out
    assert simulator.wait(20) == 0  # it was told to go
    assert main(["infer", csim("truncated_normal"), *INFER, "--out", str(tmp_path / "here.npz")]) == 0
    assert_same_files(there, tmp_path / "here.npz")


def test_a_simulator_that_is_lost_is_waited_for_again(
    waiting: Callable[..., Waiting],
    csim: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = tmp_path / "there.npz"
    more = [*INFER, "--traces", "6000"]
    ars = waiting(
        "infer",
        "truncated_normal",
        "--out",
        str(there),
        *more,
        "--resume",
        str(tmp_path / "run"),
        "--continuations",
        "fork",
        "--",
        "./truncated_normal",
    )
    first = ars.start_as_told()
    ars.read_until("the simulator is connected")
    time.sleep(0.3)  # it needs seconds
    first.kill()
    assert first.wait() == -signal.SIGKILL
    ars.start_as_told()
    code, _ = ars.end()
    assert code == 0, ars.err
    assert main(["infer", csim("truncated_normal"), *more, "--out", str(tmp_path / "here.npz")]) == 0
    assert_same_files(there, tmp_path / "here.npz")
    # An executable elsewhere cannot be compared with one here.
    assert main(["infer", csim("truncated_normal"), *more, "--resume", str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "the executable was on another machine (listen), and cannot be compared with this one" in said
    # The folder knows the run by the simulator's name, not by the port or the machine.
    again = ["--out", str(tmp_path / "again.npz"), "--resume", str(tmp_path / "run"), "--", "./truncated_normal"]
    ars = waiting("infer", "truncated_normal", *more, *again)
    ars.start_as_told()
    code, _ = ars.end()
    assert code == 0, ars.err
    assert_same_files(there, tmp_path / "again.npz")


def test_a_lost_controller_is_told_of_where_the_simulator_runs(waiting: Callable[..., Waiting], tmp_path: Path) -> None:
    """kill -9 of `ars infer`: nobody is left here to count it, so it is said there."""
    ars = waiting("infer", "truncated_normal", *INFER, "--traces", "50000000", "--", "./truncated_normal")
    simulator = ars.start_as_told()
    ars.read_until("the simulator is connected")
    time.sleep(0.3)
    ars.process.kill()
    assert simulator.wait(30) == 1
    said = (tmp_path / "elsewhere" / "stderr").read_text()
    assert "ars-host: lost_controller: the controller ended, or the connection to it," in said


@pytest.mark.timeout(400)
def test_train_gives_what_it_gives_here(
    waiting: Callable[..., Waiting], csim: Callable[[str], str], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from ars.network.facade import Network

    there, here = tmp_path / "there.safetensors", tmp_path / "here.safetensors"
    ars = waiting("train", "gaussian", "./gaussian", "2", *SMALL, "--out", str(there), "--quiet")
    simulator = ars.start_as_told()
    code, out = ars.end()
    assert code == 0, ars.err
    assert "written to" in out
    assert simulator.wait(20) == 0
    assert main(["train", csim("gaussian"), "2", *SMALL, "--out", str(here), "--quiet"]) == 0
    a, b = (Network.load(path).network.state_dict() for path in (there, here))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


# ---- what is wrong ---------------------------------------------------------------------------------------------------


def test_nobody_comes(capsys: pytest.CaptureFixture[str]) -> None:
    listen = ["--listen", "tcp://127.0.0.1:*", "--insecure-loopback", "--wait", "0.3"]
    assert main(["infer", *INFER, *listen]) == 1
    err = capsys.readouterr().err
    endpoint = re.search(r"waiting at (tcp://127\.0\.0\.1:\d+) for the simulator, at most 0\.3 s", err)
    assert endpoint
    assert f"ars infer: {endpoint[1]}: no simulator connected within 0.3 s" in err
    assert err.count(f"\n  ARS_ENDPOINT={endpoint[1]} ARS_INSECURE_LOOPBACK=1 ./simulator\n") == 2


def test_ctrl_c_while_it_waits(waiting: Callable[..., Waiting]) -> None:
    ars = waiting("infer", "truncated_normal", *INFER)
    ars.read_until("waiting at")
    ars.process.send_signal(signal.SIGINT)
    code, _ = ars.end()
    assert (code, "ars infer: interrupted" in ars.err) == (130, True)


KEYS = ["--key", "keys/controller.key"]


@pytest.mark.parametrize("command", ["infer", "train"])
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "give the simulator's command line, or --listen for one on another machine"),
        (["./sim", *KEYS], 2, "--key goes with --listen"),
        (["./sim", "--wait", "3"], 2, "--wait goes with --listen"),
        (["./sim", "--insecure-loopback"], 2, "--insecure-loopback goes with --listen"),
        (
            ["--listen", "tcp://*:5555"],
            2,
            "--listen tcp://*:5555 needs --key controller.key (ars keygen makes the pair)",
        ),
        (["--listen", "tcp://127.0.0.1:5555", "--insecure-loopback", *KEYS], 2, "not both"),
        (["--listen", "tcp://*:5555", "--insecure-loopback"], 2, "not a loopback address"),
        (["--listen", "tcp://*:5555", "--key", "none.key"], 1, "none.key: No such file"),
        (
            ["--listen", "tcp://*:5555", "--key", "keys/simulator.key"],
            1,
            "this is the simulator's file; use controller.key here",
        ),
        (["--listen", "tcp://*:5555", "--key", "open.key"], 1, "others can read this file"),
        (["--listen", "ipc:///tmp/x", *KEYS], 2, "must be tcp://ADDRESS:PORT"),
        (["--listen", "tcp://*", *KEYS], 2, "must be tcp://ADDRESS:PORT"),
        (["--listen", "tcp://*:port", *KEYS], 2, "must be tcp://ADDRESS:PORT"),
        (["--listen", "tcp://*:65536", *KEYS], 2, "with a port up to 65535"),
        (["--listen", "tcp://192.0.2.7:5555", *KEYS], 1, "cannot listen there: .*this machine has no such address"),
        (["--listen", "tcp://127.0.0.1:TAKEN", *KEYS], 1, "cannot listen there: Address already in use"),
    ],
)
def test_arguments_that_are_wrong(
    command: str,
    arguments: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All of them before anybody has waited for anything."""
    if command == "train":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "open.key").write_bytes(make_pair(tmp_path / "keys")[0].read_bytes())
    (tmp_path / "open.key").chmod(0o644)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        given = [word.replace("TAKEN", str(taken.getsockname()[1])) for word in arguments]
        assert main([command, *given, *(["--observe", "y=0.5"] if command == "infer" else [])]) == code
    err = capsys.readouterr().err
    assert err.startswith(f"ars {command}: ")
    assert re.search(says if ".*" in says else re.escape(says), err)
    assert "Traceback" not in err and "waiting" not in err


def test_the_line_to_run_elsewhere() -> None:
    """An address that the other machine can reach, and words that a shell leaves alone."""
    listen = listen_at("tcp://127.0.0.1:5555", None, insecure_loopback=True)
    assert listen.start_line("tcp://127.0.0.1:5555").endswith("ARS_INSECURE_LOOPBACK=1 ./simulator")
    keys = Keys(bytes(32), bytes(32), bytes(32), "0" * 32)
    for anywhere in ("*", "0.0.0.0", "[::]"):
        line = Listen("", keys, ("my sim", "a b"), {"ARS_WORKERS": "3"}).start_line(f"tcp://{anywhere}:5555")
        expected = f"ARS_ENDPOINT=tcp://{socket.gethostname()}:5555 ARS_KEY=simulator.key ARS_WORKERS=3 'my sim' 'a b'"
        assert line == expected
    assert "tcp://[2001:db8::1]:5555" in Listen("", keys).start_line("tcp://[2001:db8::1]:5555")
