"""What chains give back: draws from the posterior, and whether they can be trusted."""

from __future__ import annotations

import math
import os
from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from ars.columns import Blocks, Columns, Floats, Integers, Key, Site, empty, squeezed
from ars.failures import Failures
from ars.mcmc import convergence
from ars.mcmc.summary import assess, text
from ars.results.export import unique_names

if TYPE_CHECKING:
    import xarray

__all__ = ["Acceptance", "Chains"]


class Acceptance(NamedTuple):
    """How many moves of a kind were made and accepted."""

    made: int
    accepted: int

    @property
    def share(self) -> float:
        """Accepted over made; NaN if none was made."""
        return self.accepted / self.made if self.made else math.nan


class Chains:
    """Draws of Markov chains, from ``Simulator.mcmc``.

    ``chains["x"]`` has the values of a result or a latent: an array of chains x draws, with more axes for vectors and
    for latents that a trace draws several times. Keys are names, or addresses if several sites share a name; "x[2]"
    or ("x", 2) is one element. NaN marks traces without the value. All draws have equal weight.

    Attributes
    ----------
    acceptance : dict
        From kinds of moves to ``Acceptance(made, accepted)``, after the warm-up.
    acceptance_by_latent : dict
        The same, from pairs (kind of move, address of the latent or loop that it chose).
    observed : dict
        The data.
    failures : Failures
        Traces that failed: proposals of moves that were then refused.
    about : dict
        "seed", "warmup" (steps discarded), "thin" (moves per step), "M" (runs under the prior per loop entry), "traces"
        (run in all), "simulator".
    trace_numbers : array
        The number of each chain's current trace, chains x draws. It is constant while a chain does not move.
    """

    def __init__(
        self,
        values: Mapping[str, Floats],
        addresses: Mapping[str, str],
        *,
        observed: Mapping[str, npt.NDArray[np.float64]],
        acceptance: Mapping[tuple[str, str], Acceptance],
        failures: Failures,
        about: Mapping[str, Any],
        trace_numbers: npt.NDArray[np.uint64],
        columns: Columns | None = None,
    ) -> None:
        self._values = dict(values)
        self._addresses = dict(addresses)  # by name
        self.observed = {name: np.asarray(given, dtype=np.float64) for name, given in observed.items()}
        self.acceptance_by_latent = dict(acceptance)
        self.failures = failures
        self.about = dict(about)
        self.trace_numbers = trace_numbers
        self.columns = empty() if columns is None else columns  # every trace that a chain was at, once

    @classmethod
    def of(cls, columns: Columns, rows: Integers, sites: Sequence[Site], **more: Any) -> Self:
        """Build the chains from traces.

        Parameters
        ----------
        columns
            The traces that the chains visited.
        rows
            Row of the trace of each draw: chains x draws.
        sites
            The sites of the run.
        **more
            Further arguments of ``Chains``.

        Returns
        -------
        Chains
            The draws.
        """
        blocks = Blocks(columns, many=True)
        names = unique_names(sites)
        values = {name: squeezed(*blocks.shaped(site))[rows] for name, site in names.items()}
        addresses = {name: site.address for name, site in names.items()}
        numbers = columns.traces["trace"][rows]
        return cls(values, addresses, trace_numbers=numbers, columns=columns, **more)

    # ---- values ------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """The number of chains, and of draws per chain."""
        chains, draws = self.trace_numbers.shape
        return chains, draws

    def __iter__(self) -> Iterator[str]:
        """The names of results and latents."""
        return iter(self._values)

    def __len__(self) -> int:
        """All draws of all chains."""
        return math.prod(self.shape)

    def __contains__(self, key: object) -> bool:
        try:
            self[key]  # type: ignore[index]
        except (KeyError, TypeError):
            return False
        return True

    def __getitem__(self, key: Key) -> Floats:
        if not isinstance(key[0] if isinstance(key, tuple) and key else key, str):
            raise TypeError(f"a key is a name, such as 'x', or a name and indices, such as ('x', 2), not {key!r}")
        name, index = (key, ()) if isinstance(key, str) else (key[0], tuple(key[1:]))
        found = self._named(name)
        while found is None and name.endswith("]") and "[" in name:
            name, _, number = name[:-1].rpartition("[")
            if not number.isdigit():
                break
            index, found = (int(number), *index), self._named(name)
        if found is None:
            raise KeyError(self._unknown(key))
        for i in index:
            if found.ndim < 3 and i == 0:
                continue
            if found.ndim < 3 or not 0 <= i < found.shape[2]:
                raise KeyError(f"{key!r}: there is no element {i}; the shape is {found.shape}")
            found = found[:, :, i]
        return found

    def _named(self, name: str) -> Floats | None:
        if name in self._values:
            return self._values[name]
        owner = next((each for each, address in self._addresses.items() if address == name), None)
        return None if owner is None else self._values[owner]

    def items(self) -> ItemsView[str, Floats]:
        """Names and values."""
        return self._values.items()

    def address(self, name: str) -> str:
        """Look up an address.

        Parameters
        ----------
        name : str
            Name of a result or latent.

        Returns
        -------
        str
            Its address.
        """
        if name not in self._addresses:
            raise KeyError(self._unknown(name))
        return self._addresses[name]

    def _unknown(self, key: Key) -> str:
        return f"{key!r} was not recorded; the names are: {', '.join(sorted(self._values)) or 'none'}"

    def elements(self) -> Iterator[tuple[str, Floats]]:
        """Every number that a draw has, one by one, as chains x draws: "x", or "x[0]", "x[1]", ..."""
        for name, values in self._values.items():
            if values.ndim == 2:
                yield name, values
                continue
            for index in np.ndindex(values.shape[2:]):
                yield name + "".join(f"[{i}]" for i in index), values[(slice(None), slice(None), *index)]

    # ---- estimates ---------------------------------------------------------------------------------------------------

    def _each(self, key: Key, function: Any) -> Any:
        values = self[key]
        if values.ndim == 2:
            return function(values)
        flat = values.reshape(*values.shape[:2], -1)
        found = [function(flat[:, :, i]) for i in range(flat.shape[2])]
        return np.array(found).reshape(values.shape[2:])

    def mean(self, key: Key) -> float | Floats:
        """Estimate the posterior mean, over the draws that have the value.

        Parameters
        ----------
        key : str or tuple
            A name, address or element.

        Returns
        -------
        float or array
            One number per element.
        """
        return self._each(key, _mean)  # type: ignore[no-any-return]

    def std(self, key: Key) -> float | Floats:
        """Estimate the posterior standard deviation, over the draws that have the value.

        Parameters
        ----------
        key : str or tuple
            A name, address or element.

        Returns
        -------
        float or array
            One number per element.
        """
        return self._each(key, _std)  # type: ignore[no-any-return]

    def quantile(self, key: Key, q: float) -> float | Floats:
        """Estimate a posterior quantile, over the draws that have the value.

        Parameters
        ----------
        key : str or tuple
            A name, address or element.
        q : float
            Level, from 0 to 1.

        Returns
        -------
        float or array
            One number per element.

        Raises
        ------
        TypeError, ValueError
            If ``q`` is not a number from 0 to 1.
        """
        if isinstance(q, bool) or not isinstance(q, (int, float, np.integer, np.floating)):
            raise TypeError(f"q must be a number from 0 to 1, not {q!r}")
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"q must be from 0 to 1, not {q!r}")
        return self._each(key, lambda x: float(np.nanquantile(x, q)) if (x == x).any() else math.nan)  # type: ignore[no-any-return]

    def mcse(self, key: Key) -> float | Floats:
        """Estimate the Monte Carlo standard error of ``mean``.

        Parameters
        ----------
        key : str or tuple
            A name, address or element.

        Returns
        -------
        float or array
            One number per element; NaN where a draw has no value.
        """
        return self._each(key, convergence.mcse_mean)  # type: ignore[no-any-return]

    def rhat(self, key: Key) -> float | Floats:
        """Compute rank-normalised split R-hat: above 1.01 the chains have not mixed.

        Parameters
        ----------
        key : str or tuple
            A name, address or element.

        Returns
        -------
        float or array
            One number per element; NaN where a draw has no value.
        """
        return self._each(key, convergence.rhat)  # type: ignore[no-any-return]

    def ess(self, key: Key, kind: str = "bulk") -> float | Floats:
        """The effective number of draws of all chains together.

        Parameters
        ----------
        key : str or tuple
            A name, address or element.
        kind : {"bulk", "tail", "mean"}
            For the middle of the distribution, its 5% and 95% quantiles, or its mean (default: "bulk").

        Returns
        -------
        float or array
            One number per element; NaN where a draw has no value.
        """
        kinds = {"bulk": convergence.ess_bulk, "tail": convergence.ess_tail, "mean": convergence.ess_mean}
        if kind not in kinds:
            raise ValueError(f"kind must be {' or '.join(map(repr, kinds))}, not {kind!r}")
        return self._each(key, kinds[kind])  # type: ignore[no-any-return]

    @property
    def acceptance(self) -> dict[str, Acceptance]:
        """By kind of move, after the warm-up."""
        found: dict[str, Acceptance] = {}
        for (kind, _), (made, accepted) in self.acceptance_by_latent.items():
            before = found.get(kind, Acceptance(0, 0))
            found[kind] = Acceptance(before.made + made, before.accepted + accepted)
        return found

    # ---- words and files ---------------------------------------------------------------------------------------------

    @property
    def trusted(self) -> bool:
        """Whether every R-hat is at most 1.01 and every ESS at least 400; ``summary`` says what to do if not."""
        return assess(self).verdict.trusted

    def summary(self) -> str:
        """A verdict, a table of all values (s.e.: Monte Carlo standard error of the mean), and the moves."""
        return text(self)

    def __repr__(self) -> str:
        return f"<Chains: {self.shape[0]} x {self.shape[1]:,} draws of {', '.join(self._values) or 'nothing'}>"

    def to_datatree(self) -> xarray.DataTree:
        """For ArviZ: groups ``posterior`` (dimensions chain and draw), ``sample_stats`` and ``observed_data``.

        Returns
        -------
        xarray.DataTree
            Needs ``pip install libars[arviz]``.
        """
        from ars.mcmc.files import to_datatree

        return to_datatree(self)

    def report(self, path: str | os.PathLike[str], *, truth: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Write a report: one self-contained HTML file that begins with a verdict on whether the chains have mixed.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced.
        truth : mapping, optional
            Known true values, from names to numbers or arrays (default: none).

        Raises
        ------
        ImportError
            jinja2 is missing: ``pip install libars[report]``.
        KeyError
            If the chains have no value that ``truth`` names.
        StorageError
            If it cannot be written.
        """
        from ars.report.chains import chains_page
        from ars.report.render import write

        write(chains_page(self, truth), path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tree of ``to_datatree`` to a netCDF file, completely or not at all.

        Parameters
        ----------
        path : path
            The file, which must end in .nc.

        Raises
        ------
        StorageError
            If it cannot be written.
        """
        from ars.mcmc.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Chains from a file that ``save`` or ``ars mcmc --out`` wrote.

        Parameters
        ----------
        path : path
            The file, which must end in .nc.

        Returns
        -------
        Chains
            Without ``columns``.

        Raises
        ------
        StorageError
            If the file is missing, damaged, or of another kind.
        """
        from ars.mcmc.files import load

        return cast(Self, load(path, cls))


def _mean(x: Floats) -> float:
    there = x[~np.isnan(x)]
    return float(there.mean()) if len(there) else math.nan


def _std(x: Floats) -> float:
    there = x[~np.isnan(x)]
    return float(there.std(ddof=1)) if len(there) > 1 else math.nan
