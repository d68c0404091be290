"""The verdict on each promise, and the report that holds them all."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

__all__ = ["PROMISES", "CheckReport", "Finding", "Verdict"]

Verdict = Literal["kept", "suspect", "broken", "not checked"]

# Every promise, in the order of the report.
PROMISES: Final[Mapping[str, str]] = {
    "completes": "traces complete without a failure",
    "replays": "a trace gives the same bits whenever it is run",
    "tries": "the tries of a loop are independent and alike",
    "effects": "tries change nothing outside the process",
    "marked": "rejection loops are marked",
}

_WORST: Final = ("broken", "suspect", "not checked", "kept")
_SIGNS: Final = {"kept": "ok", "suspect": "?", "broken": "!", "not checked": "-"}
_WIDTH: Final = 100


@dataclass(frozen=True)
class Finding:
    """One finding of a check.

    Attributes
    ----------
    promise : str
        Key of ``PROMISES``.
    verdict : {"kept", "suspect", "broken", "not checked"}
        "broken": the weights cannot be trusted. "suspect": someone who knows the simulator should look at it.
    text : str
        What was found, and what to do about it.
    subject : str
        Address of the loop or latent; "" if the finding is about the whole simulator.
    """

    promise: str
    verdict: Verdict
    text: str
    subject: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The findings of ``Simulator.check``. ``print`` shows them as a readable report.

    Attributes
    ----------
    command : tuple of str
        The simulator's command line.
    traces : int
        Traces per run.
    seed : int
        Seed of all runs: the same seed gives the same report.
    findings : tuple of Finding
        At least one for every promise.
    """

    command: tuple[str, ...]
    traces: int
    seed: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if no promise is broken or suspect."""
        return not self.problems

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that need attention, broken promises first."""
        odd = [each for each in self.findings if each.verdict in ("broken", "suspect")]
        return tuple(sorted(odd, key=lambda each: _WORST.index(each.verdict)))

    def verdict(self, promise: str) -> Verdict:
        """The worst verdict on one promise; "not checked" only if nothing about it was checked."""
        seen = {each.verdict for each in self.findings if each.promise == promise}
        if "kept" in seen:
            seen.discard("not checked")
        return next((each for each in ("broken", "suspect", "kept") if each in seen), "not checked")

    def document(self) -> dict[str, Any]:
        """The report as JSON-ready data."""
        return {
            "command": list(self.command),
            "traces": self.traces,
            "seed": self.seed,
            "ok": self.ok,
            "promises": {promise: self.verdict(promise) for promise in PROMISES},
            "findings": [asdict(each) for each in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"{' '.join(self.command)}: {self.traces:,} traces, seed {self.seed}", ""]
        for promise, words in PROMISES.items():
            verdict = self.verdict(promise)
            lines.append(f"{_SIGNS[verdict]:>3} {words}: {verdict}")
            for finding in self.findings:
                if finding.promise == promise and not (finding.verdict == "kept" and not finding.text):
                    lines += textwrap.wrap(
                        finding.text,
                        _WIDTH,
                        initial_indent="      ",
                        subsequent_indent="      ",
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
        return "\n".join(lines)
