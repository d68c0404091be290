"""How a simulator runs continuations: a setting of ``Simulator``, and the flags of a run that it stands for."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from ars._native import RunFlag

__all__ = ["MODES", "Continuations", "checked_mode", "continuation_flags"]

Continuations: TypeAlias = Literal["auto", "fork", "check"]

MODES: Final[tuple[str, ...]] = get_args(Continuations)

_FLAGS: Final = {"auto": RunFlag.REWIND, "fork": RunFlag(0), "check": RunFlag.REWIND | RunFlag.CHECK}


def checked_mode(mode: object) -> str:
    """The mode, if it is one. Raises ValueError."""
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(
            f"continuations must be 'auto' (rewind where that is safe, else fork), 'fork' or 'check' (both, compared), "
            f"not {mode!r}"
        )
    return mode


def continuation_flags(mode: str, flags: RunFlag) -> RunFlag:
    """The flags of a run, with those of the mode if it estimates anything."""
    return flags | _FLAGS[mode] if flags & RunFlag.ESTIMATE else flags
