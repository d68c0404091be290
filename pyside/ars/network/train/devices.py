"""Where a network is trained: on the CPU, or on a GPU."""

from __future__ import annotations

import os
import re

import torch

__all__ = ["device_of"]


def device_of(name: str) -> torch.device:
    """The device of this name, "cpu", "cuda" or "cuda:1". With "cuda", each of torchrun's processes has a GPU of its
    own. A ValueError if it cannot be used."""
    found = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", name)
    if found is None:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:N', not {name!r}")
    if name == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    index = int(found[1] or os.environ.get("LOCAL_RANK", "0"))
    if index >= count:
        raise ValueError(f"device {name!r} is not available: torch {torch.__version__} finds {count} GPUs here")
    return torch.device("cuda", index)
