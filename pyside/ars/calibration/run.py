"""Draw data sets from the prior, infer each, and collect where the truths lie."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ars.arguments import integer, seed_or_random
from ars.calibration.dataset import DataSet, Record, infer_dataset
from ars.calibration.folder import Folder, kept_seed
from ars.calibration.result import Calibration
from ars.columns import Floats, offsets, trace_of
from ars.errors import ArsError, RunInterrupted
from ars.plain import plain
from ars.progress import NoProgress, Progress, StreamProgress, make_progress, part_of
from ars.results.export import value_columns
from ars.seeds import named_seed
from ars.store.identity import proposed_by
from ars.weights import METHODS

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.posterior import Traces
    from ars.simulator import Simulator

__all__ = ["MOST_VALUES", "calibrate_simulator", "likelihoods"]

MOST_VALUES: Final = 40  # that are compared unless they are named
_SCALE_TRACES: Final = 1000  # of the prior, for the scales of values
_MOST_DATASETS: Final = 100_000

Executor: TypeAlias = Callable[[Sequence[DataSet]], Iterator[Record]]


def calibrate_simulator(
    simulator: Simulator,
    datasets: int,
    traces: int,
    network: Network | None,
    *,
    values: Sequence[str] | None,
    weighting: str | None,
    seed: int | None,
    resume: str | os.PathLike[str] | None,
    progress: bool | Progress | None,
    options: Mapping[str, Any],
) -> Calibration:
    """``ars.calibrate`` explains the arguments; ``options`` are those of ``Simulator.posterior``."""
    count = integer("datasets", datasets, 10, _MOST_DATASETS)
    if weighting is not None and weighting not in METHODS:
        raise ValueError(f"weighting must be one of {', '.join(METHODS)}, not {weighting!r}")
    if seed is None and resume is not None:
        seed = kept_seed(resume)
    seed = seed_or_random(seed)
    shown = make_progress(progress)
    if isinstance(shown, StreamProgress):
        shown.label("data sets")
    with contextlib.closing(shown):
        truths, names = _data_sets(simulator, count, seed, values)
        asked = {"traces": integer("traces", traces, 1, 2**40), **options}
        folder = None
        if resume is not None:
            folder = Folder(resume, _identity(simulator, network, seed, names, weighting, asked))
        kept = {} if folder is None else folder.records(data.number for data in truths)
        left = [data for data in truths if data.number not in kept]
        infer = _executor(simulator, network, asked, weighting, shown)
        shown.update(len(kept), len(truths))
        try:
            for record in infer(left):
                kept[record.number] = record
                if folder is not None:
                    folder.keep(record)
                shown.update(len(kept), len(truths))
        except KeyboardInterrupt as error:
            raise _interrupted(len(kept), len(truths), resume) from error
    about = {
        "simulator": list(simulator.command),
        "network": None if network is None else repr(network),
        "seed": seed,
        "datasets": len(truths),
        "traces": traces,
        "weighting": weighting,
        "options": plain({name: _described(value) for name, value in options.items() if name != "proposals"}),
        "proposals": sorted(options.get("proposals") or ()),
        "values": names,
        "prior_std": {name: float(std) for name, std in truths[0].scale.items()} if truths else {},
    }
    return Calibration(about, [kept[number] for number in sorted(kept)])


# ---- the data sets ---------------------------------------------------------------------------------------------------


def _data_sets(
    simulator: Simulator, count: int, seed: int, values: Sequence[str] | None
) -> tuple[list[DataSet], list[str]]:
    """Truths and random points, each from a run of the prior of its own: a larger number adds data sets to the same."""
    truths, references = (
        simulator.prior(count, named_seed(seed, what), on_failure="skip") for what in ("truths", "references")
    )
    scale = simulator.prior(_SCALE_TRACES, named_seed(seed, "scale"), on_failure="skip")
    if not truths.observations:
        raise ArsError(f"{simulator.command[0]} observes nothing (ars_observe), so there are no data to draw")
    names = _names(truths, values)
    truth = {name: _column(truths, name) for name in names}
    joint = [name for name in names if _everywhere(name, truths, references, scale)]
    stds = {name: float(_column(scale, name).std()) or 1.0 for name in joint}
    points = {name: _column(references, name) for name in joint}
    data = {name: truths.observations[name] for name in truths.observations}
    likelihood, possible = likelihoods(simulator, truths)
    found = [
        DataSet(
            i,
            seed,
            {name: np.asarray(rows[i]) for name, rows in data.items()},
            {name: float(column[i]) for name, column in truth.items()},
            float(likelihood[i]),
            {name: float(column[i]) for name, column in points.items()},
            stds,
        )
        for i in range(min(len(truths), len(references)))
        if possible[i]
    ]
    if not found:
        raise ArsError(f"no prior trace of {simulator.command[0]} is possible, so there are no data sets to infer")
    return found, names


def likelihoods(simulator: Simulator, truths: Traces) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The log likelihood of each truth's data, given all that its trace drew, and whether its factors allow the truth.

    The posterior includes factors, and draws from the prior do not. A factor of 0 excludes a truth. Others would need
    truths that are drawn in proportion to them.

    Parameters
    ----------
    simulator : Simulator
        For the error.
    truths : Traces
        Prior draws.

    Returns
    -------
    tuple of array
        One number and one truth value per trace.

    Raises
    ------
    ArsError
        If the factors of possible truths differ.
    """
    factors = truths.columns.traces["log_likelihood"]  # nothing was given, so no observation is in it
    possible = factors > -np.inf
    terms = factors[possible]
    if len(terms) and np.ptp(terms) > 1e-9 * max(1.0, float(np.abs(terms).max())):
        raise ArsError(
            f"{simulator.command[0]} multiplies the likelihood by ars_factor, and the factors differ between prior "
            f"traces (their logs are from {terms.min():.4g} to {terms.max():.4g}). The posterior includes them, but "
            "data sets drawn from the prior do not, so their comparison would mean nothing. To calibrate, use "
            "ars_observe for data, or draw the latents from the distribution that the factors describe"
        )
    observed = truths.columns.observes
    rows = trace_of(offsets(truths.columns).observes, np.arange(len(observed)))
    # added in the order in which libars adds them
    scores = np.bincount(rows, observed["log_p"], len(truths)).astype(np.float64)
    return scores + np.where(possible, factors, 0.0), possible


def _names(truths: Traces, values: Sequence[str] | None) -> list[str]:
    if values is not None:
        for name in values:
            if name not in truths:
                known = ", ".join([*truths.results, *truths.latents])
                raise ValueError(f"values: {name!r} is no result or latent; these are: {known}")
        return list(values)
    kinds = truths.results or truths.latents
    sites = [site for site in truths.sites if any(site.name == name or site.address == name for name in kinds)]
    found = [name for name in value_columns(truths.columns, sites, ()) if name in truths]
    return found[:MOST_VALUES]


def _column(traces: Traces, name: str) -> Any:
    values = traces[name]
    if values.ndim > 1:
        raise ValueError(f"values: {name!r} has several numbers per trace: name one of them, such as '{name}[0]'")
    return values


def _everywhere(name: str, *runs: Traces) -> bool:
    """Whether every trace of these runs has the value."""
    try:
        return all(not np.isnan(_column(run, name)).any() for run in runs)
    except (KeyError, ValueError):
        return False


# ---- who infers them -------------------------------------------------------------------------------------------------


def _executor(
    simulator: Simulator, network: Network | None, asked: Mapping[str, Any], weighting: str | None, shown: Progress
) -> Executor:
    """One data set after another with the processes of this machine; or a task each on the workers of a cluster."""
    elsewhere = getattr(simulator._processes, "records", None)
    if elsewhere is not None:
        return lambda left: elsewhere(left, network, asked, weighting)

    def here(left: Iterable[DataSet]) -> Iterator[Record]:
        for data in left:
            part = part_of(shown, f"data set {data.number}")
            with contextlib.closing(part):
                options = {**asked, "progress": None if isinstance(part, NoProgress) else part}
                yield infer_dataset(simulator, data, network, options, weighting)

    return here


def _identity(
    simulator: Simulator,
    network: Network | None,
    seed: int,
    names: Sequence[str],
    weighting: str | None,
    asked: Mapping[str, Any],
) -> dict[str, Any]:
    runs = simulator._runs
    return {
        "simulator": runs.identity(runs.lease()),
        "seed": seed,
        "values": list(names),
        "weighting": weighting,
        **{name: _described(value) for name, value in asked.items()},
        **proposed_by(asked.get("proposals"), network),
    }


def _described(value: Any) -> Any:
    """An option, for JSON."""
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return repr(value)


def _interrupted(done: int, total: int, resume: str | os.PathLike[str] | None) -> RunInterrupted:
    where = "nothing was saved, because resume= names no folder"
    if resume is not None:
        where = f"they are in {os.fspath(resume)}, and the same call continues with them"
    return RunInterrupted(f"interrupted after {done:,} of {total:,} data sets; {where}")
