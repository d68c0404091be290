"""What can be known of a proposal that is written by hand: a distribution by its parameters, a function by its code.

The bytecode of a function counts, its constants and defaults, the values in its closure, the globals that it names, and
the user's functions and classes among them. Installed packages count by name only. Not seen: attributes of objects of
compiled classes, files that the function reads, and globals that it reaches by other means than their names. Bytecode
depends on the version of Python, which is therefore part of the description.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ars.distributions import Distribution

if TYPE_CHECKING:
    from ars.proposers import Proposal

__all__ = ["describe_proposal", "described_value"]

_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, bytearray, type(Ellipsis), range, slice)
_NOT_CODE: Final = ("__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__")
_PYTHON: Final = os.path.dirname(os.path.realpath(os.__file__))
_OURS: Final = os.path.dirname(os.path.realpath(__file__))


def describe_proposal(proposal: Proposal) -> dict[str, str]:
    """A proposal for JSON: readable as far as it goes, and a SHA-256 of all that can be known of it."""
    told = described_value(proposal)
    found = {"proposal": _label(proposal), "sha256": hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()}
    if not isinstance(proposal, Distribution):
        found["python"] = f"{sys.version_info.major}.{sys.version_info.minor}"
    return found


def _label(proposal: Proposal) -> str:
    if isinstance(proposal, Distribution):
        return repr(proposal)
    return f"function {getattr(proposal, '__qualname__', type(proposal).__qualname__)}"


def described_value(value: object) -> str:
    """Text that is the same for values that compute the same, as far as that can be known."""
    try:
        return _Teller().tell(value)
    except RecursionError:
        return f"too deep: {type(value).__qualname__}"


def _is_library(module: str | None) -> bool:
    """Whether a module is part of Python, of an installed package, or of this one."""
    found = sys.modules.get(module or "")
    if found is None or module == "__main__":
        return False
    file = getattr(found, "__file__", None)
    if file is None:  # compiled into the interpreter
        return True
    real = os.path.realpath(file)
    installed = {"site-packages", "dist-packages"} & set(real.split(os.sep))
    return bool(installed) or real.startswith((_PYTHON + os.sep, _OURS + os.sep))


class _Teller:
    """Walks through a value; what it has met before is named by its number, so that cycles end."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._alive: list[object] = []  # an id is that of one object only while the object lives

    def tell(self, value: object) -> str:
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__}:{value!r}"
        if isinstance(value, np.generic | np.ndarray):
            return self._array(np.asarray(value))
        if isinstance(value, Distribution):
            return f"{type(value).__name__}:{value.rows}:{self._array(value._words)}"
        if isinstance(value, types.ModuleType):
            return f"module:{value.__name__}"
        if id(value) in self._met:
            return f"met:{self._met[id(value)]}"
        self._met[id(value)] = len(self._met)
        self._alive.append(value)
        return self._compound(value)

    def _compound(self, value: object) -> str:
        if isinstance(value, tuple | list):
            return f"{type(value).__name__}({self._all(value)})"
        if isinstance(value, set | frozenset):  # their order changes from process to process
            return f"{type(value).__name__}({','.join(sorted(map(described_value, value)))})"
        if isinstance(value, Mapping):
            return f"{type(value).__name__}({self._all(value)};{self._all(value.values())})"
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return f"method({self.tell(value.__func__)};{self.tell(value.__self__)})"
        if isinstance(value, functools.partial):
            return f"partial({self.tell(value.func)};{self._all(value.args)};{self.tell(value.keywords)})"
        if isinstance(value, staticmethod | classmethod):
            return f"{type(value).__name__}({self.tell(value.__func__)})"
        if isinstance(value, property):
            return f"property({self._all([value.fget, value.fset])})"
        if isinstance(value, type):
            return self._class(value)
        return self._object(value)

    def _all(self, values: Any) -> str:
        return ",".join(self.tell(each) for each in values)

    @staticmethod
    def _array(array: np.ndarray[Any, Any]) -> str:
        if array.dtype.hasobject:
            return f"array:{array.shape}:{described_value(array.tolist())}"
        raw = np.ascontiguousarray(array).tobytes()
        return f"array:{array.dtype.str}:{array.shape}:{hashlib.sha256(raw).hexdigest()}"

    def _code(self, code: types.CodeType) -> str:
        """Without names of files and numbers of lines: a function may move."""
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return f"code({shape};{names};{code.co_code.hex()};{self._all(code.co_consts)})"

    def _function(self, function: types.FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        if _is_library(function.__module__):
            return f"library function:{name}"
        cells = [_contents(cell) for cell in function.__closure__ or ()]
        names = _global_names(function.__code__)
        used = [(each, function.__globals__[each]) for each in names if each in function.__globals__]
        rest = (function.__defaults__, function.__kwdefaults__, cells, used)
        return f"function({self.tell(function.__code__)};{self._all(rest)})"

    def _class(self, kind: type) -> str:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if _is_library(kind.__module__):
            return f"library class:{name}"
        inside = {
            key: each
            for key, each in vars(kind).items()
            if key not in _NOT_CODE and not isinstance(each, types.GetSetDescriptorType | types.MemberDescriptorType)
        }
        return f"class({kind.__qualname__};{self._all(kind.__bases__)};{self.tell(inside)})"

    def _object(self, value: object) -> str:
        """Arrays of other libraries by their numbers; else the class and the attributes."""
        kind = type(value)
        detach = getattr(value, "detach", None)
        if callable(detach) and not isinstance(value, type):  # a torch tensor
            try:
                return f"{kind.__name__}:{self._array(np.asarray(detach().cpu()))}"
            except Exception:
                return f"object:{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, types.BuiltinFunctionType | np.ufunc):
            return f"builtin:{getattr(value, '__module__', '')}.{value.__name__}"
        attributes = getattr(value, "__dict__", None)
        inside = self.tell(attributes) if isinstance(attributes, dict) and not isinstance(value, type) else ""
        slots = [getattr(value, name, None) for each in kind.__mro__ for name in _slots(each)]
        return f"object({self.tell(kind)};{inside};{self._all(slots)})"


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return "(empty)"


def _global_names(code: types.CodeType) -> list[str]:
    """The names that the code, and the code inside it, may look up."""
    inner = [name for each in code.co_consts if isinstance(each, types.CodeType) for name in _global_names(each)]
    return sorted({*code.co_names, *inner})
