"""Markov chains, all of them one move at a time: a move is one run of the simulator, with a trace per chain."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from ars._native import DISCRETE, DistKind, SiteKind
from ars.arguments import seed_or_random
from ars.columns import Blocks, Columns, Site
from ars.errors import ArsError, ChainError, RunInterrupted
from ars.extras import one_torch_thread
from ars.inference.options import PosteriorOptions
from ars.mcmc.chains import Acceptance, Chains
from ars.mcmc.history import History
from ars.mcmc.moves import Everything, Group, Loop, Move, Plan, Rest, Scales, Single, Walk, WalkAll, named
from ars.mcmc.options import ChainOptions
from ars.mcmc.proposer import PlannedProposer
from ars.mcmc.ratio import log_ratio
from ars.mcmc.runner import Runner
from ars.mcmc.start import pool_size, start_states
from ars.mcmc.states import State, states_of
from ars.observed import warn_of_nothing_observed
from ars.progress import Progress
from ars.results.continuations import report_continuations
from ars.runs import Runs

__all__ = ["run_chains"]

_ONE_WALK, _ALL_WALK = 0.44, 0.27  # the shares of accepted walks to aim at: of one latent, and of several
_HOPELESS: Final = 0.005  # a kind of move that is accepted less often is made rarely
_RARELY: Final = 0.2
_MOST_MOVES_PER_STEP: Final = 50


def run_chains(runs: Runs, asked: ChainOptions, seed: int | None, lease: int, progress: Progress) -> Chains:
    """Runs what was asked for."""
    with contextlib.ExitStack() as stack:
        stack.callback(progress.close)
        options = PosteriorOptions(asked.data, 1, asked.network, asked.proposals)
        base = runs.proposer(options, lease) if asked.network is not None or asked.proposals else None
        proposer = PlannedProposer(base)
        stack.callback(proposer.close)
        if asked.network is not None:
            stack.enter_context(one_torch_thread())
        sampler = _Sampler(runs, asked, proposer, seed_or_random(seed), lease, progress, has_base=base is not None)
        return sampler.all_steps()


@dataclass
class _Weighted:
    """A kind of move, and how often it is made."""

    move: Move
    weight: float


class _Sampler:
    """The chains, and everything that they have learned."""

    def __init__(
        self,
        runs: Runs,
        asked: ChainOptions,
        proposer: PlannedProposer,
        seed: int,
        lease: int,
        progress: Progress,
        *,
        has_base: bool,
    ) -> None:
        self._runs = runs
        self._asked = asked
        self._seed = seed
        self._proposer = proposer
        self._has_base = has_base
        self._progress = progress
        self._rng = np.random.default_rng(np.random.SeedSequence(seed))
        self._runner = Runner(runs, proposer, asked.data, seed, on_failure=asked.on_failure, lease=lease)
        self._kinds: dict[str, DistKind] = {}
        self._proposed: set[str] = set()  # latents for which the network proposes
        self._one, self._whole = Scales(_ONE_WALK), Scales(_ALL_WALK)
        self._moves: list[_Weighted] = []
        self._states: list[State] = []
        self._history = History(asked.chains)
        self._made: Counter[tuple[str, str]] = Counter()  # by kind of move and latent
        self._accepted: Counter[tuple[str, str]] = Counter()
        self._thin = 1

    # ---- all of it ---------------------------------------------------------------------------------------------------

    def all_steps(self) -> Chains:
        """Begins, warms up, and records. Whatever ends it early carries what there is as ``partial``."""
        try:
            self._begin()
            self._go(self._asked.warmup_steps, warming=True)
            self._settle()
            self._go(self._asked.steps, warming=False)
        except ChainError:  # what came before is no better than what cannot go on
            raise
        except (ArsError, RunInterrupted) as error:
            error.partial = self._result() if self._history.draws else None
            raise
        except KeyboardInterrupt as error:
            interrupted = RunInterrupted("interrupted")
            interrupted.partial = self._result() if self._history.draws else None
            raise interrupted from error
        chains = self._result()
        self._proposer.warn_after_run(chains.columns, self._runner.sites)
        met = (site.name for site in self._runner.sites if site.kind is SiteKind.OBSERVE)
        warn_of_nothing_observed(self._asked.data, met)
        report_continuations(chains.columns, self._runner.sites)
        return chains

    def _begin(self) -> None:
        asked = self._asked
        size = pool_size(asked.chains, asked.steps + asked.warmup_steps)
        self._states, columns, pool = start_states(
            self._runner, asked.chains, size, asked.M, self._rng, from_base=self._has_base
        )
        self._meet_sites()
        self._check_blocks()
        self._history.add(columns, (state.number for state in self._states))
        sizes = sorted(len(state.keys) for state in self._states)
        self._thin = asked.thin or min(max(sizes[len(sizes) // 2], 1), _MOST_MOVES_PER_STEP)
        self._first_scales(pool)
        self._moves = self._kinds_of_moves()

    def _meet_sites(self) -> None:
        """Latents that have turned up."""
        sites = self._runner.sites
        if len(sites) == getattr(self, "_met", -1):
            return
        self._met = len(sites)
        for site in sites:
            if site.kind is SiteKind.SAMPLE and site.dist is not None:
                self._kinds[site.address] = site.dist
                if self._proposer.proposes(site):
                    self._proposed.add(site.address)

    def _check_blocks(self) -> None:
        latents = sorted({site.name for site in self._latents()})
        for block in self._asked.blocks:
            for name in block:
                if not any(named(site.address, frozenset((name,))) for site in self._latents()):
                    listed = ", ".join(repr(each) for each in latents) or "none"
                    raise ChainError(f"blocks: no latent has the name {name!r}; the latents are: {listed}")

    def _latents(self) -> list[Site]:
        return [site for site in self._runner.sites if site.kind is SiteKind.SAMPLE]

    def _first_scales(self, pool: Columns) -> None:
        blocks = Blocks(pool, many=True)
        for site in self._latents():
            values = blocks.of(site)
            drawn = values[np.isfinite(values)]
            spread = float(drawn.std()) if len(drawn) > 1 else 1.0
            self._one.start(site.address, 0.5 * spread if spread > 0.0 else 1.0)

    def _kinds_of_moves(self) -> list[_Weighted]:
        """By what the first states have, and never again by any state: which kind is next must not depend on it."""
        walkers = max(sum(self._kinds[key[0]] not in DISCRETE for key in state.keys) for state in self._states)
        if walkers > 1:
            self._whole.start("walk all", 1.0 / math.sqrt(walkers))
        found = [
            _Weighted(Walk("walk", self._kinds, self._one), 0.35 if walkers else 0.15),
            _Weighted(Single("redraw"), 0.15),
            _Weighted(Rest("redraw rest"), 0.10),
            _Weighted(Everything("redraw all"), 0.10),
            _Weighted(Loop("redraw loop"), 0.15 if any(max(s.loop, default=-1) >= 0 for s in self._states) else 0.0),
            _Weighted(WalkAll("walk all", self._kinds, self._one, self._whole), 0.15 if walkers > 1 else 0.0),
        ]
        for i, block in enumerate(self._asked.blocks):
            names, label = frozenset(block), f"block {i} ({', '.join(block)})"
            self._whole.start(f"walk {label}", 1.0 / math.sqrt(len(block)))
            found.append(_Weighted(Group(f"redraw {label}", False, names), 0.1))
            found.append(_Weighted(WalkAll(f"walk {label}", self._kinds, self._one, self._whole, names), 0.15))
            if self._has_base:
                found.append(_Weighted(Group(f"propose {label}", True, names), 0.1))
        if self._has_base:
            found.append(_Weighted(Single("propose", True, self._proposed.__contains__), 0.25))
            found.append(_Weighted(Rest("propose rest", True), 0.15))
            found.append(_Weighted(Everything("propose all", True), 0.25))
        return [each for each in found if each.weight]

    def _settle(self) -> None:
        """After the warm-up: from now on nothing is adapted, and what came before is dropped."""
        for each in self._moves:
            made = sum(n for (name, _), n in self._made.items() if name == each.move.name)
            accepted = sum(n for (name, _), n in self._accepted.items() if name == each.move.name)
            if made and accepted < _HOPELESS * made:
                each.weight *= _RARELY
        self._made.clear()
        self._accepted.clear()
        self._history.forget(state.number for state in self._states)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _go(self, steps: int, *, warming: bool) -> None:
        shares = np.array([each.weight for each in self._moves])
        shares /= shares.sum()
        before = 0 if warming else self._asked.warmup_steps
        total = (self._asked.warmup_steps + self._asked.steps) * self._asked.chains
        for step in range(steps):
            for kind in self._rng.choice(len(shares), self._thin, p=shares).tolist():
                self._move(self._moves[kind].move, warming)
            present = [state.number for state in self._states]
            if not warming:
                self._history.record(present)
            self._history.tidy(present)
            self._progress.update((before + step + 1) * self._asked.chains, total)

    def _move(self, move: Move, warming: bool) -> None:
        """One move of every chain that can make it."""
        rng = self._rng
        movers: list[int] = []
        plans: list[Plan] = []
        picks, uniforms = rng.random(len(self._states)).tolist(), rng.random(len(self._states)).tolist()
        for chain, state in enumerate(self._states):
            targets = move.targets(state)
            if targets:
                movers.append(chain)
                plans.append(move.plan(state, targets[int(picks[chain] * len(targets))], rng))
        if not movers:
            return
        columns = self._runner.run(plans, asks=move.asks or self._has_base)
        self._meet_sites()
        accepted: list[int] = []
        for chain, plan, new in zip(movers, plans, states_of(columns, self._runner.sites), strict=True):
            old = self._states[chain]
            new.proposed = plan.proposed
            ratio = log_ratio(old, new, move, plan, self._proposed)
            probability = 1.0 if ratio.log >= 0.0 else math.exp(ratio.log)
            if uniforms[chain] < probability:
                new.log_inverse = ratio.log_inverse
                self._states[chain] = new
                accepted.append(new.number)
            self._count(move, plan, probability, uniforms[chain] < probability, warming)
        self._history.add(columns, accepted)

    def _count(self, move: Move, plan: Plan, probability: float, moved: bool, warming: bool) -> None:
        where = "" if plan.target is None else plan.target[0]
        self._made[move.name, where] += 1
        self._accepted[move.name, where] += moved
        if warming and isinstance(move, Walk):
            self._one.learn(where, probability)
        elif warming and isinstance(move, WalkAll):
            self._whole.learn(move.name, probability)

    # ---- the result --------------------------------------------------------------------------------------------------

    def _result(self) -> Chains:
        columns, rows = self._history.finished()
        acceptance = {
            key: Acceptance(made, self._accepted[key]) for key, made in sorted(self._made.items(), key=lambda i: i[0])
        }
        return Chains.of(
            columns,
            rows,
            self._runner.sites,
            observed=self._asked.data,
            acceptance=acceptance,
            failures=self._runner.failures,
            about={
                "seed": self._seed,
                "warmup": self._asked.warmup_steps,
                "thin": self._thin,
                "M": self._runner.wanted.runs_p,
                "traces": self._runner.traces,
                "simulator": " ".join(self._runs.command),
            },
        )
