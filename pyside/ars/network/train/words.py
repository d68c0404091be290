"""What ranks tell each other, as JSON: a rank can be lied to, but not made to run code, as it could with pickle."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from ars._native import DistKind
from ars.network.model.vocabulary import SiteSpec

__all__ = ["decode", "encode"]

_DTYPES: Final = {str(dtype): dtype for dtype in (torch.float32, torch.float64, torch.int64, torch.bool)}


def encode(thing: Any) -> bytes:
    """The thing in bytes: None, numbers, texts, bytes, tensors and sites, in lists, tuples and dicts."""
    return json.dumps(_plain(thing)).encode()


def decode(data: bytes) -> Any:
    """The thing that was encoded."""
    return _thing(json.loads(data))


def _plain(thing: Any) -> Any:
    """What JSON has a form for; everything else is a dict with one entry, which names its kind."""
    if thing is None or type(thing) in (bool, int, float, str):
        return thing
    if isinstance(thing, SiteSpec):
        return {"site": [thing.address, int(thing.kind), thing.n_params]}
    if isinstance(thing, torch.Tensor):
        return {"tensor": [str(thing.dtype), list(thing.shape), _text(thing.cpu().numpy().tobytes())]}
    if isinstance(thing, list):
        return [_plain(each) for each in thing]
    if isinstance(thing, tuple):
        return {"tuple": [_plain(each) for each in thing]}
    if isinstance(thing, dict):
        return {"dict": [[_plain(name), _plain(value)] for name, value in thing.items()]}
    if isinstance(thing, bytes):
        return {"bytes": _text(thing)}
    raise TypeError(f"ranks cannot tell each other a {type(thing).__name__}")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _tensor(parts: list[Any]) -> torch.Tensor:
    name, shape, text = parts
    dtype = _DTYPES[name]
    flat = np.frombuffer(base64.b64decode(text), torch.empty(0, dtype=dtype).numpy().dtype)
    return torch.from_numpy(flat.reshape(shape).copy())


def _site(parts: list[Any]) -> SiteSpec:
    address, kind, n_params = parts
    return SiteSpec(address, DistKind(kind), n_params)


_KINDS: Final[dict[str, Callable[[Any], Any]]] = {
    "site": _site,
    "tensor": _tensor,
    "tuple": lambda parts: tuple(_thing(each) for each in parts),
    "dict": lambda items: {_thing(name): _thing(value) for name, value in items},
    "bytes": base64.b64decode,
}


def _thing(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_thing(each) for each in plain]
    if isinstance(plain, dict):
        [(kind, parts)] = plain.items()
        return _KINDS[kind](parts)
    return plain
