"""What items of a column are like as long as nothing is known of them: fields that older files do not have."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ars.columns import Array

__all__ = ["unknown"]

# Of every other field, 0 says that there is nothing. 0 here would be a measurement.
_NOT_KNOWN: Final = {"s_pq_main": np.nan}


def unknown(count: int, dtype: np.dtype[Any]) -> Array:
    """So many items to fill in. A field that stays as it is can be told apart from one that was recorded."""
    items: Array = np.zeros(count, dtype)
    for name in set(_NOT_KNOWN).intersection(dtype.names or ()):
        items[name] = _NOT_KNOWN[name]
    return items
