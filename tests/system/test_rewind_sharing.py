"""Memory and files that a worker shares with its snapshots and with copies of itself: rewind/sharing.c."""

from __future__ import annotations

from pathlib import Path

import pytest
from build_helpers import COMPILERS, Builder, Variant
from rewind_tools import FOLDER, compiled, differences, run

import ars

pytestmark = [pytest.mark.slow, pytest.mark.compiler]

PROPOSALS = {"x": ars.Beta(1.2, 1.4)}
TRACES = {"stale": 600, "fresh": 12, "lock": 20, "guard": 20}


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("sharing"))
    return compiled(builder, [FOLDER / "sharing.c"], Variant(COMPILERS[0], ("-O2",)), shared=True)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("what", TRACES)
def test_what_is_shared_is_not_mixed_up(what: str, workers: int, sharing: Path, tmp_path: Path) -> None:
    found = {
        mode: run(
            [sharing, what],
            mode,
            TRACES[what],
            workers=workers,
            proposals=PROPOSALS,
            trace_timeout=60,
            env={"DEED_FILE": str(tmp_path / "file")},
        )
        for mode in ("fork", "auto")
    }
    assert not found["auto"].failures
    assert not differences(found["auto"], found["fork"])
