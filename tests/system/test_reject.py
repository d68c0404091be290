"""ars_reject: a loop repeated in place must be, to the last bit, the loop that is forked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars
import exact
from ars.columns import HOW
from ars.errors import TraceFailure

pytestmark = [pytest.mark.compiler, pytest.mark.usefixtures("estimates_the_prior")]

HERE = Path(__file__).resolve().parent / "reject"
OBSERVE = {"data": 0.7}
PROPOSALS: dict[str, Any] = {
    "x": lambda t: ars.Normal(0.2 + 0.1 * t["shift"], 0.6) if "shift" in t else ars.Normal(0.3, 0.8),
    "y": lambda t: ars.Normal(0.5 * t["x"] + 0.3, 0.9),
}
KINDS = ("forked", "place")


@pytest.fixture(scope="module", params=COMPILERS[:1])
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    builder = Builder(tmp_path_factory.mktemp("reject"))
    variant = Variant(request.param, ("-O2",))
    sources = [HERE / "loops.c", HERE / "lambdas.cpp"]
    made = builder.programs([([source], variant) for source in sources])
    return dict(zip((source.stem for source in sources), made, strict=True))


@pytest.fixture
def start(
    programs: Mapping[str, Path], started: Callable[[ars.Simulator], ars.Simulator]
) -> Callable[..., ars.Simulator]:
    def make(*arguments: str, program: str = "loops", **options: Any) -> ars.Simulator:
        return started(ars.Simulator([str(programs[program]), *arguments], workers=4, **options))

    return make


def assert_same_traces(a: ars.Posterior, b: ars.Posterior) -> None:
    """Everything that a trace consists of, but for how it was estimated, and the order in which sites were numbered."""
    names_a, names_b = ({site.id: site.address for site in post.sites} for post in (a, b))
    for table in ("samples", "loops", "results"):
        of_a, of_b = getattr(a.columns, table), getattr(b.columns, table)
        assert [names_a[i] for i in of_a["site"].tolist()] == [names_b[i] for i in of_b["site"].tolist()]
        for field in set(of_a.dtype.names) - {"site", *HOW.get(table, ())}:
            np.testing.assert_array_equal(of_a[field], of_b[field], err_msg=f"{table}.{field}")
    np.testing.assert_array_equal(a.columns.values, b.columns.values)
    for weighting in ("ars", "ic", "biased"):
        np.testing.assert_array_equal(a.log_weights(weighting), b.log_weights(weighting))


@pytest.mark.parametrize("by_hand", [False, True], ids=["prior", "hand"])
@pytest.mark.parametrize("model", ["single", "nested", "recursive"])
def test_in_place_is_forked_to_the_last_bit(
    start: Callable[..., ars.Simulator], mode: str, model: str, by_hand: bool
) -> None:
    proposals = {name: PROPOSALS[name] for name in ("xy" if model != "recursive" else "x")} if by_hand else None
    posts = {}
    for outer in KINDS:
        for inner in KINDS if model != "single" else KINDS[:1]:
            with start(model, outer, inner, continuations=mode) as sim:
                posts[outer, inner] = sim.posterior(
                    OBSERVE, 60, proposals=proposals, budget=ars.Budget(M=3, N=7), seed=11
                )
    forked = posts.pop(("forked", "forked"))
    assert forked.stats["continuations"] > 60 * 3
    if model != "single":
        assert np.unique(forked.columns.loops["parent"]).tolist() != [-1]  # there are loops within loops
    for (outer, inner), post in posts.items():
        assert_same_traces(post, forked)
        assert (post.stats["tries_q"], post.stats["tries_p"]) == (forked.stats["tries_q"], forked.stats["tries_p"])
        all_in_place = outer == "place" and (model == "single" or inner == "place")
        assert (post.stats["snapshots"] == 0) == all_in_place
        assert (post.stats["continuations"] == 0) == all_in_place


def test_prior_runs_are_the_same(start: Callable[..., ars.Simulator]) -> None:
    runs = []
    for kind in KINDS:
        with start("nested", kind, kind) as sim:
            runs.append(sim.prior(500, seed=3))
    for field in ("value", "log_p"):
        np.testing.assert_array_equal(runs[0].columns.samples[field], runs[1].columns.samples[field])
    np.testing.assert_array_equal(runs[0].columns.loops["tries"], runs[1].columns.loops["tries"])


def test_lambdas(start: Callable[..., ars.Simulator]) -> None:
    proposals = {"x": ars.Normal(0.3, 0.5)}
    posts = []
    for kind in KINDS:
        with start(kind, program="lambdas") as sim:
            posts.append(sim.posterior(OBSERVE, 200, proposals=proposals, budget=ars.Budget(M=2, N=10), seed=5))
    assert_same_traces(*posts)
    assert posts[1].stats["snapshots"] == 0


def test_an_unnamed_lambda_is_called_by_its_function(start: Callable[..., ars.Simulator]) -> None:
    with start("unnamed", program="lambdas") as sim:
        post = sim.posterior(OBSERVE, 20, seed=5)
    loops = sorted({site.address for site in post.sites if site.kind.name == "LOOP"})
    assert len(loops) == 2 and loops[0] == "disc"
    assert loops[1].startswith("lambdas.cpp:") and "unnamed(bool)" in loops[1] and loops[1].endswith("#0")


def test_an_exception_that_leaves_the_body_is_a_loop_left(start: Callable[..., ars.Simulator]) -> None:
    with start("thrown", program="lambdas") as sim, pytest.raises(TraceFailure, match="thrown out of was left without"):
        sim.posterior(OBSERVE, 5, seed=5)


def test_evidence_of_marsaglia_in_place(simulator: Callable[..., ars.Simulator]) -> None:
    """The exact evidence, within standard errors; and the traces of the simulator that is forked."""
    case = exact.marsaglia()
    sim = simulator("marsaglia_in_place")
    post = sim.posterior(case.observed, 6_000, proposals=case.proposals(ars), budget=ars.Budget(M=2, N=10), seed=8)
    assert post.stats["snapshots"] == 0
    assert abs(post.log_evidence("ars").distance(case.evidence)) < 4
    assert abs(post.log_evidence("biased").distance(case.evidence)) > 2.5
    forked = simulator("marsaglia", continuations="fork")
    assert_same_traces(
        *(
            s.posterior(case.observed, 300, proposals=case.proposals(ars), budget=ars.Budget(M=2, N=10), seed=9)
            for s in (sim, forked)
        )
    )


MISTAKES = {
    "leaves_a_loop_open": ("loop_left", r"the loop open was left.*the body of the ars_reject around it returned"),
    "ends_what_it_did_not_start": ("rs_end", r"rs_end.*no loop is open.*ars_reject has no marks"),
    "jumps_away": ("loop_left", r'the loop outer was left.*its function had ended when ars_sample\("after"\)'),
    "jumps_away_again": ("loop_left", r"the loop outer was left.*its function had ended when another loop began"),
    "jumps_away_and_ends": ("loop_left", r"the loop outer was left.*its function had ended when ars_observe"),
    "observes": ("observe_in_loop", r'ars_observe\("y"\) was called inside the loop outer'),
    "never": ("too_many_tries", r"the loop outer was not accepted in 50 tries"),
    "fails_under_p": ("parameter", r'ars_sample\("wrong"\).*std is -1'),
    "crashes_under_p": ("crash", r"signal 11"),
    "asks_for_a_trace": ("loop_left", r"the loop outer was left.*still open when the trace ended"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_body_that_fails_fails_its_trace_only(start: Callable[..., ars.Simulator], name: str) -> None:
    kind, text = MISTAKES[name]
    proposals = {"x": ars.Beta(50, 1)} if name.endswith("_under_p") else None
    sim = start(name, "place", "place", max_tries=50)
    post = sim.posterior(OBSERVE, 24, proposals=proposals, budget=ars.Budget(M=20, N=3), seed=6, on_failure="zero")
    assert set(post.failures) == {kind} and 0 < post.failures.total < 24
    for failure in post.failures.examples:
        assert failure.kind == kind
        assert re.search(text, failure.text), failure.text
    good = np.isfinite(post.log_weights("ars"))
    assert good.sum() == 24 - post.failures.total
