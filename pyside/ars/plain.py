"""Results as values that JSON has."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """The same in values that JSON has: None for NaN and infinity, lists for arrays, text for paths.

    Parameters
    ----------
    value : object
        Numbers, text, arrays, dataclasses, named tuples, mappings and sequences.

    Returns
    -------
    object
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, str | int) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [plain(each) for each in value]
    return str(value)
