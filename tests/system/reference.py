"""Definitions 1-3 of the paper for the programs of ``programs.py``, in numpy alone: nothing of libars takes part.

Many traces are run at once, each a row of every array. A statement is executed for the rows that reach it; a loop
executes its body for the rows that are not accepted yet. With z the draws of an accepted try and A its acceptance:

    ic      (Definition 1)  the product of p/q over all draws, accepted and rejected
    biased                  over the accepted ones
    ars     (Definition 3)  over the accepted ones, times K T / N for every loop that the accepted run went through.
                            K of N fresh tries under q were accepted; T is the mean number of tries that M fresh runs
                            under p took to be accepted. All of them start from the state at the loop's entry.

so that K/N estimates q(A) and T estimates 1/p(A) in Definition 2's q(A)/p(A). The main run does this for every loop
that it enters; what belongs to a rejected try of an outer loop is thrown away. In a fresh try inner loops simply run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from programs import (
    Branch,
    Call,
    Dist,
    Draw,
    Expr,
    Factor,
    Loop,
    Observe,
    ObserveNormals,
    Program,
    Repeat,
    Result,
    Sample,
    SampleVector,
    Statement,
    loop_labels,
)
from reference_densities import Values, draw, draw_coordinate, log_density, log_density_coordinate

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Key: TypeAlias = tuple[str, int]  # an address and an instance

# ---- what a run leaves ------------------------------------------------------------------------------------------


class Column(NamedTuple):
    """One address and instance. ``position`` is its place among the row's latents (loops, results), -1: it has none."""

    position: Integers
    fields: dict[str, npt.NDArray[Any]]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        return self.position >= 0


_FIELDS = {
    "latents": ("value", "log_p", "log_q", "loop"),
    "results": ("value",),
    "loops": ("parent", "tries", "rejected", "K", "T", "s_pq"),
}


class Table:
    """The latents, results or loops of all rows, with what it takes to forget those of a rejected try."""

    def __init__(self, n: int, fields: tuple[str, ...]) -> None:
        self.n = n
        self.fields = fields
        self.columns: dict[Key, Column] = {}
        self.length = np.zeros(n, dtype=np.int64)  # items per row
        self.instances: dict[str, Integers] = {}

    def add(self, rows: Integers, address: str, **values: Floats | Integers | float) -> list[tuple[Key, Integers]]:
        """A new item in each of these rows. Returns where they are: rows of different instances are apart."""
        count = self.instances.setdefault(address, np.zeros(self.n, dtype=np.int64))
        full = {name: np.broadcast_to(value, rows.shape) for name, value in values.items()}
        added = []
        for instance in np.unique(count[rows]).tolist():
            mine = count[rows] == instance
            column = self.columns.get((address, instance))
            if column is None:
                fields = {name: np.full(self.n, np.nan) for name in self.fields}
                column = self.columns[address, instance] = Column(np.full(self.n, -1), fields)
            column.position[rows[mine]] = self.length[rows[mine]]
            for name, value in full.items():
                column.fields[name][rows[mine]] = value[mine]
            added.append(((address, instance), rows[mine]))
        count[rows] += 1
        self.length[rows] += 1
        return added

    def set(self, where: list[tuple[Key, Integers]], rows: Integers, **values: Floats | Integers) -> None:
        """Fields of the items of ``rows``, a part of the rows in ``where``."""
        for key, mine in where:
            wanted = np.isin(rows, mine)
            for name, value in values.items():
                self.columns[key].fields[name][rows[wanted]] = np.asarray(value)[wanted]

    def forget(self, rows: Integers, length: Integers) -> None:
        """These rows go back to having the first ``length`` items."""
        for (address, _), column in self.columns.items():
            gone = rows[column.position[rows] >= length]
            column.position[gone] = -1
            for values in column.fields.values():
                values[gone] = np.nan
            self.instances[address][gone] -= 1
        self.length[rows] = length

    def sum(self, address: str, name: str) -> Floats:
        """Per row, over all instances of the address; 0 where there is none."""
        found = [np.nan_to_num(column.fields[name]) for key, column in self.columns.items() if key[0] == address]
        return np.sum(found, axis=0) if found else np.zeros(self.n)

    @property
    def addresses(self) -> list[str]:
        return list(dict.fromkeys(address for address, _ in self.columns))


@dataclass
class Traces:
    """What the main run of every row has left."""

    n: int
    tries_q: int
    latents: Table
    results: Table
    loops: Table
    log_likelihood: Floats
    log_ratio_all: Floats
    wrong: npt.NDArray[np.bool_]  # a replay left the path that the given values belong to
    simulated: dict[str, list[Floats]]  # data, of a run without

    @property
    def log_ratio_accepted(self) -> Floats:
        total = np.zeros(self.n)
        for column in self.latents.columns.values():
            total += np.where(column.present, column.fields["log_p"] - column.fields["log_q"], 0.0)
        return total

    def log_weights(self, method: str) -> Floats:
        if method == "ic":
            return self.log_ratio_all + self.log_likelihood
        total = self.log_ratio_accepted + self.log_likelihood
        if method == "biased":
            return total
        assert method == "ars"
        with np.errstate(divide="ignore"):
            for column in self.loops.columns.values():
                correction = column.fields["K"] * column.fields["T"] / self.tries_q
                total += np.log(np.where(column.present, correction, 1.0))
        return total


# ---- running ----------------------------------------------------------------------------------------------------


class Mode(Enum):
    MAIN = auto()  # under q; estimates
    Q = auto()  # under q
    P = auto()  # under p
    LOOPS_P = auto()  # under q, but under p inside loops
    REPLAY = auto()  # draws nothing: the values are given


class TooManyTries(Exception):
    """A loop took more tries than a program that is quick to run should."""


@dataclass
class _Given:
    """What a replay takes its values from."""

    latents: Mapping[Key, Floats]
    draws: Mapping[Key, Floats]


@dataclass
class _Machine:
    """Rows of one program in one mode."""

    program: Program
    n: int
    mode: Mode
    rng: np.random.Generator
    tries_q: int = 0  # N
    runs_p: int = 0  # M
    max_tries: int = 1000
    given: _Given | None = None
    values: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = loop_labels(self.program)
        self.helpers = {helper.name: helper for helper in self.program.helpers}
        self.latents, self.results, self.loops = (Table(self.n, fields) for fields in _FIELDS.values())
        self.log_ratio_all = np.zeros(self.n)
        self.log_likelihood = np.zeros(self.n)
        self.wrong = np.zeros(self.n, dtype=np.bool_)
        self.simulated: dict[str, list[Floats]] = {}
        self.observed: dict[str, int] = {}
        self.path: list[str] = []
        self.innermost = np.full(self.n, -1)  # the position of each row's innermost open loop

    @property
    def keeps_records(self) -> bool:
        return self.mode in (Mode.MAIN, Mode.LOOPS_P, Mode.REPLAY)

    def address(self, name: str) -> str:
        return "/".join([*self.path, name])

    def at(self, rows: Integers) -> Values:
        return lambda name: self.values[name][rows]

    def evaluate(self, expr: Expr, rows: Integers) -> Floats:
        """Where no row has come, its variables may not be there either."""
        return np.broadcast_to(expr(self.at(rows)), rows.shape) if len(rows) else np.empty(0)

    def assign(self, name: str, rows: Integers, value: Floats) -> None:
        self.values.setdefault(name, np.full(self.n, np.nan))[rows] = value

    # -- statements --

    def run(self, body: tuple[Statement, ...], rows: Integers) -> None:
        for statement in body:
            if not len(rows):
                return
            self.execute(statement, rows)

    def execute(self, s: Statement, rows: Integers) -> None:
        match s:
            case Sample():
                self.sample(s, rows)
            case SampleVector():
                self.sample_vector(s, rows)
            case Draw():
                self.nuisance(s, rows)
            case Loop():
                self.loop(s, rows)
            case Branch():
                taken = self.evaluate(s.condition, rows) > 0
                self.run(s.then, rows[taken])
                self.assign(s.out, rows[taken], self.evaluate(s.then_value, rows[taken]))
                self.run(s.other, rows[~taken])
                self.assign(s.out, rows[~taken], self.evaluate(s.other_value, rows[~taken]))
            case Repeat():
                self.repeat(s, rows)
            case Call():
                helper = self.helpers[s.helper]
                for parameter, argument in zip(helper.parameters, s.arguments, strict=True):
                    self.assign(parameter, rows, self.evaluate(argument, rows))
                self.run(helper.body, rows)
                self.assign(s.out, rows, self.evaluate(helper.value, rows))
            case Observe():
                self.observe(s.name, s.dist, rows)
            case ObserveNormals():
                for mean, std in zip(s.means, s.stds, strict=True):
                    self.observe(s.name, Dist("normal", (mean, std)), rows)
            case Factor():
                self.log_likelihood[rows] += self.evaluate(s.value, rows)
            case Result():
                if self.keeps_records:
                    self.results.add(rows, self.address(s.name), value=self.evaluate(s.value, rows))

    def sample(self, s: Sample, rows: Integers) -> None:
        prior, values, address = s.dist, self.at(rows), self.address(s.name)
        if self.mode is Mode.P:
            self.assign(s.name, rows, draw(prior, values, len(rows), self.rng))
            return
        by_prior = self.mode is Mode.LOOPS_P and bool(self.path)
        proposal = prior if by_prior else self.program.proposals.get(s.name, prior)
        if self.mode is Mode.REPLAY:
            assert self.given is not None
            x = self.look_up(self.given.latents, self.latents, address, rows)
        else:
            x = draw(proposal, values, len(rows), self.rng)
        log_p = log_density(prior, values, x)
        log_q = log_p if proposal is prior else log_density(proposal, values, x)
        self.log_ratio_all[rows] += log_p - log_q
        if self.keeps_records:
            self.latents.add(rows, address, value=x, log_p=log_p, log_q=log_q, loop=self.innermost[rows])
        self.assign(s.name, rows, x)

    def sample_vector(self, s: SampleVector, rows: Integers) -> None:
        """The prior proposes every number, given those before it."""
        dist, values, address = s.dist, self.at(rows), self.address(s.name)
        drawn: list[Floats] = []
        for variable in s.variables[: dist.recorded]:
            if self.mode is Mode.REPLAY:
                assert self.given is not None
                x = self.look_up(self.given.latents, self.latents, address, rows)
            else:
                x = draw_coordinate(dist, values, drawn, len(rows), self.rng)
            if self.keeps_records:
                log_p = log_density_coordinate(dist, values, drawn, x)
                self.latents.add(rows, address, value=x, log_p=log_p, log_q=log_p, loop=self.innermost[rows])
            self.assign(variable, rows, x)
            drawn.append(x)
        for variable in s.variables[dist.recorded :]:
            self.assign(variable, rows, np.asarray(1.0 - sum(drawn)))

    def nuisance(self, s: Draw, rows: Integers) -> None:
        address = self.address(s.name)
        if self.mode is Mode.REPLAY:
            assert self.given is not None
            x = self.look_up(self.given.draws, self.results, address, rows)
        else:
            x = draw(s.dist, self.at(rows), len(rows), self.rng)
        if self.keeps_records:
            self.results.add(rows, address, value=x)
        self.assign(s.name, rows, x)

    def look_up(self, source: Mapping[Key, Floats], table: Table, address: str, rows: Integers) -> Floats:
        """The given values of this address, each row's next instance. A row without one is wrong, and goes on as 0."""
        count = table.instances.get(address, np.zeros(self.n, dtype=np.int64))[rows]
        x = np.full(len(rows), np.nan)
        for instance in np.unique(count).tolist():
            if (values := source.get((address, instance))) is not None:
                mine = count == instance
                x[mine] = values[rows[mine]]
        self.wrong[rows] |= np.isnan(x)
        return np.where(np.isnan(x), 0.0, x)

    def repeat(self, s: Repeat, rows: Integers) -> None:
        self.assign(s.out, rows, np.zeros(len(rows)))
        times = self.evaluate(s.count, rows).astype(np.int64)
        for i in range(int(times.max())):
            going = rows[times > i]
            self.run(s.body, going)
            self.values[s.out][going] += self.evaluate(s.value, going)

    def observe(self, name: str, dist: Dist, rows: Integers) -> None:
        """Observations stand on every path in the same order, so all rows take the same element of the data."""
        assert not self.path
        assert len(rows) == self.n
        if not self.program.data:
            self.simulated.setdefault(name, []).append(draw(dist, self.at(rows), len(rows), self.rng))
            return
        element = self.observed.setdefault(name, 0)
        self.observed[name] += 1
        y = np.full(len(rows), self.program.data[name][element])
        self.log_likelihood[rows] += log_density(dist, self.at(rows), y)

    # -- loops --

    def loop(self, s: Loop, rows: Integers) -> None:
        address, outside = self.address(self.labels[id(s)]), self.innermost
        where: list[tuple[Key, Integers]] = []
        if self.keeps_records:
            position = self.loops.length[rows]
            where = self.loops.add(rows, address, parent=self.innermost[rows], tries=1.0, rejected=0.0)
            if self.mode is Mode.MAIN:
                self.estimate(s, rows, where)
            self.innermost = outside.copy()
            self.innermost[rows] = position
        self.path.append(self.labels[id(s)])
        if self.mode is Mode.REPLAY:
            self.run(s.body, rows)
            self.wrong[rows] |= ~(self.evaluate(s.accept, rows) > 0)
        else:
            self.until_accepted(s, rows, where)
        self.path.pop()
        self.innermost = outside

    def until_accepted(self, s: Loop, rows: Integers, where: list[tuple[Key, Integers]]) -> Integers:
        """Returns how many tries each row took."""
        tables = (self.latents, self.results, self.loops)
        entry = [table.length.copy() for table in tables]
        entry_ratio = self.log_ratio_all.copy()
        tries = np.zeros(self.n, dtype=np.int64)
        left = rows
        while len(left):
            self.run(s.body, left)
            tries[left] += 1
            left = left[~(self.evaluate(s.accept, left) > 0)]
            if len(left) and int(tries[left].max()) >= self.max_tries:
                raise TooManyTries
            if self.keeps_records and len(left):
                for table, length in zip(tables, entry, strict=True):
                    table.forget(left, length[left])
                rejected = self.log_ratio_all[left] - entry_ratio[left]
                self.loops.set(where, left, tries=tries[left] + 1, rejected=rejected)
        return tries[rows]

    def fresh(self, rows: Integers, copies: int, mode: Mode) -> _Machine:
        """Copies of these rows as they are now, which draw on their own and record nothing."""
        repeated = np.repeat(rows, copies)
        values = {name: value[repeated] for name, value in self.values.items()}
        machine = _Machine(self.program, len(repeated), mode, self.rng, max_tries=self.max_tries, values=values)
        machine.path = list(self.path)
        return machine

    def estimate(self, s: Loop, rows: Integers, where: list[tuple[Key, Integers]]) -> None:
        """K and T of the loop that these rows are about to enter."""
        q = self.fresh(rows, self.tries_q, Mode.Q)
        every = np.arange(q.n)
        q.run(s.body, every)
        accepted = q.evaluate(s.accept, every) > 0
        ratio = np.where(accepted, 0.0, np.exp(2 * q.log_ratio_all))
        p = self.fresh(rows, self.runs_p, Mode.P)
        tries = p.until_accepted(s, np.arange(p.n), [])
        self.loops.set(
            where,
            rows,
            K=accepted.reshape(len(rows), -1).sum(axis=1),
            T=tries.reshape(len(rows), -1).mean(axis=1),
            s_pq=ratio.reshape(len(rows), -1).sum(axis=1),
        )

    def finish(self) -> Traces:
        self.run(self.program.body, np.arange(self.n))
        return Traces(
            self.n,
            self.tries_q,
            self.latents,
            self.results,
            self.loops,
            self.log_likelihood,
            self.log_ratio_all,
            self.wrong,
            self.simulated,
        )


def infer(program: Program, n: int, *, M: int, N: int, seed: int, max_tries: int = 1000) -> Traces:
    """n traces of the program under its proposals, with an estimate for every loop."""
    return _Machine(program, n, Mode.MAIN, np.random.default_rng(seed), N, M, max_tries).finish()


def infer_loops_prior(program: Program, n: int, *, seed: int) -> Traces:
    """n traces under the proposals, but inside loops under the prior: no loop needs a correction."""
    return _Machine(program, n, Mode.LOOPS_P, np.random.default_rng(seed)).finish()


def simulate(program: Program, n: int, *, seed: int, max_tries: int = 1000) -> dict[str, list[Floats]]:
    """Data of n traces under the prior: per name, one array per element."""
    machine = _Machine(replace(program, data={}), n, Mode.P, np.random.default_rng(seed), max_tries=max_tries)
    return machine.finish().simulated


def score(program: Program, n: int, latents: Mapping[Key, Floats], draws: Mapping[Key, Floats]) -> Traces:
    """Replays n traces on given accepted values (NaN: the trace has no such latent) and computes everything anew.

    A row is ``wrong`` if the program asks for a value that is not there, or if its values would not be accepted.
    """
    with np.errstate(invalid="ignore", divide="ignore"):  # densities of a row that is wrong
        return _Machine(program, n, Mode.REPLAY, np.random.default_rng(0), given=_Given(latents, draws)).finish()
