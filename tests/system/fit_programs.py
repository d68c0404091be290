"""Which random programs make good tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from programs import Dist, Program
from reference import TooManyTries, Traces, infer, infer_loops_prior, simulate

_TRACES = 1000
_MANY_TRACES = 8000
_LEAST_ACCEPTANCE = 0.15
_MOST_TRIES = 60


def fit(program: Program) -> Program | None:
    """The program with data drawn from its prior; None if it is slow to accept, or its weights are too uneven."""
    try:
        simulated = simulate(program, 1, seed=program.index, max_tries=_MOST_TRIES)
        data = {name: tuple(float(f"{values[0]:.4g}") for values in found) for name, found in simulated.items()}
        program = replace(program, data=data)
        traces = infer(program, _TRACES, M=2, N=4, seed=program.index + 1, max_tries=_MOST_TRIES)
    except TooManyTries:
        return None
    for address in traces.loops.addresses:
        entries = sum(c.present.sum() for key, c in traces.loops.columns.items() if key[0] == address)
        if not entries:  # only in tries that an outer loop rejected
            continue
        under_q = traces.loops.sum(address, "K").sum() / (4 * entries)
        under_p = entries / traces.loops.sum(address, "T").sum()
        if min(under_p, under_q) < _LEAST_ACCEPTANCE:
            return None
    if float(traces.loops.length.mean()) > 5:
        return None
    weights = np.exp(traces.log_weights("ars"))
    uneven = weights.std() / weights.mean() / np.sqrt(_TRACES) > 0.08 or weights.max() > 0.04 * weights.sum()
    return None if uneven or _gets_stuck(program) else replace(program, proposals=_met_often(program, traces))


def _gets_stuck(program: Program) -> bool:
    """Whether a loop hardly ever accepts in some rare state, which a thousand traces need not meet."""
    try:
        infer_loops_prior(replace(program, proposals={}), _MANY_TRACES, seed=program.index)
        infer_loops_prior(program, _MANY_TRACES, seed=program.index)
    except TooManyTries:
        return True
    return False


def _met_often(program: Program, traces: Traces) -> dict[str, Dist]:
    """The proposals of latents that are on the path of 5% of the traces or more: the system warns of unused ones."""
    share: dict[str, float] = {}
    for (address, _), column in traces.latents.columns.items():
        name = address.rpartition("/")[2]
        share[name] = max(share.get(name, 0.0), float(column.present.mean()))
    return {name: dist for name, dist in program.proposals.items() if share.get(name, 0.0) >= 0.05}
