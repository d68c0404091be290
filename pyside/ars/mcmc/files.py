"""Chains as xarray trees, and as netCDF files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ars.errors import StorageError
from ars.failures import Failures
from ars.mcmc.chains import Acceptance, Chains
from ars.results.export import library_version, netcdf_name
from ars.store.saved import check_netcdf, whole_file

if TYPE_CHECKING:
    import xarray

__all__ = ["load", "save", "to_datatree"]

_FORMAT: Final = "ars chains 1"


def _unique(used: set[str], name: str) -> str:
    plain = netcdf_name(name)
    while plain in used:
        plain += "_"
    used.add(plain)
    return plain


def to_datatree(chains: Chains) -> xarray.DataTree:
    """``Chains.to_datatree``."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_datatree needs xarray: pip install libars[arviz]") from error
    n, draws = chains.shape
    coordinates = {"chain": np.arange(n), "draw": np.arange(draws)}
    used = {*coordinates}
    drawn: dict[str, Any] = {}
    for name, values in chains.items():
        plain = _unique(used, name)
        dims = tuple(_unique(used, f"{plain}_dim_{i}") for i in range(values.ndim - 2))
        drawn[plain] = (("chain", "draw", *dims), values, {"name": name, "address": chains.address(name)})
    used = set()
    observed: dict[str, Any] = {}
    for name, data in chains.observed.items():
        plain = _unique(used, name)
        observed[plain] = (tuple(f"{plain}_dim_{i}" for i in range(data.ndim)), data, {"address": name})
    tree = xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(coords=coordinates).assign(drawn),
            "sample_stats": xarray.Dataset({"trace": (("chain", "draw"), chains.trace_numbers)}, coordinates),
            "observed_data": xarray.Dataset(observed),
        }
    )
    acceptance = [[kind, latent, *counted] for (kind, latent), counted in chains.acceptance_by_latent.items()]
    tree.attrs.update(
        {
            "format": _FORMAT,
            "sampling": "Markov chains (Metropolis-Hastings, pseudo-marginal over rejection loops)",
            "about": json.dumps(chains.about),
            "acceptance": json.dumps(acceptance),
            "failures": json.dumps(dict(chains.failures)),
            "inference_library": "libars",
            "inference_library_version": library_version(),
        }
    )
    return tree


def _check_suffix(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix != ".nc":
        raise ValueError(f"{target} must end in .nc")
    check_netcdf()
    return target


def save(chains: Chains, path: str | os.PathLike[str]) -> None:
    """``Chains.save``."""
    target = _check_suffix(path)
    tree = to_datatree(chains)
    with whole_file(target) as temporary:
        tree.to_netcdf(temporary)


def load(path: str | os.PathLike[str], make: Callable[..., Chains] = Chains) -> Chains:
    """``Chains.load``."""
    import xarray

    source = _check_suffix(path)
    if not source.exists():
        raise StorageError(f"{source} does not exist")
    try:
        with xarray.open_datatree(source) as tree:
            tree.load()
            if tree.attrs.get("format") != _FORMAT:
                raise StorageError(
                    f"{source} was not written by chains.save or ars mcmc --out of this version of libars"
                )
            posterior, observed = tree["posterior"].to_dataset(), tree["observed_data"].to_dataset()
            variables = [posterior[name] for name in posterior.data_vars]
            return make(
                {v.attrs["name"]: np.asarray(v.values) for v in variables},
                {v.attrs["name"]: v.attrs["address"] for v in variables},
                observed={observed[name].attrs["address"]: np.asarray(observed[name].values) for name in observed},
                acceptance={
                    (kind, latent): Acceptance(*counted)
                    for kind, latent, *counted in json.loads(tree.attrs["acceptance"])
                },
                failures=Failures.counted(json.loads(tree.attrs["failures"]), (), ()),
                about=json.loads(tree.attrs["about"]),
                trace_numbers=np.asarray(tree["sample_stats"]["trace"].values),
            )
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise StorageError(f"{source} is damaged, or was not written by chains.save: {error}") from error
