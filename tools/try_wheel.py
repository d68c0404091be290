"""Tries an installed libars as a new user would: compile an example, run it, infer, and compare with the exact answer.

    /path/to/venv/bin/python tools/try_wheel.py

The interpreter is the one that has the package. Nothing of the source tree is used, and nothing outside of a temporary
folder is written. The exit code is 1 if a step fails.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import ars

DATA = (0.3, 0.4)
MEAN, PRIOR_VARIANCE, NOISE_VARIANCE = 0.0, 1.0, 0.01  # of marsaglia.c: mu ~ N(0, 1) by rejection, y1, y2 ~ N(mu, 0.01)


def exact_evidence() -> float:
    """Of the data: their sum and their difference are independent normals."""
    total, difference = DATA[0] + DATA[1] - 2 * MEAN, DATA[0] - DATA[1]
    wide, narrow = 2 * (2 * PRIOR_VARIANCE + NOISE_VARIANCE), 2 * NOISE_VARIANCE
    exponent = total**2 / (2 * wide) + difference**2 / (2 * narrow)
    return 2 * math.exp(-exponent) / (2 * math.pi * math.sqrt(wide * narrow))


def command(*words: str | Path, folder: Path) -> None:
    """Runs `ars WORDS` in a folder; its output is shown."""
    line = [sys.executable, "-m", "ars", *map(str, words)]
    print("$ ars", *words, flush=True)
    subprocess.run(line, cwd=folder, stdin=subprocess.DEVNULL, check=True)


def main() -> int:
    """Returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="ars-try-") as name:
        folder = Path(name)
        command("examples", "examples", folder=folder)
        command("compile", "examples/marsaglia.c", "-o", "marsaglia", folder=folder)
        with ars.Simulator([str(folder / "marsaglia")]) as sim:
            found = sim.posterior(dict(zip(("y1", "y2"), DATA, strict=True)), traces=20_000, seed=1).log_evidence("ars")
    exact = exact_evidence()
    away = abs(found.evidence - exact) / found.standard_error
    print(f"evidence {found.evidence:.5f} ({found.standard_error:.5f}), exactly {exact:.5f}: {away:.1f} s.e. away")
    return int(away > 4)


if __name__ == "__main__":
    sys.exit(main())
