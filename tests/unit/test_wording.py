"""Messages of the library in the words of the command line."""

from __future__ import annotations

import pytest

from ars.cli import _parser
from ars.cli.wording import Wording

OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in [
        "traces",
        "network",
        "on_failure",
        "resume",
        "seconds",
        "steps",
        "block",
        "phases",
        "key",
        "M",
        "in_loops",
    ]
}


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("traces must be from 1 to 9, not 0", "--traces must be from 1 to 9, not 0"),
        ("seconds= cannot be combined with resume=: why", "--seconds cannot be combined with --resume: why"),
        ('run again with in_loops="prior".', "run again with --in-loops prior."),
        ("give key='controller.key'. On", "give --key controller.key. On"),
        (
            "Run with steps=4,000 or more, or blocks=",
            "Run with --steps 4,000 or more, or --block",
        ),
        ('.partial holds the finished traces; on_failure="zero" gives', "--on-failure zero gives"),
        ("from the start: budget=ars.Budget.auto(phases=1)", "from the start: --phases 1"),
        ("give network= or proposals=", "give --network or proposals="),  # no option: as it is
        ("sim.posterior(..., traces=1, seed=2), with traces=", "sim.posterior(..., traces=1, seed=2), with --traces"),
        ("ars replay --trace 3 --observe y=0.5", "ars replay --trace 3 --observe y=0.5"),
        ("the traces= of --traces=5", "the --traces of --traces=5"),
        ("M must be at least 1", "--M must be at least 1"),
    ],
)
def test_arguments_become_options(message: str, shown: str) -> None:
    assert Wording(OPTIONS)(message) == shown


def test_a_command_knows_its_own_options() -> None:
    arguments = _parser().parse_args(["infer", "sim"])
    assert arguments.wording('continuations="fork" avoids it') == "--continuations fork avoids it"
    assert _parser().parse_args(["check", "sim"]).wording("network= is unknown here") == "network= is unknown here"
