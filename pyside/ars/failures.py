"""Failed traces: what each one says, how many there are of each kind, and what the kinds are."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ars._native import NO_SITE, FailureKind, failure_name
from ars.columns import Site

__all__ = ["EXAMPLES_PER_KIND", "KINDS", "Failure", "Failures", "describe", "failures_of"]

EXAMPLES_PER_KIND: Final = 3

# Everything that can go wrong while a simulator runs, one name each; their codes are in wire.h. The last two concern no
# single trace, and are never counted as one: they are incidents. A lost host is started again (a HostLostError if that
# does not help). A lost controller, which is we, takes its own post.failures with it: ars-host says so on its stderr
# when it ends, and the run that resumes the work (resume=) has it among its incidents.
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "crash": "a process of the trace was ended by a signal",
        "exit": "a process of the trace exited in the middle of the trace",
        "timeout": "the trace took longer than trace_timeout, excluding waits for a core",
        "too_many_tries": "a loop was not accepted in max_tries tries",
        "nan": "a NaN or an infinite value where there must be none",
        "misuse": "a call of libars that is not allowed at this point",
        "loop_left": "a loop was left without rs_end",
        "rs_end": "rs_end without rs_start",
        "observe_in_loop": "an observation inside a loop",
        "parameter": "wrong parameters of a distribution",
        "site_changed": "a site's kind of distribution changed",
        "observation": "the observed data do not match the simulator's observations, or have impossible values",
        "fork": "the system, or max_processes, refused a fork",
        "threads": "the simulator has more than one thread where libars forks it, or a second one called libars",
        "memory": "out of memory",
        "limit": "a limit of libars: loops per trace, sites, sizes",
        "protocol": "a process of the trace sent invalid data",
        "outside_trace": "a draw outside a trace",
        "lost": "a process of the trace vanished for an unknown reason",
        "try_timeout": "one try of a loop took longer than try_timeout, excluding waits for a core",
        "lost_host": "ars-host or the zygote ended in the middle of a run",
        "lost_controller": "the controller was killed; ars-host ended its family, and another resumed the run",
    }
)


class Failure(NamedTuple):
    """One failed trace; or, with trace -1, an incident: "lost_host" or "lost_controller"."""

    trace: int
    kind: str  # one of KINDS
    detail: int  # the signal of a crash, the code of an exit, the errno of a refused fork; else 0
    text: str  # what, where and what to do
    loop: str = ""  # address of the innermost open loop, if there was one
    site: str = ""  # address of the last sample, observation or result that was reached
    seed: int | None = None  # with the number of the trace, all that is needed to run it again
    stderr: str = ""  # the last lines that the simulator had written when the failure came

    def __str__(self) -> str:
        what = f"{self.kind} ({_signal_name(self.detail)})" if self.kind == "crash" else self.kind
        where = f" (in the loop {self.loop}{f', after {self.site}' if self.site else ''})" if self.loop else ""
        if self.site and not where:
            where = f" (after {self.site})"
        return f"trace {self.trace}: {what}: {self.text}{where}" if self.trace >= 0 else f"{what}: {self.text}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _text(raw: bytes) -> str:
    return bytes(raw).split(b"\0", 1)[0].decode("utf-8", "replace")


def failures_of(
    records: npt.NDArray[Any],
    sites: Sequence[Site] = (),
    seed: int | None = None,
    stderr: Mapping[int, str] = MappingProxyType({}),
) -> list[Failure]:
    """The failures in an array of ars_wire_failure. ``stderr``: the last lines at the time, by trace."""

    def address(number: int) -> str:
        return sites[number].address if number != NO_SITE and number < len(sites) else ""

    return [
        Failure(
            int(r["trace"]),
            failure_name(int(r["kind"])),
            int(r["detail"]),
            _text(r["text"]),
            address(int(r["loop"])),
            address(int(r["site"])),
            seed,
            stderr.get(int(r["trace"]), ""),
        )
        for r in np.atleast_1d(records)
    ]


def describe(failures: Sequence[Failure], at_most: int = 3, *, advice: Callable[[Failure], str] | None = None) -> str:
    """The first few failures in words, one per line, and how to run the first again, which ``advice`` knows."""
    lines = [str(failure) for failure in failures[:at_most]]
    if len(failures) > at_most:
        lines.append(f"and {len(failures) - at_most} more")
    first = failures[0] if failures else None
    if first is not None and first.stderr:
        lines.append("The simulator's last lines on stderr:\n  " + "\n  ".join(first.stderr.splitlines()[-5:]))
    if first is not None and first.seed is not None and advice is not None:
        lines.append(f"To rerun only this trace: {advice(first)}")
    return "\n".join(lines)


def _in_order(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts in the order of the kinds' codes."""
    order = {failure_name(code): code for code in FailureKind}
    return {kind: counts[kind] for kind in sorted(counts, key=lambda k: order.get(k, len(order)))}


class Failures(Mapping[str, int]):
    """The number of failed traces by kind, with a few examples of each: ``post.failures``. False if there are none.

    ``incidents`` are events that cost time but no trace: hosts that were lost and restarted, controllers that were lost
    before the run was resumed.
    """

    def __init__(
        self,
        failures: Iterable[Failure] = (),
        *,
        examples_per_kind: int = EXAMPLES_PER_KIND,
        incidents: Iterable[Failure] = (),
    ) -> None:
        counts: Counter[str] = Counter()
        examples: list[Failure] = []
        for failure in failures:
            counts[failure.kind] += 1
            if counts[failure.kind] <= examples_per_kind:
                examples.append(failure)
        self._counts = _in_order(counts)
        self.examples: tuple[Failure, ...] = tuple(examples)
        self.incidents: tuple[Failure, ...] = tuple(incidents)

    @classmethod
    def counted(cls, counts: Mapping[str, int], examples: Iterable[Failure], incidents: Iterable[Failure]) -> Failures:
        """Failures whose counts and a few examples are known, from a file or from several runs."""
        found = cls(examples, incidents=incidents)
        found._counts = _in_order(counts)
        return found

    def __getitem__(self, kind: str) -> int:
        return self._counts[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        """How many kinds there are; ``total`` counts the traces."""
        return len(self._counts)

    @property
    def total(self) -> int:
        """The number of failed traces."""
        return sum(self._counts.values())

    def __repr__(self) -> str:
        lines: list[str] = []
        if self._counts:
            counted = ", ".join(f"{kind}: {count:,}" for kind, count in self._counts.items())
            lines += [f"{self.total:,} failed traces ({counted})", *(f"  {example}" for example in self.examples)]
        told = {
            "lost_host": "the simulator was started again {:,} times",
            "lost_controller": "the run was resumed after {:,} lost controllers",
        }
        for kind, text in told.items():
            if some := [incident for incident in self.incidents if incident.kind == kind]:
                lines += [text.format(len(some)), f"  {some[0]}"]
        return "\n".join(lines) or "no failures"
