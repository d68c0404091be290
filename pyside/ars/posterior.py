"""What a run gives back: traces, and traces with weights."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ars import diagnostics, weights
from ars._native import SiteKind
from ars.budget import Budget, ChosenBudget
from ars.columns import Columns, Floats, Integers, Key, Site, find_site, select, values_of
from ars.errors import NaiveVarianceWarning, WeightError
from ars.failures import Failure, Failures, failures_of
from ars.loops import Loops, summarise_loops
from ars.results import corrections, export, joined
from ars.results.estimates import Estimates
from ars.results.recorded import Recorded, complete_stats
from ars.results.run_info import RunInfo
from ars.store import saved

if TYPE_CHECKING:
    import arviz
    import pandas as pd
    import xarray

    from ars.results.data_check import DataCheck

__all__ = ["Posterior", "RunInfo", "Traces"]


class AcceptanceOptions(TypedDict, total=False):
    """What "collapsed" weights need: loop name -> p(A), q(A); a number, one per entry, or a function of the values."""

    pA: Mapping[str, weights.Acceptance]
    qA: Mapping[str, weights.Acceptance]


# ---- traces -----------------------------------------------------------------------------------------------------


class Traces:
    """Traces of a simulator, from ``sim.prior``.

    ``traces["x"]`` has the values of a result or a latent, a row per trace. A key is an address ("loop/x"), otherwise a
    result's name, otherwise a latent's. Failed traces are omitted. The shape depends on the site:

    =====================================  ==============================  =====================
    the site                               shape of ``traces["x"]``        column names
    =====================================  ==============================  =====================
    at most once in every trace            (traces,)                       x
    several times in some trace            (traces, instances)             x[0], x[1], ...
    a vector, at most once                 (traces, elements)              v[0], v[1], ...
    a vector, several times in some trace  (traces, instances, elements)   v[0][0], v[0][1], ...
    =====================================  ==============================  =====================

    NaN marks instances or elements that a trace does not have. ``traces["x", 2]`` or ``traces["x[2]"]`` is the third
    instance alone. Every column name of ``Posterior.to_dataframe`` is a key: ``"v[2]"`` is an element of a vector that
    no trace has twice.
    """

    _keeps_failed = False

    def __init__(
        self,
        columns: Columns,
        sites: Sequence[Site],
        *,
        run: RunInfo,
        stats: Mapping[str, float],
        observed: Mapping[str, npt.NDArray[np.float64]] | None = None,
        stderr: Mapping[int, str] | None = None,
        incidents: Sequence[Failure] = (),
    ) -> None:
        """``stderr``: what the simulator had last written when a trace failed, by trace, for the first failures."""
        self.sites = tuple(sites)
        self.run = run
        self._counters = complete_stats(stats, columns)
        self.observed = {name: np.asarray(given, dtype=np.float64) for name, given in (observed or {}).items()}
        self.failures = Failures(failures_of(columns.failures, self.sites, run.seed, stderr or {}), incidents=incidents)
        self.columns = columns if self._keeps_failed else self._without_failed(columns)

    @staticmethod
    def _without_failed(columns: Columns) -> Columns:
        return select(columns, columns.traces["failure"] == 0)

    def __len__(self) -> int:
        return len(self.columns.traces)

    def __getitem__(self, key: Key) -> Floats:
        return values_of(self.columns, self.sites, key)

    def __contains__(self, key: object) -> bool:
        try:
            site, _ = find_site(self.sites, key)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError):
            return False
        return site.kind != SiteKind.LOOP

    def __iter__(self) -> Iterator[str]:
        """The names of results and latents."""
        return iter(dict.fromkeys([*self.results, *self.latents]))

    @property
    def trace_numbers(self) -> npt.NDArray[np.uint64]:
        """The number of each trace in its run, which with the seed fixes its draws. Unsigned, 64 bits."""
        return self.columns.traces["trace"].astype(np.uint64)

    @property
    def latents(self) -> Mapping[str, Floats]:
        """The values of each latent, by name, or by address if several share a name."""
        return Recorded(self.columns, self.sites, SiteKind.SAMPLE)

    @property
    def results(self) -> Mapping[str, Floats]:
        """The values of each result, by name, or by address if several share a name."""
        return Recorded(self.columns, self.sites, SiteKind.RESULT)

    @property
    def observations(self) -> Mapping[str, Floats]:
        """What each trace observed: one number, or a row, per trace."""
        return Recorded(self.columns, self.sites, SiteKind.OBSERVE)

    @cached_property
    def stats(self) -> dict[str, float]:
        """Counters and rates of the run, by name."""
        return self._counters

    @cached_property
    def loops(self) -> Loops:
        """Per loop: entries, tries, p(A), q(A), Theorem 1's S_pq, its budget, and how the continuations ran."""
        return summarise_loops(
            self.columns,
            self.sites,
            proposed=self.run.proposed,
            exact=self.run.exact,
            until_accepted=corrections.until_accepted(self.run),
        )

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Join parts of one run. The result equals a single run over all their traces, bit for bit.

        Parameters
        ----------
        parts
            Runs of the same simulator with the same data, seed and settings and different trace numbers
            (``first_trace=``). Proposals that are functions are compared by their code. Simulators that
            connect through ``listen`` cannot be compared: use the same one.

        Returns
        -------
        Traces or Posterior
            All traces in the order of their numbers. Counters in ``stats`` are sums.

        Raises
        ------
        ValueError
            The parts differ, or have a trace in common; the message says how.
        """
        return joined.concat(cls, parts)

    def _heading(self) -> str:
        rate = self.stats.get("traces_per_second")
        speed = f", {rate:,.0f} per second" if rate else ""
        return f"{type(self).__name__} of {' '.join(self.run.simulator)}: {len(self):,} traces{speed}"

    def summary(self) -> str:
        """Format a short summary."""
        lines = [self._heading(), f"latents: {', '.join(self.latents)}"]
        for title, names in (("results", self.results), ("observations", self.observations)):
            if names:
                lines.append(f"{title}: {', '.join(names)}")
        if self.failures or self.failures.incidents:
            lines.append(str(self.failures))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from ars.display.html import traces_html

        return traces_html(self)


class Posterior(Estimates, Traces):
    """Weighted traces, from ``sim.posterior``.

    Methods take the name of a weighting: "ars", "ic", "biased"; "prior" after a run with in_loops="prior"; or
    "collapsed", with pA= and qA= (see ars.weights). The default is "prior" after such a run, otherwise "ars". A
    failed trace is omitted, or has weight 0 after a run with on_failure="zero".
    """

    def __init__(
        self,
        columns: Columns,
        sites: Sequence[Site],
        *,
        run: RunInfo,
        stats: Mapping[str, float],
        observed: Mapping[str, npt.NDArray[np.float64]],
        stderr: Mapping[int, str] | None = None,
        incidents: Sequence[Failure] = (),
    ) -> None:
        self._keeps_failed = run.on_failure == "zero"
        super().__init__(columns, sites, run=run, stats=stats, observed=observed, stderr=stderr, incidents=incidents)

    @property
    def observations(self) -> Mapping[str, Floats]:
        """The data, repeated for every trace.

        NaN was not observed. The simulator draws such numbers, and does not send them either: for them, record a
        result (ars_result)."""
        return {name: np.broadcast_to(given, (len(self), *given.shape)) for name, given in self.observed.items()}

    @cached_property
    def stats(self) -> dict[str, float]:
        """Counters and rates of the run, by name. Those of its corrections:

        - ``continuations``: continuations that were run, rewound or forked, for all estimates.
        - ``entries_estimated``, ``loops_estimated``: loop entries with estimates, and loops with such entries.
        - ``traces_replayed``: traces that were run again for their estimates.
        - ``zero_weights``: share of the traces that have weight 0, with the default weighting.
        - ``correction_variance``: share of the weights' second moment that is noise of the corrections. Without it
          there would be 1 / (1 - share) times as many effective traces.

        The last two are missing if the run has no default weights, ``correction_variance`` also if all are 0.
        """
        return self._counters | corrections.noise(self)

    @cached_property
    def budget(self) -> Budget | ChosenBudget | None:
        """The budget of the run, which can be given back as ``budget=``; None if nothing was estimated."""
        return corrections.budget_of(self.run)

    @property
    def method(self) -> str:
        """The default weighting of this run."""
        return "prior" if self.run.in_loops == "prior" else "ars"

    def log_weights(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> Floats:
        """The natural log of each trace's weight.

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        array
            One per trace; -inf is a weight of 0.

        Raises
        ------
        WeightError
            If the run does not have this weighting.

        Examples
        --------
        >>> weights = np.exp(post.log_weights("ars"))  # doctest: +SKIP
        """
        name = method or self.method
        if acceptance and name != "collapsed":
            raise TypeError(f'pA and qA are for "collapsed" weights, not for "{name}"')
        if name == "ars":
            run = self.run
            return weights.log_weight_ars(
                self.columns, self.sites, proposed=run.proposed, exact=run.exact, budget=self.budget
            )
        if name == "ic":
            self._warn_of_infinite_variance()
            return weights.log_weight_ic(self.columns)
        if name == "biased":
            return weights.log_weight_biased(self.columns)
        if name == "prior":
            return weights.log_weight_prior(self.columns, self.run.in_loops)
        if name == "collapsed":
            if "pA" not in acceptance or "qA" not in acceptance:
                raise TypeError('"collapsed" weights need pA= and qA=, each a mapping from a loop\'s name')
            return weights.log_weight_collapsed(self.columns, self.sites, acceptance["pA"], acceptance["qA"])
        listed = ", ".join(f'"{known}"' for known in weights.METHODS)
        raise ValueError(f'"{name}" is not a weighting; use one of {listed}')

    def _warn_of_infinite_variance(self) -> None:
        for loop in self.loops.values():
            if loop.naive_variance_infinite:
                warnings.warn(loop.warning(), NaiveVarianceWarning, stacklevel=3)

    def k_converge(
        self,
        method: str | None = None,
        *,
        epsilon: float = 0.01,
        seed: int = 0,
        max_draws: int | None = None,
        repeats: int = 100,
        **acceptance: Unpack[AcceptanceOptions],
    ) -> int | None:
        """Find how many traces convergence takes, by the paper's test (``ars.diagnostics.k_converge``).

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        epsilon : float
            Largest share of a single weight, between 0 and 1 (default: 0.01).
        seed : int
            Seed of the random orderings (default: 0).
        max_draws : int, optional
            Largest number of traces to try (default: all).
        repeats : int
            Number of random orderings (default: 100).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        int or None
            The number of traces; None if it exceeds ``max_draws``.
        """
        log_weights = self.log_weights(method, **acceptance)
        return diagnostics.k_converge(log_weights, epsilon, seed=seed, max_draws=max_draws, repeats=repeats)

    def mean(self, key: Key, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> float | Floats:
        """Estimate a posterior mean, over the traces that have the value.

        Parameters
        ----------
        key : key
            A result or latent.
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        float or array
            One per instance and element, see ``Traces``.

        Examples
        --------
        >>> post.mean("energy")  # doctest: +SKIP
        """
        return self._per_element(key, diagnostics.weighted_mean, self.log_weights(method, **acceptance))

    def quantile(
        self, key: Key, q: npt.ArrayLike, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """Estimate posterior quantiles, over the traces that have the value.

        Parameters
        ----------
        key : key
            A result or latent.
        q : float or array_like
            Levels, from 0 to 1.
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        float or array
            One per instance and element. Several levels add a last axis.

        Examples
        --------
        >>> low, high = post.quantile("energy", [0.05, 0.95])  # doctest: +SKIP
        """

        def at(values: Floats, log_weights: Floats) -> Floats:
            return diagnostics.weighted_quantile(values, q, log_weights)

        return self._per_element(key, at, self.log_weights(method, **acceptance))

    def _per_element(self, key: Key, function: Any, log_weights: Floats) -> float | Floats:
        """The function of each instance and element; NaN where no trace of positive weight has it."""
        values = self[key]
        columns = np.ascontiguousarray(values.reshape(len(values), math.prod(values.shape[1:])).T)
        if not len(columns):  # an array without elements
            return np.zeros(values.shape[1:])
        absent = np.isnan(columns[:, log_weights > -np.inf])
        counted = np.flatnonzero(~np.all(absent, axis=1)).tolist() or [0]  # [0]: the function says what is wrong
        found = {i: np.asarray(function(columns[i], log_weights)) for i in counted}
        missing = np.full_like(next(iter(found.values())), np.nan)
        stacked = np.stack([found.get(i, missing) for i in range(len(columns))])
        shaped = stacked.reshape(values.shape[1:] + stacked.shape[1:])
        return float(shaped) if shaped.ndim == 0 else shaped

    def resample(
        self, n: int | None = None, method: str | None = None, *, seed: int = 0, **acceptance: Unpack[AcceptanceOptions]
    ) -> Integers:
        """Draw rows in proportion to their weights: systematic resampling, in random order.

        Parameters
        ----------
        n : int, optional
            Number of rows to draw (default: the number of traces).
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        seed : int
            Seed of the resampling (default: 0).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        array of int
            Zero-based row numbers; the same row may appear several times.

        Examples
        --------
        >>> equally_weighted = post["energy"][post.resample(1_000)]  # doctest: +SKIP
        """
        return diagnostics.resample(self.log_weights(method, **acceptance), len(self) if n is None else n, seed)

    # -- for people and for ArviZ --

    def _repr_html_(self) -> str:
        from ars.display.html import posterior_html

        return posterior_html(self)

    def _available(self) -> dict[str, Floats]:
        """The log weights of every method that this run has, the one that is meant by default first."""
        found = {}
        for name in (self.method, "ic", "biased"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NaiveVarianceWarning)
                    found[name] = self.log_weights(name)
            except WeightError:
                continue
        return found

    def to_datatree(
        self,
        draws: int | None = None,
        seed: int = 0,
        *,
        predicted: Traces | None = None,
        prior: Traces | None = None,
    ) -> xarray.DataTree:
        """Convert the run to an xarray.DataTree, whose group ``posterior`` is ready for ArviZ.

        A name with several instances has a dimension for them, and a vector has one for its elements. Slashes in names
        become dots. The groups are:

        - ``posterior``: equally weighted draws (dimensions ``chain``, of length 1, and ``draw``), by systematic
          resampling with the default weights. A trace with a large weight appears several times. If every weight is 0
          the group is empty and its attribute ``empty`` says why.
        - ``sample_stats``: for each of these draws its ``row`` in ``weighted_posterior`` and its ``trace`` number.
        - ``weighted_posterior``: the original traces (dimension ``trace``), which are draws from the proposal, with
          ``log_weight`` (the default weighting) and ``log_weight_<method>`` for every available one.
        - ``observed_data``: the data.
        - ``posterior_predictive``: with ``predicted``, its simulated observations.
        - ``prior`` and ``prior_predictive``: with ``prior``, its latents and results, and its simulated observations.

        Parameters
        ----------
        draws
            Number of draws in ``posterior``. Default: the effective sample size, rounded down, at least 1 and at most
            the number of traces. More draws contain no more information, but ArviZ treats them as independent.
        seed
            Seed of the resampling. Default: 0.
        predicted
            Posterior predictive draws, from ``Simulator.predict``. Default: none.
        prior
            Traces of the prior, from ``Simulator.prior``. Default: none.

        Returns
        -------
        xarray.DataTree

        Raises
        ------
        ImportError
            xarray is missing.
        ValueError
            ``draws`` is below 1, or is given although every weight is 0.
        """
        return export.to_datatree(self, draws, seed, predicted, prior)

    def to_inferencedata(self, draws: int | None = None, seed: int = 0) -> arviz.InferenceData:
        """Convert the tree of ``to_datatree`` to an arviz.InferenceData, for ArviZ before 1.0.

        Parameters
        ----------
        draws
            Number of draws in ``posterior``. Default: as in ``to_datatree``.
        seed
            Seed of the resampling. Default: 0.

        Returns
        -------
        arviz.InferenceData

        Raises
        ------
        ImportError
            ArviZ is missing, or is too new to have InferenceData; it then reads ``to_datatree()``.
        """
        return export.to_inferencedata(self, draws, seed)

    def to_dataframe(self) -> pd.DataFrame:
        """Make a table with a row per trace. These are draws from the proposal; use them with a log weight.

        The columns are ``trace``, ``log_weight_<method>`` for every available weighting, and every instance of every
        result and latent. They are named as in ``Traces``; NaN marks instances that a trace does not have. If several
        sites share a name, the address replaces it. A latent that shares its address with a result is called
        ``<name>_latent``.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        ImportError
            pandas is missing.
        """
        return export.to_dataframe(self)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        prior: Traces | None = None,
        predicted: Traces | None = None,
        truth: Mapping[str, npt.ArrayLike] | None = None,
        check: DataCheck | None = None,
        title: str | None = None,
    ) -> None:
        """Write a report: one self-contained HTML file that begins with a verdict on whether to trust the numbers.

        Parameters
        ----------
        path
            The file; an existing one is replaced.
        prior
            Prior traces, from ``Simulator.prior``, to show next to the posterior. Default: none.
        predicted
            Posterior predictive draws, from ``Simulator.predict``, to compare with the data. Default: none.
        truth
            Known true values, from names of results or latents to numbers or arrays. Default: none.
        check
            Result of ``Simulator.check_data``. Default: the data were not compared with prior draws.
        title
            Title of the page. Default: "Posterior of" and the simulator's name.

        Raises
        ------
        ImportError
            jinja2 is missing: ``pip install libars[report]``.
        KeyError
            ``truth`` names something that the run does not have.
        StorageError
            The file cannot be written. A file that was there before is unchanged.

        Examples
        --------
        >>> post.report("report.html", prior=sim.prior(1000), predicted=sim.predict(post))  # doctest: +SKIP
        """
        from ars.report.posterior import Given, posterior_page
        from ars.report.render import write

        write(posterior_page(self, Given(prior, predicted, truth or {}, check), title=title), path)

    # -- files --

    def save(
        self, path: str | os.PathLike[str], *, predicted: Traces | None = None, prior: Traces | None = None
    ) -> None:
        """Write the run to a file, completely or not at all.

        Parameters
        ----------
        path
            The suffix decides the format. ``.nc``: the groups of ``to_datatree()`` for ArviZ, and all that ``load``
            needs. ``.csv`` and ``.npz``: the columns of ``to_dataframe``.
        predicted, prior
            Draws to add to a ``.nc`` file, as in ``to_datatree``; ``load`` ignores them. Default: none.

        Raises
        ------
        ValueError
            The suffix is none of these.
        ImportError
            A ``.nc`` file needs xarray, and netCDF4 or h5netcdf.
        StorageError
            The file could not be written. A file that was there before is unchanged.
        """
        saved.save(self, path, predicted, prior)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a run from a ``.nc`` file that ``save`` or ``ars infer --out`` wrote, bit for bit.

        Parameters
        ----------
        path
            The ``.nc`` file.

        Returns
        -------
        Posterior
            With the same weights, values, loops, failures, data and statistics.

        Raises
        ------
        StorageError
            The file is missing, damaged, of another version of libars, or not one of its files.
        ImportError
            xarray is missing, or netCDF4 and h5netcdf are.
        """
        return saved.load(cls, path)
