"""One posterior, whatever runs of the simulator it takes.

A *step* is one run of the processes. All steps of a job share the proposer, the data, the seed and one numbering of
sites, so that their columns can be compared and put together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ars._native import RunFlag, SiteKind
from ars.budget import Budget, ChosenBudget
from ars.columns import Columns, Site, merge, select
from ars.errors import ArsError, ReplayWarning, RunInterrupted, StorageError
from ars.failures import Failure
from ars.inference.options import PosteriorOptions
from ars.observed import warn_of_nothing_observed
from ars.outside import outside
from ars.planning.entries import exact_loops
from ars.posterior import Posterior
from ars.progress import NoProgress, Progress
from ars.proposers import Proposer
from ars.proposers.remembering import RememberingProposer
from ars.results.continuations import report_continuations
from ars.results.zero_likelihood import warn_of_impossible
from ars.runs import Runs
from ars.runtime.recorder import Recorder
from ars.store.resume import KeptRun, kept_seed
from ars.store.site_numbers import SiteNumbers, renumber
from ars.wire import Listed, RunConfig, Wanted

__all__ = ["Job", "resumed_seed"]

_STAGE: Final = "stage-{}"  # the folder of a job that is a stage of another; the number is that of its first trace
_FINAL: Final = "final-{}"  # the same, of the stage that is reported
_NOTHING: Final = Wanted()


def resumed_seed(resume: str | os.PathLike[str]) -> int | None:
    """The seed of the job that this folder keeps; None if it keeps none."""
    found = kept_seed(resume)
    if found is None:  # a job in one phase, or in stages, has folders of its own in this one
        inside = sorted(Path(resume).glob("*/run.json"))
        found = kept_seed(inside[0].parent) if inside else None
    return found


class _Continued:
    """Progress of one step of several: counts go on from those of the steps before, to ``least`` or more."""

    def __init__(self, shown: Progress, before: int, least: int) -> None:
        self._shown = shown
        self._before = before
        self._least = least

    def update(self, done: int, total: int) -> None:
        self._shown.update(self._before + done, max(self._before + total, self._least))

    def close(self) -> None:
        """The job closes it when all steps are over."""


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The counters of two steps together."""
    total = {name: one.get(name, 0) + other.get(name, 0) for name in [*one, *(k for k in other if k not in one)]}
    if "fewest_workers" in one and "fewest_workers" in other:
        total["fewest_workers"] = min(one["fewest_workers"], other["fewest_workers"])
    return total


class Job:
    """The runs of one posterior, one after another, and what they have brought so far."""

    def __init__(
        self,
        runs: Runs,
        asked: PosteriorOptions,
        proposer: Proposer,
        seed: int,
        *,
        estimates_the_prior: bool,
        progress: Progress,
        lease: int,
        stack: contextlib.ExitStack,
        quiet: bool = False,
    ) -> None:
        self.asked = asked
        self.seed = seed
        self._runs = runs
        self._proposer = RememberingProposer(proposer)
        self._kept_sites = SiteNumbers()  # that traces had met which an earlier process kept
        self._all_proposed = estimates_the_prior
        self._progress = progress
        self._lease = lease
        self._stack = stack
        self._numbers = SiteNumbers()
        self._stats: dict[str, float] = {}
        self._stderr: dict[int, str] = {}
        self._incidents: list[Failure] = []
        self._simulator: Mapping[str, Any] | None = None
        self._folders: dict[str, KeptRun] = {}
        self._quiet = quiet
        self._unkept: StorageError | None = None
        self._recorders: list[Recorder] = []
        self._done = 0  # traces, for the progress bar
        self.base: Columns | None = None  # traces without estimates, to give back if a later step fails
        self.before: list[Columns] = []  # traces of the same kind as those of the present step, from earlier ones
        self.budget: Budget | ChosenBudget | None = None  # with which a run that is broken off was to be weighted

    # ---- what is known -----------------------------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[Site, ...]:
        """All sites that the steps have met, and their numbers in the columns of all of them."""
        return self._numbers.sites

    @property
    def proposed(self) -> bool:
        """Whether anything is proposed by anything but the prior."""
        return self._proposer.asks or self._all_proposed

    @property
    def all_proposed(self) -> bool:
        """Whether every latent counts as proposed, so that every loop is estimated."""
        return self._all_proposed

    @property
    def asks(self) -> bool:
        """Whether proposals are computed here, in batches."""
        return self._proposer.asks

    @property
    def forks(self) -> bool:
        """Whether every continuation is a fork."""
        return self._runs.continuations == "fork"

    def proposes(self, site: Site) -> bool:
        """Whether the latent has a proposal."""
        return self._all_proposed or self._proposer.proposes(site)

    def exact(self) -> frozenset[str]:
        """The loops under which no latent was proposed, as far as the traces of this job have shown."""
        if self._all_proposed:
            return frozenset()
        met = self._proposer.addresses | {site.address for site in self._kept_sites.sites if self.proposes(site)}
        return exact_loops(self.sites, lambda site: site.address in met)

    def known_exact(self) -> frozenset[str]:
        """The loops under which nothing can be proposed, as far as the simulator's processes have met any latents."""
        return exact_loops(self._runs.known_sites, self.proposes)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def config(
        self,
        wanted: Wanted = _NOTHING,
        budgets: Mapping[str, Wanted] | None = None,
        *,
        first: int | None = None,
        count: int | None = None,
        listed: Listed | None = None,
        pilot: bool = False,
    ) -> RunConfig:
        """A step's settings. Without ``first`` and ``count``, it has all traces that were asked for; with ``listed``,
        those. Nothing wanted: nothing is estimated."""
        if listed is not None:
            first, count = int(listed.traces[0]), len(listed.traces)
        estimates = wanted.runs_p > 0
        flags = self.asked.flags(self._proposer, estimates) | (RunFlag.PILOT if pilot else RunFlag(0))
        return self._runs.config(
            self.seed,
            self.asked.traces if count is None else count,
            flags,
            first_trace=self.asked.first_trace if first is None else first,
            wanted=wanted,
            budgets=budgets or {},
            listed=listed,
            observed={name: array.reshape(-1) for name, array in self.asked.data.items()},
        )

    def step(
        self,
        config: RunConfig,
        *,
        folder: str | None = None,
        on_failure: str | None = None,
        hidden: bool = False,
        options: tuple[str, ...] | None = None,
    ) -> Columns:
        """Runs the traces of this configuration.

        Parameters
        ----------
        config : RunConfig
            From ``config``.
        folder : str, optional
            Where in the folder of ``resume`` its traces are kept, "" for the top (default: they are not kept).
        on_failure : str, optional
            Policy for failed traces (default: that of the job).
        hidden : bool
            Whether it counts neither for the progress bar nor for the number of traces (default: False).
        options : tuple of str, optional
            Options of ``ars replay`` to add, for advice about a failed trace.

        Returns
        -------
        Columns
            In the order of trace numbers, with the job's numbers for sites.
        """
        kept = self._kept(config, folder)
        shown = NoProgress() if hidden else _Continued(self._progress, self._done, self.asked.traces)
        recorder = self._runs.recorder(
            config, self._proposer, on_failure or self.asked.on_failure, shown, kept, options or ()
        )
        recorder.sites = self._numbers.sites
        if kept is not None:
            columns, sites = kept.load(config.first_trace, self._span(config))
            self._kept_sites.adopt(sites)
            columns = renumber(columns, self._numbers.adopt(sites))
            recorder.start(select(columns, config.places(columns.traces["trace"]) >= 0), self._numbers.sites)
            recorder.resumed(kept.lost)
        try:
            self._runs.work(config, self._proposer, recorder, self._lease)
        except (ArsError, RunInterrupted) as error:
            error.partial = self._partial(config, self._take(config, recorder, hidden))
            raise
        columns = self._take(config, recorder, hidden)
        failure: ArsError | None = recorder.error()
        if failure is None and (unkept := recorder.unkept()):
            if recorder.done == config.n_traces:  # all came, and can be used; they are on no disk
                self._unkept = self._unkept or unkept
            else:
                failure = unkept
        if failure is not None:
            failure.partial = self._partial(config, columns)
            raise failure
        return columns

    @staticmethod
    def _span(config: RunConfig) -> int:
        """Numbers between the first and the last trace, both included."""
        if config.listed is None:
            return config.n_traces
        return int(config.listed.traces[-1]) - config.first_trace + 1

    def _take(self, config: RunConfig, recorder: Recorder, hidden: bool) -> Columns:
        """What a step has brought, in the job's numbers of sites."""
        columns = renumber(recorder.columns(), self._numbers.adopt(recorder.sites))
        counters = recorder.stats()
        if config.listed is not None:
            counters["traces_resumed"] = 0  # the traces themselves were counted before
        self._stats = _added(self._stats, counters)
        self._incidents += recorder.incidents
        if not hidden:
            recorder.forget()
            self._recorders.append(recorder)
            self._stderr.update(recorder.stderr)
            self._done += recorder.done
        return columns

    def _partial(self, config: RunConfig, columns: Columns) -> Posterior:
        """What there is when a step is broken off. Of a second phase it is the first: to leave out those traces that
        still wait for their estimates would bias the rest."""
        if self.base is None:
            return self._result(merge([*self.before, columns]), self.budget, self._known_exact())
        more = config.listed is None and not config.wanted.runs_p  # of the first phase
        return self._result(merge([self.base, columns]) if more else self.base, self.budget, self._known_exact())

    def so_far(self) -> Posterior | None:
        """What there is between two steps, or after the last; None before the first."""
        parts = self.before if self.base is None else [self.base]
        return self._result(merge(parts), self.budget, self._known_exact()) if parts else None

    def _known_exact(self) -> frozenset[str]:
        return self.exact() if self.asked.in_loops == "proposal" else frozenset()

    def _kept(self, config: RunConfig, folder: str | None) -> KeptRun | None:
        """The folder that keeps a step. Until the job is over, no other simulator is started."""
        if self.asked.resume is None or folder is None:
            return None
        if self._simulator is None:
            self._simulator = self._runs.identity(self._lease)
            self._stack.enter_context(self._runs.only_as(self._simulator))
        if folder not in self._folders:
            # That a loop is left out where nothing is proposed changes no number that counts.
            budgets = {address: wanted for address, wanted in config.budgets.items() if wanted.runs_p}
            whole = config._replace(first_trace=self.asked.first_trace, listed=None, budgets=budgets)
            identity = self._runs.run_identity(whole, self.asked, self._simulator)
            where = os.path.join(os.fspath(self.asked.resume), folder) if folder else self.asked.resume
            kept = KeptRun(where, identity, failed_too=self.asked.on_failure != "raise")
            self._folders[folder] = self._stack.enter_context(kept)
        return self._folders[folder]

    def count(self, **counters: float) -> None:
        """Adds to the statistics of the result."""
        self._stats = _added(self._stats, counters)

    def warn_of_difference(self, different: int, replayed: int) -> None:
        """Warns that the simulator does not repeat its traces."""
        warnings.warn(
            f"the simulator does not repeat its traces: {different:,} of {replayed:,} traces that were rerun with the "
            "same seed and number gave different values. It probably uses a random generator outside libars, a clock "
            "or a file. Loops are therefore estimated while each trace runs, which is exact but takes longer, and the "
            "result cannot be reproduced. Draw with ars_draw or ars_sample instead, or request one phase from the "
            "start: budget=ars.Budget.auto(phases=1)",
            ReplayWarning,
            stacklevel=outside(),
        )

    def stage(self, start: int, count: int, *, final: bool) -> Job:
        """A job of its own for some of the traces, counted from the first one. Only the final one warns, and is kept
        in a folder that says so."""
        resume = self.asked.resume
        folder = (
            None if resume is None else os.path.join(os.fspath(resume), (_FINAL if final else _STAGE).format(start))
        )
        asked = dataclasses.replace(self.asked, first_trace=self.asked.first_trace + start, traces=count, resume=folder)
        part = Job(
            self._runs,
            asked,
            self._proposer,
            self.seed,
            estimates_the_prior=self._all_proposed,
            progress=self._progress,
            lease=self._lease,
            stack=self._stack,
        )
        part._quiet = not final
        part._simulator = self._simulator
        return part

    # ---- the end -----------------------------------------------------------------------------------------------------

    def finish(
        self, columns: Columns, budget: Budget | ChosenBudget | None, exact: frozenset[str], **stats: float
    ) -> Posterior:
        """The result of all steps, after the warnings that they call for."""
        self.base, self.budget = columns, budget  # for a Ctrl-C from now on
        self._stats.update(stats)
        if self._unkept is not None:
            self._unkept.partial = self._result(columns, budget, exact, whole=True)
            raise self._unkept
        if self._quiet:
            return self._result(columns, budget, exact, whole=True)
        self._proposer.warn_after_run(columns, self.sites)
        warn_of_impossible(columns, self.sites)
        warn_of_nothing_observed(self.asked.data, (site.name for site in self.sites if site.kind is SiteKind.OBSERVE))
        report_continuations(columns, self.sites)
        with_failures = [recorder for recorder in self._recorders if recorder.n_failed]
        if with_failures:
            with_failures[0].warn_of_dropped(sum(each.n_failed for each in with_failures), self.asked.traces)
        return self._result(columns, budget, exact, whole=True)

    def _result(
        self,
        columns: Columns,
        budget: Budget | ChosenBudget | None,
        exact: frozenset[str] = frozenset(),
        *,
        whole: bool = False,
    ) -> Posterior:
        """``whole``: all traces that were asked for have been run."""
        entered = set(columns.loops["site"].tolist())
        addresses = sorted(site.address for site in self.sites if site.id in entered and site.address in exact)
        info = self.asked.info(self.seed, budget, self._runs.command, self.proposed, tuple(addresses))
        return Posterior(
            columns,
            self.sites,
            run=info._replace(
                build=self._runs.build, ranges=((self.asked.first_trace, self.asked.traces),) if whole else ()
            ),
            stats=self._stats,
            observed=self.asked.data,
            stderr=self._stderr,
            incidents=self._incidents,
        )
