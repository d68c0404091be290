"""Trains, infers in three ways, and checks that they agree. Every stage is kept, so an interrupted run goes on."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

import ars
from ars.columns import Floats
from ars.diagnostics import ess as effective
from ars.diagnostics import log_evidence as evidence_of
from ars_lab.generators.fetch import Kitchen
from ars_lab.generators.result import Check, Estimate, Loop, Method, Observation, Result, distance
from ars_lab.generators.spec import Built, Generator, Size
from ars_lab.reproduce.networks import Trained, trained
from ars_lab.reproduce.page import hardware
from ars_lab.reproduce.workspace import Arrays, Workspace

__all__ = ["LIMIT", "MEAN_LIMIT", "study"]

LIMIT: Final = 3.0  # standard errors between two evidences
MEAN_LIMIT: Final = 4.0  # between two of several posterior means
_PRIOR_DRAWS: Final = 5000
_QUICK_PRIOR_DRAWS: Final = 500


def study(generator: Generator, kitchen: Kitchen, *, quick: bool, seed: int) -> Result:
    """All of it, for one generator.

    Parameters
    ----------
    generator : Generator
        Which one.
    kitchen : Kitchen
        Where it is fetched and built, and where its stages are kept.
    quick : bool
        The small form.
    seed : int
        Seed of the training and the runs; that of the observation is the generator's own.

    Returns
    -------
    Result
        Its ``problems`` are empty if all checks passed.

    Raises
    ------
    Unavailable
        A package cannot be had.
    """
    built = generator.prepare(kitchen)
    size = generator.quick if quick else generator.full
    folder = kitchen.folder / ("quick" if quick else "full")
    work = Workspace(folder, seed, reporter=kitchen.reporter)
    with built.simulator() as simulator:
        observation = _observe(generator, simulator, work, built)
        prior = _prior(generator, simulator, work, built, _QUICK_PRIOR_DRAWS if quick else _PRIOR_DRAWS)
        network = trained(work, simulator, generator.name, size.network, shapes=generator.shapes or None)
        stages = _Stages(generator, size, work, simulator, observation, network, built)
        by_ars, loops = stages.weighted("proposal", size.traces)
        by_prior, _ = stages.weighted("prior", size.traces_prior)
        chains = stages.chains()
    checks = completeness(by_ars)
    if not quick:  # the numbers of the small form have no errors that one could compare by
        checks += agreement(by_ars, by_prior, chains, generator, size.ess)
    if generator.checks is not None:
        checks += _kept_checks(generator, kitchen, built, observation, work)
    machine = hardware()
    about = {
        **built.about,
        "libars": str(machine["libars"]),
        "machine": f"{machine['cores']} cores, {machine['processor']}",
    }
    return Result(
        observation,
        prior,
        by_ars,
        by_prior,
        chains,
        loops,
        checks,
        about,
        network.seconds,
        network.traces,
        work.took.get("refined", 0.0),
        work.seconds,
    )


def _settings(built: Built, **more: Any) -> dict[str, Any]:
    """What identifies a stage: versions too, since another version is another simulator."""
    return {"about": dict(built.about), **more}


# ---- the observation and the prior ---------------------------------------------------------------------------------


def _observe(generator: Generator, simulator: ars.Simulator, work: Workspace, built: Built) -> Observation:
    def make(_: int) -> Arrays:
        drawn = simulator.prior(1, seed=generator.seed, first_trace=generator.trace)
        truth = {name: float(drawn[name][0]) for name in drawn if drawn[name].shape == (1,)}
        data = {f"data:{name}": np.asarray(values[0]) for name, values in drawn.observations.items()}
        return {"truth": np.array(json.dumps(truth)), **data}

    found = work.arrays("observation", _settings(built, seed=generator.seed, trace=generator.trace), make)
    data = {name.removeprefix("data:"): values for name, values in found.items() if name.startswith("data:")}
    return Observation(data, json.loads(str(found["truth"])))


def _prior(
    generator: Generator, simulator: ars.Simulator, work: Workspace, built: Built, traces: int
) -> dict[str, Floats]:
    names = [each.name for each in generator.quantities]

    def make(seed: int) -> Arrays:
        drawn = simulator.prior(traces, seed=seed)
        return {name: drawn[name] for name in names}

    found = work.arrays("prior", _settings(built, traces=traces, names=names), make)
    return {name: found[name] for name in names}


# ---- inference -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Stages:
    """One inference per stage; all with the same simulator, data and network."""

    generator: Generator
    size: Size
    work: Workspace
    simulator: ars.Simulator
    observation: Observation
    network: Trained
    built: Built

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.generator.quantities]

    def settings(self, **more: Any) -> dict[str, Any]:
        data = {name: values.tolist() for name, values in self.observation.data.items()}
        return _settings(self.built, data=data, network=self.network.about, names=self.names, **more)

    @functools.cached_property
    def refined(self) -> ars.Network:
        """The network, specialised to the observation if the size says so."""
        if self.size.refine is None:
            return self.network.network
        config, path = self.size.refine, self.work.path("refined", ".safetensors")

        def make(seed: int) -> Arrays:
            self.work.reporter.say("refining the network")
            began = time.monotonic()
            self.network.network.refine(self.simulator, self.observation.data, config=config, seed=seed, out=path)
            return {"seconds": np.array(time.monotonic() - began)}

        self.work.arrays("refined", self.settings(refine=dataclasses.asdict(config)), make)
        if not path.exists():  # its stage is there, but it is not
            make(self.work.seed_of("refined"))
        return ars.Network.load(path)

    def weighted(self, in_loops: Literal["proposal", "prior"], traces: int) -> tuple[Method, list[Loop]]:
        """Weighted traces: by ARS with the refined network, or with the prior inside loops and the first network."""
        by_ars = in_loops == "proposal"
        network = self.refined if by_ars else self.network.network
        refine = _plain(self.size.refine) if by_ars else None
        label = "ARS" if by_ars else "prior in loops"
        budget = self.size.budget

        def make(seed: int) -> Arrays:
            self.work.reporter.say(f"{traces:,} traces, {label}")
            began = time.monotonic()
            post = self.simulator.posterior(
                self.observation.data,
                traces,
                network=network,
                in_loops=in_loops,
                budget=budget,
                seed=seed,
                on_failure="zero",
                progress=self.work.reporter.progress(f"traces, {label}"),
            )
            seconds = time.monotonic() - began
            about = {
                "seconds": seconds,
                "failures": sum(post.failures.values()),
                "k": float(post.pareto_k()),
                "loops": [_loop(each) for each in post.loops.values()],
            }
            draws = {f"draws:{name}": post[name] for name in self.names}
            return {"about": np.array(json.dumps(about)), "log_weights": post.log_weights(), **draws}

        settings = self.settings(traces=traces, in_loops=in_loops, refine=refine, budget=repr(budget))
        found = self.work.arrays(f"posterior-{in_loops}", settings, make)
        about = json.loads(str(found["about"]))
        draws = {name: found[f"draws:{name}"] for name in self.names}
        log_weights = found["log_weights"]
        evidence = evidence_of(log_weights)
        method = Method(
            label,
            traces,
            int(about["failures"]),
            evidence.log_estimate,
            evidence.relative_error,
            float(effective(log_weights)),
            float(about["k"]),
            float(about["seconds"]),
            {name: _weighted_estimate(values, log_weights) for name, values in draws.items()},
            draws,
            log_weights,
        )
        return method, [Loop(**each) for each in about["loops"]]

    def chains(self) -> Method:
        """Markov chains, with moves that draw from the refined network."""
        steps, number, warmup = self.size.steps, self.size.chains, self.size.warmup
        network = self.refined

        def make(seed: int) -> Arrays:
            self.work.reporter.say(f"{number} Markov chains of {steps:,} draws")
            began = time.monotonic()
            chains = self.simulator.mcmc(
                self.observation.data,
                steps,
                number,
                network,
                seed=seed,
                warmup=warmup,
                progress=self.work.reporter.progress("steps of the chains"),
            )
            about = {
                "seconds": time.monotonic() - began,
                "ess": min(float(chains.ess(name)) for name in self.names),
                "rhat": max(float(chains.rhat(name)) for name in self.names),
                "mcse": {name: float(chains.mcse(name)) for name in self.names},
            }
            return {"about": np.array(json.dumps(about)), **{f"draws:{name}": chains[name] for name in self.names}}

        settings = self.settings(steps=steps, chains=number, warmup=warmup, refine=_plain(self.size.refine))
        found = self.work.arrays("chains", settings, make)
        about = json.loads(str(found["about"]))
        draws = {name: found[f"draws:{name}"].ravel() for name in self.names}
        estimates = {
            name: Estimate(float(values.mean()), float(about["mcse"][name]), float(values.std()))
            for name, values in draws.items()
        }
        n = steps * number
        return Method(
            "MCMC",
            n,
            0,
            math.nan,
            math.nan,
            about["ess"],
            about["rhat"],
            about["seconds"],
            estimates,
            draws,
            np.zeros(n),
        )


def _plain(config: ars.RefineConfig | None) -> dict[str, Any] | None:
    return None if config is None else dataclasses.asdict(config)


def _loop(loop: Any) -> dict[str, Any]:
    return {
        "address": loop.address,
        "entries": int(loop.entries),
        "mean_tries": float(loop.mean_tries),
        "p_accept": float(loop.p_accept),
        "p_error": float(loop.p_accept_error),
        "q_accept": float(loop.q_accept),
        "q_error": float(loop.q_accept_error),
        "budget": str(loop.budget),
        "continuations": str(loop.method),
    }


def _weighted_estimate(values: Floats, log_weights: Floats) -> Estimate:
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = float(weights @ values)
    off = values - mean
    return Estimate(mean, math.sqrt(float(np.square(weights * off).sum())), math.sqrt(float(weights @ np.square(off))))


# ---- checks --------------------------------------------------------------------------------------------------------


def completeness(by_ars: Method) -> list[Check]:
    """The promise that runs of any size have to keep.

    Parameters
    ----------
    by_ars : Method
        The run by ARS.

    Returns
    -------
    list of Check
        Failures.
    """
    promise = f"{by_ars.traces:,} posterior traces by ARS without a failure"
    return [Check(promise, by_ars.failures == 0, f"{by_ars.failures} failures")]


def agreement(by_ars: Method, by_prior: Method, chains: Method, generator: Generator, ess: float) -> list[Check]:
    """The promises that every generator has to keep in its full form.

    Parameters
    ----------
    by_ars, by_prior, chains : Method
        The three runs.
    generator : Generator
        Whose quantities are compared.
    ess : float
        Effective traces that the weighted runs must have.

    Returns
    -------
    list of Check
        Effective traces, evidences, means, and the mixing of the chains.
    """
    checks = [
        Check(
            f"at least {ess:.0f} effective traces by ARS and with the prior in loops",
            min(by_ars.ess, by_prior.ess) >= ess,
            f"{by_ars.ess:.0f} and {by_prior.ess:.0f}",
        ),
    ]
    apart = distance(by_ars.log_evidence, by_ars.error, by_prior.log_evidence, by_prior.error)
    checks.append(
        Check(
            f"evidences of ARS and prior in loops within {LIMIT:.0f} standard errors",
            abs(apart) < LIMIT,
            f"difference {apart:+.1f} standard errors",
        )
    )
    for a, b in ((by_ars, by_prior), (by_ars, chains)):
        found = {each.label: _means_apart(a, b, each.name) for each in generator.quantities}
        checks.append(
            Check(
                f"posterior means of {a.label} and {b.label} within {MEAN_LIMIT:.0f} standard errors",
                all(abs(each) < MEAN_LIMIT for each in found.values()),
                ", ".join(f"{label} {each:+.1f}" for label, each in found.items()),
            )
        )
    checks.append(
        Check(
            "the Markov chains have mixed (R-hat at most 1.02)", chains.quality <= 1.02, f"R-hat {chains.quality:.3f}"
        )
    )
    return checks


def _means_apart(a: Method, b: Method, name: str) -> float:
    x, y = a.estimates[name], b.estimates[name]
    return distance(x.mean, x.error, y.mean, y.error)


def _kept_checks(
    generator: Generator, kitchen: Kitchen, built: Built, observation: Observation, work: Workspace
) -> list[Check]:
    ask: Callable[[Kitchen, Built, Mapping[str, Floats]], Sequence[Check]] | None = generator.checks
    assert ask is not None

    def make(_: int) -> list[dict[str, Any]]:
        return [dataclasses.asdict(each) for each in ask(kitchen, built, observation.data)]

    source = Path(built.command[0])
    found = work.json("own-checks", _settings(built, made=source.stat().st_mtime_ns), make)
    return [Check(**each) for each in found]
