"""The code of docs/output.md runs as it stands there."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

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
    (tmp_path / "decay").symlink_to(Builder(tmp_path / "built").program([source], Variant("gcc", ("-O2",))))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile("\n".join(blocks("docs/output.md", "python")), "docs/output.md", "exec"), names)
    post, same, whole = names["post"], names["same"], names["whole"]
    for other in (same, whole):
        assert other.log_weights().tobytes() == post.log_weights().tobytes()
        assert other["energy"].tobytes() == post["energy"].tobytes()
    assert names["tree"]["posterior"].sizes["draw"] == names["data"].posterior.sizes["draw"] == int(post.ess())
    assert list(names["table"]["energy"]) == post["energy"].tolist()
