"""``--observe`` and ``--observe-file`` take numbers and nothing that only looks like them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ars
from ars.cli import main

COMMON = ["--traces", "20", "--seed", "1", "--workers", "2"]


def run(csim: Callable[[str], str], *more: str) -> int:
    return main(["infer", csim("gaussian"), "2", *COMMON, "--quiet", *more])


WRONG: list[tuple[str, str]] = [
    ('{"y": ["0.5", "0.7"]}', r"observe['y'] must be a number or an array of numbers, not text"),
    ('{"y": "0.5"}', r"observe['y'] must be a number or an array of numbers, not text"),
    ('{"y": "true"}', r"observe['y'] must be a number or an array of numbers, not text"),
    ('{"y": null}', r"observe['y'] is None: give float('nan')"),
    ('{"y": [[0.5], [0.7, 0.8]]}', r"rows of equal length"),
    ('{"y": {"a": 0.5}}', r"observe['y'] has an object of type dict"),
    ('{"y": [0.5, Infinity]}', r"observe['y'] has a value that is infinite"),
    ('{"y": [0.5, 9007199254740993]}', r"9007199254740993"),
    ('{"y": []}', r"observe['y'] is empty"),
    ('{"y": 1, "y": 2}', r"'y' more than once"),
    ('{"y": [0.5', r"is not JSON"),
    ("[0.5]", r"must hold an object"),
    ("[" * 100_000, r"nested too deep"),
    ("\xff\xfe", r"is not JSON"),
]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text[:30] for text, _ in WRONG])
def test_json_that_is_not_data(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "data.json"
    path.write_text(text)
    assert run(csim, "--observe-file", str(path)) == 2
    out, err = capsys.readouterr()
    assert message in err and "Traceback" not in err and not out
    assert main(["replay", csim("gaussian"), "2", "--seed", "1", "--trace", "0", "--observe-file", str(path)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"),
            "observe['y'] must be a number or an array of numbers, not dates",
        ),
        (
            np.array([1, 2], dtype="timedelta64[s]"),
            "observe['y'] must be a number or an array of numbers, not time differences",
        ),
        (np.array([1j, 2.0]), "observe['y'] must be a number or an array of numbers, not complex numbers"),
        (np.array(["0.5", "0.7"]), "observe['y'] must be a number or an array of numbers, not text"),
        (
            np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]),
            "observe['y'] must be a number or an array of numbers, not records",
        ),
        (np.array([2**53 + 1, 0]), "9007199254740993"),
        (np.array([1.0, None]), "cannot be read"),
    ],
)
def test_npz_that_is_not_data(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str], value: Any, message: str
) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, y=value)
    assert run(csim, "--observe-file", str(path)) == 2
    assert message in capsys.readouterr().err


def test_json_that_is_not_text(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(b'{"y": "\xff"}')
    assert run(csim, "--observe-file", str(path)) == 2
    assert "data.json is not JSON" in capsys.readouterr().err


def test_npz_that_is_none(csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "data.npz"
    for content in (b"PK\x03\x04 and no more", b"", b"text"):
        path.write_bytes(content)
        assert run(csim, "--observe-file", str(path)) == 2
        assert "cannot be read" in capsys.readouterr().err


def test_options_that_are_not_data(csim: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("y=True", "y=", "y=0.5,", "y=2024-01-01", "y=1+2j", "=1", "y"):
        with pytest.raises(SystemExit) as end:
            run(csim, "--observe", wrong)
        assert end.value.code == 2
        assert "is not like y=0.5" in capsys.readouterr().err
    for wrong, message in (("y=9007199254740993,0", "9007199254740993"), ("y=nan,-inf", "infinite")):
        assert run(csim, "--observe", wrong) == 2
        assert message in capsys.readouterr().err
    assert run(csim, "--observe", "y=1,2", "--observe", "y=3,4") == 2
    assert "'y' more than once" in capsys.readouterr().err


def test_what_is_data_stays_what_it_was(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"y": [True, 0.25]}))
    documents = []
    for more in (["--observe", "y=1,0.25"], ["--observe-file", str(path)], ["--observe", "y=1.0,2.5e-1"]):
        assert run(csim, *more, "--json") == 0
        documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1] == documents[2]


def test_what_was_not_observed_is_the_same_in_every_notation(
    csim: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "null.json").write_text('{"y": [null, 0.25]}')
    (tmp_path / "nan.json").write_text('{"y": [NaN, 0.25]}')
    np.savez(tmp_path / "data.npz", y=np.array([np.nan, 0.25]))
    documents = []
    files = [["--observe-file", str(tmp_path / name)] for name in ("null.json", "nan.json", "data.npz")]
    for more in (["--observe", "y=nan,0.25"], ["--observe", "y=NaN,2.5e-1"], *files):
        assert run(csim, *more, "--json") == 0
        documents.append(json.loads(capsys.readouterr().out, parse_constant=pytest.fail))  # NaN is not JSON
    assert all(document == documents[0] for document in documents)
    assert run(csim, "--observe", "y=0.75,0.25", "--json") == 0
    given = json.loads(capsys.readouterr().out)
    assert given["weightings"][0]["log_evidence"] != documents[0]["weightings"][0]["log_evidence"]


def test_a_trace_with_missing_data_is_replayed(csim: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [csim("gaussian"), "2", "--seed", "1", "--trace", "3", "--observe", "y=nan,0.25"]
    with ars.Simulator([csim("gaussian"), "2"], workers=1) as sim:
        post = sim.posterior({"y": [np.nan, 0.25]}, 4, seed=1)
    assert main(["replay", *words]) == 0
    assert f"log weight (ars) = {float(post.log_weights('ars')[3])!r}" in capsys.readouterr().out


def test_observations_are_refused_before_anything_runs(csim: Callable[[str], str]) -> None:
    with ars.Simulator([csim("gaussian"), "2"]) as sim:
        with pytest.raises(ValueError, match=r"observe\['y'\] has a value that is infinite"):
            sim.posterior({"y": np.array([0.5, np.inf])}, 10)
        assert not sim.running
