"""Proposals written by hand: a distribution, or a function of the values drawn so far, by name or address."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ars import _native as native
from ars._native import ReplyFlag
from ars.columns import Columns, Site
from ars.distributions import Distribution, covers, decode
from ars.errors import ArsWarning, ProposalError, SupportWarning
from ars.outside import outside
from ars.proposers.hand_states import Drawn, State, StateStore
from ars.proposers.watchdog import OverTime, Watchdog
from ars.vectors import MultivariateNormal, VectorDistribution
from ars.wire import PRIOR, Replies, SiteTable, StepBatch

__all__ = ["Drawn", "HandProposer", "Proposal", "StateStore"]

Array: TypeAlias = npt.NDArray[Any]


Proposal: TypeAlias = Distribution | Callable[[Drawn], Distribution]


class HandProposer:
    """Proposals given by the user, by name or by full address; the prior elsewhere.

    ``time_limit``: seconds that the functions may take for one trace, and in one call (0: no limit). The time of a call
    is shared by its rows, so that the charges of all traces add up to the time that was spent. ``close`` ends the
    thread that watches the calls.
    """

    asks = True

    def __init__(self, proposals: Mapping[str, Proposal], time_limit: float = 0.0) -> None:
        self._proposals = dict(proposals)
        self._fixed: dict[str, bytes] = {}
        self._keys: dict[int, str | None] = {}  # site -> the key of its proposal
        self._checked: set[int] = set()
        self._watchdog = Watchdog(time_limit)
        self._used: dict[int, float] = {}  # trace -> seconds
        self.states = StateStore()
        for key, proposal in self._proposals.items():
            name: object = key  # the caller may not be type checked
            if not isinstance(name, str) or not name:
                raise TypeError(f"proposals: keys are names of latents, not {key!r}")
            if isinstance(proposal, Distribution):
                self._fixed[key] = _encode(proposal, 1, f"proposals[{key!r}]")[0]
            elif isinstance(proposal, VectorDistribution):
                raise TypeError(f"proposals[{key!r}]: {_per_coordinate(proposal)}")
            elif not callable(proposal):
                raise TypeError(
                    f"proposals[{key!r}] must be a distribution, such as ars.Normal(0, 1), or a function of the values "
                    f"drawn so far, not {proposal!r}"
                )

    def _key(self, site: Site) -> str | None:
        if site.id not in self._keys:
            found = next((key for key in (site.address, site.name) if key in self._proposals), None)
            self._keys[site.id] = found
        return self._keys[site.id]

    def proposes(self, site: Site) -> bool:
        """Whether the user gave a proposal for this latent."""
        return (site.address in self._proposals) or (site.name in self._proposals)

    def step(self, batch: StepBatch, sites: SiteTable) -> Replies:
        numbers, states = self.states.advance(batch)
        flags = [0] * len(states)
        proposals: list[bytes] = [b""] * len(states)
        # Rows that have drawn different latents are asked about apart. Otherwise "is x in t?" would depend on which
        # rows happen to wait together, and the result of a seed on timing. A proposal that looks at nothing is the
        # same for all.
        groups: dict[tuple[int, int], list[int]] = {}
        for row, (number, state) in enumerate(zip(batch.site.tolist(), states, strict=True)):
            if number != native.NO_SITE:
                key = self._key(sites[number])
                shape = 0 if key is None or key in self._fixed else self.states.shape(state).number
                groups.setdefault((number, shape), []).append(row)
        for (number, _), rows in groups.items():
            site = sites[number]
            key = self._key(site)
            if key is None:
                encoded = [PRIOR] * len(rows)
            elif key in self._fixed:
                encoded = [self._fixed[key]] * len(rows)
            else:
                traces = batch.trace[rows].tolist()
                encoded = self._call(key, site, [states[row] for row in rows], traces, sites)
            if key is not None and number not in self._checked:
                priors = batch.priors
                self._check_support(site, [priors[row] for row in rows], encoded)
            for row, proposal in zip(rows, encoded, strict=True):
                proposals[row] = proposal
                flags[row] = ReplyFlag.ALWAYS_PRIOR if key is None else 0
        return Replies(numbers, np.array(flags, dtype=np.uint32), proposals)

    def _call(self, key: str, site: Site, group: list[State], traces: list[int], sites: SiteTable) -> list[bytes]:
        """One call for the whole group."""
        where = f"the proposal for {site.address!r} (proposals[{key!r}])"
        function = self._proposals[key]
        assert not isinstance(function, Distribution)
        drawn = Drawn(self.states, group, sites)
        begin = time.monotonic()
        try:
            proposal = self._watchdog.call(function, drawn)
        except ProposalError as error:
            raise ProposalError(f"{where}: {error}") from error
        except OverTime:
            raise ProposalError(f"{where}: one call took longer than {self._limit_text()}") from None
        except Exception as error:
            raise ProposalError(f"{where} raised {type(error).__name__}: {error}") from error
        self._charge(where, time.monotonic() - begin, traces)
        if isinstance(proposal, VectorDistribution):
            raise ProposalError(f"{where}: {_per_coordinate(proposal)}")
        if not isinstance(proposal, Distribution):
            raise ProposalError(f"{where} must return a distribution, such as ars.Normal(0, 1), not {proposal!r}")
        return _encode(proposal, len(group), where)

    def _charge(self, where: str, seconds: float, traces: list[int]) -> None:
        """Shares the time of a call among its traces; a trace that has used up its time ends the run."""
        if not self._watchdog.limit:
            return
        share = seconds / len(traces)
        for trace in traces:
            used = self._used[trace] = self._used.get(trace, 0.0) + share
            if used > self._watchdog.limit:
                raise ProposalError(
                    f"{where}: proposals by hand have taken {used:.3g} s of trace {trace}, more than "
                    f"{self._limit_text()}"
                )

    def _limit_text(self) -> str:
        return (
            f"trace_timeout={self._watchdog.limit:g} s. Make the function faster, or set a larger trace_timeout "
            "(0: no limit)"
        )

    def _check_support(self, site: Site, priors: list[bytes], proposals: list[bytes]) -> None:
        """Once per site: warns if the proposal leaves out values that the prior can take."""
        self._checked.add(site.id)
        for prior, proposal in zip(priors, proposals, strict=True):
            q, p = decode(proposal), decode(prior)
            if not _covers(q, p):
                warnings.warn(
                    f"the proposal for {site.address!r}, {q!r}, gives probability 0 to values that its prior, {p!r}, "
                    'can take. Inside a loop this is fine for "ars" if the accepted region is covered, but "ic" is '
                    "biased; outside of loops every weighting is",
                    SupportWarning,
                    stacklevel=2,
                )
                return

    def end_trace(self, traces: Array) -> None:
        self.states.end_trace(traces)
        for trace in traces.tolist():
            self._used.pop(trace, None)

    def close(self) -> None:
        """After the last run."""
        self._watchdog.close()

    def warn_after_run(self, columns: Columns, sites: Sequence[Site]) -> None:
        """A key that names no latent is probably a slip."""
        del columns
        latents = [site for site in sites if site.kind is native.SiteKind.SAMPLE]
        known = {spelled for site in latents for spelled in (site.name, site.address)}
        for key in self._proposals:
            if key not in known:
                names = ", ".join(sorted({repr(site.name) for site in latents})) or "none"
                warnings.warn(
                    f"proposals[{key!r}]: no trace drew a latent of this name; the latents are: {names}",
                    ArsWarning,
                    stacklevel=outside(),
                )


def _per_coordinate(proposal: VectorDistribution) -> str:
    scalar = "ars.Normal" if isinstance(proposal, MultivariateNormal) else "ars.ScaledBeta"
    return (
        f"a {type(proposal).__name__} is not a proposal: the coordinates of a vector are proposed one by one. Give a "
        f"function that returns the distribution of the next coordinate, such as an {scalar}, given t"
    )


def _encode(proposal: Distribution, rows: int, where: str) -> list[bytes]:
    """One encoded distribution per row. Its parameters were checked when it was made; here it is their number."""
    try:
        return proposal.encode(rows)
    except ValueError as error:
        raise ProposalError(f"{where}: {proposal!r} cannot be used for {rows} row(s): {error}") from error


def _covers(proposal: Distribution, prior: Distribution) -> bool:
    """Whether the proposal can give every value that the prior can, but for rounding.

    The ends of a prior and of its proposal may come from one formula in C and in Python, and differ in the last bit.
    """
    if proposal.kind is native.DistKind.PRIOR:
        return True
    if proposal.discrete != prior.discrete:
        return False
    low, high = prior.support()
    slack = np.where(prior.discrete, 0.0, 1e-12 * np.maximum(1.0, np.minimum(np.abs(high - low), 1e300)))
    return bool(covers(proposal, low + slack, high - slack).all())
