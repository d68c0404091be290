"""Seeds by name: every purpose has a random stream of its own, whatever else is drawn."""

from __future__ import annotations

import hashlib

__all__ = ["named_seed"]


def named_seed(seed: int, *names: object) -> int:
    """A seed of its own for every purpose, so that no two runs share a stream."""
    text = repr((seed, *names)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
