"""The commands of Slurm beside sbatch: what has become of our jobs, and how to end them."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final, NamedTuple

from ars.errors import LaunchError

__all__ = ["QueuedJob", "SlurmQueue"]

_WITHIN: Final = 60.0  # seconds for a command of Slurm; a controller under load takes its time
_NEEDED: Final = ("sbatch", "squeue", "scancel")


class QueuedJob(NamedTuple):
    """A job that has not ended."""

    number: str
    state: str  # e.g. PENDING or RUNNING
    reason: str  # why it waits, e.g. Resources or Priority

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.state == "PENDING" and self.reason not in ("", "None") else ""
        return f"job {self.number} {self.state.lower()}{reason}"


class SlurmQueue:
    """The jobs with one name, which no other jobs have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def check(self) -> None:
        """Raises LaunchError if this machine has no Slurm."""
        if missing := [word for word in _NEEDED if shutil.which(word) is None]:
            raise LaunchError(
                f"{', '.join(missing)} not found on the PATH: run ars cluster slurm on a machine that can submit jobs"
            )

    def jobs(self) -> list[QueuedJob] | None:
        """Those that have not ended; None if Slurm does not say."""
        done = _slurm("squeue", "--noheader", f"--name={self._name}", "--format=%i|%T|%r")
        if done is None or done.returncode != 0:
            return None
        lines = [line.strip().split("|") for line in done.stdout.splitlines() if line.count("|") == 2]
        return [QueuedJob(*words) for words in lines]

    def cancel(self) -> str:
        """Ends all. Returns what went wrong, "" if nothing did."""
        done = _slurm("scancel", f"--name={self._name}")
        if done is None:
            return f"scancel did not answer within {_WITHIN:g} s"
        return "" if done.returncode == 0 else done.stderr.strip() or f"scancel ended with {done.returncode}"


def _slurm(*words: str) -> subprocess.CompletedProcess[str] | None:
    """None if it cannot be run, or does not end."""
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=_WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
