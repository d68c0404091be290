"""Who may talk to whom. Sockets and memory that only we can reach; tcp with keys or not at all; strangers refused."""

from __future__ import annotations

import ast
import contextlib
import logging
import os
import queue
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from family_tools import wait_for
from zmq.utils import z85

import ars
from ars import wire
from ars.cli import main
from ars.errors import HostLostError, KeyFileError, LaunchError
from ars.runtime.keys import make_pair, read_keys
from ars.runtime.launch import find_host

ROOT = Path(__file__).resolve().parents[2]
SEED, TRACES = 5, 200


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return make_pair(tmp_path / "keys")


@pytest.fixture
def start(csim: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Simulators as a user starts them by hand; ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def run(endpoint: str, **settings: str) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "ARS_ENDPOINT": endpoint,
            "ARS_HOST": find_host(os.environ),
            "ARS_WORKERS": "2",
            **settings,
        }
        errors = (tmp_path / f"stderr-{len(started)}").open("w+b")
        started.append(subprocess.Popen([csim("truncated_normal")], env=env, stderr=errors, stdout=subprocess.DEVNULL))
        errors.close()
        return started[-1]

    yield run
    for process in started:
        process.terminate()
        process.wait(20)


def said(tmp_path: Path, number: int = 0) -> str:
    return (tmp_path / f"stderr-{number}").read_text()


@pytest.fixture(scope="module")
def right(csim: Callable[[str], str]) -> Any:
    """What the same simulator gives when we start it ourselves."""
    with ars.Simulator([csim("truncated_normal")], workers=2) as sim:
        return sim.prior(TRACES, seed=SEED)


def assert_same(sim: ars.Simulator, right: Any) -> None:
    found = sim.prior(TRACES, seed=SEED)
    np.testing.assert_array_equal(found.columns.samples["value"], right.columns.samples["value"])
    np.testing.assert_array_equal(found.columns.values, right.columns.values)


# ---- private sockets and memory --------------------------------------------------------------------------------------


def test_the_socket_and_the_memory_are_ours_alone(simulator: Callable[..., ars.Simulator]) -> None:
    before = set(os.listdir("/dev/shm"))
    sim = simulator("truncated_normal", workers=1)
    sim.prior(10, seed=1)
    assert sim._processes.session is not None
    family = sim._processes.session._family
    assert os.stat(family.directory).st_mode & 0o777 == 0o700
    assert os.stat(family.directory).st_uid == os.geteuid()
    assert family.endpoint == f"ipc://{family.directory}/host"
    maps = Path(f"/proc/{sim.pid}/maps").read_text()
    assert "/memfd:ars (deleted)" in maps
    assert "/dev/shm" not in maps
    assert {name for name in os.listdir("/dev/shm") if "ars" in name} <= before
    assert not [fd for fd in os.listdir(f"/proc/{sim.pid}/fd") if "memfd" in _link(f"/proc/{sim.pid}/fd/{fd}")]


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def test_a_stranger_at_our_socket_is_not_heard(simulator: Callable[..., ars.Simulator], right: Any) -> None:
    """One of our own user: others cannot reach it. It says HELLO with another token, and what a host may say."""
    sim = simulator("truncated_normal", workers=2)
    sim.prior(1, seed=1)
    assert sim._processes.session is not None
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.connect(sim._processes.session._family.endpoint)
    for _ in range(300):
        stranger.send(wire.encode_hello(wire.Hello(2, 2, 1, 1, 1, "0" * 32)))
        stranger.send(wire.encode_error("give up"))
        stranger.send(b"nonsense")
    assert_same(sim, right)
    context.destroy(linger=0)


# ---- keys ------------------------------------------------------------------------------------------------------------


def test_keygen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "new" / "keys"
    assert main(["keygen", str(directory)]) == 0
    files = [directory / "controller.key", directory / "simulator.key"]
    first = [file.read_text() for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert sorted(os.listdir(directory)) == ["controller.key", "simulator.key"]
    secrets = [line.split()[1] for text in first for line in text.splitlines() if line.startswith("secret")]
    assert len(set(secrets)) == 2
    shown = capsys.readouterr().out
    assert "simulator.key" in shown and not any(secret in shown for secret in secrets)

    assert main(["keygen", str(directory)]) == 1
    assert "exists; ars keygen --force" in capsys.readouterr().err
    assert [file.read_text() for file in files] == first
    assert main(["keygen", "--force", str(directory)]) == 0
    assert all(file.read_text() != text for file, text in zip(files, first, strict=True))
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert sorted(os.listdir(directory)) == ["controller.key", "simulator.key"]


def test_key_files(pair: tuple[Path, Path], tmp_path: Path) -> None:
    controller, simulator = (read_keys(path, path.stem) for path in pair)
    assert controller.token == simulator.token
    assert (controller.public, simulator.public) == (simulator.peer, controller.peer)
    assert zmq.curve_public(z85.encode(controller.secret)) == z85.encode(controller.public)
    assert controller.secret.hex() not in repr(controller) + str(controller) + f"{controller}"
    with pytest.raises(KeyFileError, match=r"this is the simulator's file; use controller\.key here"):
        read_keys(pair[1])
    pair[0].chmod(0o640)
    with pytest.raises(KeyFileError, match="others can read this file"):
        read_keys(pair[0])
    with pytest.raises(KeyFileError, match="No such file"):
        read_keys(tmp_path / "none")
    (tmp_path / "other").write_text("role controller\nsecret 00\n")
    (tmp_path / "other").chmod(0o600)
    with pytest.raises(KeyFileError, match="not a key file that ars keygen made"):
        read_keys(tmp_path / "other")


@pytest.mark.parametrize(
    ("mode", "text", "says"),
    [
        (0o644, None, "others can read this file"),
        (0o600, "role simulator\nsecret 00\n", "not the simulator.key of a pair"),
        (0o600, "role controller\n", "not the simulator.key of a pair"),
    ],
)
def test_a_simulator_refuses_a_key_file_that_is_not_right(
    mode: int, text: str | None, says: str, pair: tuple[Path, Path], start: Any, tmp_path: Path
) -> None:
    if text is not None:
        pair[1].write_text(text)
    pair[1].chmod(mode)
    process = start(f"tcp://127.0.0.1:{free_port()}", ARS_KEY=str(pair[1]))
    assert process.wait(30) == 1
    assert says in said(tmp_path)


# ---- tcp -------------------------------------------------------------------------------------------------------------


def test_tcp_without_keys_is_refused(pair: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="tcp needs keys: run ars keygen"):
        ars.Simulator.listen("tcp://*:5555")
    with pytest.raises(ValueError, match="tcp needs keys"):
        ars.Simulator.listen("tcp://127.0.0.1:5555")
    for endpoint in ("tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://127.0.0.1.example.org:5555", "tcp://[::]:5555"):
        with pytest.raises(ValueError, match="not a loopback address"):
            ars.Simulator.listen(endpoint, insecure_loopback=True)
    with pytest.raises(ValueError, match="must be tcp://"):
        ars.Simulator.listen("ipc:///somewhere", key=pair[0])


def test_a_simulator_with_keys(
    pair: tuple[Path, Path], start: Any, right: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The same bits as from one that we start; and no secret in a command line, an environment, a log or stderr."""
    caplog.set_level(logging.DEBUG)
    came: list[subprocess.Popen[bytes]] = []

    def come(address: str, _: object) -> None:
        came.append(start(address, ARS_KEY=str(pair[1])))

    with ars.Simulator.listen("tcp://127.0.0.1:*", key=pair[0], announce=come) as sim:
        assert_same(sim, right)
        secrets = [read_keys(path, path.stem).secret.hex().encode() for path in pair]
        secrets += [z85.encode(bytes.fromhex(secret.decode())) for secret in secrets]
        assert wait_for(lambda: len(_shown(pair[1])) >= 8)  # of the host, the zygote, two workers
        shown = b"\0".join(_shown(pair[1])) + caplog.text.encode() + said(tmp_path).encode()
        assert not any(secret in shown for secret in secrets)
        assert sim.pid is None
    assert came[0].wait(20) == 0  # it was told to go


def _shown(key: Path) -> list[bytes]:
    """What anybody can read of the processes that were given this key file: their command lines and environments."""
    wanted = f"ARS_KEY={key}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and entry != str(os.getpid()):
            with contextlib.suppress(OSError):  # it has ended
                command, environment = (Path(f"/proc/{entry}/{what}").read_bytes() for what in ("cmdline", "environ"))
                found += [command, environment] if wanted in environment else []
    return found


def test_a_simulator_without_keys_on_loopback(start: Any, right: Any) -> None:
    def come(address: str, _: object) -> None:
        start(address, ARS_INSECURE_LOOPBACK="1")

    with ars.Simulator.listen("tcp://127.0.0.1:*", insecure_loopback=True, announce=come) as sim:
        assert_same(sim, right)


def test_nobody_comes(pair: tuple[Path, Path]) -> None:
    with pytest.raises(LaunchError, match=r"no simulator connected within 0\.3 s"):
        ars.Simulator.listen(f"tcp://127.0.0.1:{free_port()}", key=pair[0], startup_timeout=0.3)


def test_a_port_that_is_taken(pair: tuple[Path, Path]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LaunchError, match="cannot listen there"):
            ars.Simulator.listen(f"tcp://127.0.0.1:{taken.getsockname()[1]}", key=pair[0])


def test_strangers_are_refused_and_the_right_one_comes_in(
    pair: tuple[Path, Path], start: Any, right: Any, tmp_path: Path
) -> None:
    """A plain socket, a simulator with keys of another pair, one with the right keys and another token; and once the
    right one is there, a second with the right keys."""
    other = make_pair(tmp_path / "other")
    context = zmq.Context()
    plain = context.socket(zmq.DEALER)
    addresses: queue.Queue[str] = queue.Queue()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(
            ars.Simulator.listen,
            "tcp://127.0.0.1:*",
            key=pair[0],
            startup_timeout=100.0,
            announce=lambda address, _: addresses.put(address),
        )
        endpoint = addresses.get(timeout=60)
        plain.connect(endpoint)
        plain.send(wire.encode_hello(wire.Hello(2, 2, 1, 1, 1, read_keys(pair[0]).token)))
        half = start(endpoint, ARS_KEY=str(_with_peer(other[1], pair[1])))  # knows the controller, is not known to it
        wrong = start(endpoint, ARS_KEY=str(pair[1]), ARS_TOKEN="f" * 32)
        assert wrong.wait(40) == 1
        assert "the controller refused: HELLO: the token is not the one" in said(tmp_path, 1)
        assert half.wait(40) == 1
        assert "the controller does not know this key: the two key files are not of one pair" in said(tmp_path, 0)
        assert not coming.done()
        start(endpoint, ARS_KEY=str(pair[1]))
        sim = coming.result(60)
    with sim:
        second = start(endpoint, ARS_KEY=str(pair[1]))
        assert_same(sim, right)
        assert second.wait(60) == 1
        assert "it has its simulator already" in said(tmp_path, 3)
        assert_same(sim, right)
    context.destroy(linger=0)


def _with_peer(path: Path, peer_of: Path) -> Path:
    """The first file's keys with the second's peer and token."""
    lines = {line.split()[0]: line for line in path.read_text().splitlines()}
    right = {line.split()[0]: line for line in peer_of.read_text().splitlines()}
    path.write_text("\n".join({**lines, "peer": right["peer"], "token": right["token"]}.values()) + "\n")
    return path


def test_a_strangers_controller_hears_nothing(pair: tuple[Path, Path], start: Any, tmp_path: Path) -> None:
    """It listens where our controller should, with keys of its own: the simulator does not even say HELLO."""
    context = zmq.Context()
    rogue = context.socket(zmq.ROUTER)
    _, secret = zmq.curve_keypair()
    rogue.setsockopt(zmq.CURVE_SERVER, 1)
    rogue.setsockopt(zmq.CURVE_SECRETKEY, secret)
    rogue.bind("tcp://127.0.0.1:*")
    process = start(rogue.getsockopt_string(zmq.LAST_ENDPOINT), ARS_KEY=str(pair[1]))
    assert process.wait(40) == 1
    assert not rogue.poll(100)
    assert "before it said WELCOME: either the two key files are not of one pair, or" in said(tmp_path)
    context.destroy(linger=0)


def test_a_simulator_that_is_lost_is_missed_at_once(pair: tuple[Path, Path], start: Any, right: Any) -> None:
    came: list[subprocess.Popen[bytes]] = []

    def come(address: str, _: object) -> None:
        came.append(start(address, ARS_KEY=str(pair[1])))

    with ars.Simulator.listen("tcp://127.0.0.1:*", key=pair[0], max_restarts=0, announce=come) as sim:
        assert_same(sim, right)
        came[0].kill()
        came[0].wait()
        began = time.monotonic()
        with pytest.raises(HostLostError):
            sim.prior(10_000_000, seed=1)
        assert time.monotonic() - began < 25  # not at the end of the time that silence may take, 30 s and more
        assert_same(sim, right)  # the next run waits for the next one
        assert len(came) == 2


# ---- no pickle -------------------------------------------------------------------------------------------------------

FORBIDDEN = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def _offences(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {name.name}" for name in node.names if name.name.split(".")[0] in FORBIDDEN)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN:
            yield f"from {node.module} import"
        elif isinstance(node, ast.ImportFrom):
            yield from (f"import {name.name}" for name in node.names if name.name in FORBIDDEN)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in {"torch.load", "torch.save", "torch.jit.load", "eval", "exec", "pandas.read_pickle"}:
            yield called
        if called in {"np.load", "numpy.load", "np.save", "np.savez", "numpy.save"}:
            allowed = [k.value for k in node.keywords if k.arg == "allow_pickle"]
            if not (len(allowed) == 1 and isinstance(allowed[0], ast.Constant) and allowed[0].value is False):
                yield f"{called} without allow_pickle=False"


def test_there_is_no_pickle_on_disk_or_on_our_wire() -> None:
    """Dask's messages are pickles. One module makes some of them itself, to name what cannot be sent."""
    folders = [Path(ars.__file__).parent, ROOT / "bridge", ROOT / "tools"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 40
    found = {str(file): list(_offences(ast.parse(file.read_text()))) for file in files}
    sent = str(Path(ars.__file__).parent / "cluster" / "sent.py")
    assert {file: offences for file, offences in found.items() if offences} == {sent: ["import cloudpickle"]}


def test_the_search_for_pickle_finds_it() -> None:
    bad = "from distributed.protocol import pickle\nimport pickle\nfrom joblib import load\nx = np.load(f)\n"
    bad += "y = np.load(f, allow_pickle=True)\ntorch.load(f)\n"
    assert len(list(_offences(ast.parse(bad)))) == 6
    assert not list(_offences(ast.parse("np.load(f, allow_pickle=False)")))
