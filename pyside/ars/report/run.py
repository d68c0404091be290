"""How a run went and how to repeat it: failures, cost, settings, versions."""

from __future__ import annotations

import datetime as dt
import json
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from ars.failures import KINDS, Failure
from ars.report.given import Given
from ars.report.page import Block, Cell, Code, Column, Fact, Facts, Note, Section, Table, Text, number_cell
from ars.results.export import library_version

if TYPE_CHECKING:
    from ars.posterior import Posterior
    from ars.results.run_info import RunInfo

__all__ = ["cost_section", "failures_section", "run_section", "settings_table", "versions"]

_PACKAGES: Final = ("numpy", "torch", "pyzmq")
_REPLAYED: Final = 3  # failures whose command is shown, and one of every kind


def versions() -> dict[str, str]:
    """What made the numbers, by name."""
    found = {"libars": library_version(), "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {**found, "System": f"{platform.system()} {platform.release()}, {platform.machine()}"}


def settings_table(caption: str, settings: Mapping[str, Any]) -> Table:
    """Two columns: names and values."""
    rows = [[Cell(name), Cell(str(value))] for name, value in settings.items()]
    return Table(caption, [Column("Setting", numeric=False), Column("Value", numeric=False)], rows)


# ---- failures --------------------------------------------------------------------------------------------------------


def failures_section(post: Posterior, given: Given) -> Section:
    """How many traces failed, why, and how to run one of them again."""
    failures = post.failures
    blocks: list[Block] = []
    if failures.total:
        share = failures.total / max(int(post.stats.get("traces", len(post))), 1)
        treated = {"zero": "They have weight 0.", "skip": "They are omitted, which can bias the result."}
        text = f"{failures.total:,} traces failed ({share:.2%}). {treated.get(post.run.on_failure, '')}".strip()
        blocks.append(Note("bad" if share > 0.05 else "caution", text))
        columns = [Column("Kind", numeric=False), Column("Traces"), Column("Meaning", numeric=False)]
        rows = [
            [Cell(kind, code=True), number_cell(n, ",d"), Cell(KINDS.get(kind, ""))] for kind, n in failures.items()
        ]
        blocks.append(Table("Failures by kind", columns, rows))
        replay = given.replay or _replay(post)
        for example in _examples(failures.examples):
            blocks.append(Text(f"{example}"))
            blocks.append(Code(replay(example), f"Run trace {example.trace} again, alone"))
            if example.stderr:
                blocks.append(Code(example.stderr, "Its last lines on stderr"))
    for incident in failures.incidents:
        blocks.append(Text(str(incident)))
    return Section("Failures", blocks or [Text("No trace failed.")])


def _examples(found: Sequence[Failure]) -> list[Failure]:
    """The first failure of every kind, and more of them if that is less than a few; in the order of their traces."""
    kinds: dict[str, Failure] = {}
    for each in found:
        kinds.setdefault(each.kind, each)
    first = list(kinds.values())
    more = [each for each in found if each not in first][: max(_REPLAYED - len(first), 0)]
    return [each for each in found if each in first or each in more]


def _replay(post: Posterior) -> Callable[[Failure], str]:
    """What a posterior itself knows of how it was run. A proposer cannot be written as a command."""
    from ars.runtime.limits import Limits
    from ars.runtime.replay_advice import Replay, observe_options

    options = None if post.run.proposed else observe_options(post.observed)
    return Replay(True, post.run.simulator, Limits(), options).advice


# ---- cost ------------------------------------------------------------------------------------------------------------


def cost_section(post: Posterior) -> Section:
    """Time, speed and counters."""
    stats = post.stats
    continuations = int(stats.get("continuations", 0))
    how = f"{int(stats.get('rewinds', 0)):,} rewound, {int(stats.get('forks', 0)):,} forked"
    effective = post.ess() if post.method in post._available() and len(post) else 0.0
    facts = []
    if stats.get("seconds"):
        facts += [
            Fact("Time", _duration(stats["seconds"]), "of this run, without training"),
            Fact("Traces per second", f"{stats.get('traces_per_second', 0.0):,.0f}"),
            Fact("Effective traces per second", _rate(effective / stats["seconds"])),
        ]
    facts.append(Fact("Continuations", f"{continuations:,}", how))
    if stats.get("requests"):
        facts.append(Fact("Proposals requested", f"{int(stats['requests']):,}"))
    rows = [[Cell(name.replace("_", " ")), number_cell(float(value), ",.6g")] for name, value in sorted(stats.items())]
    return Section("Cost", [Facts(facts), Table("Counters", [Column("Counter", numeric=False), Column("Value")], rows)])


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 10.0 else f"{per_second:.2g}"


def _duration(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


# ---- the run ---------------------------------------------------------------------------------------------------------


def run_section(post: Posterior, given: Given) -> Section:
    """Everything that is needed to repeat it."""
    run = post.run
    settings: dict[str, Any] = {
        "Simulator": shlex.join(run.simulator),
        "Its code (SHA-256)": run.build or "unknown",
        "Seed": run.seed,
        "Traces": f"{len(post):,}",
        "Data": "; ".join(f"{name}: {_numbers(values.size)}" for name, values in post.observed.items())
        or "the program's own",
        "Proposals": _proposals(run),
        "Budget": "none" if post.budget is None else str(post.budget),
        "In loops": f"the {run.in_loops} proposes",
        "On failure": run.on_failure,
        **versions(),
        "Report made": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    blocks: list[Block] = [Code(given.command, "Command")] if given.command else []
    return Section("How it was run", [*blocks, settings_table("Settings and versions", settings)])


def _numbers(size: int) -> str:
    return "1 number" if size == 1 else f"{size:,} numbers"


def _proposals(run: RunInfo) -> str:
    """Who proposed, with a digest of the network."""
    try:
        said = json.loads(run.proposals) if run.proposals else {}
    except ValueError:
        said = {}
    network = said.get("network")
    if network:
        digest = network.get("sha256", "") if isinstance(network, dict) else str(network)
        refined = ", refined for these data" if run.refined else ""
        return f"a network{refined} (SHA-256 {digest}), with {run.defensive:.0%} of the prior mixed in"
    if said.get("proposals"):
        return "; ".join(f"{name}: {each.get('proposal', 'a function')}" for name, each in said["proposals"].items())
    return "by hand" if run.proposed else "the prior"
