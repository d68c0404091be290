"""``ars train``: learn proposals for a simulator from its own runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ars.cli.documents import add_json, print_document
from ars.cli.options import (
    UsageError,
    add_limits,
    add_listen,
    add_on_failure,
    add_seed,
    add_settings,
    add_simulator,
    add_workers,
    at_least,
    check_simulator,
    given_settings,
    open_simulator,
)
from ars.cli.report_words import add_report, command_of
from ars.config import NetworkConfig, TrainingConfig
from ars.display.screen import print_text

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.simulator import Simulator
    from ars.store.shards import Recording

_UNTIL_IT_IS_SAID = 1.0  # seconds: until a quiet process ends, and torchrun with it the others

HELP = "Train a proposal network on a simulator's prior traces."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser, needed=False)
    add_workers(parser)
    add_settings(parser, TrainingConfig, "traces")
    add_settings(parser, NetworkConfig, "lstm_dim", "lstm_depth", "components", "series")
    add_settings(parser, TrainingConfig, "batch_size", "lr", "held_out", "patience")
    add_seed(parser)
    add_limits(parser)
    add_listen(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("network.safetensors"),
        metavar="FILE",
        help="file for the network (default: network.safetensors)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        metavar="DIR",
        help="train on the recorded traces in this folder; can be repeated to combine several recordings",
    )
    parser.add_argument(
        "--record", type=at_least(1), metavar="N", help="first record N traces into the folder of --data"
    )
    add_settings(parser, TrainingConfig, "train_on", "max_rejected", "missing")
    parser.add_argument("--resume", action="store_true", help="continue the training saved with --out, if there is one")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_shape,
        metavar="NAME=20x20",
        help="shape of an observation that is an image; can be repeated",
    )
    add_report(parser, "a report with the training's verdict, curves and sites")
    add_on_failure(parser)
    parser.add_argument("--threads", type=at_least(1), metavar="N", help="threads of torch (default: all cores)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help="write curves for TensorBoard")
    parser.add_argument("--quiet", action="store_true", help="hide the progress bar")
    add_json(parser)


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split("x"))
    except ValueError:
        shape = ()
    if not equals or not name or not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not like calorimeter=20x20")
    return name, shape


def run(arguments: argparse.Namespace) -> int:
    """Of the processes that torchrun starts, the first one speaks for all."""
    if not _under_torchrun() or os.environ.get("RANK", "0") == "0":
        return _reported(_trained(arguments), arguments)
    arguments.quiet = True
    try:
        _trained(arguments)
    except BaseException as error:
        from ars.network.train.ranks import reported_by_first

        if not reported_by_first(error):
            raise
        time.sleep(_UNTIL_IT_IS_SAID)
        return 1
    return 0


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextlib.contextmanager
def _last_words() -> Iterator[None]:
    """torchrun ends all processes when one has failed: an error that is on its way is reported nevertheless."""
    try:
        yield
    except BaseException:
        if _under_torchrun():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise


def _trained(arguments: argparse.Namespace) -> Network:
    from ars.errors import ArsError

    check_simulator(arguments)
    if arguments.record is not None:
        if arguments.data is None:
            raise UsageError("--record needs --data, the folder for the traces")
        if len(arguments.data) > 1:
            raise UsageError("--record needs one --data, the folder for the traces, not several")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UsageError("--record is for one process: run ars record first, then torchrun")
    config = TrainingConfig(**given_settings(arguments, TrainingConfig))
    with open_simulator(arguments) as sim, _last_words():
        try:
            if arguments.record is not None:
                recorded = _record(sim, arguments, config)
                if not arguments.json:
                    print(recorded)
            network = sim.train(
                config=config,
                network=NetworkConfig(**given_settings(arguments, NetworkConfig)),
                data=arguments.data,
                out=arguments.out,
                resume=arguments.resume,
                progress=not arguments.quiet,
                shapes=dict(arguments.shape),
                threads=arguments.threads,
                on_failure=arguments.on_failure,
                tensorboard=arguments.tensorboard,
                device=arguments.device,
            )
        except ArsError:  # some are ValueErrors too, but not for what was typed
            raise
        except ValueError as error:
            raise UsageError(str(error)) from error
    return network


def _reported(network: Network, arguments: argparse.Namespace) -> int:
    """Says what there is to say about a training; the exit code."""
    if arguments.report is not None:
        from ars.report.render import write
        from ars.report.training import training_page

        write(training_page(network, command=command_of(arguments)), arguments.report)
    if arguments.json:
        from ars.cli.inspect import network_document

        print_document({"out": arguments.out, **network_document(network)})
        return 0
    about, history = (repr(each).strip("<>") for each in (network, network.history))
    print_text(f"{about}\n{history}\nseed {network.training['seed']}; written to {arguments.out}")
    if arguments.report is not None:
        print(f"report: {arguments.report}")
    return 0


def _record(sim: Simulator, arguments: argparse.Namespace, config: TrainingConfig) -> Recording:
    return sim.record(
        arguments.record,
        arguments.data[0],
        seed=config.seed,
        max_rejected=config.max_rejected if config.train_on == "all" else 0,
        on_failure=arguments.on_failure,
        progress=not arguments.quiet,
    )
