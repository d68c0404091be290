"""``ars cluster slurm`` against a stand-in for Slurm that starts the scripts for real."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from cluster_tools import DATA, gone
from same_traces import assert_same

import ars
from ars.cli import _parser, main

pytest.importorskip("distributed", reason="needs the extra cluster")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    # Not imported here: it replaces the handler of Ctrl-C, for every other test of this process too.
    pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="needs the extra slurm"),
]

ARS = str(Path(sys.executable).with_name("ars"))
NODE = ["--cores", "2", "--memory", "1G"]
INFER = ["--observe", "y=0.7", "--traces", "300", "--seed", "1", "--workers", "2", "--quiet"]


class Slurm:
    """The stand-in, as a test sees it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder

    def scripts(self) -> list[str]:
        """Of all jobs that were submitted."""
        return [path.read_text() for path in sorted(self.state.glob("*.sh"))]

    def pids(self) -> list[int]:
        return [int(json.loads(path.read_text())["pid"]) for path in self.state.glob("*.json")]


@pytest.fixture
def slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_processes: Callable[[], dict[int, str]]
) -> Iterator[Slurm]:
    """On the PATH. After the test no job runs, and the current folder is empty."""
    (state := tmp_path / "slurm").mkdir()
    (tools := tmp_path / "bin").mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        (tools / name).symlink_to(Path(__file__).with_name("slurm_standin.py"))
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("SLURM_STANDIN", str(state))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    try:
        yield Slurm(state)
        assert not list(here.iterdir())
        assert gone(lambda: {pid: what for pid, what in own_processes().items() if "dask_worker" in what})
    finally:
        for pid in Slurm(state).pids():  # of a test that failed
            if pid:
                try:
                    os.killpg(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def test_a_command_runs_on_two_nodes_and_nothing_is_left(
    slurm: Slurm, csim: Callable[[str], str], tmp_path: Path
) -> None:
    nested, out = csim("nested"), tmp_path / "post.nc"
    words = [ARS, "cluster", "slurm", "--nodes", "2", "--at-least", "2", *NODE, "--account", "physics"]
    command = [ARS, "infer", nested, *INFER, "--out", str(out)]
    done = subprocess.run([*words, "--", *command], capture_output=True, text=True, check=False, timeout=480)
    assert done.returncode == 0, done.stderr
    assert "scheduler tls://" in done.stderr and "2 of 2 nodes: ready" in done.stderr
    assert "effective traces" in done.stdout and "nodes" not in done.stdout  # the command's own
    assert len(slurm.scripts()) == 2
    for script in slurm.scripts():
        assert "#SBATCH -A physics" in script and "#SBATCH --cpus-per-task=2" in script and "#SBATCH --mem=1G" in script
        assert "--nthreads 1" in script and "--tls-ca-file" in script
    with ars.Simulator([nested], workers=2) as simulator:
        here = simulator.posterior(DATA, 300, seed=1)
    there = ars.Posterior.load(out)
    assert_same(there, here)


def test_it_stays_until_ctrl_c(
    slurm: Slurm, csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another command uses it with the scheduler file; the exit code of a command is ours."""
    file = tmp_path / "scheduler.json"
    words = [ARS, "cluster", "slurm", "--nodes", "1", *NODE, "--scheduler-file", str(file)]
    cluster = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    try:
        assert cluster.stderr is not None
        for line in cluster.stderr:
            if "ready" in line:
                break
        files = json.loads(file.read_text())["tls"]
        assert stat.S_IMODE(os.stat(files["key"]).st_mode) == 0o600
        assert main(["infer", csim("nested"), *INFER, "--dask", str(file)]) == 0
        assert "effective traces" in capsys.readouterr().out
    finally:
        cluster.send_signal(signal.SIGINT)
        _, said = cluster.communicate(timeout=300)
    assert cluster.returncode == 0, said
    assert not file.exists()
    assert len(slurm.scripts()) == 1


# ---- a cluster that never comes --------------------------------------------------------------------------------------


def test_jobs_that_wait_in_the_queue(slurm: Slurm, capsys: pytest.CaptureFixture[str]) -> None:
    (slurm.state / "pending").touch()
    assert main(["cluster", "slurm", "--nodes", "2", *NODE, "--wait", "2", "--", "true"]) == 1
    said = capsys.readouterr().err
    assert "0 of 2 nodes: job 1 pending (Resources), job 2 pending (Resources)" in said  # a plain line, at once
    assert "ars cluster: 0 of 1 nodes after 2 s: job 1 pending (Resources)" in said
    assert len(slurm.scripts()) == 2 and not list(slurm.state.glob("*.json"))  # they were cancelled


def test_a_signal_while_jobs_wait(slurm: Slurm) -> None:
    (slurm.state / "pending").touch()
    words = [ARS, "cluster", "slurm", "--nodes", "1", *NODE, "--", "touch", "never"]
    cluster = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert cluster.stderr is not None
        for line in cluster.stderr:
            if "pending" in line:
                break
    finally:
        cluster.terminate()
        cluster.communicate(timeout=300)
    assert cluster.returncode == 128 + signal.SIGTERM
    assert len(slurm.scripts()) == 1 and not list(slurm.state.glob("*.json"))


def test_jobs_that_end_at_once_are_named_with_their_last_lines(
    slurm: Slurm, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = ["--setup", "echo module gcc/99 is unknown >&2", "--setup", "exit 3"]
    assert main(["cluster", "slurm", "--nodes", "1", *NODE, *setup, "--", "true"]) == 1
    said = capsys.readouterr().err
    assert "all jobs have ended, and 0 of 1 nodes are ready" in said and "module gcc/99 is unknown" in said
    assert len(slurm.scripts()) == 1


def test_a_job_that_is_refused(slurm: Slurm, capsys: pytest.CaptureFixture[str]) -> None:
    (slurm.state / "refuse").write_text("sbatch: error: Invalid account or account/partition combination specified\n")
    assert main(["cluster", "slurm", "--nodes", "1", *NODE, "--", "true"]) == 1
    assert "sbatch refused a job: sbatch: error: Invalid account" in capsys.readouterr().err


def test_a_machine_without_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["cluster", "slurm", "--nodes", "1", *NODE]) == 1
    assert "sbatch, squeue, scancel not found on the PATH" in capsys.readouterr().err


def test_a_folder_that_a_job_script_cannot_name(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (blank := tmp_path / "my runs").mkdir()
    assert main(["cluster", "slurm", "--nodes", "1", *NODE, "--shared", str(blank)]) == 1
    assert "choose another one with --shared" in capsys.readouterr().err
    assert not slurm.scripts()


# ---- what is asked for -----------------------------------------------------------------------------------------------


def test_the_import_leaves_ctrl_c_alone() -> None:
    """dask_jobqueue replaces its handler when it is imported."""
    code = "import signal, ars.cluster.slurm; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    fresh = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    subprocess.run([sys.executable, "-c", fresh], check=True, timeout=300)


def test_a_dry_run_prints_the_script_and_submits_nothing(slurm: Slurm, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--walltime",
        "02:00:00",
        "--queue",
        "regular",
        "--interface",
        "ib0",
        "--processes",
        "2",
        "--setup",
        "ml gcc",
    ]
    words += ["--extra-directive=--constraint=haswell", "--local-directory", "/scratch", "--python", "/opt/python"]
    assert main(["cluster", "slurm", "--nodes", "4", "--cores", "32", "--memory", "64G", *words, "--dry-run"]) == 0
    script = capsys.readouterr().out
    for line in ("-t 02:00:00", "-p regular", "--cpus-per-task=32", "--mem=64G", "--constraint=haswell", "-n 1"):
        assert f"#SBATCH {line}\n" in script
    assert "\nml gcc\n/opt/python -m distributed.cli.dask_worker tls://SCHEDULER:8786" in script
    for words_ in (
        "--nthreads 1",
        "--nworkers 2",
        "--interface ib0",
        "--local-directory /scratch",
        "--tls-key KEY.PEM",
    ):
        assert words_ in script
    assert not slurm.scripts()
    assert main(["cluster", "slurm", "--nodes", "1", *NODE, "--no-tls", "--dry-run"]) == 0
    plain = capsys.readouterr().out
    assert "tcp://SCHEDULER:8786" in plain and "--tls" not in plain


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at-least", "3"], "--at-least 3 is more than --nodes 2"),
        (["--processes", "3"], "processes=3 is more than cores=2"),
        (["--memory", "64"], "memory=64 bytes is too little for a node: give a unit"),
        (["--scheduler-file", "/no/such/folder/x.json"], "/no/such/folder/x.json: its folder does not exist"),
        (["--tls-ca", "ca.pem"], "needs all of --tls-ca, --tls-cert and --tls-key"),
    ],
)
def test_options_that_cannot_be_meant(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "slurm", "--nodes", "2", *NODE, *words]) == 2
    assert message in capsys.readouterr().err


def test_certificates_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "certificates", str(tmp_path / "tls")]) == 0
    said = capsys.readouterr().out
    assert set(re.findall(r"--tls-\S+ (\S+)", said)) == {
        str(tmp_path / f"tls/{name}.pem") for name in ("ca", "cert", "key")
    }
    key = (tmp_path / "tls/key.pem").read_bytes()
    assert main(["cluster", "certificates", str(tmp_path / "tls")]) == 1
    assert "will not overwrite" in capsys.readouterr().err
    assert (tmp_path / "tls/key.pem").read_bytes() == key


def test_the_page_names_options_that_there_are() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text()
    parser = _parser()
    known = {"--nthreads", "--protocol", "--tls-ca-file", "--constraint"}  # of dask and of sbatch
    waiting = [parser]
    while waiting:
        for action in waiting.pop()._actions:
            known |= set(action.option_strings)
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) <= known
    slurm = set(re.findall(r"`(--[a-z-]+)", page[page.index("| option |") : page.index("## TLS")]))
    assert {"--nodes", "--cores", "--memory", "--walltime", "--account", "--interface", "--setup", "--wait"} <= slurm
