"""The generator of tests/system/unnamed, compiled in every way, and its exact evidence."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from build_helpers import CXX, INCLUDE, ROOT, WARNINGS, Builder, Variant
from scipy.stats import norm

SOURCES = Path(__file__).resolve().parent / "unnamed"
SIGMA = 0.1
NEXT = "run|one>model#1>one_event#1>Generator::next#1>Generator::"
ENERGY = NEXT + "energy#1>Generator::flat#1>ArsEngine::flat#1"
ANGLE = "decay/" + NEXT + "decay#1>Generator::flat#1>ArsEngine::flat#1"
OTHER = "decay/" + NEXT + "decay#2>Generator::flat#1>ArsEngine::flat#1"
EXTRA = "model#1>one_event#1:Normal"


def build(builder: Builder, compiler: str, *flags: str) -> Path:
    """One executable."""
    return builder.program([SOURCES / "main.cpp", SOURCES / "generator.cpp"], Variant(compiler, flags))


def build_library(folder: Path, compiler: str, *flags: str) -> Path:
    """The generator as a shared library."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libgenerator.so"
    words = [
        CXX[compiler],
        "-std=c++11",
        *WARNINGS,
        *flags,
        "-fPIC",
        "-shared",
        SOURCES / "generator.cpp",
        "-o",
        library,
    ]
    subprocess.run([str(word) for word in words], check=True)
    return library


def build_main(folder: Path, compiler: str, link: Sequence[str | Path], *flags: str) -> Path:
    """The main program alone, with libars.so."""
    bridge = ROOT / "build" / "bridge"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "main"
    words = [CXX[compiler], "-std=c++11", *WARNINGS, *flags, f"-I{INCLUDE}", SOURCES / "main.cpp", *link]
    words += [bridge / "libars.so", f"-Wl,-rpath,{bridge}", f"-Wl,-rpath,{folder}", "-lm", "-ldl", "-o", program]
    subprocess.run([str(word) for word in words], check=True)
    return program


def log_evidence(y: float) -> float:
    """Of y ~ Normal(energy + angle, SIGMA): energy is uniform, the angle has density 4 / pi sqrt(1 - a^2)."""
    n = 4000
    grid = (np.arange(n) + 0.5) / n
    density = 4 / np.pi * np.sqrt(1 - grid**2)
    inner = norm.cdf((1 + grid - y) / SIGMA) - norm.cdf((grid - y) / SIGMA)  # over the energy
    return float(np.log(np.mean(density * inner)))
