"""``ars train``: learn proposals for a simulator from its own runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from ars.cli.options import (
    UsageError,
    add_limits,
    add_listen,
    add_seed,
    add_simulator,
    add_workers,
    at_least,
    check_simulator,
    open_simulator,
    positive,
)

HELP = "Train a proposal network on a simulator's prior traces."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser, needed=False)
    add_workers(parser)
    parser.add_argument("--traces", type=at_least(1), default=1_000_000, metavar="N", help="default: 1,000,000")
    parser.add_argument("--lstm-dim", type=at_least(1), default=512, metavar="N", help="default: 512")
    parser.add_argument("--lstm-depth", type=at_least(1), default=1, metavar="N", help="default: 1")
    parser.add_argument("--components", type=at_least(1), default=10, metavar="N", help="of a mixture; default: 10")
    parser.add_argument("--batch-size", type=at_least(1), default=512, metavar="N", help="default: 512")
    parser.add_argument("--lr", type=positive, default=1e-3, metavar="X", help="learning rate; default: 0.001")
    parser.add_argument(
        "--held-out", type=at_least(1), default=0, metavar="N", help="traces to judge by, never trained on"
    )
    parser.add_argument(
        "--patience", type=at_least(1), default=0, metavar="N", help="stop after N evaluations that are not better"
    )
    add_seed(parser)
    add_limits(parser)
    add_listen(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("network.safetensors"), metavar="FILE", help="default: network.safetensors"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="train on the traces that this folder holds")
    parser.add_argument(
        "--record", type=at_least(1), metavar="N", help="first record N traces into the folder of --data"
    )
    parser.add_argument(
        "--train-on",
        choices=("accepted", "all"),
        default="accepted",
        help="the draws that rejection loops accept (default), or all",
    )
    parser.add_argument(
        "--max-rejected",
        type=at_least(1),
        default=64,
        metavar="N",
        help="with --train-on all: rejected tries per loop entry that are used; default: 64",
    )
    parser.add_argument("--resume", action="store_true", help="go on with the training of --out, if it has one")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_shape,
        metavar="NAME=20x20",
        help="the shape of an observation that is an image; may be repeated",
    )
    parser.add_argument("--on-failure", choices=("raise", "skip"), default="raise", help="for traces that fail")
    parser.add_argument("--threads", type=at_least(1), metavar="N", help="of torch (default: all cores)")
    parser.add_argument("--tensorboard", type=Path, metavar="DIR", help="write curves for TensorBoard")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


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
    from ars.errors import ArsError

    check_simulator(arguments)
    if arguments.record is not None and arguments.data is None:
        raise UsageError("--record needs --data, the folder for the traces")
    shown = not arguments.quiet
    with open_simulator(arguments) as sim:
        try:
            if arguments.record is not None:
                max_rejected = arguments.max_rejected if arguments.train_on == "all" else 0
                print(
                    sim.record(
                        arguments.record,
                        arguments.data,
                        seed=arguments.seed,
                        max_rejected=max_rejected,
                        on_failure=arguments.on_failure,
                        progress=shown,
                    )
                )
            network = sim.train(
                arguments.traces,
                arguments.lstm_dim,
                arguments.lstm_depth,
                arguments.batch_size,
                seed=arguments.seed,
                data=arguments.data,
                out=arguments.out,
                resume=arguments.resume,
                progress=shown,
                components=arguments.components,
                lr=arguments.lr,
                held_out=arguments.held_out,
                patience=arguments.patience,
                train_on=arguments.train_on,
                max_rejected=arguments.max_rejected,
                shapes=dict(arguments.shape),
                threads=arguments.threads,
                on_failure=arguments.on_failure,
                tensorboard=arguments.tensorboard,
            )
        except ArsError:  # some are ValueErrors too, but not for what was typed
            raise
        except ValueError as error:
            raise UsageError(str(error)) from error
    print(network)
    print(f"{network.history}\nseed {network.training['seed']}; written to {arguments.out}")
    return 0
