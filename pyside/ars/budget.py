"""How much work a run spends on estimating the correction of each rejection loop."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from ars.columns import Floats
from ars.costs import Costs
from ars.planning.decide import Decision, best_level, entered, sum_per_trace
from ars.planning.entries import Entries
from ars.wire import Wanted

__all__ = ["AutoBudget", "Budget", "ChosenBudget", "Costs", "Level", "budget_from_json", "budget_to_json"]

_LARGEST = 2**30 - 1  # continuations are numbered with 30 bits in the names of their random streams

Estimator = Literal["paper", "reuse", "accepted"]


def _count(name: str, value: object, least: int = 1) -> int:
    """The value as a Python integer of at least ``least``; the error names the field."""
    if isinstance(value, bool):
        raise TypeError(f"Budget: {name} must be an integer, not {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"Budget: {name} must be an integer, not {value!r}") from None
    if number < least:
        raise ValueError(f"Budget: {name} must be at least {least}, not {number}")
    if number > _LARGEST:
        raise ValueError(f"Budget: {name} must be at most {_LARGEST}, not {number}")
    return number


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """A fixed budget: the same number of continuations for every entry of every loop.

    The weights are unbiased for every budget; larger ones make them less noisy. Exact loops need no budget: the
    prior proposes everything inside them.

    Parameters
    ----------
    M
        Runs under the prior until accepted, for 1/p(A) (default: 1).
    N
        Tries under the proposal, for q(A) (default: the larger of M and 10, unless R is given). q(A) is estimated by
        K/N, as in the paper.
    R
        Runs under the proposal until accepted, instead of N tries. q(A) is estimated by R/(S - 1), where S also counts
        the tries of the trace itself. With 0, it is 1 if the trace's first try was accepted, otherwise 0.
    reuse
        Let the trace's first try count as one more of the N (default: False).
    """

    M: int
    N: int | None
    R: int | None
    reuse: bool

    def __init__(self, M: int = 1, N: int | None = None, *, R: int | None = None, reuse: bool = False) -> None:
        runs_p = _count("M", M)
        if not isinstance(reuse, bool):
            raise TypeError(f"Budget: reuse must be True or False, not {reuse!r}")
        if R is not None:
            if N is not None:
                raise ValueError("Budget: give N or R, not both")
            if reuse:
                raise ValueError("Budget: reuse needs N; with R the tries of the trace always count")
            accepted_q, tries_q = _count("R", R, 0), None
        else:
            accepted_q, tries_q = None, max(runs_p, 10) if N is None else _count("N", N)
        for name, value in (("M", runs_p), ("N", tries_q), ("R", accepted_q), ("reuse", reuse)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        q = f"N={self.N}" if self.R is None else f"R={self.R}"
        return f"Budget(M={self.M}, {q}{', reuse=True' if self.reuse else ''})"

    @property
    def estimator(self) -> Estimator:
        """How q(A) is estimated: "paper" (K/N), "reuse" ((K + [L = 1])/(N + 1)) or "accepted" (R/(S - 1))."""
        return "accepted" if self.R is not None else "reuse" if self.reuse else "paper"

    @property
    def wanted(self) -> Wanted:
        """The continuations of every loop entry, as a RUN message requests them."""
        return Wanted(self.M, self.N or 0, self.R or 0)

    @staticmethod
    def auto(
        *,
        error: float | None = None,
        seconds: float | None = None,
        of: str | None = None,
        phases: int | None = None,
        costs: Costs | None = None,
    ) -> AutoBudget:
        """A budget that is chosen from pilot continuations and a table of costs.

        Parameters
        ----------
        error
            Stop at this relative standard error, e.g. 0.01 (default: run all traces).
        seconds
            Stop after this time, in seconds (default: no limit). With ``error``, the run stops at whichever comes
            first.
        of
            Name of the latent or result whose posterior mean has to reach ``error`` (default: the evidence).
        phases
            1 estimates every trace as it runs. 2 runs all traces first, and estimates those that matter by replaying
            them. By default the cheaper one is chosen.
        costs
            Relative costs of a run's parts (default: ``Costs()``).

        Returns
        -------
        AutoBudget
            A value for ``budget=``. ``budget="auto"`` is the same as ``budget=Budget.auto()``.

        Raises
        ------
        ValueError, TypeError
            A field is wrong. The error names it.
        """
        return AutoBudget(error, seconds, of, phases, Costs() if costs is None else costs)


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"Budget.auto: {name} must be a number, not {value!r}")
    return float(value)


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Budget.auto: {name} must be the name of a latent or result, not {value!r}")
    if not value:
        raise ValueError(f"Budget.auto: {name} must be the name of a latent or result, not an empty string")


@dataclass(frozen=True)
class AutoBudget:
    """A budget to be chosen during the run; see :meth:`Budget.auto`, which makes it."""

    error: float | None = None
    seconds: float | None = None
    of: str | None = None
    phases: int | None = None
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        if self.error is not None:
            error = _real("error", self.error)
            if not 0.0 < error < 1.0:
                raise ValueError(f"Budget.auto: error must be between 0 and 1, e.g. 0.01 for 1%, not {error!r}")
            object.__setattr__(self, "error", error)
        if self.seconds is not None:
            seconds = _real("seconds", self.seconds)
            if not 0.0 < seconds < math.inf:
                raise ValueError(f"Budget.auto: seconds must be more than 0 and finite, not {seconds!r}")
            object.__setattr__(self, "seconds", seconds)
        if self.of is not None:
            _check_name("of", self.of)
        if self.of is not None and self.error is None:
            raise ValueError(
                "Budget.auto: of needs error, the relative error to reach for it: give error too, or omit of"
            )
        if isinstance(self.phases, bool) or self.phases not in (None, 1, 2):
            raise ValueError(f"Budget.auto: phases must be 1, 2 or None, not {self.phases!r}")
        if not isinstance(self.costs, Costs):
            raise TypeError(f"Budget.auto: costs must be an ars.Costs, not {self.costs!r}")

    def __repr__(self) -> str:
        given = [f"{f.name}={value!r}" for f in fields(self) if (value := getattr(self, f.name)) not in (None, Costs())]
        return f"Budget.auto({', '.join(given)})"


class Level(NamedTuple):
    """One choice of continuations for the entries of one loop."""

    M: int  # runs under p until accepted
    R: int  # runs under q until accepted
    log_factor: float  # log of 1 + the relative variance of one entry's factor, as expected from the pilot
    cost: float  # of the continuations of one entry


@dataclass(frozen=True, repr=False)
class ChosenBudget:
    """The budget that ``budget="auto"`` chose: ``post.budget``. Pass it as ``budget=`` to reuse it.

    Parameters
    ----------
    phases
        1: every trace is estimated at level 0 as it runs. 2: traces are replayed, each at its level.
    levels
        For each loop's address, its continuations at every level. Level 0 is the best one for all traces alike.
    default
        The same for loops that the pilot did not enter.
    trace_cost
        Cost of one trace without estimates.
    log_price
        Logarithm of the price of work, in units of squared weight.
    log_more
        Added to the logarithm of each probability of keeping a trace, so that enough traces are kept (default: 0).
    """

    phases: int
    levels: Mapping[str, tuple[Level, ...]]
    default: tuple[Level, ...]
    trace_cost: float
    log_price: float
    log_more: float = 0.0

    def __post_init__(self) -> None:
        if self.phases not in (1, 2):
            raise ValueError(f"ChosenBudget: phases must be 1 or 2, not {self.phases!r}")
        if not self.default:
            raise ValueError("ChosenBudget: default must have a level")
        given = {address: tuple(Level(*level) for level in levels) for address, levels in self.levels.items()}
        object.__setattr__(self, "levels", given)
        object.__setattr__(self, "default", tuple(Level(*level) for level in self.default))
        for address, levels in given.items():
            if len(levels) != len(self.default):
                raise ValueError(
                    f'ChosenBudget: levels of "{address}" must be {len(self.default)}, as in default, not {len(levels)}'
                )
        for levels in (*given.values(), self.default):
            for level in levels:
                _count("M", level.M)
                _count("R", level.R, 0)
        if not 0.0 < self.trace_cost < math.inf:
            raise ValueError(f"ChosenBudget: trace_cost must be more than 0, not {self.trace_cost!r}")
        if math.isnan(self.log_price) or self.log_price == math.inf or not 0.0 <= self.log_more < math.inf:
            raise ValueError(
                f"ChosenBudget: log_price and log_more must be numbers, not {self.log_price!r} and {self.log_more!r}"
            )

    @property
    def estimator(self) -> Estimator:
        """How q(A) is estimated: always "accepted", R/(S - 1)."""
        return "accepted"

    def decide(self, log_a: Floats, entries: Entries) -> Decision:
        """The level of each trace, and the log probability of keeping it.

        They depend only on each trace's uncorrected weight and on the loops that it entered.

        Parameters
        ----------
        log_a
            The logarithm of each trace's uncorrected weight.
        entries
            The loop entries of these traces that need estimates.

        Returns
        -------
        Decision
            ``level`` and ``log_keep`` per trace. In one phase, and for traces without entries, both are 0. In two
            phases ``log_keep`` is -inf for traces of weight 0.
        """
        level, log_keep = np.zeros(entries.n_traces, dtype=np.int64), np.zeros(entries.n_traces)
        if self.phases == 1:
            return Decision(level, log_keep)
        log_a = np.asarray(log_a, dtype=np.float64)
        log_keep[log_a == -np.inf] = -np.inf
        chosen = np.flatnonzero(entered(entries) & np.isfinite(log_a))
        if len(chosen):
            table = [self.levels.get(address, self.default) for address in entries.addresses]
            numbers = np.array([[(each.log_factor, each.cost) for each in levels] for levels in table])
            log_factor = sum_per_trace(entries, numbers[:, :, 0])[chosen]
            cost = self.trace_cost + sum_per_trace(entries, numbers[:, :, 1])[chosen]
            found = best_level(log_a[chosen], log_factor, cost, self.log_price)
            level[chosen] = found.level
            log_keep[chosen] = np.minimum(found.log_keep + self.log_more, 0.0)
        return Decision(level, log_keep)

    def wanted(self, level: int) -> tuple[Wanted, dict[str, Wanted]]:
        """The continuations at a level, as a RUN message requests them.

        Parameters
        ----------
        level
            Index of the level, from 0.

        Returns
        -------
        tuple
            Those of loops without separate levels, and those of the others by address.
        """

        def of(levels: tuple[Level, ...]) -> Wanted:
            return Wanted(runs_p=levels[level].M, accepted_q=levels[level].R)

        return of(self.default), {address: of(levels) for address, levels in self.levels.items()}

    def __repr__(self) -> str:
        lines = [f"ChosenBudget: {'one phase' if self.phases == 1 else 'two phases'}"]
        names = {address: address for address in self.levels} | {"": "other loops"}
        width = max(map(len, names.values()))
        for address, name in names.items():
            levels = self.levels[address] if address else self.default
            lines.append(f"  {name:<{width}}  " + "   ".join(f"M={level.M} R={level.R}" for level in levels))
        return "\n".join(lines)


# ---- JSON ------------------------------------------------------------------------------------------------------------


def budget_to_json(budget: Budget | ChosenBudget | None) -> str:
    """The budget as JSON, exactly; "" for None."""
    if budget is None:
        return ""
    if isinstance(budget, Budget):
        fixed = {"kind": "fixed", "M": budget.M, "N": budget.N, "R": budget.R, "reuse": budget.reuse}
        return json.dumps(fixed, allow_nan=False)
    if not isinstance(budget, ChosenBudget):
        raise TypeError(f"only a fixed or a chosen budget can be kept, not {budget!r}")
    chosen = {
        "kind": "chosen",
        "phases": budget.phases,
        "levels": {address: _listed(levels) for address, levels in budget.levels.items()},
        "default": _listed(budget.default),
        "trace_cost": budget.trace_cost,
        "log_price": _number(budget.log_price),
        "log_more": budget.log_more,
    }
    return json.dumps(chosen, allow_nan=False)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)  # JSON has no infinities


def _listed(levels: tuple[Level, ...]) -> list[list[float | str]]:
    return [[level.M, level.R, _number(level.log_factor), _number(level.cost)] for level in levels]


def budget_from_json(text: str) -> Budget | ChosenBudget | None:
    """The budget that :func:`budget_to_json` wrote. Raises ValueError if the text is something else."""
    if not text:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
        if found["kind"] == "fixed":
            return Budget(found["M"], found["N"], R=found["R"], reuse=found["reuse"])
        if found["kind"] != "chosen":
            raise ValueError(f"kind is {found['kind']!r}")
        return ChosenBudget(
            phases=found["phases"],
            levels={address: _levels(levels) for address, levels in found["levels"].items()},
            default=_levels(found["default"]),
            trace_cost=float(found["trace_cost"]),
            log_price=float(found["log_price"]),
            log_more=float(found["log_more"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a budget in JSON: {error}") from error


def _levels(listed: list[list[Any]]) -> tuple[Level, ...]:
    return tuple(Level(M, R, float(log_factor), float(cost)) for M, R, log_factor, cost in listed)
