"""Rules for draws without names: what they are on their way to libars, and which cannot be used."""

from __future__ import annotations

import os
from typing import Any

import pytest

import ars
from ars.flat_policy import VARIABLE, policy_of, policy_options, policy_variable
from ars.runtime.remote import listen_at
from ars.runtime.setup import Setup

RULES = {"*": "nuisance", "*decay#?>*": "latent"}
TEXT = "nuisance:*;latent:*decay#?>*"


def test_rules_become_a_variable_in_their_order() -> None:
    assert policy_variable(RULES, {}) == {VARIABLE: TEXT}
    assert policy_variable(dict(reversed(RULES.items())), {}) == {VARIABLE: "latent:*decay#?>*;nuisance:*"}
    assert policy_variable(None, {}) == policy_variable({}, {}) == {}
    assert policy_of({VARIABLE: TEXT}) == RULES
    assert policy_options({VARIABLE: TEXT}) == ["--nuisance", "*", "--latent", "*decay#?>*"]
    assert policy_options({}) == []


def test_rules_of_the_environment_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, VARIABLE, "latent:a")
    assert policy_variable({"b": "nuisance"}, {}) == {VARIABLE: "latent:a;nuisance:b"}
    assert policy_variable({"b": "nuisance"}, {VARIABLE: "latent:c"}) == {VARIABLE: "latent:c;nuisance:b"}
    assert policy_variable(None, {}) == {VARIABLE: "latent:a"}


@pytest.mark.parametrize(
    ("rules", "error", "says"),
    [
        ({"": "latent"}, TypeError, "patterns are non-empty text"),
        ({3: "latent"}, TypeError, "patterns are non-empty text"),
        ({"a": "often"}, ValueError, r"flat_policy\['a'\] must be 'latent' or 'nuisance', not 'often'"),
        ({"a;b": "latent"}, ValueError, "has ';' in it; write \\? for that character"),
        ({"a\nb": "latent"}, ValueError, r"has '\\n' in it"),
        ({"a" * 2000: "latent"}, ValueError, "longer than an address can be"),
        (["a"], TypeError, "must map patterns"),
        ({str(i): "latent" for i in range(300)}, ValueError, "has 300 rules, at most 256"),
    ],
)
def test_bad_rules_say_what_is_wrong(rules: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ars.Simulator(["./simulator"], flat_policy=rules)


def test_the_simulator_shows_its_rules() -> None:
    with ars.Simulator(["./simulator"], flat_policy=RULES, env={"A": "1"}) as sim:  # type: ignore[arg-type]
        assert sim.flat_policy == RULES
        assert sim.env == {"A": "1", VARIABLE: TEXT}


def test_a_start_line_elsewhere_has_the_rules() -> None:
    setup = Setup(("./simulator",), env=policy_variable(RULES, {}))
    listen = listen_at("tcp://127.0.0.1:5555", None, insecure_loopback=True)
    line = setup.listening(listen, ("./there",), None).listen
    assert line is not None and f"{VARIABLE}='{TEXT}'" in line.start_line("tcp://127.0.0.1:5555")
