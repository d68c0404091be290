"""The random programs of several test files. To fit their proposals takes half a minute, so the workers of a run of
tests share what one of them has made."""

from __future__ import annotations

import fcntl
import os
import pickle

import pytest
from fit_programs import fit
from program_author import generate
from programs import Program


def random_programs(factory: pytest.TempPathFactory, seed: int, number: int) -> list[Program]:
    """The first programs of a seed."""
    directory = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each has a directory of its own in that of the whole run
        directory = directory.parent
    file = directory / f"programs-{seed}-{number}.pickle"
    with (directory / f"{file.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            made = [generate(seed, index, fit) for index in range(number)]
            partial = file.with_suffix(".partial")  # one that is interrupted leaves no half of a file
            partial.write_bytes(pickle.dumps(made))
            partial.replace(file)
    found: list[Program] = pickle.loads(file.read_bytes())
    return found
