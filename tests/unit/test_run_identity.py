"""What is known of a proposal, of data, and of a network; and how a difference is put into words."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ars
from ars.store.code_identity import describe_proposal, described_value
from ars.store.identity import ELSEWHERE, data_identity, differences, digest

WIDTH = 2.0


def _width() -> float:
    return WIDTH


def _by_global(t: ars.Drawn) -> ars.Distribution:
    return ars.Normal(t["x"], WIDTH)


def _by_helper(t: ars.Drawn) -> ars.Distribution:
    return ars.Normal(t["x"], _width())


class _Callable:
    def __init__(self, width: float) -> None:
        self.width = width

    def __call__(self, t: ars.Drawn) -> ars.Distribution:
        return ars.Normal(0.0 * t["x"], self.width)

    def method(self, t: ars.Drawn) -> ars.Distribution:
        return self(t)


def _closed(value: Any) -> Callable[[ars.Drawn], ars.Distribution]:
    return lambda t: ars.Normal(0.0 * t["x"], float(np.sum(value)))


def _with_default(width: float) -> Callable[..., ars.Distribution]:
    def proposal(t: ars.Drawn, width: float = width) -> ars.Distribution:
        return ars.Normal(0.0 * t["x"], width)

    return proposal


def _partial(width: float) -> Callable[..., ars.Distribution]:
    return functools.partial(_with_default(0.0), width=width)


PAIRS: dict[str, Callable[[float], Any]] = {
    "closure": _closed,
    "array in closure": lambda v: _closed(np.array([v, 1.0])),
    "list in closure": lambda v: _closed([v, 1.0]),
    "default": _with_default,
    "partial": _partial,
    "object": _Callable,
    "method": lambda v: _Callable(v).method,
    "distribution": lambda v: ars.Normal(0.0, v),
    "mixture": lambda v: ars.Mixture([0.5, 0.5], [ars.Normal(0, 1), ars.Normal(0, v)]),
    "distribution in closure": lambda v: _closed([ars.Normal(0, v).std]),
}


@pytest.mark.parametrize("how", PAIRS)
def test_proposals_are_told_apart_by_their_values(how: str) -> None:
    make = PAIRS[how]
    assert describe_proposal(make(2.0)) == describe_proposal(make(2.0))
    assert describe_proposal(make(2.0))["sha256"] != describe_proposal(make(2.0 + 1e-15))["sha256"]


@pytest.mark.parametrize("function", [_by_global, _by_helper])
def test_globals_count_also_those_of_helpers(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe_proposal(function)
    assert describe_proposal(function) == before
    monkeypatch.setattr(sys.modules[__name__], "WIDTH", 3.0)
    assert describe_proposal(function)["sha256"] != before["sha256"]


def test_code_counts_and_its_place_does_not() -> None:
    def compiled(text: str) -> Any:
        space: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, "somewhere", "exec"), space)
        return space["f"]

    one = describe_proposal(compiled("def f(t):\n  return {'a', 'b', 'c'} & {t}"))
    assert describe_proposal(compiled("# moved\n\n\ndef f(t):\n  return {'a', 'b', 'c'} & {t}")) == one
    assert describe_proposal(compiled("def f(t):\n  return {'a', 'b', 'd'} & {t}")) != one
    assert describe_proposal(compiled("def f(t):\n  return {'a', 'b', 'c'} | {t}")) != one
    assert describe_proposal(compiled("def f(t):\n  return [g(1.0) for g in (lambda x: x,)]")) != describe_proposal(
        compiled("def f(t):\n  return [g(1.0) for g in (lambda x: -x,)]")
    )


def test_another_process_describes_it_in_the_same_way() -> None:
    """Sets have another order there, and objects other addresses."""
    text = (
        "from ars.store.code_identity import describe_proposal as d\n"
        "class C:\n  w = {'a', 'b', 'c'}\n  def __call__(self, t): return t in self.w or t in {'x', 'y', 'z'}\n"
        "print(d(C()), d(lambda t, c=C(): c(t)))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", text], env={"PYTHONHASHSEED": str(i)}, capture_output=True, text=True, check=True
        ).stdout
        for i in (1, 2, 3)
    }
    assert len(said) == 1


def test_cycles_and_depth_have_an_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert described_value(loop) == described_value(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert described_value(deep).startswith("too deep")
    while deep:
        deep = deep[0]


def test_data_are_known_by_their_bits() -> None:
    one = data_identity({"y": np.array([0.1, 0.2])})
    assert one["y"]["values"] == [0.1, 0.2]
    assert one != data_identity({"y": np.array([0.1, np.nextafter(0.2, 1)])})
    assert one != data_identity({"y": np.array([[0.1, 0.2]])})
    assert digest({"a": 1, "b": one}) == digest({"b": one, "a": 1})
    # NaN equals nothing, itself included, and comes back from JSON as another object
    missing = data_identity({"y": np.array([0.1, np.nan])})
    there = json.loads(json.dumps(missing, allow_nan=False))
    assert there == missing and not differences({"observe": there}, {"observe": missing})
    assert differences({"observe": there}, {"observe": one}) == ["observe: y changed ([0.1, 'nan'] -> [0.1, 0.2])"]
    long = data_identity({"y": np.zeros(1000)})
    assert "values" not in long["y"]


def test_networks_are_known_by_all_that_they_hold() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    from ars._native import DistKind
    from ars.config import NetworkConfig
    from ars.network.facade import Network
    from ars.network.model.core import ProposalNetwork
    from ars.network.model.vocabulary import SiteSpec, Vocabulary
    from ars.store.identity import network_identity

    def make(name: str = "x") -> Network:
        sites = Vocabulary([SiteSpec(name, DistKind.NORMAL, 2)])
        return Network(ProposalNetwork(NetworkConfig(lstm_dim=8), sites, {"y": ()}, {}, 1))

    one = network_identity(make())
    assert network_identity(make()) == one
    assert network_identity(make("z")) != one
    other = make()
    with torch.no_grad():
        next(other.network.parameters()).view(-1)[0] += 1e-6
    assert network_identity(other) != one


def test_differences_in_words() -> None:
    one = {"sha256": "a" * 64, "build_id": "1" * 40}
    other = {"sha256": "b" * 64, "build_id": "2" * 40}
    same_id = {"sha256": "b" * 64, "build_id": "1" * 40}

    def words(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        return differences({"simulator": old}, {"simulator": new})

    assert words({"executable": one}, {"executable": other}) == [
        "simulator: the executable changed (build id 111111111111 -> 222222222222)"
    ]
    assert words({"executable": one}, {"executable": same_id}) == [
        "simulator: the executable changed (SHA-256 aaaaaaaaaaaa -> bbbbbbbbbbbb)"
    ]
    assert "cannot be compared" in words({"executable": ELSEWHERE}, {"executable": one})[0]
    assert words({"files": {"library a": one}}, {"files": {"library b": one}}) == [
        "simulator: library b is new",
        "simulator: library a is missing",
    ]
    assert differences({"seed": 1, "cwd": None}, {"seed": 2, "cwd": "/"}) == [
        "seed was 1, is 2",
        "cwd was None, is '/'",
    ]
    assert differences({"env": {"A": "0" * 64}}, {"env": {"A": "1" * 64}}) == ["env: A changed"]
    assert differences({"a": 1}, {"a": 1}) == []
    assert differences({"a": 1}, {}) == ["a was 1, is None"]
