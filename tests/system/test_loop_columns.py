"""p(A) and q(A) of a real loop whose acceptance depends on the state at entry: equal where the prior proposes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import ars

pytestmark = pytest.mark.usefixtures("estimates_the_prior")


def test_identical_p_and_q_look_identical(csim: Callable[[str], str], started: Callable[[object], object]) -> None:
    sim = started(ars.Simulator([csim("truncated_normal"), "b"], workers=2))
    assert isinstance(sim, ars.Simulator)
    post = sim.posterior({"y": -1.0}, 4000, seed=3, budget=ars.Budget(M=2, N=10))
    (loop,) = post.loops.values()
    error = math.hypot(loop.p_accept_error, loop.q_accept_error)
    assert 0.0 < error < 0.05
    assert abs(loop.p_accept - loop.q_accept) < 4 * error
    counts = post.columns.loops
    arithmetic = counts["accepted_q"].sum() / counts["tries_q"].sum()
    assert abs(arithmetic - loop.p_accept) > 6 * error, "what q(A) was before"
    assert "harmonic mean over entries" in repr(post.loops)
