"""How continuations are asked for, and how a result says what became of them: rewound or forked, and why."""

from __future__ import annotations

import argparse
import errno
import logging
import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, observation, pack

import ars
from ars._native import FailureKind, ForkReason, LoopMethod, RunFlag
from ars.cli import main, options
from ars.columns import Columns
from ars.continuations import MODES, continuation_flags
from ars.errors import ContinuationWarning
from ars.loops import LoopSummary, summarise_loops
from ars.posterior import Posterior, RunInfo
from ars.proposers import Proposer
from ars.results.continuations import how_estimated, reason_in_words, report_continuations
from ars.results.system_calls import system_call
from ars.runtime.limits import Limits
from ars.runtime.processes import Processes
from ars.runtime.recorder import Recorder
from ars.runtime.replay_advice import Replay
from ars.runtime.setup import Setup
from ars.store.identity import digest, run_identity
from ars.store.shards import decode_shard, encode_shard
from ars.wire import RunConfig, Wanted, decode_run, encode_run

X, Y, DRAW, INNER = range(4)
SITES = (latent(X, "draw/x"), observation(Y, "y"), loop_site(DRAW, "draw"), loop_site(INNER, "draw/inner"))
RUN = RunInfo(7, 2, 10, "proposal", "raise", ("./sim",))
ESTIMATED: dict[str, Any] = {"tries_q": 10, "accepted_q": 5, "runs_p": 2, "tries_p": 4}


def forked(reason: int = 0, detail: int = 0, site: int = DRAW) -> Loop:
    return Loop(site, **ESTIMATED, forks=6, method=LoopMethod.FORK, reason=reason, detail=detail)


def rewound(pages: int = 20, site: int = DRAW) -> Loop:
    return Loop(site, **ESTIMATED, rewinds=7, method=LoopMethod.REWIND, pages=pages)


def checked(method: int = LoopMethod.CHECKED, site: int = DRAW) -> Loop:
    return Loop(site, **ESTIMATED, forks=6, rewinds=7, method=method, pages=12)


def packed(*loops: Loop) -> Columns:
    """One trace per loop entry."""
    return pack([Trace(i, samples=[Sample(X, 0.5, loop=0)], loops=[loop]) for i, loop in enumerate(loops)])


def summary(*loops: Loop) -> LoopSummary:
    return summarise_loops(packed(*loops), SITES)["draw"]


def posterior(*loops: Loop) -> Posterior:
    return Posterior(packed(*loops), SITES, run=RUN, stats={"seconds": 1.0}, observed={"y": np.zeros(1)})


# ---- asking ----------------------------------------------------------------------------------------------------------


def test_the_default_is_auto() -> None:
    assert ars.Simulator(["./sim"]).continuations == "auto" == MODES[0]


@pytest.mark.parametrize("wrong", ["forks", "", None, True, ["fork"]])
def test_another_mode_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"continuations must be 'auto' .*, 'fork' or 'check' .*, not"):
        ars.Simulator(["./sim"], continuations=wrong)
    with pytest.raises(ValueError, match="continuations must be"):
        ars.Simulator.listen("tcp://127.0.0.1:*", insecure_loopback=True, continuations=wrong)


@pytest.mark.parametrize(
    ("mode", "more"),
    [("auto", RunFlag.REWIND), ("fork", RunFlag(0)), ("check", RunFlag.REWIND | RunFlag.CHECK)],
)
def test_runs_that_estimate_carry_the_mode_as_flags(mode: Any, more: RunFlag) -> None:
    setup = Setup(("./sim",), continuations=mode)
    config = setup.run_config(1, 10, RunFlag.POSTERIOR | RunFlag.ESTIMATE, wanted=Wanted(2, 3))
    assert config.flags == RunFlag.POSTERIOR | RunFlag.ESTIMATE | more
    assert decode_run(encode_run(config, 1))[1].flags == config.flags
    plain = RunFlag.PROPOSE_PRIOR | RunFlag.RECORD_PRIORS
    assert setup.run_config(1, 10, plain).flags == plain


def identity_of(config: RunConfig) -> dict[str, Any]:
    return run_identity(
        config, simulator={}, env={}, cwd=None, limits=Limits(), observed={}, proposals=None, network=None
    )


def test_the_mode_is_no_part_of_a_runs_identity() -> None:
    def identity(mode: str) -> str:
        flags = continuation_flags(mode, RunFlag.POSTERIOR | RunFlag.ESTIMATE)
        return digest(identity_of(RunConfig(1, 10, flags, wanted=Wanted(1, 1))))

    assert len({identity(mode) for mode in MODES}) == 1


def test_what_is_wanted_of_loops_is_part_of_a_runs_identity() -> None:
    """A fixed M and N as in earlier versions, whose folders are read; R and budgets by loop only where they are."""
    config = RunConfig(1, 10, RunFlag.POSTERIOR | RunFlag.ESTIMATE, wanted=Wanted(2, 3))
    budgets = {"loop": Wanted(), "loop2": Wanted(1, 0, 4)}
    fixed = identity_of(config)
    assert (fixed["M"], fixed["N"], "R" in fixed, "budgets" in fixed) == (2, 3, False, False)
    others = [
        identity_of(config._replace(wanted=Wanted())),
        identity_of(config._replace(wanted=Wanted(2))),
        identity_of(config._replace(wanted=Wanted(2, 0, 1))),
        identity_of(config._replace(budgets=budgets)),
    ]
    assert [each.get("R") for each in others] == [None, 0, 1, None]
    assert others[-1]["budgets"] == {"loop": {"M": 0, "N": 0}, "loop2": {"M": 1, "N": 0, "R": 4}}
    assert len({digest(each) for each in (fixed, *others)}) == 5


def _arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.add_continuations(parser)
    return parser.parse_args(words)


def test_the_option_becomes_an_argument_of_the_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert options.limits(_arguments()) == {}
    assert options.limits(_arguments("--continuations", "check")) == {"continuations": "check"}
    with pytest.raises(SystemExit):
        _arguments("--continuations", "both")
    assert "auto" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["infer", "inspect", "replay", "demo", "reproduce"])
def test_every_command_that_estimates_has_the_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "--continuations {auto,fork,check}" in capsys.readouterr().out


def test_replay_refuses_the_option_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "./sim", "--seed", "1", "--trace", "0", "--continuations", "fork"]) == 2
    assert "--continuations goes with data" in capsys.readouterr().err


def test_the_advice_on_a_failure_has_the_mode() -> None:
    failure = ars.Failure(12, "crash", 6, "it crashed", seed=3)

    def advice(posterior: bool, mode: str) -> str:
        return Replay(posterior, ["./sim"], Limits(), (), mode).advice(failure)

    assert advice(True, "fork") == "ars replay --seed 3 --trace 12 --continuations fork ./sim"
    assert "--continuations" not in advice(True, "auto")
    assert "--continuations" not in advice(False, "fork"), "a prior run estimates nothing"


# ---- what a loop says ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loops", "method"),
    [
        ([rewound(), rewound()], "rewind"),
        ([checked(), rewound()], "rewind"),
        ([forked(), forked()], "fork"),
        ([rewound(), forked(ForkReason.FAILURE)], "both"),
        ([rewound(), checked(LoopMethod.MISMATCH)], "both"),
        ([checked(), checked()], "both"),
        ([checked(), forked(ForkReason.COST)], "both"),
        ([Loop(DRAW, **ESTIMATED, method=LoopMethod.IN_PLACE)], "in place"),
        ([Loop(DRAW, tries=3)], "not estimated"),
        # files of earlier versions do not say
        ([Loop(DRAW, **ESTIMATED, forks=6)], "fork"),
        ([Loop(DRAW, **ESTIMATED)], "in place"),
    ],
)
def test_the_method_of_a_loop(loops: list[Loop], method: str) -> None:
    assert summary(*loops).method == method


def test_pages_are_the_median_over_rewound_entries() -> None:
    assert summary(rewound(10), rewound(30), rewound(20), forked(ForkReason.PAGES, 9)).pages == 20.0
    assert math.isnan(summary(forked()).pages)


def test_the_reason_is_one_clause_if_it_holds_for_all_entries() -> None:
    assert summary(rewound()).reason == summary(forked()).reason == summary(Loop(DRAW)).reason == ""
    found = summary(*[forked(ForkReason.SYSCALL, 1)] * 3)
    assert found.reason == "system call write cannot be undone"
    assert found.method == "fork"


def test_a_mismatch_is_a_reason_by_itself() -> None:
    found = summary(checked(LoopMethod.MISMATCH), forked(ForkReason.MISMATCH))
    assert (found.method, found.reason) == ("fork", "rewinding and forking gave different numbers")


def test_several_reasons_are_counted_the_most_frequent_first() -> None:
    found = summary(rewound(), forked(ForkReason.COST), *[forked(ForkReason.SYSCALL, 257)] * 2)
    assert found.reason == (
        "system call openat cannot be undone (2 of 4 entries); forking was measured to be cheaper (1 of 4 entries)"
    )
    many = summary(*[forked(ForkReason.SYSCALL, number) for number in range(5)])
    assert many.reason.count("of 5 entries") == 3 and many.reason.endswith("; 2 more")


@pytest.mark.parametrize(
    ("reason", "detail", "words"),
    [
        (ForkReason.SYSTEM, errno.EPERM, "does not allow rewinding (EPERM: Operation not permitted)"),
        (ForkReason.SYSTEM, 0, "this system does not allow rewinding"),
        (ForkReason.SYSTEM, 9999, "(error 9999)"),
        (ForkReason.SYSCALL, 5000, "system call 5000 cannot be undone"),
        (ForkReason.FAILURE, FailureKind.TOO_MANY_TRIES, "failed in place (too_many_tries)"),
        (99, 7, "reason 99 (detail 7)"),
    ],
)
def test_reasons_in_words(reason: int, detail: int, words: str) -> None:
    assert words in reason_in_words(reason, detail)


def test_every_reason_has_words_of_its_own() -> None:
    words = [reason_in_words(reason, 1) for reason in ForkReason if reason is not ForkReason.NONE]
    assert len(set(words)) == len(ForkReason) - 1
    assert not any(text.startswith("reason ") for text in words)


def test_names_of_system_calls_are_those_of_the_headers() -> None:
    assert [system_call(number) for number in (0, 1, 56, 231, 334, 424, 435)] == [
        f"system call {name}"
        for name in ("read", "write", "clone", "exit_group", "rseq", "pidfd_send_signal", "clone3")
    ]
    assert [system_call(number) for number in (-1, 335, 423, 99999)] == [
        f"system call {number}" for number in (-1, 335, 423, 99999)
    ]
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if header.exists():
        lines = (line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
        for _, name, number in lines:
            if int(number) <= 450:
                assert system_call(int(number)) == f"system call {name.removeprefix('__NR_')}"


def test_the_table_of_loops_shows_the_method_and_the_reasons() -> None:
    text = repr(summarise_loops(packed(rewound(), forked(ForkReason.SYSCALL, 1, INNER), Loop(INNER)), SITES))
    assert " by " in text.splitlines()[0]
    assert " rewind " in text.splitlines()[1] and " fork " in text.splitlines()[2]
    assert text.splitlines()[-1] == "draw/inner was forked: system call write cannot be undone"
    assert "was forked" not in repr(summarise_loops(packed(rewound(), forked(site=INNER)), SITES))


def test_a_run_without_proposals_estimates_nothing() -> None:
    found = summarise_loops(packed(Loop(DRAW, tries=3)), SITES, proposed=False)["draw"]
    assert (found.method, found.reason, found.note) == ("not estimated", "", "nothing was proposed")


# ---- what a run says -------------------------------------------------------------------------------------------------


def test_counters_are_sums_over_loop_entries() -> None:
    post = posterior(rewound(), forked(), checked(), checked(LoopMethod.MISMATCH), forked(ForkReason.SYSCALL, 1))
    assert post.stats["rewinds"] == 3 * 7
    assert post.stats["forks"] == 4 * 6
    assert post.stats["continuations"] == 3 * 7 + 4 * 6
    assert post.stats["rewinds_refused"] == 2, "forked without a reason is forked because that was asked for"


def test_the_summary_has_a_line() -> None:
    def line(*loops: Loop) -> str:
        return next((line for line in posterior(*loops).summary().splitlines() if line.startswith("continuations")), "")

    assert line(rewound(), checked()) == "continuations: 14 rewound, 6 forked"
    assert line(forked()) == "continuations: 0 rewound, 6 forked"
    assert line(forked(ForkReason.COST), rewound()).endswith("(loop entries that could not be rewound: 1)")
    refused = line(forked(ForkReason.SYSTEM, errno.ENOSYS))
    assert refused.endswith("forked (this system does not allow rewinding (ENOSYS: Function not implemented))")
    assert line(Loop(DRAW, tries=3)) == ""


def test_a_mismatch_warns_once_and_names_the_loops() -> None:
    columns = packed(rewound(), *[checked(LoopMethod.MISMATCH)] * 2, checked(LoopMethod.MISMATCH, INNER))
    with pytest.warns(ContinuationWarning) as caught:
        report_continuations(columns, SITES)
    (warning,) = caught
    text = str(warning.message)
    assert '"draw" (2 of 3 entries), "draw/inner" (1 of 1 entries)' in text
    for words in ("forked numbers were used", "bug", "undefined behaviour", 'continuations="fork"'):
        assert words in text


def test_a_system_that_does_not_allow_it_is_logged_once_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "ars"):
        warnings.simplefilter("error")
        report_continuations(packed(*[forked(ForkReason.SYSTEM, errno.EPERM)] * 5), SITES)
        report_continuations(packed(rewound(), forked(), forked(ForkReason.COST)), SITES)
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "EPERM" in record.getMessage() and "same numbers" in record.getMessage()


# ---- whole runs, with finished traces in the place of processes ------------------------------------------------------

Runs = Callable[[Columns], list[RunConfig]]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Every run gives these traces; its settings are listed."""

    def give(columns: Columns) -> list[RunConfig]:
        seen: list[RunConfig] = []

        def work(
            self: Processes,
            config: RunConfig,
            proposer: Proposer,
            recorder: Recorder,
            stop: threading.Event | None = None,
        ) -> None:
            del self, proposer, stop
            seen.append(config)
            loops = columns.loops.copy()
            if not config.flags & RunFlag.ESTIMATE:
                for name in loops.dtype.names or ():
                    if name not in ("site", "instance", "parent", "tries"):
                        loops[name] = 0
            recorder.sites = SITES
            recorder.take(columns._replace(loops=loops), lambda: SITES, lambda: "")

        monkeypatch.setattr(Processes, "work", work)
        return seen

    return give


def test_a_run_reports(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    seen = runs(packed(checked(LoopMethod.MISMATCH), forked(ForkReason.SYSTEM, errno.EPERM)))
    sim = ars.Simulator(["./sim"], continuations="check")
    with caplog.at_level(logging.INFO, "ars"), pytest.warns(ContinuationWarning, match='loop "draw"') as caught:
        post = sim.posterior({"y": 0.0}, 2, proposals={"x": ars.Normal(0, 1)}, budget=ars.Budget(), seed=1)
    assert caught[0].filename == __file__
    assert len(caplog.records) == 1
    assert seen[-1].flags & RunFlag.CHECK
    assert post.loops["draw"].method == "fork", "the forked numbers stand"


def test_inspect_shows_how_loops_are_estimated(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    seen = runs(packed(rewound(), rewound(), forked(ForkReason.SYSCALL, 1, INNER)))
    assert main(["inspect", "./sim", "--traces", "3", "--seed", "1"]) == 0
    plain, estimating, *others = seen
    assert not any(config.flags & RunFlag.ESTIMATE for config in others)
    assert not plain.flags & RunFlag.ESTIMATE
    assert estimating.flags & RunFlag.ESTIMATE and estimating.flags & RunFlag.PROPOSE_PRIOR
    assert estimating.flags & RunFlag.REWIND
    assert (plain.seed, plain.first_trace) == (estimating.seed, estimating.first_trace)
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "draw 0.6667 1 1 rewind 20" in rows
    assert "draw/inner 0.3333 1 1 fork system call write cannot be undone" in rows


def test_inspect_says_so_where_nothing_was_estimated(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    runs(packed(Loop(DRAW, tries=2), checked(site=INNER)))
    assert main(["inspect", "./sim", "--traces", "2", "--continuations", "check"]) == 0
    text = capsys.readouterr().out
    assert "not estimated" in text
    assert "both" in text and "rewound and forked numbers were equal" in text


def test_inspect_estimates_nothing_without_loops(runs: Runs) -> None:
    seen = runs(pack([Trace(0, samples=[Sample(X, 0.5)])]))
    assert main(["inspect", "./sim", "--traces", "1"]) == 0
    assert not any(config.flags & RunFlag.ESTIMATE for config in seen)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_results_on_disk_keep_it(tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    post = posterior(rewound(), forked(ForkReason.SYSCALL, 1), checked())
    post.save(tmp_path / "post.nc")
    back = Posterior.load(tmp_path / "post.nc")
    assert back.columns.loops.tobytes() == post.columns.loops.tobytes()
    assert (dict(back.loops), back.stats) == (dict(post.loops), post.stats)
    columns, _ = decode_shard(
        memoryview(b"".join(bytes(p) for p in encode_shard(post.columns, SITES, {}))), verify=True
    )
    assert how_estimated(columns.loops) == how_estimated(post.columns.loops)


def test_a_file_of_an_earlier_version_counted_snapshots_among_the_forks(tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    post = posterior(forked(), forked())
    for name in ("rewinds", "rewinds_refused"):
        del post.stats[name]
    post.stats |= {"snapshots": 2, "forks": 12 + 2}
    post.save(tmp_path / "post.nc")
    back = Posterior.load(tmp_path / "post.nc")
    assert (back.stats["forks"], back.stats["continuations"], back.stats["snapshots"]) == (12, 12, 2)
    assert (back.stats["rewinds"], back.stats["rewinds_refused"]) == (0, 0)


def test_parts_of_a_run_add_up() -> None:
    one, other = posterior(rewound()), posterior(forked(ForkReason.COST))
    other.columns.traces["trace"] = 1
    whole = Posterior.concat([one, other])
    assert [whole.stats[name] for name in ("rewinds", "forks", "rewinds_refused")] == [7, 6, 1]
    assert whole.loops["draw"].method == "both"
