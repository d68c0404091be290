"""The frame of `make generators`: packages, agreement of three methods, figures and the page. No generator is run."""

from __future__ import annotations

import dataclasses
import io
import math
import os
import socket
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ars_lab.generators import driver, page, pythia, study
from ars_lab.generators.fetch import Kitchen, Unavailable, unpack
from ars_lab.generators.result import Check, Estimate, Loop, Method, Observation, Result, distance

NAMES = ("energy", "x", "y")


def method(label: str, log_evidence: float, *, failures: int = 0, ess: float = 400.0, shift: float = 0.0) -> Method:
    rng = np.random.default_rng(1)
    draws = {name: rng.normal(size=300) * scale for name, scale in zip(NAMES, (5.0, 0.02, 0.02), strict=True)}
    draws["energy"] += 50
    estimates = {name: Estimate(float(values.mean()) + shift, 0.1, 0.2) for name, values in draws.items()}
    quality = 0.4 if math.isfinite(log_evidence) else 1.004
    return Method(label, 5000, failures, log_evidence, 0.05, ess, quality, 12.0, estimates, draws, np.zeros(300))


def result(**changes: Method) -> Result:
    methods = {"ars": method("ARS", -10.0), "prior_in_loops": method("prior in loops", -10.1)}
    methods |= {"chains": method("MCMC", math.nan)} | changes
    checks = study.completeness(methods["ars"])
    checks += study.agreement(*methods.values(), pythia.generator(), 200.0)
    truth = {"energy": 53.0, "x": 0.01, "y": -0.02}
    data = {"calorimeter": np.arange(72.0)}
    loop = Loop("tau decay", 5000, 2.4, 0.45, 0.003, 0.31, 0.002, "M=2, R=2", "rewind")
    prior = methods["ars"].draws
    return Result(
        Observation(data, truth),
        prior,
        *methods.values(),
        [loop],
        checks,
        {"pythia8mc": "1", "machine": "2 cores"},
        60,
        9,
        30,
        600,
    )


def test_three_methods_that_agree() -> None:
    assert result().problems == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ars": method("ARS", -10.4)}, "evidences of ARS and prior in loops"),
        ({"ars": method("ARS", -10.0, failures=1)}, "without a failure: 1 failures"),
        ({"ars": method("ARS", -10.0, ess=150)}, "at least 200 effective traces"),
        ({"prior_in_loops": method("prior in loops", -10.0, shift=1.0)}, "means of ARS and prior in loops"),
        ({"chains": method("MCMC", math.nan, shift=1.0)}, "means of ARS and MCMC"),
        ({"chains": dataclasses.replace(method("MCMC", math.nan), quality=1.1)}, "have mixed"),
    ],
)
def test_a_disagreement_is_named(change: dict[str, Method], words: str) -> None:
    (problem,) = result(**change).problems
    assert words in problem


def test_distance() -> None:
    assert distance(1.0, 3.0, 11.0, 4.0) == -2.0
    assert distance(1.0, math.nan, 1.0, 1.0) == math.inf


def test_the_page_has_tables_and_pictures_and_is_renewed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    generator, found = pythia.generator(), result()
    (tmp_path / "generators.md").write_text("# By hand\n\nbefore\n")
    for _ in range(2):
        written = driver.publish(generator, found, tmp_path, quick=False)
    text = written.read_text()
    assert text.startswith("# By hand\n\nbefore\n") and text.count("## Pythia 8") == 1
    assert "| ARS | -10.000 ± 0.050 | 5,000 | 400 | k 0.40 | 0 | 12 |" in text
    assert (
        "in 1.0 minutes, and refined in 0.5 minutes. The entire study took 10 minutes. Versions: pythia8mc 1." in text
    )
    assert "| MCMC | none |" in text and "| `tau decay` | 5,000 | 2.4 | 0.4500 ± 0.0030 |" in text
    for picture in ("detector", "posterior"):
        assert f"(figures/generators-pythia-{picture}.png)" in text
        assert (tmp_path / f"figures/generators-pythia-{picture}.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_with_few_effective_traces_shows_no_errors() -> None:
    """With one dominant weight, 44 +- 0.00004 would be printed."""
    few = {"ars": method("ARS", -10.0, ess=1.0), "prior_in_loops": method("prior in loops", -10.1, ess=7.0)}
    text = page.part(pythia.generator(), result(**few), quick=True)
    energy = next(line for line in text.splitlines() if line.startswith("| tau energy"))
    assert [" ± " in cell for cell in energy.split("|")[2:-1]] == [
        False,
        False,
        False,
        True,
    ]  # truth, the three methods
    assert energy.count("(too few)") == 2 and "fewer than 20 effective traces" in text
    assert "| ARS | -10.0 (too few) |" in text and "reduce the standard deviations" not in text
    enough = page.part(pythia.generator(), result(), quick=False)
    assert "too few" not in enough and "reduce the standard deviations" in enough


@pytest.mark.parametrize("quick", [True, False])
def test_a_quick_run_leaves_the_published_page_alone(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(driver, "study", lambda *_, **__: result())
    monkeypatch.setattr(driver, "need_torch", lambda: None)
    (tmp_path / "docs").mkdir()
    words = ["pythia", "--out", str(tmp_path / "out"), "--publish", str(tmp_path / "docs")]
    assert driver.main([*words, *(["--quick"] if quick else [])]) == 0
    assert [(tmp_path / folder / "generators.md").exists() for folder in ("out", "docs")] == [quick, not quick]


def test_other_parts_of_the_page_stay(tmp_path: Path) -> None:
    file = tmp_path / "generators.md"
    page.insert(file, "a", "one")
    page.insert(file, "b", "two")
    file.write_text(file.read_text() + "\nby hand\n")
    page.insert(file, "a", "three")
    text = file.read_text()
    assert "one" not in text and text.index("three") < text.index("two") < text.index("by hand")


def test_a_package_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unavailable, match=r"(?s)cannot be fetched from PyPI.*pip says.*no-such-package"):
        Kitchen(tmp_path).fetched("no-such-package==1")


def test_an_index_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's own limits are for each read of each attempt, and add up to minutes."""
    pytest.importorskip("pip")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # and no other index
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(
            Unavailable, match=r"some-package==1 cannot be fetched .* it took longer than 2 s\. Without"
        ):
            Kitchen(tmp_path, patience=2.0).fetched("some-package==1")


def test_the_command_says_what_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert driver.main(["pythia", "--build-only", "--out", str(tmp_path)]) == 3
    assert "pythia: not run: pythia8mc==8.318.0 cannot be fetched" in capsys.readouterr().err


def test_archives_are_unpacked_below_their_folder(tmp_path: Path) -> None:
    wheel, source = tmp_path / "a.whl", tmp_path / "a.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/b.txt", "b")
        archive.writestr("a/c.md", "c")
    assert unpack(wheel, tmp_path / "out", lambda name: name.endswith(".txt")) == 1
    assert (tmp_path / "out/a/b.txt").read_text() == "b" and not (tmp_path / "out/a/c.md").exists()
    with tarfile.open(source, "w:gz") as archive:
        member = tarfile.TarInfo("../evil")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(Unavailable, match="leads out of its folder"):
        unpack(source, tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_checks_are_data() -> None:
    assert Check(**dataclasses.asdict(Check("promise", True, "1"))) == Check("promise", True, "1")
