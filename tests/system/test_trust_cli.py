"""The command line tells what can be trusted, writes its files first, and never ends in a traceback."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import Builder, Variant
from scipy import integrate, stats

import ars
from ars import diagnostics
from ars.cli import main

HERE = Path(__file__).resolve().parent
ARS = [sys.executable, "-c", "import sys; from ars.cli import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(tmp_path_factory.mktemp("trust"))
    return str(builder.program([HERE / "trust" / "trust.c"], Variant("gcc", ("-O2",))))


def infer(program: str, mode: str, *more: str, traces: int = 200) -> list[str]:
    common = ["--observe", "y=0", "--seed", "1", "--workers", "2", "--quiet"]
    return ["infer", program, mode, "--traces", str(traces), *common, *more]


# ---- few traces that count --------------------------------------------------------------------------------------


def test_means_of_few_traces_have_no_error(program: str, started: Callable[[Any], Any]) -> None:
    """Proposals far from where the loop accepts: the delta method's error was off by up to hundreds of itself."""
    sim = started(ars.Simulator([program, "loop"], workers=2))
    mass = integrate.quad(lambda x: stats.norm.pdf(0.0, x, 0.5), 0.0, 0.5)[0]
    exact = integrate.quad(lambda x: x * stats.norm.pdf(0.0, x, 0.5), 0.0, 0.5)[0] / mass
    hidden = 0
    for seed in range(20):
        post = sim.posterior({"y": 0.0}, 20, seed=seed, proposals={"x": ars.Beta(6, 1)}, budget=ars.Budget(M=1, N=10))
        if post.ess() == 0.0:
            continue
        with pytest.warns(ars.FewTracesWarning, match="effective traces"):
            error = post.mean_error("x")
        weights = diagnostics.normalised_weights(post.log_weights())
        before = math.sqrt(np.square(weights * (post["x"] - post.mean("x"))).sum())
        if post.ess() < 2.0 - 1e-6:
            assert math.isnan(error)
            assert "effective traces are too few" in str(post.diagnostics()["ars"].values[0].error_reason)
            hidden += abs(post.mean("x") - exact) > 10 * before
        else:
            assert error == pytest.approx(before)
    assert hidden >= 5, "the old error was false in many of these"


def test_one_trace_has_no_error(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(infer(program, "far", traces=1)) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("r "))
    assert row.split()[2] == "nan"
    assert "! 1.0 effective traces are too few for a standard error" in row


def test_rows_of_the_table_carry_their_warnings(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(infer(program, "far", traces=2000)) == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(("r ", "pair["))]
    assert [row.split()[0] for row in rows] == ["r", "pair[0]", "pair[1]"]
    assert not any("!" in row for row in rows) and "harmonic" not in out
    assert main(infer(program, "far", traces=12)) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("r ", "pair["))]
    assert all("! " in row and "Pareto k is unknown" in row for row in rows)


def test_a_log_evidence_of_minus_100000(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(infer(program, "far", "--json", traces=2000)) == 0
    found = json.loads(capsys.readouterr().out)["weightings"][0]
    exact = stats.norm.logpdf(0.0, 0.0, math.sqrt(1.25)) - 1e5
    assert 0.0 < found["log_evidence_error"] < 0.1
    assert abs(found["log_evidence"] - exact) < 4 * found["log_evidence_error"]
    assert found["evidence"] is None
    assert main(infer(program, "far", traces=2000)) == 0
    assert f"(log {found['log_evidence']:.3f}, s.e. {found['log_evidence_error']:.2g})" in capsys.readouterr().out


# ---- --json and --require ---------------------------------------------------------------------------------------


def test_json_is_one_document(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "post.npz"
    assert main(infer(program, "loop", "--json", "--out", str(out))) == 0
    text = capsys.readouterr().out
    content = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert content["complete"] is True and content["missed_requirements"] == [] and content["traces"] == 200
    assert [value["name"] for value in content["weightings"][0]["values"]] == ["r", "pair[0]", "pair[1]", "x"]
    assert out.exists()


@pytest.mark.parametrize(
    ("required", "code", "message"),
    [
        (["--require-ess", "20"], 0, ""),
        (["--require-ess", "1000"], 3, "effective traces, but --require-ess 1000"),
        (["--require-k", "0.7"], 0, ""),
        (["--require-k", "-5"], 3, "Pareto k is -"),
        (["--require-ess", "1000", "--require-k", "-5", "--json"], 3, "--require-ess 1000"),
    ],
)
def test_requirements(
    program: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    required: list[str],
    code: int,
    message: str,
) -> None:
    out = tmp_path / "post.csv"
    assert main(infer(program, "far", *required, "--out", str(out))) == code
    printed, err = capsys.readouterr()
    assert message in err
    assert out.exists(), "everything is written first"
    if "--json" in required:
        assert len(json.loads(printed)["missed_requirements"]) == 2
    else:
        assert "mean" in printed and str(out) in printed


@pytest.mark.filterwarnings("ignore::ars.FewTracesWarning")
def test_an_error_that_was_asked_for(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is as long as it takes. If --traces does not allow that, the error is missed, like other requirements."""
    assert main(infer(program, "far", "--error", "0.05", "--json", traces=100_000)) == 0
    found = json.loads(capsys.readouterr().out)
    assert 100 <= found["traces"] < 20_000 and found["weightings"][0]["log_evidence_error"] <= 0.05
    assert main(infer(program, "far", "--error", "0.001", "--json", traces=2_000)) == 3
    printed, err = capsys.readouterr()
    assert "ars infer: the relative error is 0.0" in err and "but --error 0.001" in err
    assert len(json.loads(printed)["missed_requirements"]) == 1


def test_options_of_budgets_that_do_not_fit(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, said in {
        ("--budget", "1", "10", "--error", "0.1"): "--error goes with --budget auto, not with --budget 1 10",
        ("--error-of", "r"): "--error-of goes with --error",
        ("--costs", "/nowhere/costs.json"): "--costs /nowhere/costs.json: cannot read",
        ("--error", "3"): "error must be between 0 and 1",
    }.items():
        assert main(infer(program, "far", *wrong)) == 2
        assert said in capsys.readouterr().err


def test_an_unknown_k_misses_every_requirement(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(infer(program, "far", "--require-k", "100", traces=10)) == 3
    assert "Pareto k is unknown (10 weights are too few" in capsys.readouterr().err


def test_wrong_requirements_are_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--require-ess", "-1"], ["--require-ess", "many"], ["--require-k", "nan"]):
        with pytest.raises(SystemExit) as end:
            main(infer(program, "far", *wrong))
        assert end.value.code == 2
        assert wrong[0] in capsys.readouterr().err


# ---- no weight at all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".nc"])
def test_no_trace_has_weight(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str) -> None:
    out = tmp_path / f"post{suffix}"
    assert main(infer(program, "zero", "--out", str(out))) == 1
    printed, err = capsys.readouterr()
    assert out.exists()
    assert "no trace has weight: all 200 weights are 0" in printed
    assert "none of 200 traces has weight" in err
    assert main(infer(program, "zero", "--require-ess", "1")) == 3
    capsys.readouterr()
    assert main(infer(program, "zero", "--json")) == 1
    content = json.loads(capsys.readouterr().out)
    assert content["weightings"][0]["zero_share"] == 1.0
    assert content["weightings"][0]["log_evidence"] is None


def test_warnings_are_lines_like_errors(program: str) -> None:
    """Not the place in our code, nor a line of Python, which Python's own format has."""
    command = [*ARS, *infer(program, "nan", "--on-failure", "skip")]
    err = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stderr
    assert "ars infer: warning: 200 of 200 traces failed and were dropped" in err
    assert ".py:" not in err and "sim.posterior(" not in err


@pytest.mark.filterwarnings("ignore::ars.BiasWarning")
def test_no_trace_at_all(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every trace fails and is skipped, or has weight 0."""
    out = tmp_path / "post.csv"
    assert main(infer(program, "nan", "--on-failure", "skip", "--out", str(out))) == 1
    printed, err = capsys.readouterr()
    assert "no trace has finished" in printed and "nan: 200" in printed and "none of 0 traces has weight" in err
    assert out.exists()
    assert main(infer(program, "nan", "--on-failure", "skip", "--json", "--require-k", "1", "--require-ess", "1")) == 3
    assert json.loads(capsys.readouterr().out)["failures"] == {"nan": 200}
    assert main(infer(program, "nan", "--on-failure", "zero")) == 1
    assert "no trace has weight" in capsys.readouterr().out


# ---- pipes ------------------------------------------------------------------------------------------------------


def into_closed_pipe(command: list[str], *, stderr_too: bool = False) -> tuple[int, str]:
    """Exit code and stderr of a command whose stdout has no reader any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*ARS, *command],
            stdout=writing,
            stderr=writing if stderr_too else subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr or ""


def test_a_reader_that_goes_away_costs_nothing(program: str, tmp_path: Path) -> None:
    for number, more in enumerate(([], ["--json"])):
        out = tmp_path / f"post{number}.npz"
        assert into_closed_pipe(infer(program, "far", "--out", str(out), *more)) == (141, "")
        with np.load(out) as arrays:
            assert len(arrays["trace"]) == 200


def test_both_streams_may_be_closed(program: str, tmp_path: Path) -> None:
    out = tmp_path / "post.csv"
    command = [word for word in infer(program, "far", "--out", str(out)) if word != "--quiet"]
    assert into_closed_pipe(command, stderr_too=True)[0] == 141
    assert out.exists()


def test_a_missed_requirement_is_not_hidden_by_a_closed_pipe(program: str) -> None:
    code, err = into_closed_pipe(infer(program, "far", "--require-ess", "1000"))
    assert code == 3 and "--require-ess 1000" in err and "roken pipe" not in err


@pytest.mark.parametrize("command", [["--help"], ["infer", "--help"], ["inspect", "SIM"], ["keygen", "DIR"]])
def test_every_command_is_quiet_about_a_closed_pipe(
    command: list[str], csim: Callable[[str], str], tmp_path: Path
) -> None:
    words = [{"SIM": csim("marsaglia"), "DIR": str(tmp_path)}.get(word, word) for word in command]
    assert into_closed_pipe(words) == (141, "")
    if "keygen" in words:
        assert (tmp_path / "controller.key").exists() and (tmp_path / "simulator.key").exists()


def test_a_full_disk_behind_stdout_is_an_error(program: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*ARS, *infer(program, "far")], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert done.stderr.strip() == "ars: cannot write to stdout: [Errno 28] No space left on device"


def test_no_stdout_at_all(program: str, tmp_path: Path) -> None:
    out = tmp_path / "post.npz"
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *ARS, *infer(program, "far", "--out", str(out))]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "") and out.exists()


def test_a_file_that_cannot_be_written_does_not_cost_the_table(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ars.Posterior.save", full)
    assert main(infer(program, "far", "--out", str(tmp_path / "x.csv"))) == 1
    printed, err = capsys.readouterr()
    assert "effective traces" in printed and "written to" not in printed
    assert "No space left" in err


# ---- without torch ----------------------------------------------------------------------------------------------


@pytest.fixture
def without(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ars where some packages cannot be imported."""

    def run(command: list[str], *packages: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sitecustomize.py").write_text(
            "import sys\n"
            "class Block:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name.partition('.')[0] in {packages!r}:\n"
            "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
            "sys.meta_path.insert(0, Block())\n"
        )
        before = os.environ.get("PYTHONPATH")
        env = {**os.environ, "PYTHONPATH": str(tmp_path) if before is None else f"{tmp_path}{os.pathsep}{before}"}
        return subprocess.run([*ARS, *command], env=env, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.mark.parametrize(
    ("command", "package", "message"),
    [
        (["train", "SIM"], "torch", "ars train needs torch: pip install 'libars[network]'"),
        (["train", "SIM"], "safetensors", "ars train needs safetensors: pip install 'libars[network]'"),
        (["infer", "SIM", "--observe", "y=0", "--network", "n"], "torch", "ars infer needs torch: pip install"),
        (["inspect", "n.safetensors"], "torch", "ars inspect needs torch: pip install"),
        (["reproduce", "marsaglia", "--tiny"], "torch", "torch: pip install 'libars[network]'"),
        (["reproduce", "beta", "--tiny"], "matplotlib", "matplotlib: pip install"),
        (["bench", "train", "--smallest"], "torch", "torch: pip install 'libars[network]'"),
    ],
)
def test_missing_packages_are_named(
    without: Callable[..., subprocess.CompletedProcess[str]],
    csim: Callable[[str], str],
    tmp_path: Path,
    command: list[str],
    package: str,
    message: str,
) -> None:
    words = [{"SIM": csim("gaussian"), "n": str(tmp_path / "n")}.get(word, word) for word in command]
    done = without([*words, "--out", str(tmp_path / "out")] if words[0] == "reproduce" else words, package)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
    assert message in done.stderr.strip().splitlines()[-1]


def test_inference_without_torch_works(without: Callable[..., subprocess.CompletedProcess[str]], program: str) -> None:
    done = without(infer(program, "far"), "torch", "safetensors", "matplotlib", "xarray")
    assert done.returncode == 0, done.stderr
