"""A posterior in the forms that other programs read: tables (pandas, .csv, .npz), xarray and ArviZ.

Weights are the trap. A program that reads a table of draws takes each row for one draw from the posterior, and the
traces of a run are draws from the proposal. So the group ``posterior`` of a tree holds draws that were resampled by the
weights; the traces themselves are in ``weighted_posterior``, along a dimension that such programs do not average over.
"""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ars import diagnostics
from ars._native import SiteKind
from ars.arguments import integer
from ars.columns import Array, Axes, Blocks, Columns, Floats, Integers, Site, squeezed

if TYPE_CHECKING:
    import arviz
    import pandas as pd
    import xarray

    from ars.posterior import Posterior, Traces

__all__ = [
    "draws_tree",
    "library_version",
    "netcdf_name",
    "table",
    "titles",
    "to_dataframe",
    "to_datatree",
    "to_inferencedata",
    "unique_names",
    "value_columns",
    "write_csv",
    "write_npz",
]

_ROWS = 4096  # of a .csv file that are made at a time


def library_version() -> str:
    """The version of libars; "unknown" in a source tree."""
    try:
        return version("libars")
    except PackageNotFoundError:
        return "unknown"


# ---- names -----------------------------------------------------------------------------------------------------------


def unique_names(
    sites: Sequence[Site], taken: Collection[str] = (), plain: Callable[[str], str] = str
) -> dict[str, Site]:
    """A different name for every result and latent: its own, or its address if the name is not unique.

    Results come first: a latent with the name of a result has its address, or, if that is the same, the name with
    "_latent" appended. ``taken`` are names that may not be given away; ``plain`` makes a name fit for its use.
    """
    named: dict[str, Site] = {}
    used = set(taken)
    for kind in (SiteKind.RESULT, SiteKind.SAMPLE):
        mine = [site for site in sites if site.kind == kind]
        count = Counter(site.name for site in mine)
        for site in mine:
            shared = count[site.name] > 1 or plain(site.name) in used
            name = plain(site.address if shared else site.name)
            while name in used:
                name += "_latent" if kind == SiteKind.SAMPLE else "_"
            named[name] = site
            used.add(name)
    return named


def titles(name: str, count: int, width: int, axes: Axes = None) -> list[str]:
    """The names of the columns of a site with so many instances of so many elements, instance by instance.

    "x"; "x[3]" for the instances of a number, "v[2]" for the elements of a vector that no trace has twice, and
    "v[3][2]" for instance and element. All count from 0. The elements of a result with a shape have an index per axis,
    "h[2,0]", or "h[3][2,0]" with the instance.
    """
    if axes is not None:
        indices = ["[" + ",".join(map(str, index)) + "]" for index in np.ndindex(*axes)]
        return [f"{name}[{i}]{index}" if count > 1 else f"{name}{index}" for i in range(count) for index in indices]
    if count > 1 and width > 1:
        return [f"{name}[{i}][{j}]" for i in range(count) for j in range(width)]
    return [f"{name}[{i}]" for i in range(count * width)] if count * width > 1 else [name]


# ---- tables ----------------------------------------------------------------------------------------------------------


def table(post: Posterior) -> dict[str, Array]:
    """The columns of a table with a row per trace: trace number, log weights, every instance of every site."""
    found: dict[str, Array] = {"trace": post.columns.traces["trace"].copy()}
    found.update({f"log_weight_{name}": weights for name, weights in post._available().items()})
    return found | value_columns(post.columns, post.sites, found)


def value_columns(columns: Columns, sites: Sequence[Site], taken: Collection[str]) -> dict[str, Floats]:
    """A column for every instance and element of every result and latent. ``taken`` are titles that are given away."""
    found: dict[str, Floats] = {}
    blocks = Blocks(columns, many=True)
    for name, site in unique_names(sites, taken).items():
        block, axes = blocks.shaped(site)
        _, count, width = block.shape
        flat = np.ascontiguousarray(block.reshape(len(block), count * width).T)
        for title, column in zip(titles(name, count, width, axes), flat, strict=True):
            while title in found or title in taken:  # a site can be called like another one's instance
                title += "_"
            found[title] = column
    return found


def to_dataframe(post: Posterior) -> pd.DataFrame:
    """``Posterior.to_dataframe``."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_dataframe needs pandas: pip install pandas, or libars[arviz]") from error
    return pd.DataFrame(table(post))


def write_csv(post: Posterior, path: Path) -> None:
    """One line per trace; numbers have all their digits."""
    columns = table(post)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for first in range(0, len(post), _ROWS):
            part = [column[first : first + _ROWS].tolist() for column in columns.values()]
            writer.writerows(zip(*part, strict=True))


def write_npz(post: Posterior, path: Path) -> None:
    """One array per column. Not by np.savez, whose own arguments cannot be names of arrays."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for title, column in table(post).items():
            with archive.open(f"{title}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, column, allow_pickle=False)


# ---- xarray and ArviZ ------------------------------------------------------------------------------------------------

_NOT_IN_NETCDF = re.compile(r"[/\x00-\x1f\x7f]")
_LONGEST = 200  # characters of a name; netCDF takes 256 bytes, and dimensions add a few
_DIMENSIONS = ("chain", "draw", "trace", "log_weight")  # names that a tree uses itself


def netcdf_name(name: str) -> str:
    """A name that netCDF and xarray take: slashes become dots, and of a very long address the end remains."""
    plain = _NOT_IN_NETCDF.sub(".", name).encode("utf-8", "replace").decode()[-_LONGEST:].strip()
    return plain if plain.strip(".") else f"site{plain}"


class _Variable(NamedTuple):
    name: str
    site: Site
    dims: tuple[str, ...]  # that follow the traces
    values: Floats  # a row per trace


def _variables(post: Traces, taken: Collection[str]) -> Iterator[_Variable]:
    names = unique_names(post.sites, taken, netcdf_name)
    used = {*names, *taken}
    blocks = Blocks(post.columns, many=True)
    for name, site in names.items():
        block, axes = blocks.shaped(site)
        _, count, width = block.shape
        dims = []
        sizes = [(f"{name}_instance", count > 1)]
        sizes += [(f"{name}_dim_{i}", True) for i in range(len(axes))] if axes is not None else []
        sizes += [(f"{name}_dim_0", width > 1)] if axes is None else []
        for dim, there in sizes:
            if there:
                while dim in used:
                    dim += "_"
                dims.append(dim)
                used.add(dim)
        yield _Variable(name, site, tuple(dims), squeezed(block, axes))


def _drawn(post: Posterior, log_weights: Floats, draws: int | None, seed: int) -> tuple[Integers, str]:
    """The rows that were drawn by their weights; or none, and why."""
    if draws is not None:
        draws = integer("draws", draws, 1, 2**40)
    reason = ""
    if not len(post):
        reason = "the run has no traces"
    elif not np.any(log_weights > -np.inf):
        reason = "every weight is 0: no trace explains the data, or no trace that does has a correction above 0"
    if reason:
        if draws is not None:
            raise ValueError(f"{draws} draws from the posterior are impossible: {reason}")
        return np.empty(0, np.int64), reason
    if draws is None:
        draws = min(max(math.floor(diagnostics.ess(log_weights)), 1), len(post))
    return diagnostics.resample(log_weights, draws, seed), ""


def _observed(post: Traces) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, given in post.observed.items():
        plain = netcdf_name(name)
        while plain in data:
            plain += "_"
        data[plain] = (tuple(f"{plain}_dim_{i}" for i in range(given.ndim)), given, {"address": name})
    return data


def to_datatree(
    post: Posterior, draws: int | None, seed: int, predicted: Traces | None = None, prior: Traces | None = None
) -> xarray.DataTree:
    """``Posterior.to_datatree``."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_datatree needs xarray: pip install libars[arviz]") from error

    available = post._available()
    # "ars" weights need a budget; a run without one still has its traces, and no posterior to draw from
    default = available.get(post.method)
    if default is None:
        if draws is not None:
            post.log_weights()  # raises, and says why
        rows, reason = np.empty(0, np.int64), f'the run has no "{post.method}" weights'
    else:
        rows, reason = _drawn(post, default, draws, seed)
    weighted: dict[str, Any] = {f"log_weight_{name}": (("trace",), found) for name, found in available.items()}
    if default is not None:
        weighted["log_weight"] = (("trace",), default)
    taken = {*weighted, *_DIMENSIONS}
    drawn: dict[str, Any] = {}
    for variable in _variables(post, taken):
        address = {"address": variable.site.address}
        weighted[variable.name] = (("trace", *variable.dims), variable.values, address)
        drawn[variable.name] = (("chain", "draw", *variable.dims), variable.values[rows][None], address)
    numbers = post.columns.traces["trace"].copy()
    coordinates = {"chain": [0], "draw": np.arange(len(rows))}
    origin = {"row": (("chain", "draw"), rows[None]), "trace": (("chain", "draw"), numbers[rows][None])}
    about = {"log_weight_method": post.method}
    how: dict[str, Any] = {"sampling": f"systematic resampling by log_weight_{post.method}", "resampling_seed": seed}
    if default is not None and len(post):
        how["effective_sample_size"] = diagnostics.ess(default)
    if reason:
        how["empty"] = reason
    more = {} if predicted is None else {"posterior_predictive": _simulated(predicted, post.observed)}
    if prior is not None:
        more |= {"prior": _unweighted(prior), "prior_predictive": _simulated(prior, post.observed)}
    tree = xarray.DataTree.from_dict(
        {
            # coordinates first: h5netcdf takes a time that is quadratic in the variables to write them last
            "posterior": xarray.Dataset(coords=coordinates, attrs=how).assign(drawn),
            "sample_stats": xarray.Dataset(origin, coordinates),
            "weighted_posterior": xarray.Dataset(coords={"trace": numbers}, attrs=about).assign(weighted),
            "observed_data": xarray.Dataset(_observed(post)),
            **more,
        }
    )
    tree.attrs.update(_attributes(post))
    return tree


def _simulated(drawn: Traces, data: Mapping[str, Array]) -> xarray.Dataset:
    """The observations that traces simulated, in the shapes of the data where they have as many numbers."""
    import xarray

    coordinates = {"chain": [0], "draw": np.arange(len(drawn))}
    found: dict[str, Any] = {}
    for name in drawn.observations:
        plain, values = netcdf_name(name), drawn.observations[name]
        while plain in found:
            plain += "_"
        shape = data[name].shape if name in data else values.shape[1:]
        if math.prod(shape) == math.prod(values.shape[1:]):
            values = values.reshape(len(values), *shape)
        dims = tuple(f"{plain}_dim_{i}" for i in range(values.ndim - 1))
        found[plain] = (("chain", "draw", *dims), values[None], {"address": name})
    return xarray.Dataset(coords=coordinates, attrs={"seed": drawn.run.seed}).assign(found)


def _unweighted(drawn: Traces) -> xarray.Dataset:
    """The latents and results of equally weighted traces."""
    import xarray

    coordinates = {"chain": [0], "draw": np.arange(len(drawn))}
    found = {
        each.name: (("chain", "draw", *each.dims), each.values[None], {"address": each.site.address})
        for each in _variables(drawn, _DIMENSIONS)
    }
    return xarray.Dataset(coords=coordinates, attrs={"seed": drawn.run.seed}).assign(found)


def draws_tree(drawn: Traces, group: str, about: Mapping[str, str]) -> xarray.DataTree:
    """A tree whose group of this name holds draws that are not a posterior, with the data beside it."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_datatree needs xarray: pip install libars[arviz]") from error

    variables = {
        each.name: (("chain", "draw", *each.dims), each.values[None], {"address": each.site.address, **about})
        for each in _variables(drawn, _DIMENSIONS)
    }
    coordinates = {"chain": [0], "draw": np.arange(len(drawn))}
    found = xarray.Dataset(coords=coordinates, attrs=dict(about)).assign(variables)
    tree = xarray.DataTree.from_dict({group: found, "observed_data": xarray.Dataset(_observed(drawn))})
    tree.attrs.update({**_attributes(drawn), **about})
    return tree


def _attributes(post: Traces) -> Mapping[str, Any]:
    ours = library_version()
    return {
        "seed": post.run.seed,
        "M": math.nan if post.run.runs_p is None else post.run.runs_p,
        "N": math.nan if post.run.tries_q is None else post.run.tries_q,
        "budget": post.run.budget,
        "in_loops": post.run.in_loops,
        "on_failure": post.run.on_failure,
        "simulator": " ".join(post.run.simulator).encode("utf-8", "replace").decode(),
        "inference_library": "libars",
        "inference_library_version": ours,
        "version": ours,
    }


def to_inferencedata(post: Posterior, draws: int | None, seed: int) -> arviz.InferenceData:
    """``Posterior.to_inferencedata``."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_inferencedata needs ArviZ before 1.0: pip install 'arviz<1'") from error
    if not hasattr(arviz, "InferenceData"):
        raise ImportError(
            f"ArviZ {arviz.__version__} has no InferenceData: give it to_datatree(), or pip install 'arviz<1'"
        )
    tree = to_datatree(post, draws, seed)
    groups: dict[str, Any] = {str(name): group.to_dataset() for name, group in tree.children.items()}
    return arviz.InferenceData(attrs=dict(tree.attrs), **groups)
