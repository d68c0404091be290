from __future__ import annotations

import dataclasses
import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import ars
from ars import Budget, Costs
from ars.budget import AutoBudget, ChosenBudget, Level, budget_from_json, budget_to_json
from ars.errors import StorageError


@pytest.mark.parametrize(
    ("given", "m", "n"),
    [({}, 1, 10), ({"M": 3}, 3, 10), ({"M": 25}, 25, 25), ({"M": 2, "N": 1}, 2, 1), ({"M": np.int32(4)}, 4, 10)],
)
def test_n_is_at_least_ten_unless_given(given: dict[str, int], m: int, n: int) -> None:
    budget = Budget(**given)
    assert (budget.M, budget.N, budget.R, budget.reuse) == (m, n, None, False)
    assert type(budget.M) is int


@pytest.mark.parametrize("field", ["M", "N", "R"])
@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (-2, ValueError, "at least {least}, not -2"),
        (2**30, ValueError, "at most 1073741823"),
        (True, TypeError, "integer, not True"),
        (np.True_, TypeError, "integer"),
        (1.0, TypeError, "integer, not 1.0"),
        ("3", TypeError, "integer, not '3'"),
    ],
)
def test_the_wrong_field_is_named(field: str, value: object, error: type[Exception], says: str) -> None:
    says = says.format(least=0 if field == "R" else 1)
    with pytest.raises(error, match=re.escape(f"{field} must be ") + ".*" + re.escape(says)):
        Budget(**{field: value})  # type: ignore[arg-type]


def test_only_r_may_be_zero() -> None:
    assert Budget(R=0).R == 0
    for field in ("M", "N"):
        with pytest.raises(ValueError, match=f"{field} must be at least 1, not 0"):
            Budget(**{field: 0})


def test_a_budget_is_a_value() -> None:
    assert Budget(2) == Budget(M=2, N=10)
    assert hash(Budget(2)) == hash(Budget(2, 10))
    assert len({Budget(2), Budget(2, R=1), Budget(2, reuse=True), Budget(2, R=0)}) == 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        Budget().M = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("budget", "estimator", "text"),
    [
        (Budget(2), "paper", "Budget(M=2, N=10)"),
        (Budget(1, 3, reuse=True), "reuse", "Budget(M=1, N=3, reuse=True)"),
        (Budget(R=0), "accepted", "Budget(M=1, R=0)"),
    ],
)
def test_each_budget_has_its_estimator(budget: Budget, estimator: str, text: str) -> None:
    assert budget.estimator == estimator
    assert repr(budget) == text
    assert eval(text) == budget


def test_fields_that_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="give N or R, not both"):
        Budget(1, 10, R=2)
    with pytest.raises(ValueError, match="reuse needs N"):
        Budget(R=2, reuse=True)
    with pytest.raises(TypeError, match="reuse must be True or False, not 1"):
        Budget(N=2, reuse=1)  # type: ignore[arg-type]


def test_what_a_run_is_asked_for() -> None:
    assert tuple(Budget(2, 3).wanted) == (2, 3, 0)
    assert tuple(Budget(2, R=4).wanted) == (2, 0, 4)
    assert tuple(Budget(R=0).wanted) == (1, 0, 0)


# ---- auto ------------------------------------------------------------------------------------------------------------


def test_auto_has_no_target_unless_given() -> None:
    assert Budget.auto() == AutoBudget()
    assert repr(Budget.auto()) == "Budget.auto()"
    assert repr(Budget.auto(error=0.01, of="x")) == "Budget.auto(error=0.01, of='x')"
    assert Budget.auto().costs == Costs()
    given = Budget.auto(error=0.01, seconds=60, of="mu", phases=2, costs=Costs(fork=10))
    assert (given.error, given.seconds, given.of, given.phases, given.costs.fork) == (0.01, 60.0, "mu", 2, 10.0)
    assert ars.AutoBudget is AutoBudget


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"error": 0.0}, ValueError, "error must be between 0 and 1"),
        ({"error": 1}, ValueError, "error must be between 0 and 1"),
        ({"error": math.nan}, ValueError, "error must be between 0 and 1"),
        ({"error": "1%"}, TypeError, "error must be a number"),
        ({"error": True}, TypeError, "error must be a number"),
        ({"seconds": 0}, ValueError, "seconds must be more than 0"),
        ({"seconds": math.inf}, ValueError, "seconds must be more than 0 and finite"),
        ({"of": "mu"}, ValueError, "of needs error"),
        ({"of": 3, "error": 0.1}, TypeError, "of must be the name"),
        ({"of": "", "error": 0.1}, ValueError, "of must be the name"),
        ({"phases": 3}, ValueError, "phases must be 1, 2 or None, not 3"),
        ({"phases": True}, ValueError, "phases must be"),
        ({"costs": {"fork": 3}}, TypeError, "costs must be an ars.Costs"),
    ],
)
def test_auto_names_the_wrong_field(given: dict, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Budget.auto(**given)


# ---- costs -----------------------------------------------------------------------------------------------------------


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    costs = Costs(fork=123.4567890123, rewind=0)
    costs.save(path)
    assert Costs.load(path) == costs
    path.write_text('{"fork": 7}')
    assert Costs.load(str(path)) == Costs(fork=7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a JSON file of costs"),
        ("[1]", "must be a JSON object"),
        ('{"forks": 1}', 'unknown field "forks"; the fields are: trace, draw'),
        ('{"fork": "1"}', "fork must be a number, not '1'"),
        ('{"fork": -1}', "fork must be from 0 to 1e12, not -1.0"),
        ('{"fork": NaN}', "fork must be from 0"),
        ('{"trace": 0}', "trace must be more than 0"),
    ],
)
def test_a_wrong_file_of_costs_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(StorageError, match=re.escape(str(path)) + ".*" + re.escape(says)):
        Costs.load(path)


def test_a_file_of_costs_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read the costs: No such file"):
        Costs.load(tmp_path / "none.json")
    with pytest.raises(StorageError, match="cannot write the costs: No such file"):
        Costs().save(tmp_path / "none" / "costs.json")


# ---- chosen ----------------------------------------------------------------------------------------------------------

LEVELS = (Level(3, 2, 0.1 + 0.2, 1 / 3), Level(1, 0, math.pi, 1e-300))
CHOSEN = ChosenBudget(2, {"outer": LEVELS, "outer/in": LEVELS[::-1]}, LEVELS, 31.7, -707.123456789, 0.1)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(),
        Budget(3, 2, reuse=True),
        Budget(R=0),
        CHOSEN,
        dataclasses.replace(CHOSEN, log_price=-math.inf),
        ChosenBudget(1, {}, LEVELS[:1], 1.0, 0.0),
    ],
    ids=lambda budget: type(budget).__name__,
)
def test_json_keeps_every_bit(budget: Budget | ChosenBudget) -> None:
    text = budget_to_json(budget)
    assert budget_from_json(text) == budget
    assert budget_to_json(budget_from_json(text)) == text
    json.loads(text, parse_constant=pytest.fail)  # plain JSON, without Infinity
    assert pickle.loads(pickle.dumps(budget)) == budget


def test_no_budget_is_no_text() -> None:
    assert budget_to_json(None) == ""
    assert budget_from_json("") is None
    with pytest.raises(TypeError, match="only a fixed or a chosen budget"):
        budget_to_json(Budget.auto())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", '{"kind": "other"}', '{"kind": "fixed"}', '{"kind": "chosen", "levels": 1}']
)
def test_other_text_is_no_budget(text: str) -> None:
    with pytest.raises(ValueError, match="not a budget in JSON"):
        budget_from_json(text)


def test_a_chosen_budget_says_its_levels() -> None:
    assert repr(CHOSEN).splitlines() == [
        "ChosenBudget: two phases",
        "  outer        M=3 R=2   M=1 R=0",
        "  outer/in     M=1 R=0   M=3 R=2",
        "  other loops  M=3 R=2   M=1 R=0",
    ]
    assert CHOSEN.estimator == "accepted"
    default, by_loop = CHOSEN.wanted(1)
    assert tuple(default) == tuple(by_loop["outer"]) == (1, 0, 0)
    assert tuple(by_loop["outer/in"]) == (3, 0, 2)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"phases": 3}, "phases must be 1 or 2, not 3"),
        ({"default": ()}, "default must have a level"),
        ({"levels": {"a": LEVELS[:1]}}, 'levels of "a" must be 2, as in default, not 1'),
        ({"default": (Level(0, 1, 0.0, 1.0),) * 2}, "M must be at least 1"),
        ({"trace_cost": 0.0}, "trace_cost must be more than 0"),
        ({"log_price": math.nan}, "log_price"),
        ({"log_more": -1.0}, "log_more"),
    ],
)
def test_a_chosen_budget_checks_itself(changed: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(CHOSEN, **changed)
