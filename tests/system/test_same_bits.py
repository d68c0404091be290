"""Same seed, same bits as the table same_bits.json, which commit 215d544 made, on every simulator of csim/.

Whatever is moved, renamed or made faster: draws, densities, loop counts and weights stay as they are. What is run, and
how the checksums are taken, is in tools/same_bits.py, which can also renew the table.

A test is skipped for one reason only: functions of this machine's C library (for networks, products of torch) give
other values than those on which the table was made. The reason names them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import same_bits

ROOT = Path(__file__).resolve().parents[2]
RENEW = "if this change means to change numbers: python tools/same_bits.py --renew, and a line in CHANGELOG.md"


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    """The table, on a machine that it speaks about."""
    found = same_bits.read()
    if other := same_bits.differences(found["libm"], same_bits.libm_fingerprint()):
        pytest.skip(f"the table was made with another C library or CPU: {', '.join(other)} give other values here")
    return found


@pytest.fixture(scope="module")
def simulators(csim: Callable[[str], str]) -> Path:
    return Path(csim("gaussian")).parent


@pytest.mark.parametrize("case", same_bits.CASES, ids=same_bits.name_of)
def test_the_same_seed_gives_the_bits_of_the_table(
    case: same_bits.Case, table: dict[str, Any], simulators: Path
) -> None:
    pytest.importorskip("torch")  # recordings need it
    known = table["runs"][same_bits.name_of(case)]
    found = same_bits.checksums(case, simulators)
    assert known.keys() == found.keys(), RENEW
    other = {run: differ for run in known if (differ := same_bits.differences(known[run], found[run]))}
    assert not other, f"{same_bits.name_of(case)} differs from the table in {other}; {RENEW}"


@pytest.mark.parametrize("case", [case for case in same_bits.CASES if case.network], ids=same_bits.name_of)
def test_the_same_seed_trains_the_network_of_the_table(
    case: same_bits.Case, table: dict[str, Any], simulators: Path
) -> None:
    pytest.importorskip("torch")
    if unlike := same_bits.differences(table["torch"], same_bits.torch_fingerprint()):
        pytest.skip(f"the table was made with another torch or CPU: {', '.join(unlike)}")
    found = same_bits.network_checksums(case, simulators)
    other = same_bits.differences(table["networks"][same_bits.name_of(case)], found)
    assert not other, f"the network of {same_bits.name_of(case)} differs from the table in {other}; {RENEW}"


def test_every_simulator_is_in_the_table_or_left_out_for_a_reason() -> None:
    sources = {path.stem for path in (ROOT / "csim").iterdir() if path.suffix in (".c", ".cpp")}
    assert sources == {case.command[0] for case in same_bits.CASES} | {name.split()[0] for name in same_bits.LEFT_OUT}
    known = same_bits.read()
    assert list(known["runs"]) == [same_bits.name_of(case) for case in same_bits.CASES]
    assert list(known["networks"]) == [same_bits.name_of(case) for case in same_bits.CASES if case.network]


def test_a_checksum_notices_the_last_bit_and_no_id(simulator: Callable[..., Any]) -> None:
    run = simulator("nested", workers=2).prior(20, seed=1)
    before = same_bits.of_columns(run.columns, run.sites)

    samples = run.columns.samples.copy()
    samples["value"][7] = np.nextafter(samples["value"][7], 9.0)
    moved = same_bits.of_columns(run.columns._replace(samples=samples), run.sites)
    assert same_bits.differences(before, moved) == ["latents"]

    most = max(site.id for site in run.sites)
    sites = [site._replace(id=most - site.id) for site in run.sites]
    renamed = {}
    for column in ("samples", "observes", "results", "loops"):
        renamed[column] = getattr(run.columns, column).copy()
        renamed[column]["site"] = most - renamed[column]["site"]
    assert same_bits.of_columns(run.columns._replace(**renamed), sites) == before
