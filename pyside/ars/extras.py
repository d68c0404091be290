"""Optional packages: imported where they are used, and named where they are missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

__all__ = ["EXTRAS", "needed", "one_torch_thread", "torch_needed"]

EXTRAS: Final = {  # package -> the extra of libars that brings it
    "argcomplete": "completion",
    "dask": "cluster",
    "dask_jobqueue": "slurm",
    "distributed": "cluster",
    "h5netcdf": "arviz",
    "h5py": "arviz",
    "jinja2": "report",
    "matplotlib": "plots",
    "netCDF4": "arviz",
    "safetensors": "network",
    "torch": "network",
    "xarray": "arviz",
}


@contextlib.contextmanager
def needed(what: str) -> Iterator[None]:
    """For imports: if a package is missing, says which extra brings it.

    Parameters
    ----------
    what : str
        The call or option that needs it, which begins the message.

    Raises
    ------
    ImportError
        With the command that installs the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise ImportError(f"{what} needs {package}: pip install 'libars[{EXTRAS[package]}]'", name=package) from error


def torch_needed(what: str) -> contextlib.AbstractContextManager[None]:
    """For imports: says how to get what networks need."""
    return needed(what)


def one_torch_thread() -> contextlib.AbstractContextManager[None]:
    """Batches are small, and torch's threads spin while they wait for each other: on two cores that the simulators use
    too, a second thread made serving eight times slower.
    """
    from ars.network.train.training import one_torch_thread

    return one_torch_thread()
