"""Checksums of what the simulators of csim/ give for a fixed seed: the table tests/system/same_bits.json.

    python tools/same_bits.py --check [--simulators build/csim]    exit with 1 and name every difference
    python tools/same_bits.py --renew [--simulators build/csim]    write the table again

The same seed gives the same bits, whatever is moved or made faster. Renew the table only in a commit that means to
change numbers, and say in CHANGELOG.md which and why. Checksums cover meanings, not layouts: sites count by address and
kind, numbers as 64-bit values, traces by their number.

Last bits come from the C library's functions, which differ between its versions and between CPUs. The table holds a
fingerprint of these functions; on a machine that computes other values, the checksums say nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import ars
from ars.columns import Columns, Site

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "system" / "same_bits.json"

SEED = 20_261_118
BUDGET = ars.Budget(M=2, N=3)
WORKERS = 4  # any number gives the same bits

Checksums: TypeAlias = dict[str, str]  # part of a run -> hex digits
Numbers: TypeAlias = npt.NDArray[Any]


# ---- what is run -----------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A simulator with its arguments, data, and proposals by hand, inside loops and outside."""

    command: tuple[str, ...]
    observe: Mapping[str, float | list[float]]
    proposals: Mapping[str, Any]
    prints: bool = True  # its draws, when it runs alone
    network: bool = False  # also under a small network


_DISC = {"x1": ars.TruncatedNormal(0.1, 0.7, -1, 1), "x2": ars.ScaledBeta(1.5, 1.2, -1, 1)}
_TRUNCATED = {"x": ars.TruncatedNormal(1.3, 0.5, 1, 2), "z": lambda drawn: ars.Normal(0.5 * drawn["x"] - 0.7, 1.2)}
_BETA = {
    "x": ars.Beta(3, 1.5),
    "u": lambda drawn: ars.Mixture([0.7, 0.3], [ars.Uniform(0, 0.1 + 0.9 * drawn["x"]), ars.Uniform(0, 1)]),
}

CASES: tuple[Case, ...] = (
    Case(("gaussian",), {"y": 0.8}, {"mu": ars.Normal(0.5, 0.5)}),
    Case(("gaussian", "3"), {"y": [0.8, -0.1, 1.1]}, {"mu": ars.Normal(0.5, 0.5)}, network=True),
    Case(("marsaglia",), {"y1": 0.3, "y2": 0.1}, _DISC),
    Case(("marsaglia", "0.5", "2", "0.3"), {"y1": -1.0, "y2": -1.2}, _DISC),
    Case(("marsaglia_in_place",), {"y1": 0.3, "y2": 0.1}, _DISC),
    Case(("beta_bernoulli", "2", "4"), {"y": [1.0, 0.0, 1.0, 1.0]}, _BETA),
    Case(("beta_bernoulli", "10", "2"), {"y": [1.0, 1.0]}, _BETA),
    Case(("truncated_normal",), {"y": -1.0}, _TRUNCATED),
    Case(("truncated_normal", "b"), {"y": -1.0}, _TRUNCATED),
    Case(
        ("nested",),
        {"y": 2.0},
        {"a": ars.Normal(-0.2, 1.1), "b": lambda drawn: ars.Normal(drawn["a"] - 0.2, 1.1)},
        network=True,
    ),
    Case(
        ("nested_by_handle",),
        {"y": 2.0},
        {"a": ars.Normal(-0.2, 1.1), "b": lambda drawn: ars.Normal(drawn["a"] - 0.2, 1.1)},
    ),
    Case(("capped",), {"y": 1.2}, {"z": lambda drawn: ars.Normal(0.4 * drawn["beam"] - 0.3, 1.3)}),
    Case(("recursive",), {"y": 2.0}, {"z": ars.Normal(-0.1, 1.05)}),
    Case(("recursive", "1"), {"y": 2.0}, {"z": ars.Normal(-0.1, 1.05)}),
    Case(
        ("sequence",),
        {"y": 3.0},
        {
            "a": ars.Exponential(0.7),
            "b": lambda drawn: ars.Normal(drawn["a"] - 0.2, 1.1),
            "c": ars.Normal(0.2, 1.1),
        },
    ),
    Case(
        ("sequence", "3"),
        {"y": [3.0, 5.0, 9.0]},
        {"a": ars.Exponential(0.7), "c": ars.Normal(0.2, 1.1)},
    ),
    Case(
        ("sir",),
        {"cases": [float(3 + 7 * i % 11) for i in range(20)]},
        {
            "transmission": ars.LogNormal(-0.6, 0.2),
            "reporting": ars.Beta(6, 4),
            "imported": ars.Poisson(6),
            "local": lambda drawn: ars.Poisson(1 + 2 * drawn["imported"]),
        },
    ),
    Case(
        ("branching",),
        {"y": 1.0},
        {
            "channel": ars.Categorical([0.2, 0.4, 0.4]),
            "noise": ars.Normal(-0.5, 1.1),
            "mass": ars.Normal(-0.3, 1.1),
            "lifetime": ars.Gamma(2.0, 0.7),
            "position": lambda drawn: ars.Normal(drawn["lifetime"] - 0.3, 1.1),
        },
    ),
    Case(
        ("event_loop",),
        {"calorimeter": 1.4, "tracker": 0.5},
        {
            "multiplicity": ars.Categorical([0.4, 0.4, 0.2]),
            "energy": ars.Exponential(1.3),
            "cos_theta": ars.TruncatedNormal(0.4, 0.6, -1, 1),
            "u": ars.Beta(1.0, 1.3),
        },
    ),
    Case(
        ("mini_sherpa",),
        {"calorimeter": [float(7 * i % 11) for i in range(400)]},
        {
            "channel": ars.Categorical([0.2, 0.3, 0.5]),
            "px": ars.TruncatedNormal(0.1, 0.3, -0.5, 0.5),
            "pz": ars.ScaledBeta(2.0, 1.5, 10, 20),
            "x": ars.ScaledBeta(0.8, 0.9, -math.pi / 4, math.pi / 4),
            "a": ars.ScaledBeta(0.9, 1.3, 0, 4 / math.pi),
        },
    ),
    Case(("bench_loop", "loop", "0.4", "0", "1"), {"y": 0.5}, {"u": ars.Beta(1.0, 1.5)}, prints=False),
    Case(
        ("bench_loop", "loop", "0.5", "0", "2"),
        {"y": 0.5},
        {"u": ars.Beta(1.0, 1.5), "v": ars.Beta(1.2, 1.4)},
        prints=False,
    ),
    Case(("bench_loop", "sites", "100"), {"y": 0.5}, {"x7": ars.Normal(0.2, 1.1)}, prints=False),
)

# Sources in csim/, or modes, without a row. A new simulator gets rows above, or a reason here.
LEFT_OUT = {
    "bench_draws": "it prints times, and runs alone only",
    "bench_loop bare": "its result is a time",
    "bench_loop data": "the loop of bench_loop loop, with other data",
    "bench_loop memory": "its results are sizes of memory",
}


# ---- checksums -------------------------------------------------------------------------------------------------------


def digest(*parts: object) -> str:
    """SHA-256, 16 digits of it, of texts and of arrays in their canonical 64-bit form."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            kind = {"f": "<f8", "u": "<u8"}.get(part.dtype.kind, "<i8")
            found.update(np.ascontiguousarray(part, dtype=kind).tobytes())
        else:
            found.update(repr(part).encode())
        found.update(b"\0")
    return found.hexdigest()[:16]


def _by_address(ids: Numbers, sites: Sequence[Site], kind: str) -> tuple[object, Numbers]:
    """The addresses that occur, sorted, and for each item the index of its own: ids depend on who came first."""
    address = {site.id: site.address for site in sites if site.kind.name == kind}
    met = sorted({address[one] for one in np.unique(ids).tolist()})
    index = {one: met.index(address[one]) for one in np.unique(ids).tolist()}
    return met, np.array([index[one] for one in ids.tolist()], dtype=np.int64)


def _latents(items: Numbers, sites: Sequence[Site]) -> tuple[object, ...]:
    whose = _by_address(items["site"], sites, "SAMPLE")
    return (*whose, items["instance"], items["loop"].astype(np.int64), items["prior"], items["value"])


def of_columns(columns: Columns, sites: Sequence[Site]) -> Checksums:
    """The parts of a run: all that its traces say, but for what its processes did."""
    traces, samples, loops = columns.traces, columns.samples, columns.loops
    return {
        "latents": digest(traces["trace"], traces["n_samples"], *_latents(samples, sites)),
        "densities": digest(
            samples["log_p"],
            samples["log_q"],
            columns.observes["log_p"],
            traces["log_likelihood"],
            traces["log_ratio_accepted"],
            traces["log_ratio_all"],
        ),
        "data": digest(
            traces["n_observes"],
            *_by_address(columns.observes["site"], sites, "OBSERVE"),
            columns.observes["n"],
            traces["n_results"],
            *_by_address(columns.results["site"], sites, "RESULT"),
            columns.results["n"],
            samples["n_params"],
            columns.values,
        ),
        "loops": digest(
            traces["n_loops"],
            *_by_address(loops["site"], sites, "LOOP"),
            *(loops[name].astype(np.int64) for name in ("instance", "parent", "tries")),
            *(loops[name].astype(np.int64) for name in ("tries_q", "accepted_q", "runs_p", "tries_p")),
            loops["log_ratio_rejected"],
        ),
        "s_pq": digest(loops["s_pq_sum"]),
    }


def _of_rejected(columns: Columns, sites: Sequence[Site]) -> Checksums:
    tries = columns.tries
    named = ("instance", "parent", "prefix", "n_samples", "recorded", "rejected")
    return {
        "tries": digest(
            columns.traces["n_tries"],
            *_by_address(tries["site"], sites, "LOOP"),
            *(tries[name].astype(np.int64) for name in named),
            *_latents(columns.rejected, sites),
            columns.rejected["log_p"],
        )
    }


def _of_posterior(post: ars.Posterior, weightings: Sequence[str]) -> Checksums:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ars.NaiveVarianceWarning)
        logs = {f"weights {name}": digest(post.log_weights(name)) for name in weightings}
    return {**of_columns(post.columns, post.sites), **logs}


# ---- runs ------------------------------------------------------------------------------------------------------------


def _prior(sim: ars.Simulator, case: Case) -> Checksums:
    del case
    run = sim.prior(200, seed=SEED)
    return of_columns(run.columns, run.sites)


def _weighted_prior(sim: ars.Simulator, case: Case) -> Checksums:
    """The prior proposes everything. There is nothing to estimate."""
    post = sim.posterior(case.observe, 100, budget=None, seed=SEED)
    return _of_posterior(post, ("ic", "biased"))


def _by_hand(sim: ars.Simulator, case: Case) -> Checksums:
    post = sim.posterior(case.observe, 40, proposals=case.proposals, budget=BUDGET, seed=SEED)
    return _of_posterior(post, ("ars", "ic", "biased"))


def _by_hand_not_estimated(sim: ars.Simulator, case: Case) -> Checksums:
    post = sim.posterior(case.observe, 100, proposals=case.proposals, budget=None, seed=SEED, first_trace=1000)
    return _of_posterior(post, ("ic", "biased"))


def _prior_in_loops(sim: ars.Simulator, case: Case) -> Checksums:
    post = sim.posterior(case.observe, 100, proposals=case.proposals, in_loops="prior", seed=SEED)
    return _of_posterior(post, ("prior",))


def _recorded(sim: ars.Simulator, case: Case) -> Checksums:
    """What a network is trained on, through a folder of shards, rejected tries too."""
    del case
    with tempfile.TemporaryDirectory() as folder:
        recording = sim.record(100, folder, seed=SEED, max_rejected=4, progress=False)
        found = [recording.load(shard) for shard in range(len(recording))]
        parts = [{**of_columns(*one), **_of_rejected(*one)} for one in found]
        return {name: digest(*(part[name] for part in parts)) for name in parts[0]}


def _trained(sim: ars.Simulator, case: Case) -> Checksums:
    """A few steps of training, and, without loops, a run under the network that they make.

    Inside loops a question depends on the draws before it, and the last bits of a proposal on what else is in its
    batch, so on timing. Without loops all traces ask the same, and equal questions have one answer.
    """
    sizes = {"observe_hidden": 16, "value_dim": 8, "head_hidden": 16}
    network = sim.train(
        320, lstm_dim=16, batch_size=64, components=2, seed=SEED, threads=1, architecture=sizes, progress=False
    )
    state = network.network.state_dict()
    found = {"network": digest(*(part for name in sorted(state) for part in (name, state[name].numpy())))}
    post = sim.posterior(case.observe, 30, network=network, budget=BUDGET, seed=SEED)
    return found if post.loops else {**found, **_of_posterior(post, ("ars", "ic", "biased"))}


def _standalone(command: Sequence[str]) -> Checksums:
    environment = {**os.environ, "ARS_TRACES": "20", "ARS_SEED": str(SEED)}
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return {"stdout": digest(found.stdout)}


RUNS: dict[str, Callable[[ars.Simulator, Case], Checksums]] = {
    "prior": _prior,
    "prior proposes": _weighted_prior,
    "by hand": _by_hand,
    "by hand, not estimated": _by_hand_not_estimated,
    "by hand, prior in loops": _prior_in_loops,
    "recorded": _recorded,
}


def checksums(case: Case, simulators: Path) -> dict[str, Checksums]:
    """All runs of one row but for the network's, which `network_checksums` has."""
    command = [str(simulators / case.command[0]), *case.command[1:]]
    found = {"alone": _standalone(command)} if case.prints else {}
    with ars.Simulator(command, workers=WORKERS) as sim:
        found.update({name: run(sim, case) for name, run in RUNS.items()})
    return found


def network_checksums(case: Case, simulators: Path) -> Checksums:
    """Training and inference of a small network, with one thread of torch."""
    command = [str(simulators / case.command[0]), *case.command[1:]]
    with ars.Simulator(command, workers=WORKERS) as sim:
        return _trained(sim, case)


# ---- this machine ----------------------------------------------------------------------------------------------------

_ONE = ("exp", "log", "log1p", "expm1", "sqrt", "sin", "cos", "acos", "tanh", "lgamma", "tgamma", "erfc")
_TWO = ("pow", "atan2")


def _points(n: int = 400) -> list[float]:
    """Numbers in (0, 1), the same everywhere."""
    return [math.fmod(0.5 + 0.6180339887498949 * i, 1.0) for i in range(n)]


def libm_fingerprint() -> dict[str, str]:
    """One checksum per function, of 400 values from the C library or numpy; and the architecture."""
    libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    found = {"machine": platform.machine()}
    for name in (*_ONE, *_TWO):
        function = getattr(libm, name)
        function.restype = ctypes.c_double
        function.argtypes = [ctypes.c_double] * (1 if name in _ONE else 2)
        scale = 1.0 if name == "acos" else 8.0
        arguments = [(scale * x,) if name in _ONE else (3 * x, 5 * x - 1) for x in _points()]
        found[name] = digest(np.array([function(*one) for one in arguments]))
    found["numpy.log"] = digest(np.log(8.0 * np.array(_points())))  # weights are taken with it
    return found


def torch_fingerprint() -> dict[str, str]:
    """What the library behind torch's products gives here; it has other code for other CPUs."""
    import torch

    from ars.network.train.training import one_torch_thread

    numbers = torch.tensor(_points(64 * 80), dtype=torch.float32)
    a, b = numbers[: 64 * 16].reshape(64, 16) - 0.5, numbers[64 * 16 :].reshape(64, 64) - 0.5
    with one_torch_thread():  # as networks are trained and served in the table's runs
        products = [digest((b[:rows] @ a).numpy(), torch.tanh(b[:rows] @ b).numpy()) for rows in (1, 2, 7, 64)]
    return {"torch": torch.__version__.partition("+")[0], "products": digest(*products)}


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names under which two mappings differ, or that one of them lacks."""
    return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


# ---- the table -------------------------------------------------------------------------------------------------------


def name_of(case: Case) -> str:
    return " ".join(case.command)


def read() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def make(simulators: Path) -> dict[str, Any]:
    """The whole table, as this machine has it."""
    return {
        "libm": libm_fingerprint(),
        "torch": torch_fingerprint(),
        "runs": {name_of(case): checksums(case, simulators) for case in CASES},
        "networks": {name_of(case): network_checksums(case, simulators) for case in CASES if case.network},
    }


def _lines(table: Mapping[str, Any], at: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in table.items():
        path = f"{at}: {name}" if at else name
        found.update({path: value} if isinstance(value, str) else _lines(value, path))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checksums of csim/ for a fixed seed.")
    parser.add_argument("--simulators", type=Path, default=ROOT / "build" / "csim", help="folder (default: build/csim)")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare this build with the table")
    action.add_argument("--renew", action="store_true", help="write the table again")
    chosen = parser.parse_args(arguments)
    found = make(chosen.simulators)
    if chosen.renew:
        TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {TABLE}")
        return 0
    differing = differences(_lines(read()), _lines(found))
    print("\n".join(differing) if differing else "every checksum is that of the table")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
