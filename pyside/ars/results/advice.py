"""What to do next with a posterior whose weights are not good enough: rules over what the run shows about itself.

Each rule looks at numbers (``Seen``) and gives one step, with the numbers that speak for it and the call that takes it.
docs/when-k-is-too-large.md explains the steps in the same order.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from ars.budget import Budget, ChosenBudget
from ars.diagnostics import shown_ess
from ars.results.seen import Seen

if TYPE_CHECKING:
    from ars.results.data_check import DataCheck

__all__ = ["ENOUGH", "PAGE", "Advice", "Interface", "advice_lines", "advise", "call_of", "enough"]

Interface: TypeAlias = Literal["python", "command line"]

PAGE: Final = "docs/when-k-is-too-large.md"
ENOUGH: Final = 100.0  # effective traces, above which nothing is advised if the tail is light
_WORTHWHILE: Final = 2.0  # factor in effective traces that makes a step worth its while
_AFFORDABLE: Final = 10.0  # factor in traces up to which more of them are the first thing to try
_PATIENCE: Final = 20.0  # the same where k is too large only because the run is short
_SMALL_Q: Final = 0.1  # acceptance under the proposal that calls for better proposals rather than a larger budget
_FAILED: Final = 0.05  # share of failed traces that is worth a word
_EXCLUDED: Final = 0.5  # the same of traces with likelihood 0
_FEW: Final = 5.0  # effective traces, below which the weights cannot predict how other proposals would do
_NOISE_SHARE: Final = 0.4  # of the log likelihood's variance: far more than smooth functions of latents look like
_SHOWN: Final = 3
_WIDTH: Final = 98


class Advice(NamedTuple):
    """One step to take.

    Attributes
    ----------
    kind : str
        "data", "failures", "corrections", "prior in loops", "nuisance", "proposals", "traces", "defensive",
        "unknown latents", "refine", "adapt", "train", "check data" or "mcmc".
    reason : str
        Why, in numbers.
    python : str
        The call in Python. ``simulator``, ``observe``, ``network`` and ``proposals`` stand for your own.
    command_line : str
        Options to add to ``ars infer``, or another command. Empty if only Python can do it.
    """

    kind: str
    reason: str
    python: str
    command_line: str


def _step(kind: str, reason: str, python: str, command_line: str) -> Advice:
    """A step whose reason is a sentence, or several."""
    return Advice(kind, reason[0].upper() + reason[1:] + ("" if reason.endswith(".") else "."), python, command_line)


def enough(seen: Seen) -> bool:
    """Whether nothing speaks against the evidence and enough traces count."""
    return seen.ess >= ENOUGH and seen.pareto_k.reliable


def advise(seen: Seen, check: DataCheck | None = None) -> tuple[Advice, ...]:
    """Say what to do next.

    Parameters
    ----------
    seen : Seen
        What the run shows about itself.
    check : DataCheck, optional
        From ``Simulator.check_data``, if the data were compared with prior predictive draws.

    Returns
    -------
    tuple of Advice
        The most promising step first; empty if the weights are good enough.
    """
    if not seen.traces:
        return ()
    found = list(_data(seen, check))
    if not enough(seen):
        for rule in _RULES:
            found += rule(seen)
        if _proposals_at_fault(seen):
            found += [] if check is not None else [_CHECK_DATA]
            found += [_TRAIN] if seen.proposer == "prior" else []
            found += [] if seen.gives_up else [_mcmc(seen)]
    return tuple(found)


# ---- words -----------------------------------------------------------------------------------------------------------


def _round_up(number: float) -> int:
    """To two digits, upwards."""
    digits = max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return math.ceil(number / 10.0**digits) * int(10.0**digits)


def _call(seen: Seen, traces: int | None = None, **options: str) -> str:
    """A call of ``simulator.posterior`` with the proposals of this run, unless ``options`` name others."""
    same = {"network": {"network": "network"}, "hand": {"proposals": "proposals"}, "prior": {}}[seen.proposer]
    if "adapt" in options:
        same = {}
    if seen.in_loops == "prior":
        same = {**same, "in_loops": '"prior"'}
    words = [f"{name}={value}" for name, value in {**same, **options}.items() if value]
    return f"simulator.posterior({', '.join(['observe', f'traces={traces or seen.traces:_}', *words])})"


def _listed(names: Sequence[str], most: int = 3) -> str:
    quoted = [f'"{name}"' for name in names[:most]] + ([f"{len(names) - most} more"] if len(names) > most else [])
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _tail(seen: Seen) -> str:
    k = seen.pareto_k
    if k.unknown:
        return "k is unknown"
    return "the weights have no tail" if k == -math.inf else f"k is {k:.2f} (limit {k.threshold:.2f})"


def _effective(seen: Seen) -> str:
    lost = f" ({seen.excluded_share:.0%} have likelihood 0)" if seen.excluded_share >= _EXCLUDED else ""
    return f"{shown_ess(seen.ess)} of {seen.traces:,} traces are effective{lost}"


def _causes(seen: Seen) -> str:
    """Which latents' proposals the spread of the log weights comes from, if a few stand out."""
    named = {name: share for name, share in seen.spread.items() if name not in _NOT_LATENTS}
    largest = sorted(named, key=lambda name: -named[name])[:3]
    shown = [f'"{name}" ({named[name]:.0%})' for name in largest if named[name] >= 0.15]
    return f" The spread of the log weights is mostly due to the proposals of {', '.join(shown)}." if shown else ""


_NOT_LATENTS: Final = frozenset({"log likelihood", "corrections", "other latents"})


# ---- rules -----------------------------------------------------------------------------------------------------------


def _hard(seen: Seen) -> bool:
    """Whether more traces alone will not do. So few that they could not be enough say nothing about it."""
    if 0.0 < seen.ess and seen.traces < ENOUGH:
        return False
    return seen.ess == 0.0 or (seen.pareto_k >= 0.7 and not _short(seen)) or ENOUGH / seen.ess > _AFFORDABLE


def _short(seen: Seen) -> bool:
    """Whether k is large because the run is short: its tail is a fixed share of the traces, and reaches down to weights
    that do not count if few do. The tail of those that do count is light, then."""
    return seen.pareto_k >= 0.7 and seen.inner_k < 0.5 and _needed(seen) <= _PATIENCE * seen.traces


def _corrections_at_fault(seen: Seen) -> bool:
    """Whether the noise of corrections at least halves the effective traces, or gives the weights their heavy tail."""
    if not seen.loops or seen.in_loops == "prior":
        return False
    spoilt = not seen.pareto_k.reliable and seen.uncorrected_k.reliable
    return seen.correction_noise >= 1.0 - 1.0 / _WORTHWHILE or spoilt


def _noise_at_fault(seen: Seen) -> bool:
    """Whether draws that are not recorded explain at least half of the loss of effective traces, on a log scale."""
    lost = math.log(seen.traces / seen.ess) if seen.ess else math.inf
    return seen.noise.share >= _NOISE_SHARE and seen.noise.variance >= max(1.0, 0.5 * lost)


def _proposals_at_fault(seen: Seen) -> bool:
    """Whether more traces will not do, and nothing else explains it. A network's proposals decide q(A), too."""
    if not _hard(seen) or seen.impossible or _noise_at_fault(seen):
        return False
    sound = seen.uncorrected_k.reliable and seen.uncorrected_ess >= ENOUGH
    return not (_corrections_at_fault(seen) and sound)


def _needed(seen: Seen) -> int:
    """Traces that are likely to be enough: effective ones grow in proportion, and k becomes reliable with
    10^(1/(1 - k)) traces (Vehtari et al. 2024). k is an estimate, so a fifth more."""
    k = max(float(seen.pareto_k), 0.0) if not seen.pareto_k.unknown else 0.0
    # a fitted tail of 3 sqrt(S) weights must not be longer than the effective traces are many, with room to spare
    least = 10.0 ** (1.0 / (1.0 - k)) if k < 0.7 else 1.25 * (3.0 * seen.traces / seen.ess) ** 2
    wanted = 1.2 * max(seen.traces * ENOUGH / seen.ess, least, 25.0 if seen.pareto_k.unknown else 0.0)
    return _round_up(wanted)


def _data(seen: Seen, check: DataCheck | None) -> Iterator[Advice]:
    if seen.impossible:
        reason = (
            f"the likelihood of {_listed(seen.impossible)} is 0 in every trace: the simulator cannot produce these "
            "values with any latents that were drawn. Check the data and their units"
        )
        yield _step("data", reason, "print(simulator.check_data(observe))", "--check-data")
    elif check is not None and check.alarm:
        unseen = "The network has hardly seen such data, and the" if seen.proposer == "network" else "The"
        name = check.stands_out[0].name if check.stands_out else "..."
        reason = f"{check.sentence()} {unseen} model may be wrong: check the data, their units and the prior first"
        yield _step("data", reason, f'simulator.prior(1_000).observations["{name}"]', "")


def _failures(seen: Seen) -> Iterator[Advice]:
    if seen.failed_share >= _FAILED:
        yield _step(
            "failures",
            f"{seen.failed_share:.0%} of the traces failed and have no weight. Repeat one to find the cause",
            "print(post.failures)",
            "ars replay",
        )


def _corrections(seen: Seen) -> Iterator[Advice]:
    """A loop with a small q(A), or a budget that is too small."""
    if not _corrections_at_fault(seen):
        return
    worst = seen.loops[0]
    noise = (
        f"{seen.correction_noise:.0%} of the weights' second moment is noise of corrections"
        if seen.ess
        else "every weight is 0"
    )
    reason = (
        f"{noise}; before corrections {shown_ess(seen.uncorrected_ess)} traces are effective instead of "
        f'{shown_ess(seen.ess)}. Loop "{worst.address}" accepts a share of {worst.q_accept:.2g} of its tries under the '
        f"proposal, {worst.p_accept:.2g} under the prior."
    )
    rejected = worst.q_accept < _SMALL_Q and worst.q_accept < worst.p_accept
    if rejected:
        reason += " A proposal inside it that is accepted more often helps most; a larger budget is the next best"
    else:
        reason += " Give the loops a larger budget"
    M, R = _larger(seen.budget)
    yield _step("corrections", reason, _call(seen, budget=f"ars.Budget(M={M}, R={R})"), f"--budget M={M},R={R}")
    if rejected and seen.proposer == "network" and not _proposals_at_fault(seen):
        reason = f'refinement trains on accepted draws, so that loop "{worst.address}" rejects fewer proposals'
        yield _step("refine", reason, _call(seen, refine="True"), "--refine")


def _larger(budget: Budget | ChosenBudget | None) -> tuple[int, int]:
    """Twice the budget that there was."""
    if isinstance(budget, ChosenBudget):
        levels = [level for each in (*budget.levels.values(), budget.default) for level in each]
        M, R = max(level.M for level in levels), max(level.R for level in levels)
    elif isinstance(budget, Budget):
        M, R = budget.M, 2 if budget.R is None else budget.R
    else:
        M, R = 1, 2
    return 2 * M, max(2 * R, 4)


def _prior_in_loops(seen: Seen) -> Iterator[Advice]:
    expected = seen.ess_prior_in_loops
    if seen.ess >= _FEW and expected >= _WORTHWHILE * seen.ess:
        yield _step(
            "prior in loops",
            f"by these weights, about {shown_ess(expected)} instead of {shown_ess(seen.ess)} traces are effective if "
            "the prior proposes inside loops, where no correction is then needed",
            _call(seen, in_loops='"prior"'),
            "--in-loops prior",
        )


def _nuisance(seen: Seen) -> Iterator[Advice]:
    variance = seen.noise.variance
    if _noise_at_fault(seen):
        yield _step(
            "nuisance",
            "traces with nearly the same latents have log likelihoods that vary with a standard deviation of "
            f"{math.sqrt(variance):.2g}. Draws that are not recorded (ars_draw) would explain that; no proposal can "
            f"remove it: at most about {100 * math.exp(-variance):.2g}% of the traces can be effective. Draw what "
            "matters with ars_sample, or average the likelihood over several draws in each trace",
            'in C: ars_sample("name", ...) instead of ars_draw(...)',
            'in C: ars_sample("name", ...) instead of ars_draw(...)',
        )


def _defensive(seen: Seen) -> Iterator[Advice]:
    """Of traces in which every draw comes from the network there are (1 - share)^draws."""
    intact = (1.0 - seen.defensive) ** seen.proposed_draws
    if seen.defensive and intact <= 1.0 / _WORTHWHILE:
        better = float(f"{max(0.1 / seen.proposed_draws, 1e-6):.1g}")
        yield _step(
            "defensive",
            f"each of about {seen.proposed_draws:.0f} draws comes from the prior with probability {seen.defensive:g}, "
            f"so the network alone draws only {intact:.0%} of the traces. Use a smaller share for such long traces",
            f"network = simulator.train(..., network=ars.NetworkConfig(defensive={better:g}))",
            "",
        )


def _proposals(seen: Seen) -> Iterator[Advice]:
    """Proposals by hand, or of a network, that do worse than the prior."""
    if seen.proposer == "prior" or seen.ess < _FEW:
        return
    worst = max(seen.ess_without, key=seen.ess_without.__getitem__, default=None)
    if seen.proposer == "hand" and worst is not None and seen.ess_without[worst] >= _WORTHWHILE * seen.ess:
        yield _step(
            "proposals",
            f"by these weights, about {shown_ess(seen.ess_without[worst])} instead of {shown_ess(seen.ess)} traces are "
            f'effective if the prior proposes "{worst}": its proposal is too narrow, or misplaced. Widen or '
            "omit it",
            f'{_call(seen)}  # proposals without "{worst}"',
            "",
        )
    elif seen.ess_prior >= _WORTHWHILE * seen.ess:
        who = "the network" if seen.proposer == "network" else "these proposals"
        yield _step(
            "proposals",
            f"by these weights, the prior does better than {who}: about {shown_ess(seen.ess_prior)} instead of "
            f"{shown_ess(seen.ess)} traces would be effective",
            _call(seen, network="", proposals=""),
            "omit --network" if seen.proposer == "network" else "",
        )


def _unproposed(seen: Seen) -> Iterator[Advice]:
    if seen.proposer == "network" and seen.left_to_prior:
        yield _step(
            "unknown latents",
            f"the network does not know {_listed(seen.left_to_prior)}, which the prior proposed. Train on more traces, "
            "or on this version of the simulator",
            "network = simulator.train(traces, seed=...)",
            "ars train",
        )


def _traces(seen: Seen) -> Iterator[Advice]:
    if _hard(seen):
        return
    needed = _needed(seen)
    light = "" if seen.pareto_k.unknown else ": the tail is light"
    if _short(seen):
        light = f". The largest weights alone have a light tail: their k is {seen.inner_k:.2f}"
    elif not seen.pareto_k.reliable and not seen.pareto_k.unknown:
        light = f". With so few traces, k should be below {seen.pareto_k.threshold:.2f}"
    yield _step(
        "traces",
        f"{_effective(seen)}, and {_tail(seen)}{light}. "
        f"About {needed:,} traces are enough for {ENOUGH:.0f} effective ones",
        _call(seen, needed),
        f"--traces {needed}",
    )


def _refine(seen: Seen) -> Iterator[Advice]:
    """The proposals are the problem."""
    if not _proposals_at_fault(seen):
        return
    nothing = "every weight is 0" if seen.ess == 0.0 else f"{_effective(seen)}, and {_tail(seen)}"
    if seen.refined and seen.proposer == "prior":
        reason = f"{nothing}: adaptation found nothing better than the prior. More rounds with more traces may help"
        python = _call(seen, adapt="ars.RefineConfig(rounds=24, traces=20_000)")
        yield _step("adapt", reason, python, "--refine-rounds 24 --refine-traces 20000")
        return
    if seen.refined:
        reason = f"{nothing}, although the network was refined.{_causes(seen)} More rounds with more traces may help"
        python = _call(seen, refine="ars.RefineConfig(rounds=24, traces=20_000)")
        yield _step("refine", reason, f"{python}  # or adapt=", "--refine-rounds 24 --refine-traces 20000")
        return
    if seen.proposer == "network":
        reason = (
            f"{nothing}: the network's proposals do not fit these data well enough.{_causes(seen)} Refine it for them"
        )
        yield _step("refine", reason, _call(seen, refine="True"), "--refine")
        return
    if seen.proposer == "hand":
        left = f" The prior proposed {_listed(seen.left_to_prior)}." if seen.left_to_prior else ""
        reason = f"{nothing}: the proposals do not fit the posterior.{_causes(seen)}{left} Let libars adapt them"
    else:
        reason = (
            f"{nothing}: the posterior is far narrower than the prior, which proposed. Adapt the proposals to the data"
        )
    yield _step("adapt", reason, _call(seen, adapt="True"), "--adapt")


def _patience(seen: Seen) -> Iterator[Advice]:
    """Many more traces, where they do help in the end."""
    if _hard(seen) and seen.ess >= _FEW and seen.pareto_k.reliable:
        needed = _needed(seen)
        yield _step(
            "traces",
            f"or run more traces: {_tail(seen)}, so that effective ones grow in proportion, and about {needed:,} are "
            "enough",
            _call(seen, needed),
            f"--traces {needed}",
        )


_CHECK_DATA: Final = _step(
    "check data",
    "compare the data with prior draws, in case they are unlike anything that the simulator produces",
    "print(simulator.check_data(observe))",
    "--check-data",
)


_TRAIN: Final = _step(
    "train",
    "for many data sets of one kind, train a network that proposes for all of them",
    "network = simulator.train(200_000, lstm_dim=128)",
    "ars train",
)


def _mcmc(seen: Seen) -> Advice:
    same = {"network": ", network=network", "hand": ", proposals=proposals", "prior": ""}[seen.proposer]
    reason = "if k remains too large, use MCMC, which needs no weights but chains that mix"
    return _step("mcmc", reason, f"simulator.mcmc(observe, steps=2_000{same})", "ars mcmc ... --steps 2000")


_RULES: Final[tuple[Callable[[Seen], Iterator[Advice]], ...]] = (
    _failures,
    _corrections,
    _prior_in_loops,
    _nuisance,
    _proposals,
    _traces,
    _defensive,
    _unproposed,
    _refine,
    _patience,
)


# ---- text ------------------------------------------------------------------------------------------------------------


def advice_lines(steps: Sequence[Advice], interface: Interface) -> list[str]:
    """The first steps as lines for a summary, with the calls of one interface.

    Parameters
    ----------
    steps : sequence of Advice
        From ``advise``.
    interface : {"python", "command line"}
        Whose calls to show. A step that only Python can take shows the call in Python.

    Returns
    -------
    list of str
        At most three steps; empty if there are none.
    """
    lines: list[str] = []
    for number, step in enumerate(steps[:_SHOWN], 1):
        start = "next: " if number == 1 else "      "
        label = f"{number}. " if len(steps) > 1 else ""
        indent = " " * (len(start) + len(label))
        lines += textwrap.wrap(
            f"{start}{label}{step.reason}",
            _WIDTH,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines.append(f"{indent}  {call_of(step, interface)}")
    return [*lines, f"      {PAGE} explains the steps"] if lines else []


def call_of(step: Advice, interface: Interface) -> str:
    """The call of one interface; that of Python, marked, where the command line has none."""
    if interface == "python":
        return step.python
    if step.command_line.startswith("--"):
        return f"ars infer ... {step.command_line}"
    return step.command_line or f"in Python: {step.python}"
