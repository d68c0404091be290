"""ars-host between a fake family and a fake controller: budgets by loop, and runs that list their traces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_controller import NORMAL_3, PROTOCOL, Controller, Launch, Step, g, reply_all

pytestmark = pytest.mark.compiler

MOST_KNOWN = 1024  # ARS__MOST_KNOWN
NOTHING = (0, 0, 0, 0)


def estimates(c: Controller) -> list[list[tuple[int, ...]]]:
    """Of every loop of every trace, by number: tries_q, accepted_q, runs_p and tries_p."""
    assert all(t.failure == 0 for t in c.traces.values()), [t.text for t in c.traces.values()]
    return [[loop[1:5] for loop in c.traces[number].loops] for number in sorted(c.traces)]


def replies_of(number: int) -> Callable[[list[Step]], bytes]:
    """Answers in the run of this number."""
    return lambda steps: g.replies(*(g.reply(s.ticket, NORMAL_3) for s in steps), run_number=number)


def estimate(c: Controller, number: int, **settings: object) -> list[list[tuple[int, ...]]]:
    c.traces.clear()
    c.send(g.run(number, n=6, flags=g.ESTIMATE, **settings))
    c.follow(replies_of(number))
    return estimates(c)


# ---- budgets ---------------------------------------------------------------------------------------------------------


def test_a_loop_has_the_budget_of_its_address(launch: Launch) -> None:
    """Whether its site is met in the run, or was before; and in the run that the budget came with."""
    c = launch(apart="1")
    c.greet()
    first = [g.budget(b"loop", 7, 7), g.budget(b"loop1", 5, 9), g.budget(b"loop2", 4, 0, 3), g.budget(b"loop20", 1, 1)]
    default = (10, 0, 3, 6)
    assert estimate(c, 1, runs_p=3, budgets=first) == [[default, (9, 1, 5, 10), (6, 3, 4, 8)]] * 6
    second = [g.budget(b"loop0", 1, 0, 0), g.budget(b"loop1")]
    assert estimate(c, 2, runs_p=3, budgets=second) == [[(0, 0, 1, 2), NOTHING, (10, 2, 3, 6)]] * 6
    assert estimate(c, 3, tries_q=0, accepted_q=2, runs_p=3) == [[(4, 2, 3, 6)] * 3] * 6
    for number in (2**32, 2**32 + 2):  # not taken for a run before the first one, nor for run 2
        assert estimate(c, number, tries_q=0, accepted_q=2, runs_p=3) == [[(4, 2, 3, 6)] * 3] * 6


def test_budgets_do_not_get_among_the_data(launch: Launch) -> None:
    c = launch(apart="1")
    c.greet()
    c.send(
        g.run(
            n=2, observed={b"y": [1.0, 2.0]}, budgets=[g.budget(b"loop1")], first=4, listing=[g.listed(4), g.listed(9)]
        )
    )
    c.follow(reply_all)
    assert sorted(c.traces) == [4, 9]
    assert [loop[1] for loop in c.traces[9].loops] == [10, 0, 10]


def test_estimates_in_place(launch: Launch) -> None:
    c = launch(apart="1", plan=",".join(f"{i}=inplace" for i in range(6)))
    c.greet()
    budgets = [g.budget(b"loop1"), g.budget(b"loop2", 4, 0, 3)]
    assert estimate(c, 1, runs_p=3, budgets=budgets) == [[(10, 0, 3, 3), NOTHING, (6, 3, 4, 4)]] * 6


@pytest.mark.parametrize(
    ("plan", "settings", "says"),
    [
        ("wrongtries", {}, "11 tries under q and 2 runs under p, which are not the 10 and 2 that were asked for"),
        ("wrongruns", {}, "10 tries under q and 3 runs under p, which are not the 10 and 2"),
        (
            "wrongaccepted",
            {"tries_q": 0, "accepted_q": 5},
            "4 accepted of 10 tries under q and 2 runs under p; 5 accepted and 2 runs were asked for",
        ),
        ("wrongruns", {"tries_q": 0}, "0 accepted of 0 tries under q and 3 runs under p; 0 accepted and 2 runs"),
        ("wronginplace", {}, "estimates of a loop that are not those asked for"),
        ("wronginplace", {"tries_q": 0, "accepted_q": 5}, "estimates of a loop that are not those asked for"),
        ("unwanted", {"budgets": [g.budget(b"loop")]}, "a snapshot of a loop that is not to be estimated"),
    ],
)
def test_other_estimates_than_asked_for_are_a_failure(
    launch: Launch, plan: str, settings: dict[str, object], says: str
) -> None:
    c = launch(plan=f"3={plan}")
    c.greet()
    c.send(g.run(n=6, flags=g.ESTIMATE, **settings))
    c.follow(reply_all)
    assert sorted(c.traces) == list(range(6))
    assert [t.number for t in c.traces.values() if t.failure] == [3]
    assert c.traces[3].failure == PROTOCOL and says in c.traces[3].text


# ---- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [g.ESTIMATE, g.PROPOSE_PRIOR])
def test_listed_traces_are_served_in_order(launch: Launch, flags: int) -> None:
    numbers = [2, 3, 4, 900, 901, 1000, 2**63, 2**64 - 3, 2**64 - 2]
    c = launch(workers="1")
    c.greet()
    c.send(g.run(first=2, n=len(numbers), flags=flags, listing=[g.listed(i) for i in numbers]))
    c.follow(reply_all)
    assert list(c.traces) == numbers
    assert c.done.traces == len(numbers) and all(t.failure == 0 for t in c.traces.values())
    c.traces.clear()
    c.send(g.run(2, first=7, n=2, flags=flags))  # the list was for one run
    c.follow(replies_of(2))
    assert list(c.traces) == [7, 8]


def test_known_tries_come_with_their_trace(launch: Launch) -> None:
    """With those of a trace that is begun again, too; and not with any other."""
    known = {2: (), 3: (), 4: (5, 0, 7), 5: (1,), 6: (), 40: tuple(range(1, MOST_KNOWN + 9)), 41: (9, 9)}
    c = launch(known="1", plan="4=crash1,41=kill2")
    c.greet()
    for number, flags in ((1, g.ESTIMATE), (2, g.PROPOSE_PRIOR)):
        c.traces.clear()
        listing = [g.listed(trace, *tries) for trace, tries in known.items()]
        c.send(g.run(number, first=2, n=len(known), flags=flags, listing=listing))
        c.follow(replies_of(number))
        assert sorted(c.traces) == list(known)
        for trace, tries in known.items():
            assert c.traces[trace].values == (float(trace), *tries[:MOST_KNOWN])
        assert c.done.replays == (3 if number == 1 else 0)
    c.traces.clear()
    c.send(g.run(3, first=4, n=2, flags=g.ESTIMATE))
    c.follow(replies_of(3))
    assert [c.traces[trace].values for trace in (4, 5)] == [(4.0,), (5.0,)]


def test_a_listed_run_is_cancelled(launch: Launch) -> None:
    c = launch()
    c.greet()
    c.send(g.run(n=3, flags=0, listing=[g.listed(0), g.listed(5), g.listed(6)]))
    c.follow(lambda _: None, until=g.STEPS)
    c.send(g.frame(g.CANCEL, run=1))
    c.follow(lambda _: None)
    assert c.done.cancelled == 1 and not c.traces
