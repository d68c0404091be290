"""Draws the figures that show real runs: python docs/figures/measure.py [before-after] [epidemic]

It compiles the simulator of the README, runs it, and puts the exact answer beside its estimates.
"""

from __future__ import annotations

import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy import integrate, stats

import ars

mpl.use("svg")
from matplotlib import pyplot as plt  # after the choice of a backend

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BLUE, ORANGE, GREY, INK = "#00609a", "#a86a00", "#9aa0a8", "#1c2733"
SIGNAL, NOISE = 1.2, 0.3


def joint(energy: float) -> float:
    """The density of an energy and of the observed signal."""
    edge = 0.5 * energy
    inside = stats.norm.cdf(edge) - stats.norm.cdf(-edge)

    def density(angle: float) -> float:
        return float(stats.norm.pdf(angle) * stats.norm.pdf(SIGNAL, energy * math.cos(angle), NOISE))

    mass = integrate.quad(density, -edge, edge, limit=200)[0]
    return float(stats.gamma.pdf(energy, 4, scale=0.5) * mass / inside)


def decay(folder: Path) -> Path:
    """The simulator of the README, compiled."""
    source = re.findall(r"```c\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    (folder / "decay.c").write_text(source)
    subprocess.run(
        [sys.executable, "-m", "ars", "compile", str(folder / "decay.c"), "-o", str(folder / "decay")], check=True
    )
    return folder / "decay"


def style() -> None:
    plt.rcParams.update(
        {
            "svg.fonttype": "path",
            "svg.hashsalt": "libars",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": INK,
            "text.color": INK,
        }
    )


def before_after() -> None:
    """The energy of the README's particle: before and after the signal; and the evidence by three weightings."""
    with tempfile.TemporaryDirectory() as folder, ars.Simulator([str(decay(Path(folder)))]) as simulator:
        prior = simulator.prior(20_000, seed=1)
        post = simulator.posterior(
            observe={"signal": SIGNAL},
            traces=20_000,
            seed=2,
            proposals={"energy": ars.Gamma(4, 2.5), "angle": lambda t: ars.Normal(0.0, 0.4 + 0.1 * t["energy"])},
        )
    grid = np.linspace(0.02, 6, 200)
    exact = np.array([joint(float(energy)) for energy in grid])
    evidence = float(np.trapezoid(exact, grid))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 2.9), width_ratios=(1.25, 1), layout="constrained")
    bins = np.linspace(0, 6, 49)
    left.hist(prior["energy"], bins, density=True, color=GREY, alpha=0.55, label="before: prior")
    weights = np.exp(post.log_weights("ars") - post.log_weights("ars").max())
    left.hist(post["energy"], bins, weights=weights, density=True, color=BLUE, alpha=0.75, label="after: ARS posterior")
    left.plot(grid, exact / evidence, color=INK, lw=1.5, label="exact")
    left.set(xlabel="energy", yticks=[], xlim=(0, 6), title=f"Which energy made a signal of {SIGNAL}?")
    left.spines["left"].set_visible(False)
    left.legend(frameon=False)
    number = np.arange(1, len(post) + 1)
    shown = np.unique(np.geomspace(200, len(post), 500).astype(int)) - 1
    for method, colour, name in (("ars", BLUE, "ARS"), ("ic", ORANGE, "naive"), ("biased", GREY, "no correction")):
        running = np.cumsum(np.exp(post.log_weights(method))) / number
        right.plot(number[shown], running[shown], color=colour, lw=1.8, label=name)
    right.axhline(evidence, color=INK, lw=1, ls=(0, (4, 3)), label="exact")
    right.set(xscale="log", xlabel="traces", title="Evidence from the same traces", ylim=(0.22, 0.68))
    right.legend(frameon=False, ncols=2, loc="lower right")
    save(figure, "before-after.svg")


def epidemic() -> None:
    """The infected of every day, given ten days of reported cases."""
    cases = np.array([4, 7, 11, 3, 6, 7, 22, 14, 23, 21], dtype=float)
    with ars.Simulator([str(ROOT / "build/csim/sir"), str(len(cases))]) as simulator:
        prior = simulator.prior(4_000, seed=1)
        post = simulator.posterior({"cases": cases}, traces=500_000, seed=1)  # from the prior: slow, and no network
    print(post.summary())
    day, rows = np.arange(1, len(cases) + 1), post.resample(20_000)
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 2.9), layout="constrained", sharey=True)
    for axis, values, name, colour in (
        (axes[0], prior["prevalence"], "before: prior", GREY),
        (axes[1], post["prevalence"][rows], "after: posterior", BLUE),
    ):
        low, middle, high = np.quantile(values, (0.05, 0.5, 0.95), axis=0)
        axis.fill_between(day, low, high, color=colour, alpha=0.3, lw=0, label="90% interval")
        axis.plot(day, middle, color=colour, lw=2, label="median")
        axis.bar(day, cases, color=ORANGE, alpha=0.8, width=0.5, label="reported cases")
        axis.set(xlabel="day", title=f"Infected people, {name}", ylim=(0, 260))
        axis.legend(frameon=False, loc="upper left")
    save(figure, "epidemic.svg")


def save(figure: Figure, name: str) -> None:
    figure.savefig(HERE / name, metadata={"Date": None}, facecolor="white")
    print(HERE / name)


if __name__ == "__main__":
    style()
    figures = {"before-after": before_after, "epidemic": epidemic}
    for name in sys.argv[1:] or figures:
        figures[name]()
