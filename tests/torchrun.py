"""Starts processes with torchrun, for tests of training on several ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

__all__ = ["LIMIT", "finished", "started"]

LIMIT = 540.0  # seconds: a guard against hanging, nothing else


def started(words: Sequence[str], ranks: int = 2, extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """``torchrun --nproc-per-node RANKS WORDS``, with its output in pipes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | dict(extra or {})
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code and output. One that does not end is ended, with its ranks, and fails the test."""
    try:
        out, err = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # torchrun passes it on, and kills what does not heed it
        out, err = process.communicate()
        raise AssertionError(f"the ranks did not end within {LIMIT} seconds:\n{out}\n{err}") from None
    return process.returncode, out, err
