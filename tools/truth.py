"""Are the errors right? The evidence of many runs against the exact one, on four simulators; see docs/results/truth.

    make truth                                  in full; goes on where it was interrupted
    nohup nice make truth >truth.log 2>&1 &     the same in the background

Every run has its own seed and gives z = (log evidence - exact log evidence) / standard error. If the weights are
unbiased, the traces independent and the standard errors right, then

  spread   the standard deviation of z is the one that the same weights give when they are shuffled over the runs;
  centre   the mean of z is 0, but for what a studentized mean of skewed weights has: that is the mean of z around the
           pooled evidence, over the same shuffles.

Statistics, number of shuffles and levels are constants below, fixed before the first run. The "biased" weighting has to
fail: a test that it passes tests nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import ars

Floats: TypeAlias = npt.NDArray[np.float64]

RUNS = 500
TRACES = 400  # per run
BUDGET = ars.Budget(M=1, N=4)
SHUFFLES = 1999
SPREAD_LEVEL = 0.005  # of the two-sided p-value
CENTRE_LIMIT = 3.29  # standard errors: a two-sided level of 0.001
METHODS = ("ars", "biased")
CHUNK = 25  # runs between two checkpoints


# ---- exact evidences ---------------------------------------------------------------------------------------------


def _pdf(x: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:
    return np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2.0 * math.pi))


def _cdf(x: npt.ArrayLike) -> Any:
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2.0)))(x)


def _legendre(low: npt.ArrayLike, high: npt.ArrayLike, n: int) -> tuple[Floats, Floats]:
    """Nodes and weights on [low, high], along a last axis."""
    x, w = np.polynomial.legendre.leggauss(n)
    low, high = np.asarray(low, dtype=np.float64)[..., None], np.asarray(high, dtype=np.float64)[..., None]
    half = (high - low) / 2.0
    return low + half * (x + 1.0), half * w


def nested_evidence(y: float) -> float:
    """With e = b - a: the inner loop accepts e > tanh(a), the outer one e > -2a; y is Normal(2a + e, 0.5)."""
    ends = np.array([-8.0, -4.0, -2.0, 0.0, 2.0, 4.0, 8.0])  # the two conditions cross at 0
    a, w_a = (array.ravel() for array in _legendre(ends[:-1], ends[1:], 64))
    both = np.maximum(np.tanh(a), -2.0 * a)
    inner = _cdf(-np.tanh(a))
    outer = np.sum(w_a * _pdf(a) * _cdf(-both) / inner)
    e, w_e = _legendre(both, both + 10.0, 120)
    inside = np.sum(w_e * _pdf(e) * _pdf(y, 2.0 * a[:, None] + e, 0.5), axis=-1)
    return float(np.sum(w_a * _pdf(a) * inside / inner) / outer)


def marsaglia_evidence(y: float, noise: float = 0.1) -> float:
    """Two data, both y, of a Normal(mu, noise), where mu is Normal(0, 1)."""
    of_mean = float(_pdf(y, 0.0, math.sqrt(1.0 + noise**2 / 2.0)))
    return of_mean * float(_pdf(0.0, 0.0, noise * math.sqrt(2.0)))


def beta_evidence(n: int, alpha: float = 2.0) -> float:
    """n tosses, all True, of a coin whose bias is Beta(alpha, alpha)."""

    def log_beta(a: float, b: float) -> float:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)

    return math.exp(log_beta(alpha + n, alpha) - log_beta(alpha, alpha))


def truncated_evidence(y: float) -> float:
    """x is Uniform(1, 2), z a Normal(0, 1) below 0, y is Normal(z, x). For given x, z is integrated in closed form."""
    x, w = _legendre(1.0, 2.0, 64)
    total = np.hypot(1.0, x)
    mean, std = y / total**2, x / total
    return float(np.sum(w * _pdf(y, 0.0, total) * _cdf(-mean / std) / 0.5))


# ---- the cases ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A simulator in csim/, data, and proposals that differ from the prior inside its loops."""

    command: tuple[str, ...]
    observe: Mapping[str, npt.ArrayLike]
    proposals: Mapping[str, Any]
    evidence: float

    @property
    def name(self) -> str:
        return self.command[0]


def cases() -> tuple[Case, ...]:
    return (
        Case(
            ("nested",),
            {"y": 2.0},
            {"a": ars.Normal(-0.2, 1.1), "b": lambda t: ars.Normal(t["a"] - 0.2, 1.1)},
            nested_evidence(2.0),
        ),
        Case(
            ("marsaglia",),
            {"y1": 0.5, "y2": 0.5},
            {name: ars.TruncatedNormal(0.1, 0.6, -1.0, 1.0) for name in ("x1", "x2")},
            marsaglia_evidence(0.5),
        ),
        Case(
            ("beta_bernoulli", "2", "5"),
            {"y": [1.0] * 5},
            {"x": ars.Beta(7.0, 2.0), "u": ars.Uniform(0.0, 1.0)},
            beta_evidence(5),
        ),
        Case(
            ("truncated_normal", "a"),
            {"y": -1.0},
            {"x": ars.TruncatedNormal(1.3, 0.5, 1.0, 2.0), "z": lambda t: ars.Normal(-0.3 * t["x"], 1.1)},
            truncated_evidence(-1.0),
        ),
    )


# ---- the test ----------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """One weighting of one case."""

    runs: int
    traces: int
    mean: float  # of z
    expected: float  # of the mean, if the exact evidence were the pooled one
    error: float  # of the mean
    spread: float  # standard deviation of z
    shuffled: tuple[float, float]  # the middle 99% of it, over the shuffles
    p_spread: float
    zeros: float  # share of weights that are 0

    @property
    def centre(self) -> float:
        """How many standard errors the mean is off."""
        return (self.mean - self.expected) / self.error

    @property
    def passes(self) -> bool:
        return abs(self.centre) <= CENTRE_LIMIT and self.p_spread >= SPREAD_LEVEL


def z_scores(weights: Floats, truth: float) -> Floats:
    """One per run (row): log of the mean weight against the log of the truth, in its standard errors.

    The standard error of a log is that of the mean over the mean. A run without a weight above 0 has no estimate and
    stands as far below as it can with its n traces: z = -sqrt(n).
    """
    n = weights.shape[1]
    mean = weights.mean(axis=1)
    error = weights.std(axis=1, ddof=1) / math.sqrt(n)
    seen = (mean > 0.0) & (error > 0.0)
    log_ratio = np.log(np.where(seen, mean, truth) / truth)
    return np.where(seen, log_ratio * mean / np.where(seen, error, 1.0), -math.sqrt(n))


def judge(weights: Floats, truth: float, shuffles: int = SHUFFLES, seed: int = 1) -> Verdict:
    """The test of one weighting: rows are runs, the entries weights (not logs)."""
    rng = np.random.default_rng(seed)
    z = z_scores(weights, truth)
    spread = float(z.std(ddof=1))
    pooled = float(weights.mean())
    everything = weights.ravel().copy()
    spreads, means = np.empty(shuffles), np.empty(shuffles)
    for i in range(shuffles):
        rng.shuffle(everything)
        shuffled = everything.reshape(weights.shape)
        spreads[i] = z_scores(shuffled, truth).std(ddof=1)
        means[i] = z_scores(shuffled, pooled).mean()
    below, above = int(np.sum(spreads <= spread)), int(np.sum(spreads >= spread))
    low, high = np.quantile(spreads, [0.005, 0.995])
    return Verdict(
        runs=len(z),
        traces=weights.shape[1],
        mean=float(z.mean()),
        expected=float(means.mean()),
        error=spread / math.sqrt(len(z)),
        spread=spread,
        shuffled=(float(low), float(high)),
        p_spread=min(1.0, 2.0 * (min(below, above) + 1) / (shuffles + 1)),
        zeros=float(np.mean(weights == 0.0)),
    )


# ---- running, with checkpoints -----------------------------------------------------------------------------------


def _seed(case: Case, run: int) -> int:
    return zlib.crc32(f"truth {case.name} {run}".encode())


def _run(sim: ars.Simulator, case: Case, run: int, traces: int) -> list[Floats]:
    """The log weights of one run, per method."""
    post = sim.posterior(
        case.observe, traces, proposals=case.proposals, budget=BUDGET, seed=_seed(case, run), progress=False
    )
    return [post.log_weights(method) for method in METHODS]


def _checkpoints(directory: Path, case: Case, runs: int, traces: int) -> Iterator[tuple[Path, range]]:
    for first in range(0, runs, CHUNK):
        part = range(first, min(first + CHUNK, runs))
        yield directory / f"{case.name}-{traces}-{part[0]:05}-{part[-1]:05}.npy", part


def _load(path: Path) -> Floats:
    try:
        return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, EOFError) as error:
        raise SystemExit(f"{path} is damaged ({error}): remove it, and the runs in it are made again") from None


def weights_of(case: Case, simulators: Path, directory: Path, runs: int, traces: int) -> dict[str, Floats]:
    """Method -> weights, a row per run. What an earlier call has kept is not run again."""
    directory.mkdir(parents=True, exist_ok=True)
    parts: list[Floats] = []
    executable = [str(simulators / case.command[0]), *case.command[1:]]
    with ars.Simulator(executable) as sim:
        for path, part in _checkpoints(directory, case, runs, traces):
            if not path.exists():
                begin = time.monotonic()
                found = np.array([_run(sim, case, run, traces) for run in part])
                unfinished = path.with_suffix(".tmp")
                with unfinished.open("wb") as file:
                    np.save(file, found, allow_pickle=False)
                unfinished.replace(path)  # whole, or not there
                rate = len(part) * traces / (time.monotonic() - begin)
                print(f"{case.name}: run {part[-1] + 1} of {runs}, {rate:,.0f} traces per second", file=sys.stderr)
            parts.append(_load(path))
    log_weights = np.concatenate(parts)
    if log_weights.shape != (runs, len(METHODS), traces):
        raise SystemExit(f"{directory} holds another experiment: remove it, or give another --out")
    return {method: np.exp(log_weights[:, i]) for i, method in enumerate(METHODS)}


# ---- the page ----------------------------------------------------------------------------------------------------

_HEAD = ("simulator", "weighting", "mean z", "expected", "off by", "spread of z", "shuffled (99%)", "p", "zeros", "")


def table(found: Mapping[str, Mapping[str, Verdict]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_HEAD]
    for name, verdicts in found.items():
        for method, v in verdicts.items():
            rows.append(
                (
                    name,
                    method,
                    f"{v.mean:+.3f} +- {v.error:.3f}",
                    f"{v.expected:+.3f}",
                    f"{v.centre:+.1f} s.e.",
                    f"{v.spread:.3f}",
                    f"{v.shuffled[0]:.3f} to {v.shuffled[1]:.3f}",
                    f"{v.p_spread:.3f}",
                    f"{100 * v.zeros:.1f}%",
                    "passes" if v.passes else "fails",
                )
            )
    return rows


def plain(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


_PAGE = """# Are the standard errors right?

`make truth` ran each simulator {runs} times with different seeds, {traces} traces per run, `Budget(M={M}, N={N})`, and
proposals by hand that differ from the prior inside the loops. Each run gives z: the error of its log evidence, in
standard errors.

{table}

- **mean z** must agree with **expected**, the mean that these skewed weights have around their own pooled evidence. The
  limit for **off by** is {centre_limit} standard errors.
- **spread of z** must be one that the same weights give when they are shuffled over the runs ({shuffles} shuffles). The
  limit for its two-sided p-value **p** is {spread_level}.
- **zeros** is the share of traces with weight 0: none of the N tries of a loop was accepted, or the likelihood
  underflows.
- The `biased` weighting leaves out the correction of the loops. It must fail.

Runs and shuffles took {seconds:.0f} s on {machine}, with libars {version}. The limits and the number of shuffles are
constants of `tools/truth.py`, fixed before the first run.
"""


def page(rows: Sequence[tuple[str, ...]], about: Mapping[str, Any]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return _PAGE.format(**about, table="\n".join(lines))


def _publish(directory: Path, found: Mapping[str, Mapping[str, Verdict]], about: Mapping[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    document = {
        **about,
        "cases": {
            name: {method: {**v._asdict(), "passes": v.passes} for method, v in verdicts.items()}
            for name, verdicts in found.items()
        },
    }
    (directory / "truth.json").write_text(json.dumps(document, indent=1) + "\n")
    (directory / "README.md").write_text(page(table(found), about))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="z-scores of the evidence over many seeds, against exact answers.")
    parser.add_argument("--simulators", type=Path, default=Path("build/csim"), help="directory of csim (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("truth"), help="folder for checkpoints (%(default)s)")
    parser.add_argument("--publish", type=Path, help="folder for truth.json and README.md (default: none)")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs per simulator (%(default)s)")
    parser.add_argument("--traces", type=int, default=TRACES, help="traces per run (%(default)s)")
    parser.add_argument("--shuffles", type=int, default=SHUFFLES, help="(%(default)s)")
    parser.add_argument("--only", action="append", help="a simulator; repeat for several (default: all)")
    options = parser.parse_args(argv)
    least = math.ceil(2.0 / SPREAD_LEVEL)
    if options.shuffles < least:
        parser.error(f"--shuffles must be at least {least}: with fewer, no spread can fail at level {SPREAD_LEVEL}")
    if options.runs < 2 or options.traces < 2:
        parser.error("--runs and --traces must be at least 2")
    return options


def main(argv: Sequence[str] | None = None, log: Callable[[str], None] = print) -> int:
    """0 if "ars" passes everywhere and "biased" fails everywhere, else 1."""
    options = _options(argv)
    begin = time.monotonic()
    found: dict[str, dict[str, Verdict]] = {}
    for case in cases():
        if options.only and case.name not in options.only:
            continue
        weights = weights_of(case, options.simulators, options.out, options.runs, options.traces)
        found[case.name] = {m: judge(w, case.evidence, options.shuffles) for m, w in weights.items()}
    about = {
        "runs": options.runs,
        "traces": options.traces,
        "M": BUDGET.M,
        "N": BUDGET.N,
        "shuffles": options.shuffles,
        "spread_level": SPREAD_LEVEL,
        "centre_limit": CENTRE_LIMIT,
        "seconds": time.monotonic() - begin,
        "machine": f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}",
        "version": ars.__version__,
    }
    log(plain(table(found)))
    if options.publish is not None:
        _publish(options.publish, found, about)
    right = all(v["ars"].passes and not v["biased"].passes for v in found.values())
    log("as it must be" if right else "NOT as it must be: see above")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
