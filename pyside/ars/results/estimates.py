"""How far the numbers of a posterior can be trusted: what ``Posterior`` says of errors, effective traces and tails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

import numpy as np
import numpy.typing as npt

from ars import diagnostics
from ars.columns import Columns, Floats, Key
from ars.diagnostics import Evidence, ParetoK
from ars.errors import FewTracesWarning, WeightError
from ars.results import assessment, specific
from ars.results.advice import Advice, Interface, advice_lines, advise, enough
from ars.results.assessment import RunDiagnostics
from ars.results.continuations import continuation_line
from ars.results.corrections import corrections_line
from ars.results.data_check import DataCheck
from ars.results.seen import Seen, seen_of
from ars.results.smoothing import Smoothed, smooth

if TYPE_CHECKING:
    from ars.failures import Failures
    from ars.loops import Loops
    from ars.posterior import AcceptanceOptions, Posterior
    from ars.results.run_info import RunInfo

__all__ = ["Estimates"]


class Estimates:
    """The part of ``Posterior`` that assesses its weights and values."""

    if TYPE_CHECKING:  # Posterior has these
        run: RunInfo
        columns: Columns
        failures: Failures
        loops: Loops
        results: Mapping[str, Floats]
        latents: Mapping[str, Floats]

        @property
        def stats(self) -> dict[str, float]: ...
        @property
        def method(self) -> str: ...
        def __len__(self) -> int: ...
        def __getitem__(self, key: Key) -> Floats: ...
        def log_weights(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> Floats: ...
        def _available(self) -> dict[str, Floats]: ...
        def _per_element(self, key: Key, function: Any, log_weights: Floats) -> float | Floats: ...
        def _heading(self) -> str: ...

    def log_evidence(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> Evidence:
        """Estimate the log of the evidence p(y).

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        Evidence
            Estimate and standard error. The error is NaN, with a ``reason``, below two effective traces.
        """
        return diagnostics.log_evidence(self.log_weights(method, **acceptance))

    def zero_share(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> float:
        """The share of the traces that have weight 0.

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        float
            From 0 to 1.
        """
        return assessment.zero_share(self.log_weights(method, **acceptance))

    @overload
    def ess(self, method: str | None = None, *, of: None = None, **acceptance: Unpack[AcceptanceOptions]) -> float: ...
    @overload
    def ess(self, method: str | None = None, *, of: Key, **acceptance: Unpack[AcceptanceOptions]) -> float | Floats: ...
    def ess(
        self, method: str | None = None, *, of: Key | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """Count the effective traces.

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        of : key, optional
            A result or latent: count the traces that determine its mean, by abs(h - mean) w for values h and weights w
            (ars.results.specific). Default: by the weights alone.
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        float or array
            From 1 to the number of traces; 0 if every weight is 0. One per element of a vector.
        """
        log_weights = self.log_weights(method, **acceptance)
        return diagnostics.ess(log_weights) if of is None else self._per_element(of, specific.specific_ess, log_weights)

    @overload
    def pareto_k(
        self, method: str | None = None, *, of: None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> ParetoK: ...
    @overload
    def pareto_k(
        self, method: str | None = None, *, of: Key, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats: ...
    def pareto_k(
        self, method: str | None = None, *, of: Key | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """Fit the shape of the weights' tail: below 0.7 the estimates can be trusted.

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        of : key, optional
            A result or latent: fit the tail of abs(h - mean) w for its values h (see
            ars.results.specific). Default: of the weights alone.
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        ParetoK, float or array
            NaN: unknown, with a ``reason`` for the weights; -inf: there is no tail. One per element of a vector.
        """
        log_weights = self.log_weights(method, **acceptance)
        if of is None:
            return diagnostics.pareto_k(log_weights)
        return self._per_element(of, specific.specific_pareto_k, log_weights)

    def mean_error(
        self, key: Key, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """Estimate the standard error of ``mean``.

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
            NaN below two effective traces. One per element of a vector.

        Warns
        -----
        FewTracesWarning
            Why the error is NaN, or why not to trust it: few effective traces, a heavy or an unknown tail.
        """
        log_weights = self.log_weights(method, **acceptance)
        found = self._per_element(key, diagnostics.weighted_mean_error, log_weights)
        self._warn_of_few_traces(key, log_weights)
        return found

    def quantile_error(
        self, key: Key, q: npt.ArrayLike, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]
    ) -> float | Floats:
        """Estimate the standard error of ``quantile``.

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
            Shaped like ``quantile``. NaN below two effective traces, or if less than one lies beyond the quantile.

        Warns
        -----
        FewTracesWarning
            As ``mean_error``.
        """

        def at(values: Floats, log_weights: Floats) -> Floats:
            levels = diagnostics.checked_levels(q)
            errors = specific.weighted_quantile_errors(values, levels.ravel().tolist(), log_weights)
            return np.reshape(np.array([error for error, _ in errors]), levels.shape)

        log_weights = self.log_weights(method, **acceptance)
        found = self._per_element(key, at, log_weights)
        self._warn_of_few_traces(key, log_weights)
        return found

    def smoothed(self, method: str | None = None, **acceptance: Unpack[AcceptanceOptions]) -> Smoothed:
        """Smooth the largest weights (PSIS): estimates with less variance and a slight bias, beside the plain ones.

        Parameters
        ----------
        method : str, optional
            Weighting (default: that of the run, see ``Posterior``).
        **acceptance
            ``pA`` and ``qA``, for "collapsed".

        Returns
        -------
        Smoothed
            With ``log_weights``, ``log_evidence()``, ``ess()``, ``mean("x")`` and ``quantile("x", q)``.
        """
        weights = smooth(self.log_weights(method, **acceptance))
        return Smoothed(cast("Posterior", self), method or self.method, weights)

    def _warn_of_few_traces(self, key: Key, log_weights: Floats) -> None:
        """One warning, about the first element that has a reason for it."""
        assessed = assessment.assess_weighting("", log_weights, {("", str(key)): self[key]}, ()).values
        wrong = [value for value in assessed if value.warnings]
        if wrong:
            others = f" (and {len(wrong) - 1} more elements)" if len(wrong) > 1 else ""
            text = f"{wrong[0].name}{others}: {'; '.join(wrong[0].warnings)}"
            warnings.warn(text, FewTracesWarning, stacklevel=3)

    def diagnostics(
        self,
        methods: Sequence[str] | None = None,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        values: Sequence[str] = ("result", "latent"),
    ) -> RunDiagnostics:
        """Assess every estimate of the run: errors, effective traces, tails, and warnings in words.

        Parameters
        ----------
        methods : sequence of str, optional
            Weightings to assess (default: all that the run has).
        quantiles : sequence of float
            Levels from 0 to 1 (default: 0.05, 0.5, 0.95).
        values : sequence of str
            Kinds of values to assess (default: "result" and "latent"); () assesses the weights alone.

        Returns
        -------
        RunDiagnostics
            Plain data; ``to_dict()`` is ready for ``json.dumps``.

        Raises
        ------
        ValueError
            If a name is not a weighting, or the run cannot give it.
        """
        available = self._available() if methods is None else {name: self.log_weights(name) for name in methods}
        columns: dict[tuple[str, str], Floats] = {}
        for kind, recorded in (("result", self.results), ("latent", self.latents)):
            columns.update({(kind, name): recorded[name] for name in recorded if kind in values})
        found = []
        for name, log_weights in available.items() if len(self) else ():
            naive = [loop.warning() for loop in self.loops.values() if loop.naive_variance_infinite]
            uncorrected = name == "biased" and self.loops and self.method == "ars" and self.run.proposed
            found.append(
                assessment.assess_weighting(
                    name,
                    log_weights,
                    columns,
                    quantiles,
                    note="wrong on purpose" if uncorrected else None,
                    more=naive if name == "ic" else (),
                )
            )
        return RunDiagnostics(
            self.run.simulator, self.run.seed, len(self), dict(self.failures), self.method, tuple(found)
        )

    def advice(self, check: DataCheck | None = None) -> tuple[Advice, ...]:
        """Say what to do next if the default weights are not good enough, based on what this run shows.

        Parameters
        ----------
        check : DataCheck, optional
            Result of ``simulator.check_data(observe)`` (default: the data were not compared with prior draws).

        Returns
        -------
        tuple of Advice
            Steps with ``kind``, ``reason``, ``python`` and ``command_line``, the most promising first. Empty if at
            least 100 traces are effective and Pareto k is small enough, or if there are no weights to judge.
            docs/when-k-is-too-large.md explains the steps.
        """
        _check_type(check)
        return () if self._seen is None else advise(self._seen, check)

    @cached_property
    def _seen(self) -> Seen | None:
        """What the run shows about itself: in full if that matters, None if there are no weights to judge."""
        if not len(self):
            return None
        try:
            log_weights = self.log_weights()
        except WeightError:
            return None
        quick = Seen(len(self), diagnostics.ess(log_weights), diagnostics.pareto_k(log_weights))
        return quick if enough(quick) else seen_of(cast("Posterior", self))

    def summary(self, interface: Interface = "python", check: DataCheck | None = None) -> str:
        """A few lines for a person: evidence, effective traces, tail and warnings per weighting, loops, next steps.

        Parameters
        ----------
        interface : {"python", "command line"}
            Whose calls advice names (default: "python").
        check : DataCheck, optional
            Result of ``simulator.check_data(observe)``, to be shown (default: none).

        Returns
        -------
        str
        """
        _check_type(check)
        lines = [self._heading()]
        for weighting in self.diagnostics(values=()).weightings:
            lines += [weighting.line(), *(f"{'':9}! {warning}" for warning in weighting.warnings)]
            if weighting.method == self.method and weighting.smoothing_matters:
                lines.append(f"{'':9}{weighting.smoothed_line()}")
        if self.loops:
            lines.append(repr(self.loops))
        for line in (
            corrections_line(self.stats, self.loops, self.columns),
            continuation_line(self.stats, self.columns.loops),
        ):
            lines += [line] if line else []
        if self.failures or self.failures.incidents:
            lines.append(str(self.failures))
        if check is not None and not check.alarm:
            lines.append(f"data: {check.sentence()}")
        return "\n".join([*lines, *advice_lines(self.advice(check), interface)])


def _check_type(check: object) -> None:
    if check is not None and not isinstance(check, DataCheck):
        raise TypeError(f"check must be the result of simulator.check_data(observe), not {check!r}")
