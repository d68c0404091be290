"""What a run gives back: traces, and traces with weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ars import diagnostics, weights
from ars._native import SiteKind
from ars.columns import Columns, Floats, Integers, Key, Site, find_site, instances_of, select, values_of
from ars.diagnostics import Evidence, ParetoK
from ars.failures import Failure, Failures, failures_of
from ars.loops import Loops, NaiveVarianceWarning, summarise_loops

if TYPE_CHECKING:
    import xarray

__all__ = ["Posterior", "RunInfo", "Traces"]


class RunInfo(NamedTuple):
    """How a run was asked for."""

    seed: int
    runs_p: int | None  # M; None: nothing was estimated
    tries_q: int | None  # N
    in_loops: str  # who proposes inside loops: "proposal" or "prior"
    on_failure: str  # "raise", "zero" or "skip"
    simulator: tuple[str, ...]  # the executable and its arguments
    proposed: bool = True  # False: the prior proposed every latent, so that the correction of every loop is 1


class AcceptanceOptions(TypedDict, total=False):
    """What "collapsed" weights need: loop name -> p(A), q(A); a number, one per entry, or a function of the values."""

    pA: Mapping[str, weights.Acceptance]
    qA: Mapping[str, weights.Acceptance]


# ---- names ------------------------------------------------------------------------------------------------------


class _Recorded(Mapping[str, Floats]):
    """The values of all sites of one kind, by name, or by address where several share a name."""

    def __init__(self, columns: Columns, sites: Sequence[Site], kind: SiteKind) -> None:
        self._columns = columns
        self._sites = [site for site in sites if site.kind == kind]

    def __getitem__(self, key: Key) -> Floats:
        return values_of(self._columns, self._sites, key)

    def __iter__(self) -> Iterator[str]:
        names = [site.name for site in self._sites]
        return iter(site.name if names.count(site.name) == 1 else site.address for site in self._sites)

    def __len__(self) -> int:
        return len(self._sites)

    def __repr__(self) -> str:
        return f"{{{', '.join(self)}}}"


def _variable_names(sites: Sequence[Site]) -> dict[str, Site]:
    """A different name without slashes for every latent and result; results get the short one first."""
    named: dict[str, Site] = {}
    for kind in (SiteKind.RESULT, SiteKind.SAMPLE):
        mine = [site for site in sites if site.kind == kind]
        for site in mine:
            shared = sum(other.name == site.name for other in mine) > 1 or site.name in named
            name = site.address.replace("/", ".") if shared else site.name
            while name in named:
                name += "_latent" if kind == SiteKind.SAMPLE else "_"
            named[name] = site
    return named


def _complete_stats(stats: Mapping[str, float], columns: Columns) -> dict[str, float]:
    """The run's counters, what the traces say of themselves, and what follows. Traces of hosts that were lost, or that
    an earlier run had kept, tell as much as others."""
    full = dict(stats)
    full.setdefault("traces", len(columns.traces))
    full.setdefault("snapshots", int(columns.traces["snapshots"].sum()))
    for name, column in (("continuations", "forks"), ("tries_q", "tries_q"), ("tries_p", "tries_p")):
        full.setdefault(name, int(columns.loops[column].sum()))
    full.setdefault("forks", full["snapshots"] + full["continuations"])
    if full.get("zmq_messages_received"):
        full.setdefault("requests_per_message", full.get("requests", 0) / full["zmq_messages_received"])
    if full.get("seconds"):
        full.setdefault("traces_per_second", full["traces"] / full["seconds"])
    return full


# ---- traces -----------------------------------------------------------------------------------------------------


class Traces:
    """Traces of a simulator, from ``sim.prior``.

    ``traces["x"]`` is a result's or a latent's values, one per trace. A key is an address ("loop/x"), else a result's
    name, else a latent's; ``traces["x", 2]`` or ``traces["x[2]"]`` is the third instance that a trace draws. NaN where
    a trace has none. A result that is a vector gives a row per trace. Failed traces are left out.
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
        self.stats = _complete_stats(stats, columns)
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
    def trace_numbers(self) -> Integers:
        """The number of each trace in its run, which with the seed fixes its draws."""
        return self.columns.traces["trace"].astype(np.int64)

    @property
    def latents(self) -> Mapping[str, Floats]:
        return _Recorded(self.columns, self.sites, SiteKind.SAMPLE)

    @property
    def results(self) -> Mapping[str, Floats]:
        return _Recorded(self.columns, self.sites, SiteKind.RESULT)

    @property
    def observations(self) -> Mapping[str, Floats]:
        """What each trace observed: one number, or a row, per trace."""
        return _Recorded(self.columns, self.sites, SiteKind.OBSERVE)

    @cached_property
    def loops(self) -> Loops:
        """Per loop: entries, tries, p(A), q(A) and Theorem 1's S_pq."""
        return summarise_loops(self.columns, self.sites, proposed=self.run.proposed)

    def _heading(self) -> str:
        rate = self.stats.get("traces_per_second")
        speed = f", {rate:,.0f} per second" if rate else ""
        return f"{type(self).__name__} of {' '.join(self.run.simulator)}: {len(self):,} traces{speed}"

    def summary(self) -> str:
        """A few lines for a person."""
        lines = [self._heading(), f"latents: {', '.join(self.latents)}"]
        for title, names in (("results", self.results), ("observations", self.observations)):
            if names:
                lines.append(f"{title}: {', '.join(names)}")
        if self.failures or self.failures.incidents:
            lines.append(str(self.failures))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()


class Posterior(Traces):
    """Weighted traces, from ``sim.posterior``.

    Methods take the name of a weighting: "ars", "ic", "biased"; "prior" after a run with in_loops="prior"; or
    "collapsed", with pA= and qA= (see ars.weights). Without a name it is "prior" after such a run, else "ars". A
    failed trace is left out, or, after a run with on_failure="zero", has weight 0.
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
        """The data, once per trace: every trace observes what was given, so the simulator does not send it back."""
        return {name: np.broadcast_to(given, (len(self), *given.shape)) for name, given in self.observed.items()}

    @property
    def method(self) -> str:
        """The weighting that is meant where none is named."""
        return "prior" if self.run.in_loops == "prior" else "ars"

    def log_weights(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> Floats:
        """One log weight per trace."""
        name = method or self.method
        if acceptance and name != "collapsed":
            raise TypeError(f'pA and qA are for "collapsed" weights, not for "{name}"')
        if name == "ars":
            return weights.log_weight_ars(self.columns, self.sites, proposed=self.run.proposed)
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

    def log_evidence(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> Evidence:
        """The log of the evidence p(y), with standard error."""
        return diagnostics.log_evidence(self.log_weights(method, **acceptance))

    def ess(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> float:
        """The effective number of traces."""
        return diagnostics.ess(self.log_weights(method, **acceptance))

    def pareto_k(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> ParetoK:
        """The shape of the weights' tail: below 0.7 the estimates can be trusted."""
        return diagnostics.pareto_k(self.log_weights(method, **acceptance))

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
        """How many traces convergence takes, by the paper's test; None if more than there are, or than max_draws."""
        log_weights = self.log_weights(method, **acceptance)
        return diagnostics.k_converge(log_weights, epsilon, seed=seed, max_draws=max_draws, repeats=repeats)

    def mean(self, key: Key, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> float | Floats:
        """The posterior mean over the traces that have this value; of a vector, one per element."""
        return self._per_element(key, diagnostics.weighted_mean, self.log_weights(method, **acceptance))

    def mean_error(
        self, key: Key, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """The standard error of ``mean``."""
        return self._per_element(key, diagnostics.weighted_mean_error, self.log_weights(method, **acceptance))

    def quantile(
        self, key: Key, q: npt.ArrayLike, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """Posterior quantiles: one number for one q; an axis of length len(q) for several, after that of a vector."""

        def at(values: Floats, log_weights: Floats) -> Floats:
            return diagnostics.weighted_quantile(values, q, log_weights)

        return self._per_element(key, at, self.log_weights(method, **acceptance))

    def _per_element(self, key: Key, function: Any, log_weights: Floats) -> float | Floats:
        values = self[key]
        columns = [values] if values.ndim == 1 else list(values.T)
        found = np.array([function(column, log_weights) for column in columns])
        found = found[0] if values.ndim == 1 else found
        return float(found) if found.ndim == 0 else found

    def resample(
        self, n: int | None = None, method: str | None = None, *, seed: int = 0, **acceptance: Unpack[AcceptanceOptions]
    ) -> Integers:
        """n rows drawn in proportion to their weights (by default as many as there are traces): ``post["x"][rows]``."""
        return diagnostics.resample(self.log_weights(method, **acceptance), len(self) if n is None else n, seed)

    # -- for people and for ArviZ --

    def _available(self) -> dict[str, Floats]:
        """The log weights of every method that this run has, the one that is meant by default first."""
        found = {}
        for name in (self.method, "ic", "biased"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", NaiveVarianceWarning)
                    found[name] = self.log_weights(name)
            except weights.WeightError:
                continue
        return found

    def summary(self) -> str:
        """A few lines for a person: evidence, effective traces and tail per weighting, loops, failures."""
        lines = [self._heading()]
        for name, log_weights in self._available().items() if len(self) else ():
            evidence, effective = diagnostics.log_evidence(log_weights), diagnostics.ess(log_weights)
            k = diagnostics.pareto_k(log_weights)
            tail = f"Pareto k {k:.2f}" + ("" if k.reliable else " (too large: do not trust)")
            lines.append(
                f"{name:>7}: evidence {evidence.evidence:.6g}, s.e. {evidence.standard_error:.2g} "
                f"(log {evidence.log_estimate:.6g}); {effective:,.1f} effective traces; {k.reason or tail}"
                + (" [wrong on purpose]" if name == "biased" and self.loops and self.method == "ars" else "")
            )
        if self.loops:
            lines.append(repr(self.loops))
        if self.failures or self.failures.incidents:
            lines.append(str(self.failures))
        return "\n".join(lines)

    def to_datatree(self) -> xarray.DataTree:
        """An xarray.DataTree as ArviZ reads it: posterior (one chain), sample_stats with log_weight, observed_data.

        ``log_weight`` is the default weighting, and every available one is there as ``log_weight_<name>``. A name with
        several instances has a dimension for them, a vector one for its elements. Slashes in names become dots.
        """
        try:
            import xarray
        except ImportError as error:
            raise ImportError("to_datatree needs xarray: pip install libars[arviz]") from error

        variables = {}
        for name, site in _variable_names(self.sites).items():
            dims, values = self._all_instances(name, site)
            variables[name] = xarray.Variable(("chain", "draw", *dims), values[None], {"address": site.address})
        coordinates = {"chain": [0], "draw": np.arange(len(self))}
        available = self._available()
        stats: dict[str, Any] = {
            f"log_weight_{name}": (("chain", "draw"), found[None]) for name, found in available.items()
        }
        if self.method in available:
            stats["log_weight"] = (("chain", "draw"), available[self.method][None])
        stats["trace"] = (("chain", "draw"), self.trace_numbers[None])
        data = {}
        for name, given in self.observed.items():
            plain = name.replace("/", ".")
            data[plain] = (tuple(f"{plain}_dim_{i}" for i in range(given.ndim)), given)
        tree = xarray.DataTree.from_dict(
            {
                "posterior": xarray.Dataset(variables, coordinates),
                "sample_stats": xarray.Dataset(stats, coordinates, {"log_weight_method": self.method}),
                "observed_data": xarray.Dataset(data),
            }
        )
        tree.attrs.update(self._attributes())
        return tree

    def _all_instances(self, name: str, site: Site) -> tuple[tuple[str, ...], Floats]:
        """The values of all instances of a site, and the names of the dimensions that follow the traces."""
        mine = [site]
        count = max(instances_of(self.columns, site), 1)
        parts = [values_of(self.columns, mine, (site.address, instance)) for instance in range(count)]
        width = max(1 if part.ndim == 1 else part.shape[1] for part in parts)
        if width > 1:
            stacked = np.full((len(self), count, width), np.nan)
            for i, part in enumerate(parts):
                wide = part[:, None] if part.ndim == 1 else part
                stacked[:, i, : wide.shape[1]] = wide
        else:
            stacked = np.stack(parts, axis=1)
        dims = ((f"{name}_instance",) if count > 1 else ()) + ((f"{name}_dim_0",) if width > 1 else ())
        return dims, stacked if count > 1 else stacked[:, 0]

    def _attributes(self) -> dict[str, Any]:
        try:
            ours = version("libars")
        except PackageNotFoundError:  # run from a source tree
            ours = "unknown"
        return {
            "seed": self.run.seed,
            "M": math.nan if self.run.runs_p is None else self.run.runs_p,
            "N": math.nan if self.run.tries_q is None else self.run.tries_q,
            "in_loops": self.run.in_loops,
            "on_failure": self.run.on_failure,
            "simulator": " ".join(self.run.simulator),
            "inference_library": "libars",
            "inference_library_version": ours,
            "version": ours,
        }
