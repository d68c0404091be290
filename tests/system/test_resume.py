"""A run's folder belongs to one run: whatever makes another run of it is refused, and says what differs."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resume_tools import Bits, compile_library, compile_simulator, in_pieces, put, refused, run

import ars
from ars.cli import main
from ars.errors import StorageError

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """zero, five: two builds of one simulator. linked: takes its shift from libshift.so beside it."""
    folder = tmp_path_factory.mktemp("built")
    compile_simulator(folder, "zero", "-DMEAN=0")
    compile_simulator(folder, "five", "-DMEAN=5")
    compile_library(folder / "shift0" / "libshift.so", 0)
    compile_library(folder / "shift5" / "libshift.so", 5)
    libraries = ("-L" + str(folder / "shift0"), "-lshift")
    compile_simulator(folder, "linked", "-DWITH_LIBRARY", link=(*libraries, "-Wl,-rpath,$ORIGIN/lib"))
    compile_simulator(folder, "unplaced", "-DWITH_LIBRARY", link=libraries)
    return folder


@pytest.fixture
def sim(built: Path, tmp_path: Path) -> Iterator[ars.Simulator]:
    """The simulator at a path where it can be rebuilt."""
    put(built / "zero", tmp_path / "sim")
    with ars.Simulator([tmp_path / "sim"], workers=2) as simulator:
        yield simulator


# ---- another simulator -----------------------------------------------------------------------------------------------


def test_a_rebuilt_simulator_is_refused(built: Path, sim: ars.Simulator, tmp_path: Path) -> None:
    """Break 1: half of the traces came from a prior with mean 0, half from one with mean 5."""
    run(sim, 100, tmp_path / "run")
    put(built / "five", tmp_path / "sim")
    with ars.Simulator([tmp_path / "sim"], workers=2) as rebuilt:
        said = refused(lambda: run(rebuilt, 200, tmp_path / "run"))
    assert "holds another run: simulator: the executable changed (build id " in said
    said = refused(lambda: run(sim, 200, tmp_path / "run"))  # one whose processes are still the old ones
    assert "the executable changed" in said
    put(built / "zero", tmp_path / "sim")
    assert Bits.of(run(sim, 200, tmp_path / "run")) == Bits.of(run(sim, 200))


def test_parts_of_a_rebuilt_simulator_are_not_joined(built: Path, sim: ars.Simulator, tmp_path: Path) -> None:
    """The same mixture by another way: Posterior.concat, also of a part that comes from a file."""
    options: dict[str, Any] = {"seed": 7, "observe": {"y": 0.5}, "budget": ars.Budget()}
    first = sim.posterior(traces=100, **options)
    first.save(tmp_path / "first.nc")
    put(built / "five", tmp_path / "sim")
    with ars.Simulator([tmp_path / "sim"], workers=2) as rebuilt:
        second = rebuilt.posterior(traces=100, first_trace=100, **options)
    for part in (first, ars.Posterior.load(tmp_path / "first.nc")):
        with pytest.raises(ValueError, match="the same run as part 0: the simulator was rebuilt in between"):
            ars.Posterior.concat([part, second])
    whole = ars.Posterior.concat([first, sim.posterior(traces=100, first_trace=100, **options)])  # still the old one
    assert Bits.of(whole) == Bits.of(sim.posterior(traces=200, **options))


def test_the_same_name_elsewhere_is_refused_and_the_same_file_is_not(
    built: Path, sim: ars.Simulator, tmp_path: Path
) -> None:
    run(sim, 100, tmp_path / "run")
    for name, build in (("other", "five"), ("same", "zero")):
        (tmp_path / name).mkdir()
        put(built / build, tmp_path / name / "sim")
    with ars.Simulator([tmp_path / "other" / "sim"], workers=2) as other:
        assert "the executable changed" in refused(lambda: run(other, 200, tmp_path / "run"))
    with ars.Simulator([tmp_path / "same" / "sim"], workers=2) as same:
        assert Bits.of(run(same, 200, tmp_path / "run")) == Bits.of(run(sim, 200))


def test_what_runs_is_what_the_folder_names(built: Path, sim: ars.Simulator, tmp_path: Path) -> None:
    """A Simulator whose executable was rebuilt under it: a new folder has traces of the new one only."""
    run(sim, 10)
    put(built / "five", tmp_path / "sim")
    post = run(sim, 400, tmp_path / "run", observe={"y": 5.0})
    assert abs(float(np.mean(post["x"])) - 5) < 0.3
    with ars.Simulator([built / "five"], workers=2) as five:
        assert Bits.of(post) == Bits.of(run(five, 400, observe={"y": 5.0}))


@pytest.mark.parametrize("by", ["rpath", "LD_LIBRARY_PATH", "LD_PRELOAD"])
def test_a_rebuilt_library_is_refused(by: str, built: Path, tmp_path: Path) -> None:
    """The executable is the same, its build id too."""
    library = compile_library(tmp_path / "lib" / "libshift.so", 0)
    put(built / ("linked" if by == "rpath" else "unplaced"), tmp_path / "sim")
    env = {"rpath": {}, "LD_LIBRARY_PATH": {by: str(library.parent)}, "LD_PRELOAD": {by: str(library)}}[by]
    if by == "LD_PRELOAD":
        env["LD_LIBRARY_PATH"] = str(built / "shift5")
    with ars.Simulator([tmp_path / "sim"], workers=2, env=env) as sim:
        whole = run(sim, 60, tmp_path / "run")
        assert abs(float(np.mean(whole["x"]))) < 1
        put(built / "shift5" / "libshift.so", library)
        said = refused(lambda: run(sim, 120, tmp_path / "run"))
        assert "simulator: library libshift.so changed (" in said
        put(built / "shift0" / "libshift.so", library)
        assert Bits.of(run(sim, 120, tmp_path / "run")) == Bits.of(run(sim, 120))


def test_what_a_wrapper_starts_is_part_of_it(built: Path, tmp_path: Path) -> None:
    """A script that sets things up and starts the simulator stays the same when the simulator is rebuilt."""
    put(built / "zero", tmp_path / "real")
    script = tmp_path / "sim"
    script.write_text(f'#!/bin/sh\nexec "{tmp_path}/real" "$@"\n')
    script.chmod(0o755)
    with ars.Simulator([script], workers=2) as sim:
        run(sim, 50, tmp_path / "run")
        put(built / "five", tmp_path / "real")
        assert "simulator: loaded real changed" in refused(lambda: run(sim, 100, tmp_path / "run"))
        put(built / "zero", tmp_path / "real")
        script.write_text(f'#!/bin/sh\nRESUMED_MEAN=5 exec "{tmp_path}/real" "$@"\n')
        assert "the executable changed (SHA-256 " in refused(lambda: run(sim, 100, tmp_path / "run"))


def test_a_simulator_that_is_rebuilt_in_mid_run_is_not_mixed_in(built: Path, tmp_path: Path) -> None:
    """It is lost, and would be started again as another one."""
    put(built / "zero", tmp_path / "sim")

    class Rebuild:
        """Rebuilds, and ends the processes, when some traces have come."""

        done = False

        def update(self, done: int, total: int) -> None:
            if 40 <= done < total and not self.done:
                self.done = True
                put(built / "five", tmp_path / "sim")
                assert sim.pid is not None
                os.kill(sim.pid, signal.SIGKILL)

        def close(self) -> None:
            pass

    with ars.Simulator([tmp_path / "sim"], workers=1) as sim:
        with pytest.raises(StorageError, match="the one found now is different") as caught:
            run(sim, 2_000_000, tmp_path / "run", progress=Rebuild())
        partial = caught.value.partial
        assert partial is not None
        assert 40 <= len(partial) < 2_000_000
        assert abs(float(np.mean(partial["x"]))) < 1
    put(built / "zero", tmp_path / "sim")
    with ars.Simulator([tmp_path / "sim"], workers=1) as sim:  # nor does a run that keeps nothing mix the two
        with pytest.raises(ars.ArsError, match="would mix traces of two simulators") as lost:
            run(sim, 2_000_000, progress=Rebuild())
        assert lost.value.partial is not None
        assert 40 <= len(lost.value.partial) < 2_000_000
        assert abs(float(np.mean(lost.value.partial["x"]))) < 1
    put(built / "zero", tmp_path / "sim")
    with ars.Simulator([tmp_path / "sim"], workers=2) as sim:
        resumed = run(sim, 500, tmp_path / "run")
        assert resumed.stats["traces_resumed"] > 0
        assert Bits.of(resumed) == Bits.of(run(sim, 500))


# ---- other settings --------------------------------------------------------------------------------------------------

CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "env": ({"env": {"RESUMED_MEAN": "5"}}, {}, "env: RESUMED_MEAN is new"),
    "cwd": ({"cwd": "/"}, {}, "cwd was None, is '/'"),
    "max_tries": ({"max_tries": 50}, {}, "limits: max_tries was 10000000, is 50"),
    "trace_timeout": ({"trace_timeout": 30}, {}, "limits: trace_timeout was 60.0, is 30.0"),
    "try_timeout": ({"try_timeout": 5}, {}, "limits: try_timeout was 0.0, is 5.0"),
    "max_snapshots": ({"max_snapshots": 40}, {}, "limits: max_snapshots was None, is 40"),
    "max_processes": ({"max_processes": 400}, {}, "limits: max_processes was 4096, is 400"),
    "max_memory": ({"max_memory": 1 << 30}, {}, "limits: max_memory was None, is 1073741824"),
    "seed": ({}, {"seed": 8}, "seed was 7, is 8"),
    "first_trace": ({}, {"first_trace": 50}, "first_trace was 0, is 50"),
    "data": ({}, {"observe": {"y": 0.75}}, "observe: y changed ([0.5] -> [0.75])"),
    "M": ({}, {"budget": ars.Budget(M=2, N=2)}, "M was 1, is 2"),
    "no estimate": ({}, {"budget": None}, "N was 2, is 0"),
    "in_loops": ({}, {"in_loops": "prior"}, "LOOPS_PRIOR"),
    "proposals": ({}, {"proposals": {"x": ars.Normal(0, 2)}}, "proposals: x is new"),
}


@pytest.fixture(scope="module")
def one_run(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and the simulator that made it, at a path that stays."""
    folder = tmp_path_factory.mktemp("one")
    put(built / "zero", folder / "sim")
    with ars.Simulator([folder / "sim"], workers=1) as sim:
        in_pieces(sim, folder / "run", (30, 60))
    return folder


@pytest.mark.parametrize("what", CHANGES)
def test_other_settings_are_refused(what: str, one_run: Path) -> None:
    simulator, options, expected = CHANGES[what]
    with ars.Simulator([one_run / "sim"], workers=1, **simulator) as sim:
        assert expected in refused(lambda: run(sim, 90, one_run / "run", **options))


def test_settings_that_change_no_number_may_change(one_run: Path, tmp_path: Path) -> None:
    shutil.copytree(one_run / "run", tmp_path / "run")
    with ars.Simulator(
        [one_run / "sim"], workers=3, max_restarts=1, startup_timeout=30, env={"ARS_WORKERS": "2"}
    ) as sim:
        resumed = run(sim, 90, tmp_path / "run", on_failure="zero", ask_ahead=True)
        assert resumed.stats["traces_resumed"] == 60
        assert Bits.of(resumed) == Bits.of(run(sim, 90))
        assert Bits.of(run(sim, 45, tmp_path / "run", seed=None)) == Bits.of(run(sim, 45))


def test_a_file_among_the_arguments_is_part_of_it(one_run: Path, tmp_path: Path) -> None:
    card = tmp_path / "card"
    card.write_text("0\n")
    with ars.Simulator([one_run / "sim", card], workers=1) as sim:
        run(sim, 30, tmp_path / "run")
        card.write_text("5\n")
        assert "simulator: argument 1 (card) changed (SHA-256" in refused(lambda: run(sim, 60, tmp_path / "run"))


def test_functions_are_known_by_what_they_compute(one_run: Path, tmp_path: Path) -> None:
    def wide(width: float) -> Callable[[ars.Drawn], ars.Distribution]:
        return lambda t: ars.Normal(np.zeros(t.rows), width)

    def with_width(t: ars.Drawn, width: float) -> ars.Distribution:
        return ars.Normal(np.zeros(t.rows), width)

    with ars.Simulator([one_run / "sim"], workers=1) as sim:
        call = functools.partial(run, sim)
        call(20, tmp_path / "a", proposals={"x": wide(2.0)})
        assert len(call(40, tmp_path / "a", proposals={"x": wide(2.0)})) == 40
        said = refused(lambda: call(40, tmp_path / "a", proposals={"x": wide(3.0)}))
        assert "proposals: x changed" in said
        call(20, tmp_path / "b", proposals={"x": functools.partial(with_width, width=2.0)})
        refused(lambda: call(40, tmp_path / "b", proposals={"x": functools.partial(with_width, width=3.0)}))


# ---- files of other runs ---------------------------------------------------------------------------------------------


@pytest.fixture
def folder(one_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(one_run / "run", tmp_path / "run"))


def test_a_folder_without_its_run_json_is_refused(folder: Path, one_run: Path) -> None:
    """Break 1: with run.json deleted, other data and another seed were mixed in."""
    (folder / "run.json").unlink()
    with ars.Simulator([one_run / "sim"], workers=1) as sim:
        assert "but no run.json" in refused(lambda: run(sim, 90, folder, seed=9, observe={"y": -2.0}))
        assert "but no run.json" in refused(lambda: run(sim, 90, folder))


def test_a_foreign_chunk_is_refused(folder: Path, one_run: Path, tmp_path: Path) -> None:
    """Break 1: a chunk that was copied from another run's folder was taken in."""
    with ars.Simulator([one_run / "sim"], workers=1) as sim:
        run(sim, 90, tmp_path / "other", seed=9)
        foreign = folder / "chunk-000002.ars"
        shutil.copy(tmp_path / "other" / "chunk-000000.ars", foreign)
        said = refused(lambda: run(sim, 90, folder))
        assert f"{foreign} belongs to another run" in said
        assert "Remove it" in said
        foreign.unlink()
        assert Bits.of(run(sim, 90, folder)) == Bits.of(run(sim, 90))


def test_the_identity_is_readable(folder: Path) -> None:
    about = json.loads((folder / "run.json").read_text())
    assert about["version"] == 2
    identity = about["identity"]
    assert identity["seed"] == 7
    assert identity["observe"]["y"]["values"] == [0.5]
    assert len(identity["simulator"]["executable"]["sha256"]) == 64
    assert identity["simulator"]["command"] == ["sim"]


def test_sites_of_another_family_keep_their_names(one_run: Path, tmp_path: Path) -> None:
    """A Simulator that had met its sites in another order took those of the folder for its own."""
    with ars.Simulator([one_run / "sim"], workers=1) as sim:
        whole = Bits.of(run(sim, 80))
    orders = set()
    for seed in range(8):
        with ars.Simulator([one_run / "sim"], workers=1) as sim:
            sim.prior(1, seed=seed)
            assert sim._processes.session is not None
            orders.add(tuple(site.name for site in sim._processes.session.known_sites))
            folder = Path(shutil.copytree(one_run / "run", tmp_path / f"run{seed}"))
            assert Bits.of(run(sim, 80, folder)) == whole
    assert len(orders) > 1


# ---- a disk that takes no more ---------------------------------------------------------------------------------------

SCRIPT = """
import os, resource, shutil, signal, sys
import ars
import ars.store.resume
from ars.errors import StorageError
path, folder, what, traces = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
in_the_middle = what == "full" and traces >= 1000
ars.store.resume._EVERY = 0.0 if in_the_middle else 1e9  # a chunk for every message, or one at the end
ars.Simulator._estimates_the_prior = True
sim = ars.Simulator([path], workers=1)
options = dict(budget=ars.Budget(M=1, N=2), seed=7)

class Watch:
    def update(self, done, total):
        if done >= 20 and not getattr(self, "once", False):
            self.once = True
            if what == "removed":
                shutil.rmtree(folder)
            else:  # no file may grow beyond this; the simulator has its memory already
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            if what == "ctrl-c":
                os.kill(os.getpid(), signal.SIGINT)
    def close(self):
        pass

try:
    sim.posterior({"y": 0.5}, traces, resume=folder, progress=Watch(), **options)
except StorageError as error:
    name, partial, words = "StorageError", error.partial, str(error)
except ars.RunInterrupted as error:
    name, partial, words = "RunInterrupted", error.partial, str(error) + " ".join(error.__notes__)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)
rows = partial.trace_numbers.tolist()
alone = sim.posterior({"y": 0.5}, max(rows) + 1, **options)
same = alone["x"][rows].tobytes() == partial["x"].tobytes()
same = same and alone.log_weights("ars")[rows].tobytes() == partial.log_weights("ars").tobytes()
print(name, len(partial), same, words.replace("\\n", " "))
sim.close()
"""


def _on_a_full_disk(one_run: Path, folder: Path, what: str, traces: int) -> tuple[str, int, str, str]:
    command = [sys.executable, "-c", SCRIPT, str(one_run / "sim"), str(folder), what, str(traces)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    name, count, same, words = done.stdout.strip().split(" ", 3)
    return name, int(count), same, words


@pytest.mark.parametrize("what", ["full", "removed"])
def test_a_finished_result_survives_the_disk(what: str, one_run: Path, tmp_path: Path) -> None:
    """Break 20: all traces had finished, and the last write hid the result."""
    name, count, same, words = _on_a_full_disk(one_run, tmp_path / "run", what, 300)
    assert (name, count, same) == ("StorageError", 300, "True"), words
    assert "Finished traces could not be kept" in words
    assert ".partial holds every trace that had finished" in words
    if what == "removed":
        assert "is gone" in words


def test_ctrl_c_on_a_full_disk_keeps_what_had_finished(one_run: Path, tmp_path: Path) -> None:
    name, count, same, words = _on_a_full_disk(one_run, tmp_path / "run", "ctrl-c", 100_000)
    assert (name, same) == ("RunInterrupted", "True"), words
    assert 20 <= count < 100_000
    assert "Finished traces could not be kept" in words


def test_a_run_stops_in_good_order_when_the_disk_is_full(one_run: Path, tmp_path: Path) -> None:
    """In the middle of the run, with traces under way; what was kept before is there, and the run can go on."""
    with ars.Simulator([one_run / "sim"], workers=2) as sim:
        folder = tmp_path / "run"
        in_pieces(sim, folder, (40,))
        name, count, same, words = _on_a_full_disk(one_run, folder, "full", 200_000)
        assert (name, same) == ("StorageError", "True"), words
        assert 40 <= count < 200_000
        assert Bits.of(run(sim, 100, folder)) == Bits.of(run(sim, 100))


def test_the_command_writes_a_finished_result(
    one_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ars infer --resume --out`: the folder takes nothing, the result is written all the same, and the code is 1."""

    def full(path: Path, _: object) -> None:
        if path.name != "run.json":
            raise StorageError(f"{path} could not be written: the disk is full")

    monkeypatch.setattr("ars.store.resume.write_whole", full)
    out = tmp_path / "post.npz"
    command = ["infer", str(one_run / "sim"), "--observe", "y=0.5", "--traces", "200", "--seed", "7", "--quiet"]
    assert main([*command, "--resume", str(tmp_path / "run"), "--out", str(out)]) == 1
    assert "All traces had finished" in capsys.readouterr().err
    with np.load(out) as found:
        assert len(found["trace"]) == 200


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_command_writes_what_had_finished(
    options: list[str],
    one_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The folder takes nothing more in the middle of a run: the finished traces are in no chunk, and are not lost."""

    def gone(path: Path, _: object) -> None:
        if path.name != "run.json":
            raise StorageError(f"{path} could not be written: No such file or directory")

    monkeypatch.setattr("ars.store.resume.write_whole", gone)
    monkeypatch.setattr("ars.store.resume._EVERY", 0.0)
    out = tmp_path / "post.npz"
    command = ["infer", str(one_run / "sim"), "--observe", "y=0.5", "--traces", "5000000", "--seed", "7", "--quiet"]
    assert main([*command, "--resume", str(tmp_path / "run"), "--out", str(out), *options]) == 1
    printed = capsys.readouterr()
    finished = r"of 5,000,000 traces( \(without the estimates of their loops\))? had finished: this is their result"
    assert re.search(rf"[\d,]+ {finished}", printed.err)
    with np.load(out) as found:
        rows = found["trace"].astype(int)
        assert 0 < len(rows) < 5_000_000
    if options:
        assert json.loads(printed.out)["complete"] is False
        assert json.loads(printed.out)["traces"] == len(rows)


def test_a_tiny_disk(one_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that is really full, where this may be mounted."""
    monkeypatch.setattr("ars.store.resume._EVERY", 1e9)  # one chunk, however slow this machine is
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        with ars.Simulator([one_run / "sim"], workers=1) as sim:
            with pytest.raises(StorageError, match="the disk is full") as caught:
                run(sim, 2000, disk / "run")
            partial = caught.value.partial
            assert partial is not None
            assert Bits.of(partial) == Bits.of(run(sim, 2000))
            run(sim, 20, disk / "small")
            with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as filler:
                while True:
                    filler.write(b"0" * 4096)
            assert Bits.of(run(sim, 20, disk / "small")) == Bits.of(run(sim, 20))  # complete: nothing to write
    finally:
        subprocess.run(["umount", str(disk)], check=True)
