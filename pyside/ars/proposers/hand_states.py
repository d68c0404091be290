"""The states of proposals by hand: the values that each trace has drawn so far, at a cost per draw that does not grow.

A state is a link: the state before it and the values drawn since. Its shape, which latents those are, is a path in a
tree that all traces share. Both are immutable. A value is found in steps that grow with the logarithm of the number of
draws: states and the draws of one site are linked by jumps (Myers, 1983), and each shape finds the latest draw of a
name in a persistent trie, made when a function first asks and shared with the shapes around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from numbers import Real
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ars.errors import ProposalError, ProtocolError
from ars.wire import SiteTable, StepBatch

__all__ = ["Drawn", "State", "StateStore"]

Floats: TypeAlias = npt.NDArray[np.float64]
Array: TypeAlias = npt.NDArray[Any]
Latent: TypeAlias = tuple[int, int]  # site, instance

_SHAPES_KEPT = 10_000  # for the next traces, beyond those that the traces under way need
_NAMES_LISTED = 20  # in an error


# ---- a persistent map from small integers ----------------------------------------------------------------------------

_BITS: Final = 4
_MASK: Final = (1 << _BITS) - 1
_EMPTY: Final[tuple[Any, ...]] = (None,) * (1 << _BITS)


class _Trie(NamedTuple):
    """An immutable map from integers. A changed copy shares all but one path with the original."""

    height: int = 0  # levels between the root and the values, less one
    root: tuple[Any, ...] = _EMPTY

    def get(self, key: int) -> Any:
        """The value, or None."""
        if key >> (_BITS * (self.height + 1)):
            return None
        node: Any = self.root
        for shift in range(self.height * _BITS, -1, -_BITS):
            if node is None:
                return None
            node = node[(key >> shift) & _MASK]
        return node

    def put(self, key: int, value: Any) -> _Trie:
        height, root = self
        while key >> (_BITS * (height + 1)):
            root, height = (root, *_EMPTY[1:]), height + 1
        path: list[tuple[tuple[Any, ...], int]] = []
        node = root
        for shift in range(height * _BITS, -1, -_BITS):
            place = (key >> shift) & _MASK
            path.append((node, place))
            node = node[place] or _EMPTY if shift else node
        changed = value
        for node, place in reversed(path):
            changed = (*node[:place], changed, *node[place + 1 :])
        return _Trie(height, changed)


# ---- shapes: which latents have been drawn, in order -----------------------------------------------------------------


class _Names(NamedTuple):
    """The names in the order of their first draw, as a list that grows at its end and shares the rest."""

    size: int
    last: str
    before: _Names | None


class _Draw:
    """A draw of a latent, and the earlier ones of its site.

    Jumps are those of a skew binary counter, so that any earlier draw is a logarithm of steps away.
    """

    __slots__ = ("column", "earlier", "instance", "jump", "steps")

    def __init__(self, column: int, instance: int, earlier: _Draw | None) -> None:
        self.column = column  # how many latents were drawn before, of any site
        self.instance = instance
        self.earlier = earlier
        self.jump: _Draw | None = earlier  # one long before
        self.steps: int = 0 if earlier is None else earlier.steps + 1
        far = None if earlier is None else earlier.jump
        farther = None if far is None else far.jump
        if earlier is None or far is None or farther is None:
            return
        if earlier.steps - far.steps == far.steps - farther.steps:
            self.jump = farther

    def find(self, instance: float) -> _Draw | None:
        """The draw of this instance, this one or an earlier one."""
        draw: _Draw | None = self
        while draw is not None and draw.instance > instance:
            jump = draw.jump
            draw = jump if jump is not None and jump.instance >= instance else draw.earlier
        return draw if draw is not None and draw.instance == instance else None


class _Index(NamedTuple):
    """What a shape is asked: the latest draw of every site and name, by their keys."""

    latest: _Trie
    names: _Names | None


class _Shape:
    """One latent more than its parent."""

    __slots__ = ("__weakref__", "depth", "index", "instance", "number", "parent", "site")

    def __init__(self, number: int, parent: _Shape | None, latent: Latent) -> None:
        self.number = number
        self.parent = parent
        self.site, self.instance = latent
        self.depth: int = 0 if parent is None else parent.depth + 1  # latents drawn
        self.index: _Index | None = _Index(_Trie(), None) if parent is None else None  # made when it is needed


class _Shapes:
    """The tree of shapes. A shape lives as long as a state needs it, or as it is one of the last that were made."""

    def __init__(self) -> None:
        self.root = _Shape(0, None, (-1, -1))
        self._made = 1
        self._known: WeakValueDictionary[tuple[int, Latent], _Shape] = WeakValueDictionary()
        self._recent: list[_Shape] = []
        self._keys: dict[int, tuple[int, int]] = {}  # site -> its key in the tries, and that of its name
        self._names: dict[str, int] = {}  # name -> its key
        self._meant: dict[str, list[int]] = {}  # a name or address -> the keys of the sites that it may mean

    def __len__(self) -> int:
        """How many there are, without the root."""
        return len(self._known)

    def longer(self, shape: _Shape, latent: Latent) -> _Shape:
        """The shape after one more draw; the same one however often it is asked for."""
        key = (shape.number, latent)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _Shape(self._made, shape, latent)
            self._made += 1
            self._recent.append(found)
            if len(self._recent) > _SHAPES_KEPT:  # a model with very many paths
                self._recent.clear()
        return found

    def indexed(self, shape: _Shape, sites: SiteTable) -> _Index:
        """The shape's index. Those of the shapes before it are made first, each of them once."""
        missing: list[_Shape] = []
        node = shape
        while node.index is None:
            missing.append(node)
            assert node.parent is not None
            node = node.parent
        index = node.index
        for node in reversed(missing):
            index = node.index = self._extended(index, node, sites)
        return index

    def _extended(self, index: _Index, shape: _Shape, sites: SiteTable) -> _Index:
        site_key, name_key = self._keys.get(shape.site) or self._add_site(shape.site, sites)
        earlier: _Draw | None = index.latest.get(site_key)
        if earlier is not None and earlier.instance >= shape.instance:
            raise ProtocolError("STEPS: a latent was told twice to one state, or its instances out of order")
        draw = _Draw(shape.depth - 1, shape.instance, earlier)
        names = index.names
        if index.latest.get(name_key) is None:
            names = _Names(1 if names is None else names.size + 1, sites[shape.site].name, names)
        return _Index(index.latest.put(site_key, draw).put(name_key, draw), names)

    def _add_site(self, number: int, sites: SiteTable) -> tuple[int, int]:
        site = sites[number]
        key = len(self._keys) + len(self._names)
        name_key = self._names.setdefault(site.name, key + 1)
        for spelled in {site.address, site.name}:
            self._meant.setdefault(spelled, []).append(key)
        return self._keys.setdefault(number, (key, name_key))

    def latest(self, index: _Index, spelled: str) -> _Draw | None:
        """The latest draw of a name or address."""
        key = self._names.get(spelled)
        if key is None:  # a name has no slash, and an address with one means one site
            key = next(iter(self._meant.get(spelled, ())), None)
        found: _Draw | None = None if key is None else index.latest.get(key)
        return found

    def instance(self, index: _Index, spelled: str, instance: float) -> list[_Draw]:
        """The draws that this may mean: at most two, which is one too many."""
        found: list[_Draw] = []
        for key in self._meant.get(spelled, ()):
            last: _Draw | None = index.latest.get(key)
            draw = None if last is None else last.find(instance)
            if draw is not None:
                found.append(draw)
            if len(found) > 1:
                break
        return found


# ---- states: the values ----------------------------------------------------------------------------------------------


class State:
    """The values that a trace has drawn: those of ``parent``, then ``values``."""

    __slots__ = ("begin", "end", "jump", "latents", "links", "parent", "shape", "trace", "values")

    def __init__(
        self, trace: int, parent: State | None, latents: tuple[Latent, ...], values: tuple[float, ...]
    ) -> None:
        self.trace = trace
        self.latents = latents
        self.values = values
        self.shape: _Shape | None = None  # found when a function is to be called
        if parent is None:  # the start of every trace
            self.parent = self.jump = self
            self.links = self.begin = 0
        else:
            far = parent.jump
            even = parent.links - far.links == far.links - far.jump.links
            self.parent, self.jump = parent, far.jump if even else parent
            self.links, self.begin = parent.links + 1, parent.end
        self.end: int = self.begin + len(values)

    def value(self, column: int) -> float:
        """The value that was drawn after ``column`` others."""
        node = self
        while column < node.begin:
            node = node.jump if column < node.jump.end else node.parent
        return node.values[column - node.begin]


class StateStore:
    """The states of all traces that are under way: number -> state, never changed, freed with their trace."""

    def __init__(self) -> None:
        self._states: dict[int, State] = {}
        self._of_trace: dict[int, list[int]] = {}
        self._next = 1
        self._start = State(-1, None, (), ())
        self.shapes = _Shapes()
        self._start.shape = self.shapes.root

    def __len__(self) -> int:
        """How many states are alive."""
        return len(self._states)

    def advance(self, batch: StepBatch) -> tuple[Array, list[State]]:
        """The states after what each row tells: their numbers, and themselves."""
        numbers: list[int] = []
        states: list[State] = []
        latents = list(zip(batch.told_site.tolist(), batch.told_instance.tolist(), strict=True))
        values = batch.told_value.tolist()
        ends = batch.told_offsets.tolist()
        for row, (trace, number) in enumerate(zip(batch.trace.tolist(), batch.state.tolist(), strict=True)):
            state = self._find(trace, number)
            begin, end = ends[row], ends[row + 1]
            if end > begin:
                state = State(trace, state, tuple(latents[begin:end]), tuple(values[begin:end]))
                number = self._next
                self._next += 1
                self._states[number] = state
                self._of_trace.setdefault(trace, []).append(number)
            numbers.append(number)
            states.append(state)
        return np.array(numbers, dtype=np.uint64), states

    def _find(self, trace: int, number: int) -> State:
        if number == 0:
            return self._start
        state = self._states.get(number)
        if state is None:
            raise ProtocolError(f"STEPS: state {number} is unknown, or its trace is over")
        if state.trace != trace:
            raise ProtocolError(f"STEPS: state {number} belongs to trace {state.trace}, not to trace {trace}")
        return state

    def shape(self, state: State) -> _Shape:
        """Which latents the state's values are. States of one shape have drawn the same latents in the same order."""
        missing: list[State] = []
        while state.shape is None:
            missing.append(state)
            state = state.parent
        shape = state.shape
        for state in reversed(missing):
            for latent in state.latents:
                shape = self.shapes.longer(shape, latent)
            state.shape = shape
        return shape

    def end_trace(self, traces: Array) -> None:
        for trace in traces.tolist():
            for number in self._of_trace.pop(trace, ()):
                del self._states[number]


# ---- the user's view -------------------------------------------------------------------------------------------------


class _NotDrawn(ProposalError, KeyError):
    """A KeyError too, so that ``t.get`` and ``in`` work."""

    __str__ = Exception.__str__


class Drawn(Mapping[str, Floats]):
    """What a proposal is computed from: name -> the values drawn so far, one per row of the batch.

    ``t["x"]`` is the latest instance, ``t["x", 0]`` the first one. A full address works as well as a name.
    """

    def __init__(self, store: StateStore, states: list[State], sites: SiteTable) -> None:
        """``states``: one per row, all of one shape."""
        self._shapes = store.shapes
        self._states = states
        self._index = store.shapes.indexed(store.shape(states[0]), sites)
        self._looked_up: dict[int, Floats] = {}

    @property
    def rows(self) -> int:
        """How many rows the batch has."""
        return len(self._states)

    def _column(self, key: object) -> int | None:
        if isinstance(key, tuple):
            whole = len(key) == 2 and isinstance(key[0], str) and isinstance(key[1], Real)
            found = self._shapes.instance(self._index, key[0], key[1]) if whole else []
            if len(found) > 1:
                raise ProposalError(f"t[{key[0]!r}, {key[1]}]: several sites have this name; use a full address")
            draw = found[0] if found else None
        else:
            draw = self._shapes.latest(self._index, key) if isinstance(key, str) else None
        return None if draw is None else draw.column

    def __getitem__(self, key: str | tuple[str, int]) -> Floats:
        column = self._column(key)
        if column is None:
            spelled = f"t[{key[0]!r}, {key[1]!r}]" if isinstance(key, tuple) else f"t[{key!r}]"
            raise _NotDrawn(f"{spelled} has not been drawn when this proposal is made; drawn so far: {self._listed()}")
        known = self._looked_up.get(column)
        if known is None:
            # A column of a wider table, as in the first releases: a contiguous array may take another path through
            # numpy, with another last bit.
            table = np.empty((len(self._states), min(self._states[0].end, 2)))
            table[:, 0] = [state.value(column) for state in self._states]
            table.setflags(write=False)
            known = self._looked_up[column] = table[:, 0]
        return known

    def __contains__(self, key: object) -> bool:
        return self._column(key) is not None

    def _listed(self) -> str:
        """The names, only the last ones if there are many: a function may ask in vain at every draw."""
        names = [repr(name) for name in islice(self._from_the_last(), _NAMES_LISTED)]
        earlier = f"{len(self) - len(names):,} names, " if len(self) > len(names) else ""
        return earlier + (", ".join(reversed(names)) or "nothing yet")

    def _from_the_last(self) -> Iterator[str]:
        link = self._index.names
        while link is not None:
            yield link.last
            link = link.before

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of their first draw."""
        return reversed(list(self._from_the_last()))

    def __len__(self) -> int:
        return 0 if self._index.names is None else self._index.names.size
