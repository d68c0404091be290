"""Parts of a run that are put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, Try, latent, loop_site, observation, pack, result

from ars._native import DistKind
from ars.budget import Budget, ChosenBudget, Level, budget_to_json
from ars.columns import Site
from ars.failures import Failure
from ars.posterior import Posterior, RunInfo, Traces

RUN = RunInfo(7, 2, 10, "proposal", "zero", ("./sim",))
NAMES = {"x": latent, "y": observation, "mu": result, "until": loop_site, "until/z": latent, "rare": latent}


def sites(order: list[str]) -> list[Site]:
    return [NAMES[address](i, address) for i, address in enumerate(order)]


def trace(number: int, order: list[str]) -> Trace:
    """The same trace, whatever the numbers of its sites."""
    at = order.index
    if number % 5 == 4:
        return Trace(number, failure=1 + number % 2, text=f"failure of {number}")
    z = Sample(at("until/z"), number / 7, loop=0)
    return Trace(
        number,
        -number / 3,
        samples=[Sample(at("x"), number + 0.5), Sample(at("x"), number + 0.25, 1), z]
        + ([Sample(at("rare"), 1.0)] if number > 20 else []),
        observes=[(at("y"), [])],
        results=[(at("mu"), [1.0, number])],
        loops=[Loop(at("until"), tries_q=10, accepted_q=1 + number % 9, runs_p=2, tries_p=3, s_pq_sum=0.1 * number)],
        tries=[Try(at("until"), [z])],
    )


def posterior(numbers: list[int], order: list[str], **changes: Any) -> Posterior:
    given = {"stats": {}, "observed": {"y": np.array([1.5])}} | changes
    run = given.pop("run", RUN)
    return Posterior(pack([trace(n, order) for n in numbers]), given.pop("sites", sites(order)), run=run, **given)


USUAL = ["x", "until", "until/z", "y", "mu", "rare"]
OTHER = ["until", "mu", "x", "y", "until/z"]


def assert_same(one: Traces, other: Traces) -> None:
    for mine, theirs in zip(one.columns, other.columns, strict=True):
        assert mine.tobytes() == theirs.tobytes()
    assert (one.sites, one.run, one.observed.keys()) == (other.sites, other.run, other.observed.keys())
    assert dict(one.failures) == dict(other.failures)
    assert one.failures.examples == other.failures.examples
    assert repr(one.loops) == repr(other.loops)


@pytest.mark.parametrize("policy", ["zero", "skip"])
def test_parts_give_what_one_run_gives(policy: str) -> None:
    run = RUN._replace(on_failure=policy)
    whole = posterior(list(range(40)), USUAL, run=run)
    odd, even = list(range(21, 40)), list(range(21))
    parts = [posterior(odd, USUAL, run=run), posterior(even, OTHER, run=run)]
    joined = Posterior.concat(parts)
    assert_same(joined, whole)
    for method in ("ars", "ic", "biased"):
        assert joined.log_weights(method).tobytes() == whole.log_weights(method).tobytes()
    # the other way round the sites have other numbers, and everything else is the same
    other = Posterior.concat(parts[::-1])
    assert {site.address for site in other.sites} == set(USUAL)
    for name in whole:
        assert other[name].tobytes() == whole[name].tobytes()
    assert other.log_weights().tobytes() == whole.log_weights().tobytes()
    assert other.loops["until"] == whole.loops["until"]
    assert_same(Posterior.concat([whole]), whole)


def test_shuffled_parts_come_in_order() -> None:
    numbers = np.random.default_rng(1).permutation(60).tolist()
    parts = [posterior(sorted(numbers[i::4]), USUAL) for i in range(4)]
    assert_same(Posterior.concat(parts), posterior(list(range(60)), USUAL))


def test_prior_runs_too() -> None:
    def prior(numbers: list[int], order: list[str]) -> Traces:
        return Traces(pack([trace(n, order) for n in numbers]), sites(order), run=RUN, stats={})

    assert_same(Traces.concat([prior([3, 25, 29], USUAL), prior([0, 1, 2], OTHER)]), prior([0, 1, 2, 3, 25, 29], USUAL))
    with pytest.raises(TypeError, match="part 1 is a Posterior"):
        Traces.concat([prior([0], USUAL), posterior([1], USUAL)])
    with pytest.raises(TypeError, match="part 0 is a Traces: all must be a Posterior"):
        Posterior.concat([prior([0], USUAL)])  # type: ignore[list-item]


def test_statistics_add_up() -> None:
    one = {"seconds": 2.0, "requests": 10, "steps_messages": 2, "fewest_workers": 8, "restarts": 1}
    two = {"seconds": 6.0, "requests": 30, "steps_messages": 10, "fewest_workers": 4, "replays": 2}
    lost = [Failure(-1, "lost_host", 0, text) for text in ("one", "two")]
    a = posterior([0, 1], USUAL, stats=one, incidents=lost[:1])
    b = posterior([2, 3, 5, 6, 7, 8], USUAL, stats=two, incidents=lost[1:])
    joined = Posterior.concat([a, b])
    stats = joined.stats
    assert (stats["traces"], stats["seconds"], stats["traces_per_second"]) == (8, 8.0, 1.0)
    assert (stats["requests"], stats["requests_per_message"]) == (40, 40 / 12)
    assert (stats["fewest_workers"], stats["restarts"], stats["replays"]) == (4, 1, 2)
    assert stats["tries_q"] == a.stats["tries_q"] + b.stats["tries_q"]
    assert joined.failures.incidents == tuple(lost)


def test_parts_of_different_runs_are_refused() -> None:
    one = posterior([0, 1], USUAL)
    for changes, message in (
        ({"run": RUN._replace(seed=8)}, "seed is 7 and 8"),
        ({"run": RUN._replace(simulator=("./other",))}, r"simulator is \('./sim',\) and \('./other',\)"),
        (
            {"run": RUN._replace(tries_q=20, in_loops="prior")},
            r"in_loops is 'proposal' and 'prior'; the budget is Budget\(M=2, N=10\) and Budget\(M=2, N=20\)",
        ),
        ({"run": RUN._replace(proposals="{}", proposed=False)}, "the proposals differ$"),
        ({"observed": {"y": np.array([1.25])}}, 'the data of "y" differ'),
        ({"observed": {"y": np.array([1.5, 1.5])}}, 'the data of "y" differ'),
        ({"observed": {"w": np.array([1.5])}}, '"w" is observed in only one of them; "y" is observed in only one'),
    ):
        with pytest.raises(ValueError, match="part 1 is not of the same run as part 0: .*" + message):
            Posterior.concat([one, posterior([2], USUAL, **changes)])
    with pytest.raises(ValueError, match=r"6 traces are in more than one part: 0, 1, 2, 3, 4, \.\.\.\. .*first_trace="):
        Posterior.concat([posterior(list(range(6)), USUAL), posterior(list(range(8)), USUAL)])
    with pytest.raises(ValueError, match="at least one part"):
        Posterior.concat([])


def test_sites_that_cannot_be_the_same_are_refused() -> None:
    one = posterior([0, 1], USUAL)
    changed = [s._replace(dist=DistKind.GAMMA) if s.address == "until/z" else s for s in sites(OTHER)]
    with pytest.raises(ValueError, match='"until/z" has the distribution normal in one and gamma in another'):
        Posterior.concat([one, posterior([2], OTHER, sites=changed)])
    twice = [*sites(OTHER), latent(5, "x")]
    with pytest.raises(ValueError, match='two sites have the address "x"'):
        Posterior.concat([one, posterior([2], OTHER, sites=twice)])


def test_parts_with_other_budgets_are_refused_with_advice() -> None:
    levels = (Level(1, 0, 0.1, 1.0),)
    chosen = [budget_to_json(ChosenBudget(1, {}, levels, 1.0, price)) for price in (0.0, 1.0)]
    one, other = (posterior([i], USUAL, run=RUN._replace(budget=text)) for i, text in enumerate(chosen))
    with pytest.raises(ValueError, match=r"the budgets differ \(give budget=parts\[0\]\.budget to the other runs\)"):
        Posterior.concat([one, other])
    assert Posterior.concat([one, posterior([2], USUAL, run=one.run)]).budget == one.budget
    # a file of an earlier version has M and N alone
    same = RUN._replace(budget=budget_to_json(Budget(M=2, N=10)))
    assert len(Posterior.concat([posterior([0], USUAL), posterior([1], USUAL, run=same)])) == 2


def test_loops_that_are_exact_in_one_part_alone() -> None:
    def part(numbers: list[int], exact: tuple[str, ...], order: list[str] = USUAL) -> Posterior:
        return posterior(numbers, order, run=RUN._replace(exact=exact))

    assert Posterior.concat([part([0], ("until",)), part([1], ("until",))]).run.exact == ("until",)
    with pytest.raises(ValueError, match=r'part 0 has no estimates for loop "until": .* Run all traces in one run'):
        Posterior.concat([part([0], ("until",)), part([1], ())])
    with pytest.raises(ValueError, match='part 1 has no estimates for loop "until"'):
        Posterior.concat([part([1], ()), part([0], ("until",))])
    # a part that never met the loop does not know; one that met it and never left it needs no estimates
    nowhere = Posterior(
        pack([Trace(7, samples=[Sample(0, 1.0)])]),
        [latent(0, "x")],
        run=RUN,
        stats={},
        observed={"y": np.array([1.5])},
    )
    assert Posterior.concat([nowhere, part([0], ("until",))]).run.exact == ("until",)
    assert Posterior.concat([part([4], ("until",)), part([0], ())]).run.exact == ()  # trace 4 failed


def test_shares_are_those_of_the_whole() -> None:
    parts = [posterior(list(range(20)), USUAL), posterior(list(range(20, 40)), USUAL)]
    joined, whole = Posterior.concat(parts), posterior(list(range(40)), USUAL)
    for name in ("entries_estimated", "loops_estimated", "zero_weights", "correction_variance", "continuations"):
        assert joined.stats[name] == whole.stats[name]
    assert joined.stats["loops_estimated"] == 1 and 0 < joined.stats["zero_weights"] < 1


def test_a_loop_that_a_part_knows_but_never_entered_says_nothing() -> None:
    """Its exact loops are those that it entered; its sites are all that its simulator has shown in any run."""
    knows = posterior([4], USUAL, run=RUN._replace(exact=()))  # trace 4 failed
    assert Posterior.concat([posterior([0], USUAL, run=RUN._replace(exact=("until",))), knows]).run.exact == ("until",)


def test_statistics_that_are_no_sums() -> None:
    stats = [{"phases": 2, "error_reached": 0.1, "stage_traces": 10}, {"phases": 2, "error_reached": 0.2}]
    whole = Posterior.concat([posterior([i], USUAL, stats=each) for i, each in enumerate(stats)])
    assert whole.stats["phases"] == 2 and whole.stats["stage_traces"] == 10
    assert "error_reached" not in whole.stats
