"""``ars reproduce``: the paper's experiments, from nothing to figures and tables."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.documents import add_json, print_document
from ars.cli.options import add_continuations, add_out, add_seed, at_least, limits
from ars.cli.report_words import add_report, command_of

if TYPE_CHECKING:
    from ars.progress import Progress

HELP = "Run the paper's experiments, with figures, tables and a page for each."

_EXPERIMENTS = ("beta", "marsaglia", "mini-sherpa")
_SEED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", choices=(*_EXPERIMENTS, "all"), help="the experiment")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="finish in minutes per experiment on two cores (the default)"
    )
    size.add_argument("--full", action="store_true", help="use the networks of the paper; this takes hours")
    size.add_argument("--tiny", action="store_true", help="finish in seconds, only to check that the experiments run")
    add_out(parser, "results", "folder with one subfolder per experiment (default: ./results)")
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="DIR",
        help="also copy pages, figures and tables to this folder, without the stages",
    )
    add_report(parser, "a report of all experiments, figures included,")
    parser.add_argument(
        "--no-resume",
        dest="resume",
        action="store_false",
        help="repeat everything (default: keep finished stages with the same settings and seed)",
    )
    parser.add_argument("--repeats", type=at_least(2), metavar="N", help="runs per observation; the paper has 100")
    parser.add_argument(
        "--traces", type=at_least(50), metavar="N", help="traces in each of these runs; the paper has 100,000"
    )
    add_seed(parser, default=_SEED)
    add_json(parser)
    add_continuations(parser)
    parser.add_argument(
        "--simulators",
        type=Path,
        metavar="DIR",
        help="folder of the executables of csim/ (default: compiled when needed)",
    )


class _Terminal:
    """Says on stderr how things go."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        seconds = round(time.monotonic() - self._started)
        print(f"[{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}] {text}", file=sys.stderr, flush=True)

    def progress(self, label: str) -> Progress:
        from ars.progress import StreamProgress

        return StreamProgress(sys.stderr, label=label)


def run(arguments: argparse.Namespace) -> int:
    from ars_lab.reproduce.driver import EXPERIMENTS, reproduce
    from ars_lab.reproduce.page import publish
    from ars_lab.reproduce.settings import settings_for
    from ars_lab.reproduce.workspace import Workspace

    settings = settings_for("full" if arguments.full else "tiny" if arguments.tiny else "quick")
    settings = settings.with_runs(arguments.repeats, arguments.traces)
    chosen = [name for name in _EXPERIMENTS if arguments.experiment in (name, "all") and name in EXPERIMENTS]
    wrong: list[str] = []
    done: dict[str, dict[str, object]] = {}
    pages: dict[str, Path] = {}
    for name in chosen:
        work = Workspace(
            arguments.out / name,
            arguments.seed,
            resume=arguments.resume,
            reporter=_Terminal(),
            simulator=limits(arguments),
        )
        outcome = reproduce(name, lambda simulator: _find(arguments.simulators, simulator), settings, work)
        if arguments.publish is not None:
            publish(work.folder, arguments.publish / name)
        done[name] = {"stages_run": work.made, "stages_kept": work.kept, **outcome._asdict()}
        if not arguments.json:
            print(f"{name}: {work.made} stages run, {work.kept} kept; see {outcome.page}")
        for problem in outcome.problems:
            print(f"{name}: {problem}", file=sys.stderr)
        wrong += outcome.problems
        pages[name] = outcome.page
    if arguments.report is not None:
        from ars.report.render import write
        from ars_lab.reproduce.report import reproduce_page

        write(reproduce_page(pages, wrong, command_of(arguments)), arguments.report)
        if not arguments.json:
            print(f"report: {arguments.report}")
    if arguments.json:
        print_document({"experiments": done})
    return 1 if wrong else 0


def _find(given: Path | None, name: str) -> Path:
    from ars.toolchain.examples import example

    if given is None:
        return example(name)
    path = given.absolute() / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such simulator; give --simulators the folder of built ones")
    return path
