#!/usr/bin/env python3
"""A stand-in for Slurm: sbatch, squeue and scancel, whichever name it is called by.

sbatch starts the script for real, in a session of its own, as a node would. State is in the folder $SLURM_STANDIN: one
file per job. A file "pending" there makes all jobs wait for ever, and a file "refuse" holds what sbatch says instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(os.environ["SLURM_STANDIN"])
PATIENCE = 10.0  # seconds that a job has to end after SIGTERM


def directives(script: Path) -> dict[str, str]:
    """-J NAME and the like of the lines #SBATCH."""
    words = [line.split()[1:] for line in script.read_text().splitlines() if line.startswith("#SBATCH ")]
    return {each[0]: each[1] for each in words if len(each) == 2}


def sbatch(words: list[str]) -> int:
    if (HERE / "refuse").exists():
        sys.stderr.write((HERE / "refuse").read_text())
        return 1
    for number in range(1, 1000):  # several may be submitted at once
        try:
            (HERE / f"{number}.sh").touch(exist_ok=False)
            break
        except FileExistsError:
            continue
    script = Path(shutil.copy(words[-1], HERE / f"{number}.sh"))
    asked = directives(script)
    job = {"number": number, "name": asked["-J"], "pid": 0}
    if not (HERE / "pending").exists():
        streams = {flag: open(asked[flag].replace("%J", str(number)), "w") for flag in ("-o", "-e")}  # noqa: SIM115
        environment = {**os.environ, "SLURM_JOB_ID": str(number)}
        options = {"stdin": subprocess.DEVNULL, "stdout": streams["-o"], "stderr": streams["-e"]}
        job["pid"] = subprocess.Popen(["bash", script], start_new_session=True, env=environment, **options).pid
    (HERE / f"{number}.json").write_text(json.dumps(job))
    sys.stdout.write(f"Submitted batch job {number}\n")
    return 0


def alive(pid: int) -> bool:
    """Whether a process of the job's session is there. One that has ended and that nobody waits for is not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != "Z":
            return True
    return False


def jobs(words: list[str]) -> list[dict[str, object]]:
    """Those that have not ended, with the name or the numbers that are asked for."""
    found = [json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))]
    names = [word.partition("=")[2] for word in words if word.startswith("--name=")]
    numbers = [int(word) for word in words if word.isdigit()]
    return [
        job
        for job in found
        if (job["name"] in names or job["number"] in numbers) and (job["pid"] == 0 or alive(job["pid"]))
    ]


def squeue(words: list[str]) -> int:
    for job in jobs(words):
        state = "RUNNING|None" if job["pid"] else "PENDING|Resources"
        sys.stdout.write(f"{job['number']}|{state}\n")
    return 0


def scancel(words: list[str]) -> int:
    ending = jobs(words)
    for job in ending:
        if not job["pid"]:
            (HERE / f"{job['number']}.json").unlink()
            continue
        os.killpg(job["pid"], signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    for job in ending:
        while job["pid"] and alive(job["pid"]):
            if time.monotonic() > deadline:
                os.killpg(job["pid"], signal.SIGKILL)
            time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit({"sbatch": sbatch, "squeue": squeue, "scancel": scancel}[Path(sys.argv[0]).name](sys.argv[1:]))
