"""Results as files that are there whole or not at all: .nc, which can be read back bit for bit, .csv and .npz.

A .nc file has the groups of ``Posterior.to_datatree`` for ArviZ, and a group ``ars_columns`` for us. Its variables are
the fields of the columns of ars.columns, such as ``samples.value``, as they are in memory; ``observed``, the data end
to end; and ``about``, a JSON document: sites, settings, statistics, failures, and the size and CRC-32 of every other
variable. A variable without elements is left out. The attribute ``about_crc32`` is that of ``about``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ars._native import DistKind, SiteKind
from ars.columns import Array, Columns, Site, empty, offsets
from ars.errors import StorageError
from ars.failures import Failure, Failures
from ars.results import export
from ars.results.corrections import budget_of
from ars.results.run_info import RunInfo
from ars.store.files import not_written
from ars.store.older import unknown

if TYPE_CHECKING:
    from ars.posterior import Posterior, Traces

__all__ = ["SUFFIXES", "check_netcdf", "load", "save", "whole_file"]

SUFFIXES: Final = (".nc", ".npz", ".csv")
_GROUP: Final = "ars_columns"
_FORMAT: Final = "ars-posterior"
_VERSION: Final = 1
_ABANDONED: Final = ("abandoned", "abandoned_p", "abandoned_q", "abandoned_tries")
_NEWER: Final = (  # fields that files of earlier versions do not have, the latest first
    frozenset(("results.n_dims", "results.reserved")),
    frozenset(f"loops.{name}" for name in _ABANDONED),
    frozenset(f"loops.{name}" for name in ("s_pq_main", *_ABANDONED)),
    frozenset(f"loops.{name}" for name in ("rewinds", "method", "reason", "detail", "pages", "s_pq_main", *_ABANDONED)),
)
_HDF5: Final = b"\x89HDF\r\n\x1a\n"  # what a netCDF-4 file begins with

_P = TypeVar("_P", bound="Posterior")


def check_netcdf() -> None:
    """Raises ImportError unless .nc files can be written and read here."""
    if not any(importlib.util.find_spec(name) for name in ("netCDF4", "h5netcdf")):
        raise ImportError("a .nc file needs netCDF4 or h5netcdf: pip install 'libars[arviz]', or use .npz")
    if not importlib.util.find_spec("xarray"):
        raise ImportError("a .nc file needs xarray: pip install 'libars[arviz]', or use .npz")


# ---- writing ---------------------------------------------------------------------------------------------------------


def save(
    post: Posterior, path: str | os.PathLike[str], predicted: Traces | None = None, prior: Traces | None = None
) -> None:
    """``Posterior.save``."""
    target = Path(path)
    writers: dict[str, Callable[[Posterior, Path], None]] = {
        ".nc": functools.partial(_write_nc, predicted=predicted, prior=prior),
        ".npz": export.write_npz,
        ".csv": export.write_csv,
    }
    if target.suffix not in writers:
        raise ValueError(f"{target} must end in {', '.join(SUFFIXES)}")
    if target.suffix == ".nc":
        check_netcdf()
    with whole_file(target) as temporary:
        writers[target.suffix](post, temporary)


@contextlib.contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path to write to. The file there takes its place when it is complete and on the disk."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            temporary = Path(folder) / target.name
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, target)
    except OSError as error:
        raise not_written(target, error) from error


def _write_nc(post: Posterior, path: Path, *, predicted: Traces | None, prior: Traces | None) -> None:
    import xarray

    tree = export.to_datatree(post, None, 0, predicted, prior)
    variables, attributes = _packed(post)
    tree[_GROUP] = xarray.DataTree(
        xarray.Dataset(
            {name: (tuple(f"{name}.{i}" for i in range(array.ndim)), array) for name, array in variables.items()},
            attrs=attributes,
        )
    )
    # without a fill value NaNs are numbers like others; whole numbers are mostly small, and shrink
    exact: dict[str, Any] = {
        name: {"_FillValue": None} | ({} if array.dtype.kind == "f" else {"zlib": True, "complevel": 1})
        for name, array in variables.items()
    }
    tree.to_netcdf(path, encoding={f"/{_GROUP}": exact})


def _fields(column: str, array: Array) -> Iterator[tuple[str, Array]]:
    """The variables of a column: one per field of its records. Text becomes bytes: netCDF would cut it at a zero."""
    for name in array.dtype.names or ():
        field = np.ascontiguousarray(array[name])
        if field.dtype.kind == "S":
            field = field.view(np.uint8).reshape(len(field), field.dtype.itemsize)
        yield f"{column}.{name}", field
    if array.dtype.names is None:
        yield column, array


def _packed(post: Posterior) -> tuple[dict[str, Array], dict[str, Any]]:
    """The variables and attributes of our group."""
    flat = [np.asarray(given, np.float64).reshape(-1) for given in post.observed.values()]
    arrays = {"observed": np.concatenate([np.empty(0), *flat])}
    for column in Columns._fields:
        arrays.update(_fields(column, getattr(post.columns, column)))
    about = {
        "format": _FORMAT,
        "version": _VERSION,
        "variables": {
            name: {"dtype": array.dtype.str, "shape": array.shape, "crc32": _crc(array)}
            for name, array in arrays.items()
        },
        "sites": [[s.id, s.kind.name, s.dist.name if s.dist else None, s.address] for s in post.sites],
        "run": post.run._asdict(),
        "stats": {name: np.asarray(value).item() for name, value in post.stats.items()},
        "observed": {name: given.shape for name, given in post.observed.items()},
        "failures": dict(post.failures),
        "examples": post.failures.examples,
        "incidents": post.failures.incidents,
    }
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    variables = {"about": text} | {name: array for name, array in arrays.items() if array.size}
    ours = export.library_version()
    return variables, {"format": _FORMAT, "version": _VERSION, "libars": ours, "about_crc32": f"{_crc(text):08x}"}


def _crc(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data) if array.size else 0


# ---- reading ---------------------------------------------------------------------------------------------------------


def load(cls: type[_P], path: str | os.PathLike[str]) -> _P:
    """``Posterior.load``."""
    source = Path(path)
    if source.suffix in (".npz", ".csv"):
        raise StorageError(f"{source}: only .nc files hold all of a run; save it as .nc to load it again")
    if not source.is_file():
        raise StorageError(f"{source} does not exist, or is not a file")
    check_netcdf()
    variables, attributes = _read(source)
    about = _about(source, variables, attributes)
    try:
        return _unpacked(cls, source, variables, about)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StorageError(f"{source} is damaged, or of another version of libars: {error!r}") from error


def _read(source: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The variables and attributes of our group, as they are in the file."""
    import xarray

    with source.open("rb") as file:
        if file.read(len(_HDF5)) != _HDF5:
            raise StorageError(f"{source} is damaged, or not a netCDF-4 file")
    try:
        with xarray.open_dataset(source, group=_GROUP, decode_cf=False) as dataset:
            return {str(name): np.asarray(dataset[name].values) for name in dataset.variables}, dict(dataset.attrs)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries below make of it
        raise StorageError(
            f"{source} is damaged, or was not written by post.save or ars infer --out of this version of libars: its "
            f"group {_GROUP} cannot be read ({error})"
        ) from error


def _about(source: Path, variables: Mapping[str, Array], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The description of the file's contents, if the file is ours, whole and of this version."""
    if attributes.get("format") != _FORMAT:
        raise StorageError(f"{source}: its group {_GROUP} was not written by libars")
    if attributes.get("version") != _VERSION:
        raise StorageError(
            f"{source} has version {attributes.get('version')} of the format, written by libars "
            f"{attributes.get('libars')}; this is libars {export.library_version()}, which reads version {_VERSION}"
        )
    text = variables.get("about", np.empty(0, np.uint8))
    if text.dtype != np.uint8 or f"{_crc(text):08x}" != attributes.get("about_crc32"):
        raise StorageError(f"{source} is damaged: its description does not have the right checksum")
    about = json.loads(text.tobytes())
    if not isinstance(about, dict):
        raise StorageError(f"{source} is damaged: its description is not one")
    return about


def _unpacked(cls: type[_P], source: Path, variables: Mapping[str, Array], about: Mapping[str, Any]) -> _P:
    arrays = {name: _checked(source, name, variables, said) for name, said in about["variables"].items()}
    columns = _columns(source, arrays)
    if unknown := sorted(set(about["run"]) - set(RunInfo._fields)):
        raise StorageError(f"{source} is of a newer version of libars: this one does not know {', '.join(unknown)}")
    run = RunInfo.from_json(about["run"])
    budget_of(run)  # raises ValueError if it is not one
    observed: dict[str, npt.NDArray[np.float64]] = {}
    begin = 0
    for name, shape in about["observed"].items():
        size = int(np.prod(shape, dtype=np.int64))
        observed[name] = arrays["observed"][begin : begin + size].reshape(shape)
        begin += size
    sites = [
        Site(number, SiteKind[kind], DistKind[dist] if dist else None, address)
        for number, kind, dist, address in about["sites"]
    ]
    stats = about["stats"]
    if "rewinds" not in stats:  # of an earlier version, which counted snapshots among the forks
        stats = {name: value for name, value in stats.items() if name != "forks"}
    post = cls(columns, sites, run=run, stats=stats, observed=observed)
    examples = [Failure(*fields) for fields in about["examples"]]
    incidents = [Failure(*fields) for fields in about["incidents"]]
    post.failures = Failures.counted(about["failures"], examples, incidents)
    return post


def _checked(source: Path, name: str, variables: Mapping[str, Array], said: Mapping[str, Any]) -> Array:
    """A variable as it was written."""
    dtype, shape = np.dtype(said["dtype"]), tuple(said["shape"])
    if not np.prod(shape, dtype=np.int64):
        return np.empty(shape, dtype)
    if name not in variables:
        raise StorageError(f"{source} is damaged: the variable {name} is missing")
    array = variables[name].astype(dtype, copy=False)
    if array.shape != shape or _crc(array) != said["crc32"]:
        raise StorageError(f"{source} is damaged: the variable {name} does not have the right checksum")
    return array


def _columns(source: Path, arrays: Mapping[str, Array]) -> Columns:
    """The columns, from one array per field."""
    found: dict[str, Array] = {}
    for column, blank in empty()._asdict().items():
        if blank.dtype.names is None:
            found[column] = arrays[column]
            continue
        stored = {name for name in arrays if name.startswith(f"{column}.")} - {"results.log_p"}  # always 0
        known = {f"{column}.{name}" for name in blank.dtype.names}
        if stored not in (known, *(known - newer for newer in _NEWER)):
            raise StorageError(
                f"{source} is of another version of libars: its {column} have the fields {', '.join(sorted(stored))}"
            )
        found[column] = unknown(len(arrays[f"{column}.{blank.dtype.names[0]}"]), blank.dtype)
        for name in (field for field in blank.dtype.names if f"{column}.{field}" in stored):
            field, wanted = arrays[f"{column}.{name}"], blank.dtype[name]
            if wanted.kind == "S":
                field = np.ascontiguousarray(field).reshape(-1).view(wanted)
            if field.dtype != wanted:
                raise StorageError(f"{source} is of another version of libars: {column}.{name} is {field.dtype}")
            found[column][name] = field
    columns = Columns(**found)
    ends = {name: int(begin[-1]) for name, begin in offsets(columns)._asdict().items()}
    if any(len(getattr(columns, name)) != end for name, end in ends.items()):
        raise StorageError(f"{source} is damaged: its traces do not have as many items as they say")
    return columns
