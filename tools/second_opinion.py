"""Two independent answers to one question: weighted traces and Markov chains.

    python tools/second_opinion.py agree                    # do they agree on every simulator of csim/?
    python tools/second_opinion.py calibrate --datasets 200  # is the truth's rank among their draws uniform?

Both take ``--quick`` for a minute's worth, and print one line per comparison. The exit code is 1 if one of them fails.
bench_loop and bench_draws are left out: they measure, and model nothing. So are capped and capped_fortran, whose loops
give up: chains refuse them, and tests/system/test_abandoned.py compares weighted traces with exact answers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

import ars

CSIM = Path(os.environ.get("ARS_CSIM_DIR", Path(__file__).resolve().parents[1] / "build" / "csim"))
LIMIT = 4.0  # standard errors
LEAST_P = 0.001


# ---- agreement -------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A simulator, its data, and how many traces of the prior and steps of chains it takes."""

    command: tuple[str, ...]
    observe: Mapping[str, Any]
    names: Sequence[str]  # results to compare
    traces: int = 40_000
    steps: int = 1500
    max_tries: int | None = None  # moves to states whose loops take more are refused (None: they are errors)


def _mini_sherpa(channel: int, traces: int) -> Question:
    """An event of the prior with this channel. The posterior of the others is out of reach of the prior."""
    with ars.Simulator([str(CSIM / "mini_sherpa")]) as sim:
        prior = sim.prior(20, seed=3)
    row = int(np.flatnonzero(prior["channel"] == channel)[0])
    observe = {"calorimeter": prior["calorimeter"][row]}
    return Question(("mini_sherpa",), observe, ["channel", "momentum"], traces=traces)


def questions() -> dict[str, Question]:
    """One per simulator of csim/."""
    return {
        "gaussian": Question(("gaussian", "3"), {"y": [0.5, 0.9, 0.7]}, ["mu"]),
        "marsaglia": Question(("marsaglia",), {"y1": 0.3, "y2": 0.4}, ["mu"]),
        "marsaglia_in_place": Question(("marsaglia_in_place",), {"y1": 0.3, "y2": 0.4}, ["mu"]),
        "beta_bernoulli": Question(("beta_bernoulli", "2", "5"), {"y": [1, 1, 0, 1, 1]}, ["x_final"]),
        "truncated_normal a": Question(("truncated_normal", "a"), {"y": -1.0}, ["x_final", "z_final"]),
        "truncated_normal b": Question(("truncated_normal", "b"), {"y": -1.0}, ["x_final", "z_final"]),
        "nested": Question(("nested",), {"y": 2.0}, ["sum"]),
        "nested_by_handle": Question(("nested_by_handle",), {"y": 2.0}, ["sum"]),
        "recursive": Question(("recursive", "3"), {"y": 2.0}, ["r"]),
        "sequence": Question(("sequence",), {"y": 3.0}, ["total"]),
        "branching": Question(("branching",), {"y": 1.0}, ["x_final"]),
        "event_loop": Question(("event_loop",), {"calorimeter": 1.6, "tracker": 0.4}, ["total", "direction"]),
        "sir": Question(
            ("sir", "2", "40"), {"cases": [5.0, 6.0]}, ["reproduction", "attack_rate"], 400_000, 6000, 100_000
        ),
        "mini_sherpa 1": _mini_sherpa(0, 40_000),
        "mini_sherpa 2": _mini_sherpa(1, 2_000_000),
    }


class Difference(NamedTuple):
    """Of one number, in standard errors of the difference."""

    chains: float
    weighted: float
    errors: float


def differences(question: Question, *, quick: bool = False, seed: int = 1) -> dict[str, Difference]:
    """How far the two answers are apart, by result.

    Parameters
    ----------
    question : Question
        What to compare.
    quick : bool
        Use a fifth of the traces and steps (default: False).
    seed : int
        Of both (default: 1).

    Returns
    -------
    dict
        From names to differences.
    """
    share = 5 if quick else 1
    command, limit = [str(CSIM / question.command[0]), *question.command[1:]], question.max_tries
    with ars.Simulator(command) as sim:
        weighted = sim.posterior(question.observe, question.traces // share, seed=seed)
    with ars.Simulator(command, max_tries=limit) as sim:
        on_failure: Literal["raise", "zero"] = "raise" if limit is None else "zero"
        chains = sim.mcmc(question.observe, question.steps // share, 16, seed=seed, on_failure=on_failure)
    found = {}
    for name in question.names:
        one, other = np.atleast_1d(chains.mean(name)), np.atleast_1d(weighted.mean(name))
        error = np.hypot(np.atleast_1d(chains.mcse(name)), np.atleast_1d(weighted.mean_error(name)))
        for i, (a, b, e) in enumerate(zip(one, other, error, strict=True)):
            found[name if len(one) == 1 else f"{name}[{i}]"] = Difference(
                float(a), float(b), abs(float(a - b)) / float(e)
            )
    return found


# ---- calibration -----------------------------------------------------------------------------------------------------

DRAWS = 31  # so the rank of the truth is one of 32 numbers
BINS = 8
MODELS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {  # command, data, latents or results
    "gaussian": (("gaussian",), ("y",), ("mu",)),
    "truncated_normal b": (("truncated_normal", "b"), ("y",), ("x_final", "z_final")),
    "branching": (("branching",), ("y",), ("x_final",)),
}


def ranks(model: str, method: str, datasets: int, seed: int = 1) -> dict[str, list[int]]:
    """Where the truth ranks among posterior draws, over data drawn from the prior: uniform if the draws are right.

    Parameters
    ----------
    model : str
        A key of ``MODELS``.
    method : {"weighted", "chains"}
        Where draws come from: traces resampled by their weights, or the last states of 31 chains.
    datasets : int
        How many.
    seed : int
        Of the truths; the draws have others (default: 1).

    Returns
    -------
    dict
        From names to ranks from 0 to 31.
    """
    command, data, names = MODELS[model]
    found: dict[str, list[int]] = {name: [] for name in names}
    rng = np.random.default_rng(seed)
    with ars.Simulator([str(CSIM / command[0]), *command[1:]]) as sim:
        truth = sim.prior(datasets, seed=seed)
        for i in range(datasets):
            observe = {name: truth[name][i] for name in data}
            if method == "chains":
                chains = sim.mcmc(observe, 1, DRAWS, seed=1000 + i, warmup=15, thin=3)
                draws = {name: chains[name][:, 0] for name in names}
            else:
                post = sim.posterior(observe, 500, seed=1000 + i)
                rows = post.resample(DRAWS, seed=int(rng.integers(2**31)))
                draws = {name: post[name][rows] for name in names}
            for name in names:
                found[name].append(int(np.sum(draws[name] < truth[name][i])))
    return found


def p_value(found: Sequence[int], bins: int = BINS) -> float:
    """Of the hypothesis that ranks are uniform (chi-squared; needs scipy)."""
    from scipy import stats

    return float(stats.chisquare(np.bincount(np.array(found) * bins // (DRAWS + 1), minlength=bins)).pvalue)


# ---- the command -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("agree", "calibrate"))
    parser.add_argument("--quick", action="store_true", help="a minute's worth")
    parser.add_argument("--datasets", type=int, default=200, help="of calibrate (default: 200; 40 with --quick)")
    parser.add_argument("--only", action="append", help="a simulator or model by name; may be repeated")
    arguments = parser.parse_args(argv)
    wrong = 0
    if arguments.what == "agree":
        for name, question in questions().items():
            if arguments.only and name not in arguments.only:
                continue
            for result, found in differences(question, quick=arguments.quick).items():
                wrong += not found.errors < LIMIT
                print(
                    f"{name:20} {result:12} chains {found.chains:10.5f}  weighted {found.weighted:10.5f}  "
                    f"{found.errors:5.2f} standard errors apart",
                    flush=True,
                )
        return 1 if wrong else 0
    datasets = 40 if arguments.quick else arguments.datasets
    for model in MODELS:
        if arguments.only and model not in arguments.only:
            continue
        for method in ("weighted", "chains"):
            for name, ranked in ranks(model, method, datasets).items():
                p = p_value(ranked, 4 if arguments.quick else BINS)
                wrong += not p > LEAST_P
                print(f"{model:20} {method:9} {name:8} {datasets} datasets, p = {p:.3f}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
