"""``ars infer``: the posterior of a simulator's latents, given data."""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ars.cli.options import add_limits, add_listen, add_seed, add_simulator, at_least, check_simulator, open_simulator

if TYPE_CHECKING:
    from ars.errors import RunInterrupted
    from ars.network.facade import Network
    from ars.posterior import Posterior

HELP = "Infer what a simulator did, given data."

_SUFFIXES = (".nc", ".npz", ".csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_simulator(parser, needed=False)
    add_data(parser)
    parser.add_argument("--traces", type=at_least(1), default=10_000, metavar="N", help="default: 10,000")
    parser.add_argument("--on-failure", choices=("raise", "zero", "skip"), default="raise", help="for traces that fail")
    add_seed(parser)
    parser.add_argument("--out", type=_out, metavar="FILE", help="write traces and weights: .nc (ArviZ), .npz or .csv")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="keep finished traces in this folder, and begin with those of the same run that it holds",
    )
    add_limits(parser)
    add_listen(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def add_data(parser: argparse.ArgumentParser) -> None:
    """What is observed, and what proposes."""
    parser.add_argument("--network", type=Path, metavar="FILE", help="from ars train; without it the prior proposes")
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        type=_observed,
        metavar="NAME=X[,X...]",
        help="data; may be repeated",
    )
    parser.add_argument("--observe-file", type=Path, metavar="FILE", help="data: .json, name -> numbers, or .npz")
    parser.add_argument(
        "--budget",
        type=at_least(1),
        nargs=2,
        default=(1, 10),
        metavar=("M", "N"),
        help="of every loop (default: 1 10); no effect without --network",
    )
    parser.add_argument("--in-loops", choices=("proposal", "prior"), default="proposal", help="who proposes in loops")


def _observed(text: str) -> tuple[str, list[float] | float]:
    name, equals, numbers = text.partition("=")
    try:
        values = [float(number) for number in numbers.split(",")]
    except ValueError:
        values = []
    if not equals or not name or not values:
        raise argparse.ArgumentTypeError(f"{text!r} is not like y=0.5 or y=0.5,0.7")
    return name, values if len(values) > 1 else values[0]


def _out(text: str) -> Path:
    path = Path(text)
    if path.suffix not in _SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text} must end in {', '.join(_SUFFIXES)}")
    if path.suffix == ".nc" and not any(importlib.util.find_spec(name) for name in ("netCDF4", "h5netcdf")):
        raise argparse.ArgumentTypeError("a .nc file needs netCDF4 or h5netcdf: pip install h5netcdf, or use .npz")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} cannot be written")
    return path


def read_data(arguments: argparse.Namespace) -> dict[str, Any]:
    """The data of the file, then those of the command line."""
    data: dict[str, Any] = {}
    if (path := arguments.observe_file) is not None:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                data.update({name: arrays[name] for name in arrays.files})
        elif path.suffix == ".json":
            loaded = json.loads(path.read_bytes())
            if not isinstance(loaded, dict):
                raise ValueError(f"{path} must hold an object, name -> numbers")
            data.update(loaded)
        else:
            raise ValueError(f"{path} must end in .json or .npz")
    data.update(dict(arguments.observe))
    if not data:
        raise ValueError("no data: use --observe y=0.5 or --observe-file data.json")
    return data


def read_network(arguments: argparse.Namespace) -> Network | None:
    """The proposal network, if one is named."""
    if arguments.network is None:
        return None
    from ars.network.facade import Network

    return Network.load(arguments.network)


def _interrupted(arguments: argparse.Namespace, interrupt: RunInterrupted) -> int:
    """Ctrl-C: what there is, and how to go on."""
    partial = interrupt.partial
    print(
        f"ars infer: interrupted after {len(partial) if partial else 0:,} of {arguments.traces:,} traces",
        file=sys.stderr,
    )
    if partial is not None and len(partial):
        print(partial.summary())
    if arguments.resume is not None:
        print(f"the finished traces are in {arguments.resume}; the same command goes on with them", file=sys.stderr)
    return 130


def run(arguments: argparse.Namespace) -> int:
    from ars import Budget
    from ars.errors import RunInterrupted

    check_simulator(arguments)
    try:
        data = read_data(arguments)
    except (ValueError, KeyError) as error:
        print(f"ars infer: {error}", file=sys.stderr)
        return 2
    m, n = arguments.budget
    network = read_network(arguments)
    with open_simulator(arguments) as sim:
        try:
            post = sim.posterior(
                data,
                arguments.traces,
                budget=Budget(M=m, N=n),
                in_loops=arguments.in_loops,
                seed=arguments.seed,
                on_failure=arguments.on_failure,
                progress=not arguments.quiet,
                network=network,
                resume=arguments.resume,
            )
        except RunInterrupted as interrupt:
            return _interrupted(arguments, interrupt)
        except (ValueError, TypeError) as error:
            print(f"ars infer: {error}", file=sys.stderr)
            return 2
    print(post.summary())
    _print_values(post)
    if arguments.out is not None:
        write(post, arguments.out)
        print(f"seed {post.run.seed}; written to {arguments.out}")
    return 0


def _print_values(post: Posterior) -> None:
    """Mean and quantiles of every result, or of the latents if there are none."""
    names = list(post.results) or list(post.latents)
    print(f"{'':24} {'mean':>12} {'s.e.':>10} {'5%':>12} {'50%':>12} {'95%':>12}")
    for name in names:
        means = np.atleast_1d(post.mean(name))
        errors = np.atleast_1d(post.mean_error(name))
        quantiles = np.atleast_2d(post.quantile(name, [0.05, 0.5, 0.95]))
        for i, (mean, error, (low, middle, high)) in enumerate(zip(means, errors, quantiles, strict=True)):
            label = f"{name}[{i}]" if len(means) > 1 else name
            print(f"{label:24} {mean:12.6g} {error:10.2g} {low:12.6g} {middle:12.6g} {high:12.6g}")


def _columns(post: Posterior) -> dict[str, Any]:
    """Weights and values, one row per trace."""
    found: dict[str, Any] = {"trace": post.trace_numbers}
    found.update({f"log_weight_{name}": weights for name, weights in post._available().items()})
    for names in (post.results, post.latents):
        found.update({name: names[name] for name in names if name not in found})
    return found


def write(post: Posterior, path: Path) -> None:
    """By the end of the name; the file is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp{path.suffix}")
    try:
        if path.suffix == ".nc":
            post.to_datatree().to_netcdf(temporary)
        elif path.suffix == ".npz":
            np.savez_compressed(temporary, **_columns(post))
        else:
            _write_csv(post, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_csv(post: Posterior, path: Path) -> None:
    titles: list[str] = []
    columns: list[Any] = []
    for name, values in _columns(post).items():
        if values.ndim == 1:
            titles.append(name)
            columns.append(values.tolist())
        else:
            titles += [f"{name}[{i}]" for i in range(values.shape[1])]
            columns += values.T.tolist()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(titles)
        writer.writerows(zip(*columns, strict=True))
