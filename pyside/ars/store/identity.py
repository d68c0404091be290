"""What makes a run the run that it is, as a document: one name per part, and a digest of the whole.

Two runs with the same identity draw the same traces. Left out is what changes no number of a finished trace: the number
of traces and workers, ``ask_ahead``, ``continuations``, ``on_failure``, ``max_restarts``, ``startup_timeout``, and how
progress is shown.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ars._native import RunFlag
from ars.columns import Columns, Site
from ars.store.code_identity import describe_proposal, described_value
from ars.wire import RunConfig, Wanted

if TYPE_CHECKING:
    from ars.network.facade import Network
    from ars.proposers import Proposal
    from ars.runtime.limits import Limits

__all__ = [
    "ELSEWHERE",
    "behaviour",
    "data_identity",
    "differences",
    "digest",
    "network_identity",
    "proposed_by",
    "run_identity",
]

ELSEWHERE: Final = "(elsewhere)"  # the executable of a simulator that was started by somebody else

_READABLE: Final = 4  # numbers of an observation that are also written out
# Variables of Simulator(env=...) that change no number.
_SCHEDULING: Final = ("ARS_WORKERS", "ARS_HOST")
# Flags of a run that change no number.
_SAME_NUMBERS: Final = frozenset({RunFlag.ASK_AHEAD, RunFlag.REWIND, RunFlag.CHECK})


def run_identity(
    config: RunConfig,
    *,
    simulator: Mapping[str, Any],
    env: Mapping[str, str],
    cwd: str | None,
    limits: Limits,
    observed: Mapping[str, npt.NDArray[np.float64]],
    proposals: Mapping[str, Proposal] | None,
    network: Network | None,
) -> dict[str, Any]:
    """The identity of a run, for JSON.

    Parameters
    ----------
    config : RunConfig
        The run: seed, first trace, budget and flags.
    simulator : mapping
        The files that the simulator consists of, from ``Program.identity``.
    env, cwd : mapping and str or None
        As given to Simulator. Values of variables are hashed, since they may be secret.
    limits : Limits
        Those of a trace are part of the identity: each can turn a finished trace into a failed one, or the reverse.
    observed : mapping
        The data, by name.
    proposals, network : mapping or None, Network or None
        What proposes latents; neither: the prior.
    """
    flags = [flag.name for flag in RunFlag if flag & config.flags and flag not in _SAME_NUMBERS]
    return {
        "simulator": dict(simulator),
        "env": {name: _sha256(os.fsencode(str(value))) for name, value in env.items() if name not in _SCHEDULING},
        "cwd": None if cwd is None else os.path.abspath(cwd),
        "seed": config.seed,
        "first_trace": config.first_trace,
        **_wanted_identity(config.wanted),
        **(
            {"budgets": {name: _wanted_identity(each) for name, each in config.budgets.items()}}
            if config.budgets
            else {}
        ),
        "flags": flags,
        "limits": limits.of_a_trace() | _inherited_limits(),
        "observe": data_identity(observed),
        **proposed_by(proposals, network),
    }


def _wanted_identity(wanted: Wanted) -> dict[str, int]:
    """M and N; R if there is one, so that runs of a fixed M and N are those of earlier versions."""
    R = {"R": wanted.accepted_q} if wanted.accepted_q or (wanted.runs_p and not wanted.tries_q) else {}
    return {"M": wanted.runs_p, "N": wanted.tries_q, **R}


def proposed_by(proposals: Mapping[str, Proposal] | None, network: Network | None) -> dict[str, Any]:
    """Who proposes the latents of a run, for JSON."""
    return {
        "proposals": {name: describe_proposal(each) for name, each in (proposals or {}).items()},
        "network": None if network is None else network_identity(network),
    }


def _inherited_limits() -> dict[str, str]:
    """Variables of this process that replace a limit; a simulator inherits them."""
    names = ("ARS_SNAPSHOTS", "ARS_MAX_PROCESSES", "ARS_MAX_MEMORY")
    return {name: value for name in names if (value := os.environ.get(name))}


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def data_identity(arrays: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, Any]:
    """Shape and SHA-256 of every array; short ones are written out as well."""
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        found[name] = {"shape": list(array.shape), "sha256": _sha256(np.ascontiguousarray(array).tobytes())}
        if array.size <= _READABLE:
            numbers = array.reshape(-1).tolist()
            found[name]["values"] = [number if number == number else "nan" for number in numbers]  # NaN equals nothing
    return found


def network_identity(network: Network) -> dict[str, Any]:
    """A digest of everything that the network computes with: architecture, latents that it knows, and weights."""
    import torch

    from ars.network.checkpoint import architecture

    module = network.network
    whole = hashlib.sha256(json.dumps(architecture(module), sort_keys=True).encode())
    for name, tensor in sorted(module.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    for name, part in module.named_modules():  # embeddings of the user's: their code, and their settings
        if not type(part).__module__.startswith(("ars.", "torch.")):
            settings = {key: each for key, each in vars(part).items() if isinstance(each, bool | int | float | str)}
            whole.update(f"{name} {described_value(type(part))} {described_value(settings)}\n".encode())
    return {"sha256": whole.hexdigest()}


def behaviour(columns: Columns, sites: Sequence[Site]) -> str:
    """A SHA-256 of everything that traces of the prior drew, observed and gave as results.

    It stands for a simulator whose files cannot be seen. Sites count by their addresses, so that the order in which a
    family met them does not matter.
    """
    whole = hashlib.sha256(columns.traces["failure"].tobytes() + columns.values.tobytes())
    for site in sorted(sites, key=lambda site: (site.address, site.kind)):
        mine = columns.samples[columns.samples["site"] == site.id]
        parts = [np.ascontiguousarray(mine[name]).tobytes() for name in ("instance", "value", "log_p")]
        parts.append(columns.loops["tries"][columns.loops["site"] == site.id].tobytes())
        for part in (f"{site.address} {int(site.kind)}".encode(), *parts):
            whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()


def digest(identity: Mapping[str, Any]) -> str:
    """The SHA-256 of an identity, whatever the order of its names."""
    return _sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode())


# ---- in words --------------------------------------------------------------------------------------------------------


def differences(there: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """What differs between two identities, a line each; empty if nothing does."""
    found: list[str] = []
    for part in [*mine, *(name for name in there if name not in mine)]:
        old, new = there.get(part), mine.get(part)
        if old == new:
            continue
        if part == "simulator" and isinstance(old, dict) and isinstance(new, dict):
            found += [f"simulator: {line}" for line in _program_differences(old, new)]
        elif part in ("observe", "proposals", "env", "limits") and isinstance(old, dict) and isinstance(new, dict):
            found += [f"{part}: {line}" for line in _named_differences(old, new)]
        elif part == "config" and isinstance(old, dict) and isinstance(new, dict):
            names = [*new, *(name for name in old if name not in new)]
            both = ((name, old.get(name), new.get(name)) for name in names)
            found += [f"{name} was {was!r}, is {now!r}" for name, was, now in both if was != now]
        elif part == "network":
            found.append(f"network: {_network_word(old, new)}")
        else:
            found.append(f"{part} was {old!r}, is {new!r}")
    return found


def _network_word(old: Any, new: Any) -> str:
    if old is None:
        return "the run had no network"
    return "no network is given, but the run had one" if new is None else "a different network, or different weights"


def _program_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old.get("command") != new.get("command"):
        yield f"the command was {old.get('command')!r}, is {new.get('command')!r}"
    before, after = old.get("executable"), new.get("executable")
    if before != after:
        if ELSEWHERE in (before, after):
            yield (
                "the executable was on another machine (listen), and cannot be compared with this one"
                if before == ELSEWHERE
                else "the executable was on this machine, and cannot be compared with one elsewhere (listen)"
            )
        else:
            yield f"the executable changed ({_file_word(before, after)})"
    if before == after == ELSEWHERE and old.get("first_traces") != new.get("first_traces"):
        yield "its first traces differ from those that the run began with: it was rebuilt, or is a different simulator"
    here, there = old.get("files") or {}, new.get("files") or {}
    for name in [*there, *(name for name in here if name not in there)]:
        if here.get(name) != there.get(name):
            yield f"{name} {_change(here.get(name), there.get(name))}"


def _change(old: Any, new: Any) -> str:
    if old is None:
        return "is new"
    return "is missing" if new is None else f"changed ({_file_word(old, new)})"


def _file_word(old: Any, new: Any) -> str:
    """The build ids if they tell two files apart, else their hashes."""
    for key, word in (("build_id", "build id"), ("sha256", "SHA-256")):
        pair = [str(each.get(key, "")) if isinstance(each, dict) else "" for each in (old, new)]
        if pair[0] != pair[1] and all(pair):
            return f"{word} {pair[0][:12]} -> {pair[1][:12]}"
    return "its hash differs"


def _named_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in [*new, *(name for name in old if name not in new)]:
        before, after = old.get(name), new.get(name)
        if before == after and name in old and name in new:
            continue
        if name not in old or name not in new:
            yield f"{name} {'is missing' if name in old else 'is new'}"
        elif isinstance(before, dict) or isinstance(after, dict) or len(str(before)) == 64:
            yield f"{name} changed{_shown(before, after)}"
        else:
            yield f"{name} was {before!r}, is {after!r}"


def _shown(old: Any, new: Any) -> str:
    """What is readable of two descriptions that differ."""
    for key in ("values", "shape", "python", "proposal"):
        pair = [each.get(key) if isinstance(each, dict) else None for each in (old, new)]
        if pair[0] != pair[1] and None not in pair:
            return f" ({'Python ' if key == 'python' else ''}{pair[0]} -> {pair[1]})"
    return ""
