"""Loops by handle: to the last bit the loops that rs_start marks, wherever the marks stand; and mistakes have names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant
from test_reject import assert_same_traces

import ars
import exact
from ars._native import LoopMethod
from ars.errors import TraceFailure

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

HERE = Path(__file__).resolve().parent / "handles"
OBSERVE = {"data": 0.7}
PROPOSALS: dict[str, Any] = {
    "x": lambda t: ars.Normal(0.2 + 0.4 * t["shift"], 1.1),
    "y": lambda t: ars.Normal(0.3 * t["x"] + 0.2, 1.2),
}


@pytest.fixture(scope="module", params=COMPILERS[:1])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Builder(tmp_path_factory.mktemp("handles")).program([HERE / "loops.c"], Variant(request.param, ("-O2",)))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Callable[..., ars.Simulator]:
    def make(model: str, kind: str, workers: int = 4, **options: Any) -> ars.Simulator:
        return started(ars.Simulator([str(program), model, kind], workers=workers, **options))

    return make


def run(sim: ars.Simulator, model: str, budget: Any = None, traces: int = 60) -> ars.Posterior:
    proposals = {name: PROPOSALS[name] for name in ("x" if model in ("single", "machine", "recursive") else "xy")}
    if model == "recursive":
        proposals = {"x": ars.Normal(0.2, 1.1)}
    with sim:
        return sim.posterior(OBSERVE, traces, proposals=proposals, budget=budget or ars.Budget(M=3, N=7), seed=11)


@pytest.mark.parametrize("model", ["single", "machine", "nested", "nested1", "nested2", "recursive"])
def test_a_handle_is_marks_to_the_last_bit(start: Callable[..., ars.Simulator], mode: str, model: str) -> None:
    """nested1: the outer loop alone has a handle; nested2: the inner one."""
    plain = run(
        start(model if "1" not in model and "2" not in model else "nested0", "marks", continuations=mode), model
    )
    handles = run(start(model, "handle", continuations=mode), model)
    assert_same_traces(handles, plain)
    assert not handles.failures
    for count in ("tries_q", "tries_p", "snapshots"):
        assert handles.stats[count] == plain.stats[count] or count == "snapshots"
    assert (handles.stats["rewinds"] > 0) == (mode != "fork")
    assert (handles.columns.loops["tries"] > 1).any()


@pytest.mark.parametrize("model", ["in_place", "around_in_place"])
def test_handles_with_ars_reject(start: Callable[..., ars.Simulator], model: str) -> None:
    assert_same_traces(run(start(model, "handle"), model), run(start("nested", "marks"), model))


@pytest.mark.parametrize("budget", ["auto", "R"])
def test_other_budgets(start: Callable[..., ars.Simulator], budget: str) -> None:
    chosen = ars.Budget.auto() if budget == "auto" else ars.Budget(M=2, R=2)
    handles, plain = (run(start("nested", kind), "nested", chosen, 400) for kind in ("handle", "marks"))
    np.testing.assert_array_equal(handles.log_weights("ars"), plain.log_weights("ars"))


def test_checked_both_ways_by_one_worker_and_by_eight(start: Callable[..., ars.Simulator]) -> None:
    runs = [
        run(start("nested", "handle", workers, continuations=how), "nested")
        for workers, how in ((1, "fork"), (8, "auto"), (2, "check"))
    ]
    for other in runs[1:]:
        assert_same_traces(other, runs[0])
    assert (runs[2].columns.loops["method"] == LoopMethod.CHECKED).all()  # equal numbers, at every entry


def test_prior_runs_are_the_same(start: Callable[..., ars.Simulator]) -> None:
    priors = []
    for kind in ("handle", "marks"):
        with start("recursive", kind) as sim:
            priors.append(sim.prior(300, seed=3))
    for field in ("value", "log_p"):
        np.testing.assert_array_equal(priors[0].columns.samples[field], priors[1].columns.samples[field])
    np.testing.assert_array_equal(priors[0].columns.loops["tries"], priors[1].columns.loops["tries"])


MISTAKES = {
    "accept_without_try": (
        "rs_end",
        r"ars_loop_accept of the loop a was called, but it is not open: call ars_loop_try",
    ),
    "accept_twice": ("rs_end", r"ars_loop_accept of the loop a .*has ended twice"),
    "one_handle_for_two": (
        "rs_end",
        r"ars_loop_accept of the loop single .*every activation needs a handle of its own",
    ),
    "left_open": ("observe_in_loop", r"inside the loop a.*left without rs_end or ars_loop_accept"),
    "observed_inside": ("observe_in_loop", r'ars_observe\("inside"\) was called inside the loop a'),
    "entered_again": ("loop_left", r"the loop left was left without ars_loop_accept .its handle was initialised again"),
    "outer_accepted": ("loop_left", r"the loop b was left without ars_loop_accept .a loop around it was ended"),
    "outer_tried": ("loop_left", r"the loop b was left without ars_loop_accept .a loop around it was tried again"),
    "rs_end_inside": ("loop_left", r"the loop a was left without ars_loop_accept .rs_end was called"),
    "accepted_inside_marks": ("loop_left", r"the loop marks was left without rs_end .a loop around it was ended"),
    "marks_tried_inside": ("loop_left", r"the loop a was left without ars_loop_accept .a loop around it was tried"),
    "marks_outlived": (
        "loop_left",
        r"the loop marks was left without rs_end .its function had ended when ars_loop_acc",
    ),
    "not_initialised": ("misuse", r"ars_loop_try was given a handle that was never initialised.*ARS_LOOP\("),
    "zeroed": ("misuse", r"ars_loop_accept was given a handle that was never initialised"),
    "null": ("misuse", r"ars_loop_try was given no handle: the pointer is NULL"),
    "no_name": ("misuse", r"the loop of this handle has no name"),
    "copied": ("misuse", r"the handle of the loop a says that the loop is open, and it is not. A copy"),
    "of_another_process": ("misuse", r"the handle of the loop a says that .*another trace or process"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_a_name_and_fails_its_trace_only(start: Callable[..., ars.Simulator], name: str) -> None:
    kind, text = MISTAKES[name]
    with start(name, "handle") as sim:
        post = sim.posterior(OBSERVE, 24, budget=ars.Budget(M=2, N=3), seed=6, on_failure="zero")
    kinds = {kind, "rs_end"} if name == "marks_outlived" else {kind}
    assert set(post.failures) == kinds and 0 < post.failures[kind] < 24
    texts = [failure.text for failure in post.failures.examples if failure.kind == kind]
    assert texts and all(re.search(text, found) for found in texts), texts


def test_a_loop_open_at_the_end_of_the_trace(start: Callable[..., ars.Simulator]) -> None:
    with (
        start("open_at_the_end", "handle") as sim,
        pytest.raises(TraceFailure, match="still open when the trace ended"),
    ):
        sim.posterior({}, 5, seed=1)


def test_virtual_functions_mark_the_loops_of_a_generator(simulator: Callable[..., ars.Simulator], mode: str) -> None:
    """csim/nested_by_handle.cpp: the traces of nested, whose evidence is known."""
    case = exact.nested()
    runs = [
        simulator(name, workers=workers, continuations=mode).posterior(
            case.observed, 400, proposals=case.proposals(ars), budget=ars.Budget(M=2, N=10), seed=9
        )
        for name, workers in (("nested", 4), ("nested_by_handle", 1), ("nested_by_handle", 8))
    ]
    for handles in runs[1:]:
        assert_same_traces(handles, runs[0])
