"""Who proposes: a pure function from (state, values told, site, prior) to (new state, proposal), for a whole batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import ReplyFlag
from ars.columns import Site
from ars.distributions import Distribution, covers, decode
from ars.errors import ArsWarning, ProposalError, ProtocolError, SupportWarning
from ars.wire import PRIOR, Replies, SiteTable, StepBatch

__all__ = ["Drawn", "HandProposer", "PriorProposer", "Proposal", "Proposer", "StateStore"]

_SHAPES_KEPT = 10_000

Floats: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = npt.NDArray[Any]


class Proposer(Protocol):
    """Answers requests. States are immutable numbers; 0 is the start of every trace."""

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        """One answer per row."""

    def end_trace(self, traces: Array) -> None:
        """These traces are over: their states will not be asked for again."""


class PriorProposer:
    """The prior everywhere. (A run that says so to the host asks nothing; this answers where it asks.)"""

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        del sites
        asks = batch.asks
        flags = np.where(asks, int(ReplyFlag.ALWAYS_PRIOR), 0).astype(np.uint32)
        return Replies(batch.state, flags, [PRIOR if ask else b"" for ask in asks.tolist()])

    def end_trace(self, traces: Array) -> None:
        del traces


# ---- states: what a trace has drawn so far ---------------------------------------------------------------------------


class _State(NamedTuple):
    trace: int
    shape: int  # which values they are: an index into StateStore.shapes
    values: tuple[float, ...]


class _Shape:
    """Which latents have been drawn, in order. States with the same shape are rows of one table."""

    def __init__(self, drawn: tuple[tuple[int, int], ...], sites: SiteTable) -> None:
        self.drawn = drawn  # (site, instance), oldest first
        self.latest: dict[str, int] = {}  # name or address -> column
        self.instances: dict[tuple[str, int], list[int]] = {}
        self.names: dict[str, None] = {}
        for column, (number, instance) in enumerate(drawn):
            site = sites[number]
            self.names[site.name] = None
            for spelled in {site.name, site.address}:
                self.latest[spelled] = column
                self.instances.setdefault((spelled, instance), []).append(column)


class StateStore:
    """The states of all traces that are under way: number -> values drawn, never changed, freed with their trace."""

    def __init__(self) -> None:
        self._states: dict[int, _State] = {}
        self._of_trace: dict[int, list[int]] = {}
        self._next = 1
        self._shapes: list[_Shape] = []
        self._shape_numbers: dict[tuple[tuple[int, int], ...], int] = {}
        self._longer: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}

    def __len__(self) -> int:
        """How many states are alive."""
        return len(self._states)

    def shape(self, state: _State) -> _Shape:
        return self._shapes[state.shape]

    def advance(self, batch: StepBatch, sites: SiteTable) -> tuple[Array, list[_State]]:
        """The states after what each row tells: their numbers, and themselves."""
        numbers: list[int] = []
        states: list[_State] = []
        keys = list(zip(batch.told_site.tolist(), batch.told_instance.tolist(), strict=True))
        values = batch.told_value.tolist()
        ends = batch.told_offsets.tolist()
        for row, (trace, number) in enumerate(zip(batch.trace.tolist(), batch.state.tolist(), strict=True)):
            state = self._find(trace, number, sites)
            begin, end = ends[row], ends[row + 1]
            if end > begin:
                shape = self._extend(state.shape, tuple(keys[begin:end]), sites)
                state = _State(trace, shape, state.values + tuple(values[begin:end]))
                number = self._next
                self._next += 1
                self._states[number] = state
                self._of_trace.setdefault(trace, []).append(number)
            numbers.append(number)
            states.append(state)
        return np.array(numbers, dtype=np.uint64), states

    def _find(self, trace: int, number: int, sites: SiteTable) -> _State:
        if number == 0:
            return _State(trace, self._shape_number((), sites), ())
        state = self._states.get(number)
        if state is None:
            raise ProtocolError(f"STEPS: state {number} is unknown, or its trace is over")
        if state.trace != trace:
            raise ProtocolError(f"STEPS: state {number} belongs to trace {state.trace}, not to trace {trace}")
        return state

    def _extend(self, shape: int, told: tuple[tuple[int, int], ...], sites: SiteTable) -> int:
        """The shape after these were told; asked often, computed once."""
        known = self._longer.get((shape, told))
        if known is not None:
            return known
        drawn = self._shapes[shape].drawn + told
        if len(set(drawn)) != len(drawn):
            raise ProtocolError("STEPS: a latent was told twice to one state")
        return self._longer.setdefault((shape, told), self._shape_number(drawn, sites))

    def _shape_number(self, drawn: tuple[tuple[int, int], ...], sites: SiteTable) -> int:
        number = self._shape_numbers.setdefault(drawn, len(self._shapes))
        if number == len(self._shapes):
            self._shapes.append(_Shape(drawn, sites))
        return number

    def end_trace(self, traces: Array) -> None:
        for trace in traces.tolist():
            for number in self._of_trace.pop(trace, ()):
                del self._states[number]
        if not self._states and len(self._shapes) > _SHAPES_KEPT:  # a model with very many paths
            self._shapes.clear()
            self._shape_numbers.clear()
            self._longer.clear()


# ---- proposals by hand -----------------------------------------------------------------------------------------------


class _NotDrawn(ProposalError, KeyError):
    """A KeyError too, so that ``t.get`` and ``in`` work."""

    __str__ = Exception.__str__


class Drawn(Mapping[str, Floats]):
    """What a proposal is computed from: name -> the values drawn so far, one per row of the batch.

    ``t["x"]`` is the latest instance, ``t["x", 0]`` the first one. A full address works as well as a name.
    """

    def __init__(self, shape: _Shape, table: Floats) -> None:
        self._shape = shape
        self._table = table

    @property
    def rows(self) -> int:
        """How many rows the batch has."""
        return len(self._table)

    def __getitem__(self, key: str | tuple[str, int]) -> Floats:
        if isinstance(key, tuple):
            columns = self._shape.instances.get(key, [])
            if len(columns) > 1:
                raise ProposalError(f"t[{key[0]!r}, {key[1]}]: several sites have this name; use a full address")
            column = columns[0] if columns else None
        else:
            column = self._shape.latest.get(key)
        if column is None:
            known = ", ".join(repr(name) for name in self._shape.names) or "nothing yet"
            spelled = f"t[{key[0]!r}, {key[1]!r}]" if isinstance(key, tuple) else f"t[{key!r}]"
            raise _NotDrawn(f"{spelled} has not been drawn when this proposal is made; drawn so far: {known}")
        return self._table[:, column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.names)

    def __len__(self) -> int:
        return len(self._shape.names)


Proposal: TypeAlias = Distribution | Callable[[Drawn], Distribution]


class HandProposer:
    """Proposals given by the user, by name or by full address; the prior elsewhere."""

    def __init__(self, proposals: Mapping[str, Proposal]) -> None:
        self._proposals = dict(proposals)
        self._fixed: dict[str, bytes] = {}
        self._keys: dict[int, str | None] = {}  # site -> the key of its proposal
        self._checked: set[int] = set()
        self.states = StateStore()
        for key, proposal in self._proposals.items():
            name: object = key  # the caller may not be type checked
            if not isinstance(name, str) or not name:
                raise TypeError(f"proposals: keys are names of latents, not {key!r}")
            if isinstance(proposal, Distribution):
                self._fixed[key] = _encode(proposal, 1, f"proposals[{key!r}]")[0]
            elif not callable(proposal):
                raise TypeError(
                    f"proposals[{key!r}] must be a distribution, such as ars.Normal(0, 1), or a function of the values "
                    f"drawn so far, not {proposal!r}"
                )

    def _key(self, site: Site) -> str | None:
        if site.id not in self._keys:
            found = next((key for key in (site.address, site.name) if key in self._proposals), None)
            self._keys[site.id] = found
        return self._keys[site.id]

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        numbers, states = self.states.advance(batch, sites)
        flags = [0] * len(states)
        proposals: list[bytes] = [b""] * len(states)
        # Rows that have drawn different latents are asked about apart. Otherwise "is x in t?" would depend on which
        # rows happen to wait together, and the result of a seed on timing.
        groups: dict[tuple[int, int], list[int]] = {}
        for row, (number, state) in enumerate(zip(batch.site.tolist(), states, strict=True)):
            if number != native.NO_SITE:
                groups.setdefault((number, state.shape), []).append(row)
        for (number, _), rows in groups.items():
            site = sites[number]
            key = self._key(site)
            if key is None:
                encoded = [PRIOR] * len(rows)
            elif key in self._fixed:
                encoded = [self._fixed[key]] * len(rows)
            else:
                encoded = self._call(key, site, [states[row] for row in rows])
            if key is not None and number not in self._checked:
                priors = batch.priors
                self._check_support(site, [priors[row] for row in rows], encoded)
            for row, proposal in zip(rows, encoded, strict=True):
                proposals[row] = proposal
                flags[row] = ReplyFlag.ALWAYS_PRIOR if key is None else 0
        return Replies(numbers, np.array(flags, dtype=np.uint32), proposals)

    def _call(self, key: str, site: Site, group: list[_State]) -> list[bytes]:
        """One call for the whole group."""
        where = f"the proposal for {site.address!r} (proposals[{key!r}])"
        shape = self.states.shape(group[0])
        table = np.array([state.values for state in group], dtype=np.float64).reshape(len(group), len(shape.drawn))
        table.setflags(write=False)
        function = self._proposals[key]
        assert not isinstance(function, Distribution)
        try:
            proposal = function(Drawn(shape, table))
        except ProposalError as error:
            raise ProposalError(f"{where}: {error}") from error
        except Exception as error:
            raise ProposalError(f"{where} raised {type(error).__name__}: {error}") from error
        if not isinstance(proposal, Distribution):
            raise ProposalError(f"{where} must return a distribution, such as ars.Normal(0, 1), not {proposal!r}")
        return _encode(proposal, len(group), where)

    def _check_support(self, site: Site, priors: list[bytes], proposals: list[bytes]) -> None:
        """Once per site: warns if the proposal leaves out values that the prior can take."""
        self._checked.add(site.id)
        for prior, proposal in zip(priors, proposals, strict=True):
            q, p = decode(proposal), decode(prior)
            if not _covers(q, p):
                warnings.warn(
                    f"the proposal for {site.address!r}, {q!r}, gives probability 0 to values that its prior, {p!r}, "
                    'can take. Inside a loop this is fine for "ars" if the accepted region is covered, but "ic" is '
                    "biased; outside of loops every weighting is",
                    SupportWarning,
                    stacklevel=2,
                )
                return

    def end_trace(self, traces: Array) -> None:
        self.states.end_trace(traces)

    def warn_of_unused(self, sites: tuple[Site, ...]) -> None:
        """After a run: a key that names no latent is probably a slip."""
        latents = [site for site in sites if site.kind is native.SiteKind.SAMPLE]
        known = {spelled for site in latents for spelled in (site.name, site.address)}
        for key in self._proposals:
            if key not in known:
                names = ", ".join(sorted({repr(site.name) for site in latents})) or "none"
                warnings.warn(
                    f"proposals[{key!r}]: no trace drew a latent of this name; the latents are: {names}",
                    ArsWarning,
                    stacklevel=4,
                )


def _encode(proposal: Distribution, rows: int, where: str) -> list[bytes]:
    """One encoded distribution per row. Its parameters were checked when it was made; here it is their number."""
    try:
        return proposal.encode(rows)
    except ValueError as error:
        raise ProposalError(f"{where}: {proposal!r} cannot be used for {rows} row(s): {error}") from error


def _covers(proposal: Distribution, prior: Distribution) -> bool:
    """Whether the proposal can give every value that the prior can, but for rounding.

    The ends of a prior and of its proposal may come from one formula in C and in Python, and differ in the last bit.
    """
    if proposal.kind is native.DistKind.PRIOR:
        return True
    if proposal.discrete != prior.discrete:
        return False
    low, high = prior.support()
    slack = np.where(prior.discrete, 0.0, 1e-12 * np.maximum(1.0, np.minimum(np.abs(high - low), 1e300)))
    return bool(covers(proposal, low + slack, high - slack).all())
