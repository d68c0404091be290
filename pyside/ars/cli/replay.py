"""``ars replay``: one trace of a run again, alone, so that a debugger can be attached."""

from __future__ import annotations

import argparse
import functools
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ars.arguments import LARGEST_SEED
from ars.budget import Budget
from ars.cli.budget_words import add_budget, words_of
from ars.cli.documents import add_json, print_document
from ars.cli.infer import add_data, read_data, run_options
from ars.cli.options import UsageError, add_continuations, add_limits, add_seed, add_simulator, at_least, limits

if TYPE_CHECKING:
    from ars.posterior import Posterior, Traces
    from ars.simulator import Simulator

HELP = "Rerun a single trace, given its seed and number."
_BUDGET = " ".join(words_of(Budget())[1:])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser)
    add_seed(parser, required=True)
    parser.add_argument(
        "--trace",
        type=at_least(0, LARGEST_SEED - 1),
        required=True,
        metavar="N",
        help="number of the trace in the run (required)",
    )
    add_data(parser)
    add_budget(parser, f"default: {_BUDGET}; auto is refused, because it plans for many traces")
    add_continuations(parser)
    add_limits(parser, without="max_restarts")
    add_json(parser)
    parser.add_argument("--wait", action="store_true", help="print the process id and wait for Enter")
    parser.add_argument(
        "--debugger",
        metavar="COMMAND",
        help='debugger to attach before the trace begins; {pid} stands for the process id, e.g. "gdb -p {pid}"',
    )


def run(arguments: argparse.Namespace) -> int:
    """0 if the trace is complete, 1 if it fails."""
    from ars import Simulator

    data = _data(arguments)
    options = _options(arguments)
    stops = arguments.wait or arguments.debugger is not None
    untimed = {"trace_timeout": 0.0, "try_timeout": 0.0} if stops else {}
    with Simulator(
        arguments.command_line,
        workers=1,
        max_restarts=0,
        **limits(arguments) | untimed,
        show_stdout=not arguments.json,
        env={"ARS_PREFORK": "1"},
    ) as sim:
        debugger = _attach(sim, arguments) if stops else None
        try:
            traces: Traces
            which: dict[str, Any] = {"seed": arguments.seed, "first_trace": arguments.trace, "on_failure": "zero"}
            traces = sim.posterior(data, 1, **options, **which) if data else sim.prior(1, **which)
        finally:
            if debugger is not None:
                debugger.wait()
    if arguments.json:
        print_document(_document(traces, arguments))
        return 1 if traces.failures else 0
    return _show(traces, arguments)


def _data(arguments: argparse.Namespace) -> dict[str, Any]:
    """The data; none for a trace of the prior, where options that concern proposals would be ignored."""
    if arguments.observe or arguments.observe_file is not None:
        return read_data(arguments)
    for name in ("network", "budget", "in_loops", "continuations"):
        if getattr(arguments, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} goes with data: use --observe y=0.5 or --observe-file data.json"
            )
    return {}


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """As of a run, but with a fixed budget: a plan is made for many traces."""
    if arguments.budget == "auto":
        raise UsageError(
            "--budget auto plans for many traces; give the budget that this trace had, such as --budget M=1,R=2 "
            "(post.budget and the error of a failed run have it)"
        )
    return run_options(arguments, _BUDGET)


# ---- the debugger ----------------------------------------------------------------------------------------------------


def _worker(sim: Simulator) -> int:
    """The process that will run the trace: the only child of the zygote."""
    from ars.runtime.processes import Processes

    processes = sim._processes
    assert isinstance(processes, Processes)  # of this machine
    zygote = processes.ready().hello.zygote_pid
    path = Path(f"/proc/{zygote}/task/{zygote}/children")
    for _ in range(1000):
        if pids := path.read_text().split():
            return int(pids[0])
        time.sleep(0.01)
    raise RuntimeError("no worker was forked")


def _traced(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)


def _attach(sim: Simulator, arguments: argparse.Namespace) -> subprocess.Popen[bytes] | None:
    """Returns when the trace may begin."""
    pid = _worker(sim)
    say = functools.partial(print, flush=True, file=sys.stderr if arguments.json else sys.stdout)
    say(f"process {pid} will run trace {arguments.trace}")
    if arguments.debugger is None:
        say(f"attach a debugger (gdb -p {pid}), let it continue, then press Enter here")
        sys.stdin.readline()
        return None
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the debugger's now
    command = arguments.debugger if "{pid}" in arguments.debugger else f"{arguments.debugger} {{pid}}"
    debugger = subprocess.Popen(shlex.split(command.replace("{pid}", str(pid))))
    while debugger.poll() is None and not _traced(pid):
        time.sleep(0.02)
    return debugger


# ---- the trace -------------------------------------------------------------------------------------------------------


def _how(loop: np.void) -> str:
    """How an entry of a loop was estimated."""
    from ars.results.continuations import how_estimated

    estimation = how_estimated(np.array([loop]))
    return f"{estimation.method}: {estimation.reason}" if estimation.reason else estimation.method


def _counts(loop: np.void) -> str:
    """The tries of an entry, and those of its continuations if it has any."""
    tries = int(loop["tries"])
    counts = "1 try" if tries == 1 else f"{tries} tries"
    if not loop["runs_p"]:
        return counts
    if loop["tries_q"]:
        counts += f"; under q {int(loop['accepted_q'])} of {int(loop['tries_q'])} accepted"
    else:
        counts += "; under q no continuation"
    return f"{counts}, under p {int(loop['runs_p'])} of {int(loop['tries_p'])} ({_how(loop)})"


def _show(traces: Traces | Posterior, arguments: argparse.Namespace) -> int:
    from ars.posterior import Posterior

    if traces.failures:
        failure = traces.failures.examples[0]
        print(failure)
        if failure.stderr:
            print("the simulator's last lines on stderr:\n  " + "\n  ".join(failure.stderr.splitlines()))
        return 1
    print(f"trace {arguments.trace} of seed {arguments.seed} is complete")
    for sample in traces.columns.samples:
        site = traces.sites[int(sample["site"])]
        print(f"  {site.address}[{int(sample['instance'])}] = {float(sample['value'])!r}")
    for name in traces.results:
        print(f"  result {name} = {traces[name][0].tolist()!r}")
    for loop in traces.columns.loops:
        print(f"  loop {traces.sites[int(loop['site'])].address}: {_counts(loop)}")
    if isinstance(traces, Posterior):
        print(f"  log weight ({traces.method}) = {float(traces.log_weights()[0])!r}")
    return 0


def _document(traces: Traces | Posterior, arguments: argparse.Namespace) -> dict[str, Any]:
    """The same for programs."""
    from ars.posterior import Posterior

    failure = traces.failures.examples[0] if traces.failures else None
    address = [site.address for site in traces.sites]
    weighted = isinstance(traces, Posterior) and failure is None
    return {
        "seed": arguments.seed,
        "trace": arguments.trace,
        "complete": failure is None,
        "failure": None if failure is None else {"text": str(failure), "stderr": failure.stderr},
        "draws": [
            {"address": address[int(each["site"])], "instance": int(each["instance"]), "value": float(each["value"])}
            for each in traces.columns.samples
        ],
        "results": {} if failure else {name: traces[name][0] for name in traces.results},
        "loops": [
            {
                "address": address[int(each["site"])],
                **{name: int(each[name]) for name in ("tries", "accepted_q", "tries_q", "runs_p", "tries_p")},
            }
            for each in traces.columns.loops
        ],
        "method": traces.method if isinstance(traces, Posterior) else None,
        "log_weight": float(traces.log_weights()[0]) if weighted and isinstance(traces, Posterior) else None,
    }
