"""The code of docs/output.md runs as it stands there."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.system.build_helpers import Builder, Variant

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its successor
        pytest.importorskip("arviz")
    source = tmp_path / "decay.c"
    source.write_text(blocks("README.md", "c")[0])
    series = tmp_path / "series.c"
    series.write_text(blocks("docs/output.md", "c")[0])
    builder = Builder(tmp_path / "built")
    for each in (source, series):
        (tmp_path / each.stem).symlink_to(builder.program([each], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks("docs/output.md", "python")), "docs/output.md", "exec"), names)
    post, same, whole = names["post"], names["same"], names["whole"]
    for other in (same, whole):
        assert other.log_weights().tobytes() == post.log_weights().tobytes()
        assert other["energy"].tobytes() == post["energy"].tobytes()
    assert names["tree"]["posterior"].sizes["draw"] == names["data"].posterior.sizes["draw"] == int(post.ess())
    assert list(names["table"]["energy"]) == post["energy"].tolist()
    assert abs(names["forecast"] - exact_forecast()) < 3 * names["series"].mean_error("end")


def exact_forecast() -> float:
    """The mean of the fifth value of series.c, given the first, third and fourth: all of them are jointly Normal."""
    loads = np.zeros((5, 6))  # each value as a sum of the drift and five noises
    for t in range(5):
        loads[t] = 0.8 * loads[t - 1] if t else 0.0
        loads[t] += np.eye(6)[0] + 0.3 * np.eye(6)[1 + t]
    seen = [0, 2, 3]
    covariance = loads @ loads.T
    return float(covariance[4, seen] @ np.linalg.solve(covariance[np.ix_(seen, seen)], [0.4, 1.1, 1.3]))
