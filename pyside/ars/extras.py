"""Optional packages: imported where they are used, and named where they are missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

__all__ = ["one_torch_thread", "torch_needed"]


@contextlib.contextmanager
def torch_needed(what: str) -> Iterator[None]:
    """For imports: says how to get what networks need."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("torch", "safetensors"):
            raise
        raise ImportError(f"{what} needs {error.name}: pip install 'libars[network]'", name=error.name) from error


def one_torch_thread() -> contextlib.AbstractContextManager[None]:
    """Batches are small, and torch's threads spin while they wait for each other: on two cores that the simulators use
    too, a second thread made serving eight times slower.
    """
    from ars.network.train.training import one_torch_thread

    return one_torch_thread()
