"""``ars bench`` in its smallest form: every suite runs and says what it promises. Nothing here asserts a speed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ars
from ars.cli import main
from ars_lab.bench import budget, by_hand, costs, draws, fork, infer, machine, peer, rewind, sites, stages, train
from ars_lab.bench.budget_cases import cases
from ars_lab.bench.compare import compare
from ars_lab.bench.document import BEGIN, END, markdown, replace_tables
from ars_lab.bench.measure import Effort, find_simulator
from ars_lab.bench.results import BenchError, Measurement, Report, load, measurement, number, table

SMALLEST = Effort(seconds=0.02, repeats=1, size="smallest")


@pytest.fixture
def directory(csim: Callable[[str], str]) -> str:
    return str(Path(csim("bench_loop")).parent)


def by_metric(measurements: list[Measurement]) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for m in measurements:
        assert math.isfinite(m.value) and m.value >= 0 and m.spread >= 0
        found.setdefault(f"{m.suite}: {m.metric}", []).append(m)
    return found


# ---- suites ----------------------------------------------------------------------------------------------------------


def test_fork(directory: str) -> None:
    found = by_metric(list(fork.run(SMALLEST, directory)))
    assert {m.case["loops"] for m in found["fork: over bare"]} == {1}
    [bare] = found["fork: bare fork"]
    assert 1 < bare.value < 1e6  # microseconds: it did fork
    [rate], [tries] = found["fork: continuations/s"], found["fork: tries/s"]
    assert tries.value >= rate.value > 0  # a continuation makes one try or more
    [private] = found["memory: pages of its own"]
    assert 4 <= private.value < 20_000  # a snapshot was there, and did not copy the process


def test_full_grid_of_fork_is_that_of_the_issue() -> None:
    grid = fork._grid(Effort(size="full"))
    assert len(grid) == 3 * 3 * 2
    assert {len(budgets) for budgets in grid.values()} == {16}
    assert {p.memory for p in grid} == {1, 100, 1024} and {p.acceptance for p in grid} == {0.9, 0.1, 0.01}


def test_rewind(directory: str) -> None:
    found = by_metric(list(rewind.run(SMALLEST, directory)))
    for side in ("rewind", "fork", "bare"):
        for clock in ("CPU", "wall"):
            [cost] = found[f"rewind: {side}, {clock}"]
            assert 0 < cost.value < 1e6, (side, clock)  # microseconds
    [over] = found["rewind: over fork"]
    assert over.target == 1 / 20 and over.value > 0
    assert 0 <= found["rewind: rewound"][0].value <= 100
    for side in ("rewind", "fork"):
        assert found[f"by hand: {side}: simulator"][0].value > 0
    assert len(found["by hand: CPU, rewind over fork"]) == 1


def test_grid_of_rewind_is_that_of_the_issue() -> None:
    grid = rewind._grid(Effort())
    sizes = [(1, "4 kB"), (100, "4 kB"), (1024, "4 kB"), (1024, "huge")]
    assert [(p.memory, p.pages) for p in grid if (p.dirty, p.acceptance) == (20, 0.5)] == sizes
    assert {p.dirty for p in grid} == {1, 20, 200, 2000} and {p.acceptance for p in grid} == {0.5, 0.01}
    assert len(grid) == len(sizes) * 4 * 2
    targets = {(p.memory, p.pages): p.target for p in grid if p.target is not None}
    assert targets == {(1, "4 kB"): 1 / 20, (1024, "4 kB"): 1 / 500}
    assert {case.target for case in by_hand._cases(Effort()) if case.M == 10} == {1 / 15}


def test_pages_that_tries_write_to_are_put_back(directory: str) -> None:
    """Pages of a try are part of what is rewound, and the number of them changes no result."""
    command = [find_simulator("bench_loop", directory), "loop", "0.5", "1", "1"]
    proposals, budget = {"u": ars.Beta(1, 1.5)}, ars.Budget(M=2, N=4)
    weights = []
    for pages, continuations in (("0", "fork"), ("300", "fork"), ("300", "check")):
        with ars.Simulator([*command, pages], workers=1, continuations=continuations) as simulator:
            post = simulator.posterior({"y": 0.0}, 50, proposals=proposals, budget=budget, seed=3)
        weights.append(post.log_weights("ars").tolist())
    assert weights[0] == weights[1] == weights[2]
    assert post.stats["rewinds"] == 0 or post.columns.loops["pages"].max() >= 300


def test_draws(directory: str) -> None:
    found = by_metric(list(draws.run(SMALLEST, directory)))
    assert {m.case["what"] for m in found["draws: ratio"]} == {
        *("uniform draw", "Normal draw", "Marsaglia event", "draw without a name")
    }
    in_a_run = {m.case["what"]: m for m in found["draws: in a run"]}
    assert in_a_run.keys() == {"uniform draw", "Normal draw", "draw without a name"}
    assert in_a_run["draw without a name"].target == 200
    assert all(m.value > 0 and m.unit == "ns" for m in in_a_run.values())


def test_train(directory: str) -> None:
    found = by_metric(list(train.run(SMALLEST, directory)))
    assert {m.case["what"] for m in found["train: traces/s"]} == {"prior", "recorded", "training"}
    assert found["train: MB/s"][0].value > 0


def test_infer_and_its_stages(directory: str) -> None:
    found = by_metric(list(infer.run(SMALLEST, directory)))
    asked = {m.case["loops"]: m.value for m in found["infer: requests per trace"]}
    assert list(asked) == ["forked", "rewound", "in place", "ic"]
    assert all(value > asked["ic"] for loops, value in asked.items() if loops != "ic")  # continuations ask too
    forked = {m.case["loops"]: m.value for m in found["infer CPU: forked"]}
    assert forked["in place"] == forked["ic"] == 0
    for ratio in ("infer: over in place", "infer: over forked"):
        assert [m.case["loops"] for m in found[ratio]] == ["rewound"], ratio
    for stage in stages.STAGES:
        assert all(m.value > 0 for m in found[f"infer CPU: controller: {stage}"]), stage
    shares = [m.value for name, ms in found.items() if name.startswith("infer batches") for m in ms]
    assert sum(shares) == pytest.approx(4 * 100)


def test_targets_of_infer_are_those_of_the_issue() -> None:
    groups = infer._groups(Effort())
    wanted = {(case.M, name): target for group in groups for case in group for name, target in case.compared.values()
              if target is not None}  # fmt: skip
    assert wanted == {(1, "over in place"): 0.8, (10, "over in place"): 0.8, (1, "over forked"): 2.2,
                      (10, "over forked"): 3.0}  # fmt: skip
    assert [{case.loops for case in group} for group in groups[:2]] == 2 * [{"forked", "rewound", "in place"}]


def test_budget(directory: str, tmp_path: Path) -> None:
    found = by_metric(list(budget.run(SMALLEST, directory, tmp_path)))
    for name in ("auto: ESS/s", "M=1, N=10: ESS/s", "best (M, R): ESS/s", "over M=1, N=10", "over best"):
        names = {(str(m.case["case"]), m.case["continuations"]) for m in found[f"budget: {name}"]}
        assert len(names) == 4 and {mode for _, mode in names} == {"auto", "fork"}, name
    estimated = {(m.case["case"], m.case["continuations"]): m.value for m in found["budget: auto: estimated"]}
    assert all((value > 0) == (not str(case).startswith("prior only")) for (case, _), value in estimated.items())
    assert not any(tmp_path.iterdir())  # no network was needed


def test_cases_of_budget_by_name(directory: str, tmp_path: Path) -> None:
    found = list(budget.run(SMALLEST, directory, tmp_path, only="PRIOR only"))
    assert {str(m.case["case"]) for m in found} == {"prior only: nested"}
    with pytest.raises(BenchError, match=r"no case contains 'pythia'; the cases are: p\(A\) = 0.5"):
        list(budget.run(SMALLEST, directory, tmp_path, only="pythia"))


def test_an_interrupted_benchmark_keeps_its_finished_cases(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = budget.run

    def interrupted(*arguments: object) -> Iterator[Measurement]:
        for m in whole(*arguments):  # type: ignore[arg-type]
            yield m
            if m.case == {"case": "prior only: nested", "continuations": "fork"}:
                raise KeyboardInterrupt

    monkeypatch.setattr(budget, "run", interrupted)
    out = tmp_path / "budget.json"
    assert main(["bench", "budget", "--smallest", "--quiet", "--simulators", directory, "--out", str(out)]) == 130
    kept = load(out).measurements
    assert {(m.case["case"], m.case["continuations"]) for m in kept} == {
        ("p(A) = 0.5, q(A) = 0.2", "auto"),
        ("p(A) = 0.5, q(A) = 0.2", "fork"),
        ("prior only: nested", "auto"),
    }


def test_cases_of_budget_are_those_of_the_issue(directory: str, tmp_path: Path) -> None:
    for size in ("quick", "full"):
        targets = {
            case.name: (case.targets.fork, case.targets.auto) for case in cases(Effort(size=size), directory, tmp_path)
        }
        assert targets.pop("Marsaglia a") == (4, 1.5)
        assert (targets.pop("Mini-SHERPA 2"), targets.pop("Mini-SHERPA 3")) == ((8, 3), (20, 6))
        assert (targets.pop("Beta-Bernoulli a, n = 30"), targets.pop("Beta-Bernoulli b, n = 10")) == (
            (1.2, 1),
            (1.2, 1),
        )
        assert (targets.pop("p(A) = 0.001, q(A) = 0.1"), targets.pop("p(A) = 0.5, q(A) = 0.01")) == ((1.5, 1), (3, 2))
        assert len(targets) >= 2 and all(name.startswith("prior only") for name in targets)
        assert set(targets.values()) == {(50, 10)}
    assert {(b.M, b.R) for b in budget._grid(Effort())} <= {(b.M, b.R) for b in budget._grid(Effort(size="full"))}


def test_costs(directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured, printed, and written as plans read them."""
    path = tmp_path / "costs.json"
    assert main(["bench", "costs", "--smallest", "--quiet", "--simulators", directory, "--costs", str(path)]) == 0
    assert f"ars infer --costs {path}" in capsys.readouterr().out
    found = ars.Costs.load(path)
    assert all(0 < value < 1e6 for value in vars(found).values())
    rows = [measurement(costs.SUITE, {"what": name}, "cost", value) for name, value in vars(found).items()]
    assert costs.save(rows, tmp_path / "again.json") == found
    assert set(json.loads(path.read_text())) == set(vars(ars.Costs()))


def test_sites(directory: str) -> None:
    found = by_metric(list(sites.run(SMALLEST, directory)))
    assert [m.case["sites"] for m in found["sites: controller"]] == [2, 40]
    assert found["sites: over 2 sites"][0].value == 1


def test_stages_are_put_back() -> None:
    from ars.runtime.session import Session

    original = Session._inbox
    with stages.watch() as seen:
        assert Session._inbox is not original
    assert Session._inbox is original
    assert not seen.calls


def test_a_stage_does_not_count_another_one_within_it() -> None:
    seen = stages.Stages()

    def spin(n: int) -> int:
        return sum(range(n))

    inner = seen.timed("inner", spin)
    outer = seen.timed("outer", lambda: inner(2_000_000))
    outer()
    assert seen.calls == {"inner": 1, "outer": 1}
    assert seen.seconds["inner"] > 10 * seen.seconds["outer"] >= 0


# ---- pyprob ----------------------------------------------------------------------------------------------------------


def test_pyprob_that_cannot_be_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an environment whose pip fails as it does without a network."""
    environment = peer.Environment(tmp_path)

    def create(directory: Path, **_: object) -> None:
        (directory / "bin").mkdir(parents=True)
        environment.python.write_text('#!/bin/sh\necho "ERROR: No matching distribution found for $8" >&2\nexit 1\n')
        environment.python.chmod(0o755)

    monkeypatch.setattr(peer.venv, "create", create)
    with pytest.raises(BenchError, match=r"could not be installed in .*needs a network(.|\n)*No matching distribution"):
        environment.ensure()
    assert not environment.complete


def test_pyprob_comes_with_the_index_of_cpu_builds_where_others_do_not_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = peer.Environment(tmp_path)

    def create(directory: Path, **_: object) -> None:
        (directory / "bin").mkdir(parents=True)
        environment.python.write_text(
            f'#!/bin/sh\necho "$*" >>{tmp_path}/asked\ncase "$*" in *{peer.CPU_TORCH}*) exit 0;; esac; exit 1\n'
        )
        environment.python.chmod(0o755)

    monkeypatch.setattr(peer.venv, "create", create)
    environment.ensure()
    assert environment.complete
    first, second = (tmp_path / "asked").read_text().splitlines()
    assert peer.CPU_TORCH not in first and peer.CPU_TORCH in second


STAND_IN = """
import json, sys
print(json.dumps({"pyprob": "0", "torch": "0"}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"seconds": request["n"] / 50}), flush=True)
"""


def test_pyprob_takes_turns_with_us(directory: str, tmp_path: Path) -> None:
    """With a stand-in that claims 50 traces per second for everything."""
    environment = peer.Environment(tmp_path)
    environment.python.parent.mkdir(parents=True)
    script = tmp_path / "stand_in.py"
    script.write_text(STAND_IN)
    environment.python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}"\n')
    environment.python.chmod(0o755)
    (environment.directory / "complete").touch()
    found = by_metric(list(peer.run(SMALLEST, directory, tmp_path)))
    assert [m.value for m in found["pyprob: pyprob"]] == [50, 50, 50]
    for ours, ratio in zip(found["pyprob: libars"], found["pyprob: ratio"], strict=True):
        assert ratio.value == pytest.approx(ours.value / 50)


def test_the_side_of_pyprob_does_not_need_this_package() -> None:
    script = Path(peer.__file__).with_name("pyprob_side.py")
    text = script.read_text()
    assert "import ars" not in text and "from ars" not in text
    done = subprocess.run([sys.executable, "-I", "-m", "py_compile", str(script)], capture_output=True, check=False)
    assert done.returncode == 0


# ---- files, tables, comparisons --------------------------------------------------------------------------------------


def report(**values: float) -> Report:
    made = [
        measurement("fork", {"M": 1, "N": 10}, "over bare", [values["ratio"]] * 3, better="lower", target=1.5),
        measurement("infer", {"M": 1}, "traces/s", [values["rate"]], better="higher"),
        measurement("infer", {"M": 1}, "q(A)", 0.9),
    ]
    return Report({"cpu": "a", "cores": 2, "load": [0.0]}, {"command": "ars bench"}, made)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    report(ratio=1.2, rate=700).save(path)
    read = load(path)
    assert read.measurements == report(ratio=1.2, rate=700).measurements
    assert read.machine["cores"] == 2 and read.made
    raw = json.loads(path.read_text())
    assert raw["format"] == "ars-bench" and raw["version"] == 1
    assert set(raw["measurements"][0]) == {"suite", "case", "metric", "value", "unit", "better", "spread", "target"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("{}", "was not written by ars bench"),
        ('{"format": "ars-bench", "version": 99}', "version 99"),
        ('{"format": "ars-bench", "version": 1}', "damaged"),
        (
            '{"format": "ars-bench", "version": 1, "machine": {}, "options": {}, "measurements": [{"suite": 1}]}',
            "not a m",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=message):
        load(path)
    with pytest.raises(BenchError, match="no such file"):
        load(tmp_path / "none.json")


def test_median_and_spread() -> None:
    m = measurement("s", {}, "x", [90, 100, 130])
    assert m.value == 100 and m.spread == pytest.approx(0.2)
    assert [number(v) for v in (0.01234, 1.5, 123.4, 4567.8, 0)] == ["0.0123", "1.50", "123", "4,568", "0"]


def test_tables() -> None:
    text = table(report(ratio=1.6, rate=700).measurements[:1])
    assert text.splitlines()[1].split() == ["1", "10", "1.60", "(<=", "1.5!)"]
    assert "| M | N | over bare |" in table(report(ratio=1.6, rate=700).measurements[:1], markdown=True)


def test_compare_knows_worse_from_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = report(ratio=1.0, rate=700)
    found = compare(before, report(ratio=1.3, rate=1000))
    assert [c.before.metric for c in found.of("slower")] == ["over bare"]
    assert [c.before.metric for c in found.of("faster")] == ["traces/s"]
    assert not compare(before, report(ratio=1.09, rate=650)).of("slower")  # within the threshold
    noisy = report(ratio=1.3, rate=700)
    noisy.measurements[0] = measurement("fork", {"M": 1, "N": 10}, "over bare", [1.1, 1.3, 1.7], better="lower")
    assert not compare(before, noisy).of("slower")  # within its own spread

    a, b = tmp_path / "a.json", tmp_path / "b.json"
    before.save(a)
    report(ratio=1.3, rate=700).save(b)
    assert main(["bench", "compare", str(a), str(b)]) == 0
    assert "slower   1.30  fork: over bare (M 1, N 10): 1.00 -> 1.30" in capsys.readouterr().out
    assert main(["bench", "compare", str(a), str(b), "--fail"]) == 1
    assert main(["bench", "compare", str(b), str(a), "--fail"]) == 0


def test_the_command(directory: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    out = tmp_path / "out.json"
    words = [
        "bench",
        "draws",
        "--smallest",
        "--quiet",
        "--simulators",
        directory,
        "--out",
        str(out),
        "--into",
        str(page),
    ]
    assert main(words) == 0
    assert "Marsaglia event" in capsys.readouterr().out
    assert load(out).options["size"] == "smallest"
    assert 0.0 <= load(out).machine["stolen"] <= 1.0
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text and "| what |" in text
    with pytest.raises(BenchError, match="no place for tables"):
        replace_tables(out, load(out))


def test_what_a_hypervisor_takes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 10 5 5 30 7 7\ncpu0 1 2 3\n")
    before = machine.cpu_ticks(stat)
    assert before == (1000, 30)
    stat.write_text("cpu  150 0 50 850 10 5 5 130 7 7\n")
    after = machine.cpu_ticks(stat)
    assert after.stolen_since(before) == 0.5
    assert before.stolen_since(before) == 0.0
    ticks = iter([before, after])
    monkeypatch.setattr(machine, "cpu_ticks", lambda: next(ticks))
    monkeypatch.setattr("ars.cli.bench._measure", lambda *_: None)
    assert main(["bench", "draws", "--out", str(tmp_path / "out.json")]) == 0
    assert "gave 50% of this machine's time to others" in capsys.readouterr().err
    assert "the hypervisor gave 50% of the time to others" in markdown(load(tmp_path / "out.json"))


def test_plots(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from ars_lab.bench.plots import save_plots

    parts = [measurement("infer CPU", {"M": 1}, name, 5.0) for name in ("controller: lstm", "host")]
    gains = [
        measurement("budget", {"case": "x"}, "over M=1, N=10", 5.0, target=4),
        measurement("budget", {"case": "x"}, "over best", 1.1),
    ]
    written = save_plots([*report(ratio=1.2, rate=5).measurements, *parts, *gains], tmp_path)
    assert [path.name for path in written] == ["bench_fork.png", "bench_infer.png", "bench_budget.png"]
    assert all(path.stat().st_size > 2000 for path in written)


def test_a_simulator_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"no simulator bench_loop in .*build it"):
        find_simulator("bench_loop", str(tmp_path))
