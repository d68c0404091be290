"""The folder of a refinement: every finished step, so that one that was interrupted goes on where it was.

``refinement.json`` says which refinement it is. ``round-02.traces`` has the traces that round 2 drew, and
``network-02.safetensors`` the network that was trained on them. Files are there whole or not at all. Every step has
seeds of its own, so nothing else has to be kept.
"""

from __future__ import annotations

import copy
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ars.errors import CheckpointError, ShardError, StorageError
from ars.network.checkpoint import load_network, save_network
from ars.network.model.core import ProposalNetwork
from ars.network.refine.pool import Round
from ars.network.refine.rounds import RoundReport
from ars.store.files import not_written, parse_json, write_whole
from ars.store.identity import differences
from ars.store.shards import decode_shard, encode_shard, shard_header

__all__ = ["KeptRounds", "kept_refinement_seed", "report_from", "report_to_dict"]

_FILE: Final = "refinement.json"
_FORMAT: Final = "ars-refinement"


def report_to_dict(report: RoundReport) -> dict[str, Any]:
    """For JSON; NaN and infinite numbers are None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in report._asdict().items()
    }


def report_from(found: Mapping[str, Any]) -> RoundReport:
    """What ``report_to_dict`` gave."""
    nothing = {"log_evidence": -math.inf, "pooled_log_evidence": -math.inf}
    values: list[Any] = [
        nothing.get(name, math.nan) if found[name] is None else found[name] for name in RoundReport._fields
    ]
    return RoundReport(*values)


def kept_refinement_seed(folder: str | os.PathLike[str], *, reported: bool = False) -> int | None:
    """The seed of the refinement that this folder keeps, or of the run that is reported after it; None if it keeps
    none."""
    file = Path(folder) / _FILE
    if not file.exists():
        return None
    found = _read(file)["identity"]
    seed = found.get("reported") if reported else found["config"]["seed"]
    return seed if isinstance(seed, int) else None


def _read(file: Path) -> dict[str, Any]:
    try:
        found = parse_json(file.read_bytes())
        if found["format"] != _FORMAT or not isinstance(found["identity"]["config"]["seed"], int):
            raise ValueError("it is something else")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{file} is not that of a refinement: {error!r}. Give another folder to resume") from error
    return dict(found)


class KeptRounds:
    """The steps of one refinement on disk.

    Parameters
    ----------
    folder : path
        Is made if it does not exist.
    identity : mapping
        What makes this refinement the one that it is, for JSON. The folder of another one is a StorageError.
    start : ProposalNetwork
        Whose embeddings, if any are the user's own, the kept networks have too.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, Any], start: ProposalNetwork) -> None:
        self._folder = Path(folder)
        users = zip(start.observer.user_names, start.observer.users, strict=True)
        self._embeddings: dict[str, Any] = {name: user.module for name, user in users}
        mine = json.loads(json.dumps(dict(identity)))
        file = self._folder / _FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise not_written(self._folder, error) from error
        if not file.exists():
            write_whole(file, [json.dumps({"format": _FORMAT, "identity": mine}, indent=1).encode()])
        elif odd := differences(_read(file)["identity"], mine):
            raise StorageError(
                f"{self._folder} keeps another refinement: {'; '.join(odd)}. Give the same arguments, or another folder"
            )

    def _traces(self, number: int) -> Path:
        return self._folder / ("prior.traces" if number < 0 else f"round-{number:02d}.traces")

    def _network(self, number: int) -> Path:
        return self._folder / f"network-{number:02d}.safetensors"

    def drawn(self, number: int) -> tuple[Round, RoundReport] | None:
        """What a round drew; None if it is not there."""
        path = self._traces(number)
        if not path.exists():
            return None
        try:
            whole = memoryview(path.read_bytes())
            about = shard_header(whole)["about"]
            columns, sites = decode_shard(whole, verify=True)
            weights = np.array(about["log_weights"], np.float64)
            if len(weights) != len(columns.traces):
                raise ValueError(f"{len(weights)} weights for {len(columns.traces)} traces")
            return Round(columns, sites, weights, int(about["traces"])), report_from(about["report"])
        except (OSError, ShardError, KeyError, TypeError, ValueError, struct.error) as error:
            raise StorageError(f"{path} is damaged: {error}. Remove it, and the round is drawn again") from error

    def keep_drawn(self, number: int, drawn: Round, report: RoundReport) -> None:
        """Writes what a round drew."""
        about = {
            "log_weights": drawn.log_weights.tolist(),
            "traces": drawn.traces,
            "report": report_to_dict(report),
        }
        write_whole(self._traces(number), encode_shard(drawn.columns, drawn.sites, {"about": about}))

    def network(self, number: int) -> tuple[ProposalNetwork, RoundReport] | None:
        """The network that was trained after a round; None if it is not there."""
        path = self._network(number)
        if not path.exists():
            return None
        embeddings = copy.deepcopy(self._embeddings)
        try:
            network, header = load_network(path, embeddings or None)
            return network, report_from(header["report"])
        except (CheckpointError, KeyError, TypeError) as error:
            why = error if isinstance(error, CheckpointError) else f"{path} does not belong to a refinement: {error!r}"
            raise CheckpointError(f"{why}. Remove it, and the network is trained again") from error

    def keep_network(self, number: int, network: ProposalNetwork, report: RoundReport) -> None:
        """Writes the network that was trained after a round."""
        save_network(self._network(number), network, {"report": report_to_dict(report)})
