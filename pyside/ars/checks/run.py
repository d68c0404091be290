"""The runs of a check, and all its findings."""

from __future__ import annotations

import dataclasses
from typing import Final

from ars.budget import Budget
from ars.checks.effects import check_effects
from ars.checks.findings import CheckReport, Finding
from ars.checks.replays import Ran, difference
from ars.checks.tries import check_first_draws, check_tries
from ars.checks.unmarked import call_paths, rejected, unmarked
from ars.columns import merge, select
from ars.failures import failures_of
from ars.runs import Runs
from ars.runtime.processes import Processes
from ars.runtime.setup import Setup

__all__ = ["LEAST_TRACES", "check_setup"]

LEAST_TRACES: Final = 100
_PATH_TRACES: Final = 300  # whose draws are looked at for their call paths
_REJECTED: Final = 4  # tries per loop entry whose draws are looked at
_ONE_RUN: Final = Budget(M=1, R=0)  # a continuation per loop entry


def check_setup(setup: Setup, traces: int, seed: int) -> CheckReport:
    """Run the simulator three times, and compare.

    Parameters
    ----------
    setup : Setup
        The simulator.
    traces : int
        Traces per run.
    seed : int
        Seed of all runs.

    Returns
    -------
    CheckReport
        The findings.
    """
    half = traces // 2
    plain = _ran(setup, traces, seed, [(0, traces)])
    # One process runs all traces, the second half first: what a trace leaves behind for the next one shows.
    elsewhere = _ran(dataclasses.replace(setup, workers=1), traces, seed, [(half, traces - half), (0, half)])
    estimated = _ran(dataclasses.replace(setup, continuations="check"), traces, seed, [(0, traces)], _ONE_RUN)
    whole = Ran(select(plain.columns, plain.columns.traces["failure"] == 0), plain.sites)
    findings = [
        *_failures(plain, seed),
        _replays(plain, elsewhere, estimated),
        *_tries(whole, estimated, seed),
        *_effects(estimated),
        *_marked(setup, whole, seed),
    ]
    return CheckReport(setup.command, traces, seed, tuple(findings))


def _ran(setup: Setup, traces: int, seed: int, parts: list[tuple[int, int]], budget: Budget | None = None) -> Ran:
    """The traces 0 to ``traces`` - 1, run in this order by fresh processes."""
    processes = Processes(setup)
    try:
        runs = Runs(processes)
        ran = [
            runs.prior_chunk(seed, first, count, on_failure="zero", max_rejected=_REJECTED, budget=budget)
            for first, count in parts
            if count
        ]
    finally:
        processes.close()
    columns = merge([part for part, _ in ran])
    assert len(columns.traces) == traces
    return Ran(columns, ran[-1][1])


def _failures(run: Ran, seed: int) -> list[Finding]:
    failed = failures_of(run.columns.failures, run.sites, seed, {})
    if not failed:
        return [Finding("completes", "kept", "")]
    text = f"{len(failed):,} of {len(run.columns.traces):,} traces failed. The first one: {failed[0]}"
    return [Finding("completes", "broken", text)]


def _replays(plain: Ran, elsewhere: Ran, estimated: Ran) -> Finding:
    cause = (
        "The trace depends on something other than its draws and arguments: a generator outside libars, the time, an "
        "address, uninitialised memory, or state left by an earlier trace."
    )
    if text := difference(plain, elsewhere):
        return Finding("replays", "broken", f"when rerun by a single process in a different order, {text}. {cause}")
    if text := difference(plain, estimated):
        if not len(estimated.columns.loops):  # so there were no continuations
            return Finding("replays", "broken", f"when rerun, {text}. {cause}")
        cause = "A continuation of a loop changed something that the trace reads: a file, or shared memory."
        return Finding("replays", "broken", f"when rerun with continuations, {text}. {cause}")
    return Finding("replays", "kept", "")


def _tries(whole: Ran, estimated: Ran, seed: int) -> list[Finding]:
    if not len(estimated.columns.loops):
        return [Finding("tries", "not checked", "no loop was entered.")]
    return [*check_tries(*estimated, seed=seed), *check_first_draws(*whole)]


def _marked(setup: Setup, whole: Ran, seed: int) -> list[Finding]:
    """Loops without marks. Where there are some, a run of its own finds out where named latents are drawn."""
    found = list(rejected(*whole))
    if not found:
        return [Finding("marked", "kept", "")]
    traces = min(_PATH_TRACES, len(whole.columns.traces))
    by_path = _ran(dataclasses.replace(setup, env={**setup.env, "ARS_CALL_PATHS": "1"}), traces, seed, [(0, traces)])
    paths = call_paths(whole, by_path)
    return [unmarked(each, whole.sites, paths) for each in found]


def _effects(estimated: Ran) -> list[Finding]:
    return check_effects(*estimated) or [Finding("effects", "not checked", "no loop was entered.")]
