"""Three hosts with addresses of their own, and TLS between them: the bits of one run, and strangers are refused."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from cluster_tools import DATA
from network_hosts import Host, network_of
from same_traces import assert_same

import ars

pytest.importorskip("distributed", reason="needs the extra cluster")
from ars.cluster.certificates import Certificates, make_certificates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PORT = 8786
DASK = [sys.executable, "-m"]
ARS = [sys.executable, "-m", "ars"]
INFER = ["--observe", "y=0.7", "--traces", "400", "--seed", "1", "--workers", "2", "--quiet"]
SCHEDULER, WORKERS = 0, (1, 2)  # hosts
DRIVER = """
import json, sys
from pathlib import Path
import ars.cluster
from ars.cluster.certificates import Certificates
from distributed import Client

if __name__ == "__main__":
    address, command, out, *files = sys.argv[1:]
    with Client(address, security=Certificates(*map(Path, files)).security()) as client:
        client.wait_for_workers(2, timeout=120)
        post = ars.cluster.posterior(client, [command], {"y": 0.7}, 400, seed=1, workers=2)
        post.save(out)
        # Of tasks: 0 on a worker that had none
        print(json.dumps(client.run(lambda dask_worker: dask_worker.state.transition_counter)))
"""


def options(files: Certificates, ca: str = "--tls-ca") -> list[str]:
    return [ca, str(files.ca), "--tls-cert", str(files.cert), "--tls-key", str(files.key)]


@contextlib.contextmanager
def running(host: Host, words: Sequence[str], log: Path) -> Iterator[None]:
    """A process on a host, for a while."""
    with log.open("w") as file:
        process = subprocess.Popen(host.command(words), stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def ours(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "tls")


@pytest.fixture
def hosts(tmp_path: Path, ours: Certificates) -> Iterator[list[Host]]:
    """A scheduler on the first, and a worker on each of the others."""
    tls = options(ours, "--tls-ca-file")
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(network_of(3))
        where = ["--host", hosts[SCHEDULER].address, "--port", str(PORT), "--protocol", "tls", "--no-dashboard"]
        scheduler = [*DASK, "distributed.cli.dask_scheduler", *where, *tls]
        stack.enter_context(running(hosts[SCHEDULER], scheduler, tmp_path / "scheduler.log"))
        for i in WORKERS:
            words = [*DASK, "distributed.cli.dask_worker", f"tls://{hosts[SCHEDULER].address}:{PORT}", *tls]
            words += ["--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / f"scratch{i}")]
            stack.enter_context(running(hosts[i], words, tmp_path / f"worker{i}.log"))
        yield hosts


def test_three_hosts_with_tls(
    hosts: list[Host], ours: Certificates, csim: Callable[[str], str], tmp_path: Path
) -> None:
    nested, address = csim("nested"), f"tls://{hosts[SCHEDULER].address}:{PORT}"
    (tmp_path / "driver.py").write_text(DRIVER)
    words = [sys.executable, str(tmp_path / "driver.py"), address, nested, str(tmp_path / "post.nc"), *map(str, ours)]
    member = hosts[SCHEDULER].command(words)
    done = subprocess.run(member, capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == 0, done.stderr
    worked = json.loads(done.stdout)
    assert {name.split(":")[1].strip("/") for name in worked} == {hosts[i].address for i in WORKERS}
    assert all(count > 0 for count in worked.values())
    with ars.Simulator([nested], workers=2) as simulator:
        here = simulator.posterior(DATA, 400, seed=1)
    assert_same(ars.Posterior.load(tmp_path / "post.nc"), here)

    # Another authority's certificate, none, and no TLS at all; and a member, from the same host.
    theirs = make_certificates(tmp_path / "theirs")
    tries = {
        "theirs": [address, *options(theirs)],
        "none": [address],
        "plain": [address.replace("tls", "tcp")],
        "ours": [address, *options(ours)],
    }
    stranger = hosts[WORKERS[-1]]
    started = {
        name: subprocess.Popen(
            stranger.command([*ARS, "infer", nested, *INFER, "--dask", *words]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        for name, words in tries.items()
    }
    ended = {name: (*process.communicate(timeout=480), process.returncode) for name, process in started.items()}
    out, said, code = ended.pop("ours")
    assert code == 0 and "effective traces" in out, said
    for name, (out, said, code) in ended.items():
        assert (code, out) == (1, ""), name
        assert "no scheduler answers there, or it refuses the connection" in said, name
