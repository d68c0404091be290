"""Networks and trainings on disk: safetensors, with a JSON header in the metadata.

Reading one executes nothing that is in the file. Both kinds are written whole or not at all. A network's file is for
use; a training's file is for going on with it: it has the weights too, so that it does not depend on the other one.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor, nn

from ars._native import DistKind
from ars.config import NetworkConfig
from ars.errors import CheckpointError
from ars.network.model.core import ProposalNetwork
from ars.network.model.vocabulary import SiteSpec, Vocabulary
from ars.store.files import parse_json, write_whole

__all__ = [
    "TrainingState",
    "architecture",
    "load_network",
    "load_training",
    "network_from",
    "save_network",
    "save_training",
    "training_path",
]

NETWORK: Final = "ars-network"
TRAINING: Final = "ars-training"
VERSION: Final = 1
_KEY: Final = "ars"  # of the metadata: the JSON header
_SUM: Final = "ars_crc32"  # its checksum
_MAX_HEADER: Final = 100_000_000


# ---- files -----------------------------------------------------------------------------------------------------------


def _crc(tensor: Tensor) -> int:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return zlib.crc32(flat.view(torch.uint8).numpy().data) if flat.numel() else 0


def _write(path: str | os.PathLike[str], header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    full = dict(header) | {"version": VERSION, "crc32": {name: _crc(tensor) for name, tensor in copies.items()}}
    text = json.dumps(full, allow_nan=True)
    packed = pack_tensors(copies, metadata={_KEY: text, _SUM: str(zlib.crc32(text.encode()))})
    write_whole(path, [packed])


def _read(path: str | os.PathLike[str], wanted: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The header and the tensors, all checked."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    metadata = _metadata(path, raw)
    text = metadata.get(_KEY)
    if not isinstance(text, str):
        raise CheckpointError(f"{path} is a safetensors file, but not one that ars wrote")
    if metadata.get(_SUM) != str(zlib.crc32(text.encode())):
        raise CheckpointError(f"{path} is damaged: the checksum of its header is wrong")
    try:
        header = parse_json(text)
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is damaged: its header is not an object")
    if header.get("version") != VERSION:
        raise CheckpointError(f"{path} has format version {header.get('version')!r}, this program reads {VERSION}")
    if header.get("format") != wanted:
        what = {NETWORK: "a network", TRAINING: "an unfinished training"}
        raise CheckpointError(
            f"{path} holds {what.get(str(header.get('format')), 'something else')}, expected {what[wanted]}"
        )
    try:
        tensors = parse_tensors(raw)
    except (SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{path} is damaged or truncated: {error}") from error
    sums = header.get("crc32")
    if not isinstance(sums, dict) or sums.keys() != tensors.keys():
        raise CheckpointError(f"{path} is damaged: tensors are missing")
    for name, tensor in tensors.items():
        if _crc(tensor) != sums[name]:
            raise CheckpointError(f"{path} is damaged: the checksum of {name} is wrong")
    return header, tensors


def _metadata(path: str | os.PathLike[str], raw: bytes) -> dict[str, Any]:
    """The metadata of a safetensors file: after eight bytes of size, a JSON object with the entry __metadata__."""
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or size > min(len(raw) - 8, _MAX_HEADER):
        raise CheckpointError(f"{path} is not a safetensors file, or it is truncated")
    try:
        metadata = parse_json(raw[8 : 8 + size]).get("__metadata__", {})
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is not a safetensors file, or it is damaged: {error}") from error
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{path} is damaged: its metadata is not an object")
    return metadata


# ---- networks --------------------------------------------------------------------------------------------------------


def architecture(network: ProposalNetwork) -> dict[str, Any]:
    """Everything but the weights that a network computes with; JSON."""
    return {
        "config": network.config.to_dict(),
        "seed": network.seed,
        "sites": [[site.address, site.kind.name, site.n_params] for site in network.vocabulary],
        "observations": {name: list(shape) for name, shape in network.observation_shapes.items()},
        "embeddings": list(network.custom_embeddings),
    }


def network_from(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    embeddings: Mapping[str, nn.Module] | None = None,
) -> ProposalNetwork:
    """The network that a header and tensors describe."""
    given = dict(embeddings or {})
    needed = header.get("embeddings", [])
    if set(given) != set(needed):
        raise CheckpointError(
            f"{path}: the network was trained with your own embeddings for {sorted(needed)}, but {sorted(given)} were "
            "given. A file holds their weights but not their code: pass embeddings={name: module} when loading"
        )
    try:
        vocabulary = Vocabulary(SiteSpec(str(a), DistKind[k], int(n)) for a, k, n in header["sites"])
        shapes = {str(name): tuple(int(n) for n in shape) for name, shape in header["observations"].items()}
        config = NetworkConfig.from_dict(header["config"])
        network = ProposalNetwork(config, vocabulary, shapes, given, int(header["seed"]))
        network.load_state_dict(dict(tensors))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{path}: its header and its weights do not make a network: {error}") from error
    return network


def save_network(path: str | os.PathLike[str], network: ProposalNetwork, about: Mapping[str, Any]) -> None:
    """``about``: whatever else belongs into the header (simulator, history, training); JSON."""
    _write(path, {"format": NETWORK} | architecture(network) | dict(about), network.state_dict())


def load_network(
    path: str | os.PathLike[str], embeddings: Mapping[str, nn.Module] | None = None
) -> tuple[ProposalNetwork, dict[str, Any]]:
    """The network, and the header."""
    header, tensors = _read(path, NETWORK)
    return network_from(path, header, tensors, embeddings).eval(), header


# ---- trainings -------------------------------------------------------------------------------------------------------


@dataclass
class TrainingState:
    """Where a training stands, between two batches. ``about``: settings, history and counters; JSON."""

    network: ProposalNetwork
    optimizer: dict[str, Tensor]
    random: Tensor  # the state of torch's generator
    about: dict[str, Any]
    best: dict[str, Tensor] = field(default_factory=dict)  # the weights with the lowest held-out loss


def training_path(path: str | os.PathLike[str]) -> Path:
    """Where the training of a network is kept: net.safetensors -> net.training.safetensors."""
    return Path(path).with_suffix(".training.safetensors")


def save_training(path: str | os.PathLike[str], state: TrainingState) -> None:
    tensors = {f"network.{name}": tensor for name, tensor in state.network.state_dict().items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in state.optimizer.items()}
    tensors |= {f"best.{name}": tensor for name, tensor in state.best.items()}
    tensors["random"] = state.random
    _write(path, {"format": TRAINING} | architecture(state.network) | {"about": state.about}, tensors)


def load_training(path: str | os.PathLike[str], embeddings: Mapping[str, nn.Module] | None = None) -> TrainingState:
    header, tensors = _read(path, TRAINING)

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    network = network_from(path, header, part("network."), embeddings)
    if "random" not in tensors or not isinstance(header.get("about"), dict):
        raise CheckpointError(f"{path} is damaged: it does not say where the training stood")
    return TrainingState(network, part("optimizer."), tensors["random"], header["about"], part("best."))
